"""The losses that HyNet is compared with: HardNet's, SOSNet's, TFeat's, L2-Net's, DOAP's; and AffNet's, for shapes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .mining import EVERY_OTHER, NegativeMask, distance, hardest_negatives, paired, unit
from .options import Count, Weight
from .paper import d_only
from .terms import LossTerms, added_up, in_full_precision, second_order

AP_BINS = 25  # of DOAP's soft histogram; its own number was not found, this is that of naver/deep-image-retrieval


@in_full_precision
def hardnet(raw_a: Tensor, raw_p: Tensor, *, margin: Weight = 1.0, negatives: NegativeMask = EVERY_OTHER) -> LossTerms:
    """HardNet: triplet on d with the hardest negative of the other side, as its own code mines: LR and RL."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, negatives, across=True)
    hinge = (margin + d_pos - d_neg).relu()
    return added_up({"triplet": hinge.mean()}, d_pos, d_neg, hinge)


@in_full_precision
def hardnet_four(
    raw_a: Tensor, raw_p: Tensor, *, margin: Weight = 1.0, negatives: NegativeMask = EVERY_OTHER
) -> LossTerms:
    """HardNet's triplet with negatives mined as HyNet and SOSNet do: LL, RR, LR and RL."""
    return d_only(raw_a, raw_p, margin=margin, gamma=0.0, negatives=negatives)


@in_full_precision
def hardnegc(raw_a: Tensor, raw_p: Tensor, *, margin: Weight = 1.0, negatives: NegativeMask = EVERY_OTHER) -> LossTerms:
    """AffNet's: HardNet's triplet whose hardest negative is a constant, so that only the pair moves."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, negatives, across=True, constant=True)
    hinge = (margin + d_pos - d_neg).relu()
    return added_up({"triplet": hinge.mean()}, d_pos, d_neg, hinge)


@in_full_precision
def sosnet(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin: Weight = 1.0,
    sosr: Weight = 1.0,
    negatives: NegativeMask = EVERY_OTHER,
) -> LossTerms:
    """SOSNet: quadratic hinge on d, plus second-order similarity."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, negatives)
    hinge = (margin + d_pos - d_neg).relu().square()
    return added_up({"triplet": hinge.mean(), "second_order": sosr * second_order(a, p)}, d_pos, d_neg, hinge)


@in_full_precision
def tfeat(raw_a: Tensor, raw_p: Tensor, *, margin: Weight = 1.0, negatives: NegativeMask = EVERY_OTHER) -> LossTerms:
    """TFeat: triplet with anchor swap on RAW distances; the negative is another pair at random, not a mined one.

    Batches are shuffled, so the next pair's positive is as random as any; with known labels, the next certain one.
    """
    row, there_is_one = _next_negative(raw_p, negatives)
    other = raw_p[row]
    d_pos = _raw_distance(raw_a, raw_p)
    d_neg = torch.minimum(_raw_distance(raw_a, other), _raw_distance(raw_p, other))
    hinge = (margin + d_pos - d_neg).relu() * there_is_one
    return added_up({"triplet": hinge.mean()}, d_pos, d_neg, hinge, raw=True)


@in_full_precision
def l2net(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    maps: Sequence[tuple[Tensor, Tensor]] = (),
    negatives: NegativeMask = EVERY_OTHER,
) -> LossTerms:
    """L2-Net: E1 (relative distance) + E2 (no two outputs alike) + E3 (E1 for intermediate feature maps), over N.

    `maps` holds (anchor, positive) feature maps, (N, C, H, W) each: the paper takes the first and last normalisation.
    """
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, negatives)
    terms = {
        "relative": _relative(2 - distance(a @ p.T), negatives.certain),
        "correlation": (_correlation(raw_a) + _correlation(raw_p)) / (2 * len(a)),
    }
    if maps:
        flat = [[unit(one.flatten(1).to(a.dtype)) for one in pair] for pair in maps]
        terms["maps"] = torch.stack([_relative(f @ g.T, negatives.certain) for f, g in flat]).sum()
    return added_up(terms, d_pos, d_neg, d_pos > d_neg)


@in_full_precision
def doap(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    bins: Count = AP_BINS,
    negatives: NegativeMask = EVERY_OTHER,
) -> LossTerms:
    """DOAP: 1 - average precision of finding each patch's partner among all patches of the batch, by soft binning."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, negatives)
    patches = torch.cat([a, p])  # (2N, D)
    itself = torch.eye(len(patches), dtype=torch.bool, device=a.device)
    partner = itself.roll(len(a), 1)
    counted = ~itself if negatives.certain is None else negatives.certain.repeat(2, 2) & ~itself | partner
    precision = _soft_precision(patches @ patches.T, partner, counted, bins)
    return added_up({"precision": 1 - precision.mean()}, d_pos, d_neg, d_pos > d_neg)


def _relative(scores: Tensor, certain: Tensor | None) -> Tensor:
    """-log of the partner's share, over rows and over columns. (N, N) -> scalar."""
    if certain is not None:
        mine = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(~(certain | mine), -torch.inf)
    own = scores.diagonal()
    return (scores.logsumexp(1) - own + scores.logsumexp(0) - own).mean() / 2


def _correlation(raw: Tensor) -> Tensor:
    """Sum of squared correlations between different outputs over the batch. (N, D) -> scalar."""
    centred = raw - raw.mean(0)
    outputs = centred * torch.rsqrt(centred.square().sum(0) + 1e-10)
    correlations = outputs.T @ outputs  # (D, D)
    return correlations.square().sum() - correlations.diagonal().square().sum()


def _soft_precision(cosines: Tensor, right: Tensor, counted: Tensor, bins: int) -> Tensor:
    """Average precision of each row that ranks the `counted`, one of them `right`. (Q, P) and two (Q, P) bool -> (Q,).

    Squared distances 0..4 fall into triangular bins; He et al.'s closed form for ties gives
    AP = sum_k h+_k (H+_(k-1) + H+_k + 1) / (H_(k-1) + H_k + 1), with h+ and H+ of the right one, H of everybody.
    """
    place = (2 - 2 * cosines).clamp(0, 4) * ((bins - 1) / 4)  # in bins
    below = place.detach().floor().clamp(max=bins - 2).long()
    share = place - below  # of the bin above; the rest goes to the one below

    def histogram(weights: Tensor) -> Tensor:
        empty = torch.zeros(len(cosines), bins, dtype=cosines.dtype, device=cosines.device)
        return empty.scatter_add(1, below, (1 - share) * weights).scatter_add(1, below + 1, share * weights)

    hits, everybody = histogram(right), histogram(counted)  # (Q, bins)
    hits_so_far, all_so_far = hits.cumsum(1), everybody.cumsum(1)
    precision = (2 * hits_so_far - hits + 1) / (2 * all_so_far - everybody + 1)
    return (hits * precision).sum(1)


def _next_negative(rows: Tensor, negatives: NegativeMask) -> tuple[Tensor, Tensor]:
    """For each pair, the next one in the batch that is a certain negative. -> (N,) rows, (N,) whether there is one."""
    count = len(rows)
    steps = torch.arange(count, device=rows.device)
    ahead = (steps[:, None] + 1 + steps[:-1]) % count  # (N, N - 1): the others in order of turn
    if negatives.certain is None:
        return ahead[:, 0], torch.ones_like(steps, dtype=torch.bool)
    certain = negatives.certain.gather(1, ahead)
    return ahead[steps, certain.int().argmax(1)], certain.any(1)


def _raw_distance(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).square().sum(1).add(1e-6).sqrt()

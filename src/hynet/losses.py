"""The paper's losses, in the paper's order, then its rivals. ADD A LOSS: a function and a row in LOSSES.

Every loss takes RAW anchors and positives (N, D), row i of both showing the same point, and any N >= 2; it
normalises for itself, since HyNet's regulariser needs the lengths. Totals are means over the batch: the released
code sums, which Adam hardly notices. Mining losses take `strangers`: who may serve as a negative.
Where the text writes s(theta) as a distance (L_A, L_B), 1 - s is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from .errors import BadInput
from .mining import EVERY_OTHER, FARTHEST, Strangers, distance, hardest_negatives, paired, unit

NEIGHBOURS = 8  # of SOSNet's second-order graph
AP_BINS = 25  # of DOAP's soft histogram; its own number was not found, this is that of naver/deep-image-retrieval


@dataclass(frozen=True)
class LossTerms:
    """The loss, the terms that add up to it, and what the log shows of the batch."""

    total: Tensor
    terms: Mapping[str, Tensor]
    d_pos: Tensor  # (N,) distance to the own partner, detached
    d_neg: Tensor  # (N,) distance to the hardest stranger, detached
    violated: Tensor  # share of pairs that still cost something


Loss = Callable[..., LossTerms]


def in_full_precision(loss: Loss) -> Loss:
    """Check the batch, and leave autocast: losses subtract nearly equal numbers, so they run in float32 or more."""

    @wraps(loss)
    def run(raw_a: Tensor, raw_p: Tensor, **options: Any) -> LossTerms:
        if raw_a.ndim != 2 or raw_a.shape != raw_p.shape or len(raw_a) < 2:
            raise BadInput(
                f"a loss needs two or more pairs, anchors and positives (N, D) alike, got {tuple(raw_a.shape)} and "
                f"{tuple(raw_p.shape)}."
            )
        if raw_a.dtype != torch.float64:
            raw_a, raw_p = raw_a.float(), raw_p.float()
        with torch.autocast(raw_a.device.type, enabled=False):
            return loss(raw_a, raw_p, **options)

    return run


# --- HyNet (Sec. 3) and its ablations (Sec. 5) ----------------------------------------------------------------------


@in_full_precision
def hynet(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin: float = 1.2,
    alpha: float = 2.0,
    gamma: float = 0.1,
    z: float = 1.0,
    sosr: float = 0.0,
    level: float = 0.0,
    strangers: Strangers = EVERY_OTHER,
) -> LossTerms:
    """L = mean max(0, m + s_H(theta+) - s_H(theta-)) + gamma R_L2 [+ sosr R_SOS] [+ level R_level].

    z = 1 is the released form, to which m = 1.2 belongs; z = similarity.unit_slope(alpha) is the paper's.
    """
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, strangers)
    hinge = (margin + hybrid(d_pos, alpha, z) - hybrid(d_neg, alpha, z)).relu()
    terms = {"triplet": hinge.mean(), "norms": gamma * norm_difference(raw_a, raw_p)}
    if sosr:
        terms["second_order"] = sosr * second_order(a, p)
    if level:
        terms["level"] = level * one_threshold(d_pos, d_neg)
    return _sum(terms, d_pos, d_neg, hinge)


@in_full_precision
def s_only(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin: float = 0.9,
    gamma: float = 0.1,
    strangers: Strangers = EVERY_OTHER,
) -> LossTerms:
    """HyNet's loss with s in place of s_H; the paper tunes the margin without naming it, 0.9 is L_B's."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, strangers)
    hinge = (margin + angular(d_pos) - angular(d_neg)).relu()
    return _sum({"triplet": hinge.mean(), "norms": gamma * norm_difference(raw_a, raw_p)}, d_pos, d_neg, hinge)


@in_full_precision
def d_only(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin: float = 1.2,
    gamma: float = 0.1,
    strangers: Strangers = EVERY_OTHER,
) -> LossTerms:
    """HyNet's loss with d in place of s_H; the paper tunes the margin without naming it, 1.2 is L_B's."""
    return hynet(raw_a, raw_p, margin=margin, alpha=0.0, gamma=gamma, strangers=strangers)  # s_H of alpha 0 is d


@in_full_precision
def loss_a(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin: float = 1.0,
    gamma: float = 0.1,
    strangers: Strangers = EVERY_OTHER,
) -> LossTerms:
    """L_A: s for positives, d for negatives; R_L2 as in HyNet's, so that the similarity alone differs."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, strangers)
    hinge = (margin + angular(d_pos) - d_neg).relu()
    return _sum({"triplet": hinge.mean(), "norms": gamma * norm_difference(raw_a, raw_p)}, d_pos, d_neg, hinge)


@in_full_precision
def loss_b(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin_s: float = 0.9,
    margin_d: float = 1.2,
    alpha: float = 2.0,
    gamma: float = 0.1,
    strangers: Strangers = EVERY_OTHER,
) -> LossTerms:
    """L_B: alpha times a triplet loss on s, plus one on d; R_L2 as in HyNet's."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, strangers)
    hinge_s = (margin_s + angular(d_pos) - angular(d_neg)).relu()
    hinge_d = (margin_d + d_pos - d_neg).relu()
    terms = {"triplet_s": alpha * hinge_s.mean(), "triplet_d": hinge_d.mean()}
    terms["norms"] = gamma * norm_difference(raw_a, raw_p)
    return _sum(terms, d_pos, d_neg, hinge_s + hinge_d)


# --- the rivals -----------------------------------------------------------------------------------------------------


@in_full_precision
def hardnet(raw_a: Tensor, raw_p: Tensor, *, margin: float = 1.0, strangers: Strangers = EVERY_OTHER) -> LossTerms:
    """HardNet: triplet on d with the hardest negative of the other side, as its own code mines: LR and RL."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, strangers, across=True)
    hinge = (margin + d_pos - d_neg).relu()
    return _sum({"triplet": hinge.mean()}, d_pos, d_neg, hinge)


@in_full_precision
def hardnet_four(raw_a: Tensor, raw_p: Tensor, *, margin: float = 1.0, strangers: Strangers = EVERY_OTHER) -> LossTerms:
    """HardNet's triplet with negatives mined as HyNet and SOSNet do: LL, RR, LR and RL."""
    return d_only(raw_a, raw_p, margin=margin, gamma=0.0, strangers=strangers)


@in_full_precision
def sosnet(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin: float = 1.0,
    sosr: float = 1.0,
    strangers: Strangers = EVERY_OTHER,
) -> LossTerms:
    """SOSNet: quadratic hinge on d, plus second-order similarity."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, strangers)
    hinge = (margin + d_pos - d_neg).relu().square()
    return _sum({"triplet": hinge.mean(), "second_order": sosr * second_order(a, p)}, d_pos, d_neg, hinge)


@in_full_precision
def tfeat(raw_a: Tensor, raw_p: Tensor, *, margin: float = 1.0, strangers: Strangers = EVERY_OTHER) -> LossTerms:
    """TFeat: triplet with anchor swap on RAW distances; the negative is a random stranger, not a mined one.

    Batches are shuffled, so the next pair's positive is as random as any; with known labels, the next certain one.
    """
    row, there_is_one = _next_stranger(raw_p, strangers)
    other = raw_p[row]
    d_pos = _raw_distance(raw_a, raw_p)
    d_neg = torch.minimum(_raw_distance(raw_a, other), _raw_distance(raw_p, other))
    hinge = (margin + d_pos - d_neg).relu() * there_is_one
    return _sum({"triplet": hinge.mean()}, d_pos, d_neg, hinge)


@in_full_precision
def l2net(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    maps: Sequence[tuple[Tensor, Tensor]] = (),
    strangers: Strangers = EVERY_OTHER,
) -> LossTerms:
    """L2-Net: E1 (relative distance) + E2 (no two outputs alike) + E3 (E1 for intermediate feature maps), over N.

    `maps` holds (anchor, positive) feature maps, (N, C, H, W) each: the paper takes the first and last normalisation.
    """
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, strangers)
    terms = {
        "relative": _relative(2 - distance(a @ p.T), strangers.certain),
        "correlation": (_correlation(raw_a) + _correlation(raw_p)) / (2 * len(a)),
    }
    if maps:
        flat = [[unit(one.flatten(1).to(a.dtype)) for one in pair] for pair in maps]
        terms["maps"] = torch.stack([_relative(f @ g.T, strangers.certain) for f, g in flat]).sum()
    return _sum(terms, d_pos, d_neg, d_pos > d_neg)


@in_full_precision
def doap(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    bins: int = AP_BINS,
    strangers: Strangers = EVERY_OTHER,
) -> LossTerms:
    """DOAP: 1 - average precision of finding each patch's partner among all patches of the batch, by soft binning."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, strangers)
    patches = torch.cat([a, p])  # (2N, D)
    itself = torch.eye(len(patches), dtype=torch.bool, device=a.device)
    partner = itself.roll(len(a), 1)
    counted = ~itself if strangers.certain is None else strangers.certain.repeat(2, 2) & ~itself | partner
    precision = _soft_precision(patches @ patches.T, partner, counted, bins)
    return _sum({"precision": 1 - precision.mean()}, d_pos, d_neg, d_pos > d_neg)


# --- the terms they are made of -------------------------------------------------------------------------------------


def angular(d: Tensor) -> Tensor:
    """1 - s, from d."""
    return d.square() / 2


def hybrid(d: Tensor, alpha: float, z: float) -> Tensor:
    """s_H = [alpha (1 - s) + d] / Z, from d."""
    return (alpha * angular(d) + d) / z


def norm_difference(raw_a: Tensor, raw_p: Tensor) -> Tensor:
    """R_L2 = mean (|x| - |x+|)^2, before normalisation."""
    return (_length(raw_a) - _length(raw_p)).square().mean()


def one_threshold(d_pos: Tensor, d_neg: Tensor, width: float = 0.05) -> Tensor:
    """R_level = mean log(1 + e^((t - s+) / w)) + mean log(1 + e^((s- - t) / w)), s cosines, t midway between the means.

    A triplet asks each positive to be nearer than its own negative. FPR@95, and whoever matches by a fixed distance,
    ask every positive to be nearer than anyone's: this sets all of them against one threshold. Ours, not the paper's.
    """
    known = d_neg < FARTHEST  # of pairs that have a negative at all
    if not known.any():
        return torch.zeros_like(d_pos.mean())
    s_pos, s_neg = 1 - d_pos.square() / 2, 1 - d_neg[known].square() / 2
    threshold = ((s_pos.mean() + s_neg.mean()) / 2).detach()
    return softplus((threshold - s_pos) / width).mean() + softplus((s_neg - threshold) / width).mean()


def second_order(a: Tensor, p: Tensor) -> Tensor:
    """R_SOS: neighbours of an anchor should be as far from it as their partners are from its partner. Unit rows.

    Neighbours are the union of the 8 nearest over L, R, LR and RL, made symmetric: either may list the other.
    """
    left, right = distance(a @ a.T), distance(p @ p.T)  # (N, N)
    with torch.no_grad():
        neighbours = torch.zeros_like(left, dtype=torch.bool)
        across = distance(a @ p.T)
        for matrix in (left, right, across, across.T):
            others = matrix.clone().fill_diagonal_(torch.inf)
            neighbours.scatter_(1, others.topk(min(NEIGHBOURS, len(a) - 1), largest=False).indices, True)
        neighbours = neighbours | neighbours.T
    return ((left - right).square() * neighbours).sum(1).add(1e-6).sqrt().mean()


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


def _next_stranger(rows: Tensor, strangers: Strangers) -> tuple[Tensor, Tensor]:
    """For each pair, the next one in the batch that is a certain stranger. -> (N,) rows, (N,) whether there is one."""
    count = len(rows)
    steps = torch.arange(count, device=rows.device)
    ahead = (steps[:, None] + 1 + steps[:-1]) % count  # (N, N - 1): the others in order of turn
    if strangers.certain is None:
        return ahead[:, 0], torch.ones_like(steps, dtype=torch.bool)
    certain = strangers.certain.gather(1, ahead)
    return ahead[steps, certain.int().argmax(1)], certain.any(1)


def _raw_distance(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).square().sum(1).add(1e-6).sqrt()


def _length(raw: Tensor) -> Tensor:
    return raw.square().sum(1).add(1e-10).sqrt()


def _sum(terms: Mapping[str, Tensor], d_pos: Tensor, d_neg: Tensor, cost: Tensor) -> LossTerms:
    total = torch.stack(list(terms.values())).sum()
    return LossTerms(total, terms, d_pos.detach(), d_neg.detach(), (cost.detach() > 0).float().mean())


LOSSES: dict[str, Loss] = {
    "hynet": hynet,
    "s_only": s_only,
    "d_only": d_only,
    "loss_a": loss_a,
    "loss_b": loss_b,
    "hardnet": hardnet,
    "hardnet_four": hardnet_four,
    "sosnet": sosnet,
    "tfeat": tfeat,
    "l2net": l2net,
    "doap": doap,
}

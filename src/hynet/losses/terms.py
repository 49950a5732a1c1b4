"""Building blocks of losses: the terms they share, and the value they all return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ..errors import BadInput
from .mining import FARTHEST, distance

NEIGHBOURS = 8  # of SOSNet's second-order graph


@dataclass(frozen=True)
class LossTerms:
    """The loss, the terms that add up to it, and what the log shows of the batch."""

    total: Tensor
    terms: Mapping[str, Tensor]
    d_pos: Tensor  # (N,) distance to the own partner, detached
    d_neg: Tensor  # (N,) distance to the hardest negative, detached
    violated: Tensor  # share of pairs that still cost something
    raw: bool = False  # the distances are of raw vectors, so that no cosine follows from them


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


def added_up(terms: Mapping[str, Tensor], d_pos: Tensor, d_neg: Tensor, cost: Tensor, raw: bool = False) -> LossTerms:
    """The loss of these terms; `cost` (N,) is what each pair still costs."""
    total = torch.stack(list(terms.values())).sum()
    return LossTerms(total, terms, d_pos.detach(), d_neg.detach(), (cost.detach() > 0).float().mean(), raw)


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


def _length(raw: Tensor) -> Tensor:
    return raw.square().sum(1).add(1e-10).sqrt()

"""Distillation loss: a small network learns the descriptors and neighbours of a large one, besides pairs."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from .mining import EVERY_OTHER, NegativeMask, unit
from .options import Scale, Weight
from .paper import hynet
from .terms import LossTerms, in_full_precision

NEVER = -1e9  # the logarithm of no probability: finite, so that differences of two stay numbers


@in_full_precision
def distilled(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    copies: Weight = 4.0,
    neighbours: Weight = 1.0,
    temperature: Scale = 0.1,
    pairs: Weight = 0.5,
    margin: Weight = 1.2,
    alpha: Weight = 2.0,
    gamma: Weight = 0.1,
    level: Weight = 0.0,
    taught: tuple[Tensor, Tensor] | None = None,
    negatives: NegativeMask = EVERY_OTHER,
) -> LossTerms:
    """L = pairs HyNet's loss + copies mean |x - t|^2 + neighbours R_neighbours, t the teacher's unit descriptors.

    Without `taught`, which a run leaves out after its lessons, it is HyNet's loss alone.
    """
    own = hynet(raw_a, raw_p, margin=margin, alpha=alpha, gamma=gamma, level=level, negatives=negatives)
    if taught is None:
        return own
    terms = {name: pairs * term for name, term in own.terms.items()}
    x, t = unit(torch.cat([raw_a, raw_p])), unit(torch.cat(taught).to(raw_a))  # (2N, D), (2N, T)
    if copies and x.shape == t.shape:
        terms["copies"] = copies * (x - t).square().sum(1).mean()
    if neighbours:
        terms["neighbours"] = neighbours * same_neighbours(x, t, temperature)
    return LossTerms(torch.stack(list(terms.values())).sum(), terms, own.d_pos, own.d_neg, own.violated)


def same_neighbours(x: Tensor, t: Tensor, temperature: float) -> Tensor:
    """R_neighbours = mean KL(q_i || p_i), p_i(j) ~ e^(s_ij / T) for all others j, q_i the teacher's. Unit rows.

    The nearer two patches are to the teacher, the more their distance counts: hard pairs the most.
    """
    oneself = torch.eye(len(x), dtype=torch.bool, device=x.device)
    mine, teachers = (
        log_softmax((rows @ rows.T / temperature).masked_fill(oneself, NEVER), 1) for rows in (x, t)
    )  # (2N, 2N)
    return (teachers.exp() * (teachers - mine)).sum(1).mean()

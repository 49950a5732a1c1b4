"""HyNet's loss (Sec. 3) and its ablations (Sec. 5), in the paper's order.

Where the text writes s(theta) as a distance (L_A, L_B), 1 - s is meant.
"""

from __future__ import annotations

from torch import Tensor

from .mining import EVERY_OTHER, NegativeMask, hardest_negatives, paired, unit
from .options import Scale, Weight
from .terms import LossTerms, added_up, angular, hybrid, in_full_precision, norm_difference, one_threshold, second_order


@in_full_precision
def hynet(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin: Weight = 1.2,
    alpha: Weight = 2.0,
    gamma: Weight = 0.1,
    z: Scale = 1.0,
    sosr: Weight = 0.0,
    level: Weight = 0.0,
    negatives: NegativeMask = EVERY_OTHER,
) -> LossTerms:
    """L = mean max(0, m + s_H(theta+) - s_H(theta-)) + gamma R_L2 [+ sosr R_SOS] [+ level R_level].

    z = 1 is the released form, to which m = 1.2 belongs; z = similarity.unit_slope(alpha) is the paper's.
    """
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, negatives)
    hinge = (margin + hybrid(d_pos, alpha, z) - hybrid(d_neg, alpha, z)).relu()
    terms = {"triplet": hinge.mean(), "norms": gamma * norm_difference(raw_a, raw_p)}
    if sosr:
        terms["second_order"] = sosr * second_order(a, p)
    if level:
        terms["level"] = level * one_threshold(d_pos, d_neg)
    return added_up(terms, d_pos, d_neg, hinge)


@in_full_precision
def s_only(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin: Weight = 0.9,
    gamma: Weight = 0.1,
    negatives: NegativeMask = EVERY_OTHER,
) -> LossTerms:
    """HyNet's loss with s in place of s_H; the paper tunes the margin without naming it, 0.9 is L_B's."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, negatives)
    hinge = (margin + angular(d_pos) - angular(d_neg)).relu()
    return added_up({"triplet": hinge.mean(), "norms": gamma * norm_difference(raw_a, raw_p)}, d_pos, d_neg, hinge)


@in_full_precision
def d_only(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin: Weight = 1.2,
    gamma: Weight = 0.1,
    negatives: NegativeMask = EVERY_OTHER,
) -> LossTerms:
    """HyNet's loss with d in place of s_H; the paper tunes the margin without naming it, 1.2 is L_B's."""
    return hynet(raw_a, raw_p, margin=margin, alpha=0.0, gamma=gamma, negatives=negatives)  # s_H of alpha 0 is d


@in_full_precision
def loss_a(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin: Weight = 1.0,
    gamma: Weight = 0.1,
    negatives: NegativeMask = EVERY_OTHER,
) -> LossTerms:
    """L_A: s for positives, d for negatives; R_L2 as in HyNet's, so that the similarity alone differs."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, negatives)
    hinge = (margin + angular(d_pos) - d_neg).relu()
    return added_up({"triplet": hinge.mean(), "norms": gamma * norm_difference(raw_a, raw_p)}, d_pos, d_neg, hinge)


@in_full_precision
def loss_b(
    raw_a: Tensor,
    raw_p: Tensor,
    *,
    margin_s: Weight = 0.9,
    margin_d: Weight = 1.2,
    alpha: Weight = 2.0,
    gamma: Weight = 0.1,
    negatives: NegativeMask = EVERY_OTHER,
) -> LossTerms:
    """L_B: alpha times a triplet loss on s, plus one on d; R_L2 as in HyNet's."""
    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = paired(a, p), hardest_negatives(a, p, negatives)
    hinge_s = (margin_s + angular(d_pos) - angular(d_neg)).relu()
    hinge_d = (margin_d + d_pos - d_neg).relu()
    terms = {"triplet_s": alpha * hinge_s.mean(), "triplet_d": hinge_d.mean()}
    terms["norms"] = gamma * norm_difference(raw_a, raw_p)
    return added_up(terms, d_pos, d_neg, hinge_s + hinge_d)

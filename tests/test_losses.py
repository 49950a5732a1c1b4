from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from hynet import similarity
from hynet.errors import BadInput
from hynet.losses import LOSSES, LossTerms, one_threshold, second_order
from hynet.mining import NegativeMask, unit

NAMES = sorted(LOSSES)
# What the authors' own programs gave (HyNet's, SOSNet's, HardNet's, L2-Net's first term). Numbers from elsewhere: our
# loops in reference.py only repeat our reading of a rule, and would agree with our mistakes.
GOLDEN = json.loads((Path(__file__).parent / "golden_losses.json").read_text())["cases"]
AUTHORS = {
    "hynet": lambda a, p: LOSSES["hynet"](a, p).total,
    "hynet_sosr": lambda a, p: LOSSES["hynet"](a, p, sosr=1.0).total,
    "sosnet": lambda a, p: LOSSES["sosnet"](a, p).total,
    "hardnet": lambda a, p: LOSSES["hardnet"](a, p).total,
    "second_order": lambda a, p: second_order(unit(a), unit(p)),
    "l2net_relative": lambda a, p: LOSSES["l2net"](a, p).terms["relative"],
}


def batch(seed: int, pairs: int = 6, dim: int = 5, noise: float = 0.6) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    a = torch.randn(pairs, dim, generator=random, dtype=torch.float64)
    return a, a * 1.3 + noise * torch.randn(pairs, dim, generator=random, dtype=torch.float64)


def value_and_gradient(loss, a, p, **options):
    a, p = a.clone().requires_grad_(), p.clone().requires_grad_()
    result = loss(a, p, **options)
    total = result.total if isinstance(result, LossTerms) else result
    total.backward()
    zero = torch.zeros_like(a)
    return total.detach(), zero if a.grad is None else a.grad, zero if p.grad is None else p.grad


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"seed{case['seed']}")
@pytest.mark.parametrize("name", AUTHORS)
def test_losses_and_gradients_are_those_of_the_authors_programs(name, case):
    random = np.random.default_rng(case["seed"])
    a = random.standard_normal((case["n"], 128)).astype(np.float32)
    p = (a + case["noise"] * random.standard_normal((case["n"], 128))).astype(np.float32)
    if case["duplicates"]:
        a[1] = a[0]
    golden = case["losses"][name]
    value, *gradients = value_and_gradient(AUTHORS[name], torch.from_numpy(a), torch.from_numpy(p))
    assert value.item() == pytest.approx(golden["value"], rel=1e-5)
    for gradient, side in zip(gradients, ("anchors", "positives"), strict=True):
        norm = golden[side]["norm"]
        assert gradient.norm().item() == pytest.approx(norm, rel=1e-4)
        assert gradient[0, :4].tolist() == pytest.approx(golden[side]["start"], abs=1e-4 * norm)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), pairs=st.integers(2, 6), noise=st.floats(0.05, 2))
def test_every_loss_and_its_gradient_is_the_equation_written_as_loops(name, seed, pairs, noise):
    a, p = batch(seed, pairs, noise=noise)
    ours, loops = value_and_gradient(LOSSES[name], a, p), value_and_gradient(reference.LOSSES[name], a, p)
    for mine, true in zip(ours, loops, strict=True):
        torch.testing.assert_close(mine, true, atol=1e-5, rtol=1e-5)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10_000),
    alpha=st.floats(0, 5),
    margin=st.floats(0.1, 2),
    gamma=st.floats(0, 1),
    papers_z=st.booleans(),
    sosr=st.sampled_from([0.0, 1.0]),
    level=st.sampled_from([0.0, 1.0]),
)
def test_hynet_loss_is_its_equation_for_any_setting(seed, alpha, margin, gamma, papers_z, sosr, level):
    z = similarity.unit_slope(alpha) if papers_z else 1.0
    options = {"alpha": alpha, "margin": margin, "gamma": gamma, "z": z, "sosr": sosr, "level": level}
    a, p = batch(seed)
    ours = value_and_gradient(LOSSES["hynet"], a, p, **options)
    for mine, true in zip(ours, value_and_gradient(reference.hynet, a, p, **options), strict=True):
        torch.testing.assert_close(mine, true, atol=1e-5, rtol=1e-5)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10_000),
    copies=st.sampled_from([0.0, 2.0]),
    neighbours=st.sampled_from([0.0, 0.5]),
    temperature=st.floats(0.05, 1),
    pairs=st.floats(0, 2),
)
def test_what_a_teacher_adds_is_its_equation_for_any_setting(seed, copies, neighbours, temperature, pairs):
    a, p = batch(seed)
    options = {"copies": copies, "neighbours": neighbours, "temperature": temperature, "pairs": pairs}
    options["taught"] = batch(seed + 1)
    ours = value_and_gradient(LOSSES["distilled"], a, p, **options)
    for mine, true in zip(ours, value_and_gradient(reference.distilled, a, p, **options), strict=True):
        torch.testing.assert_close(mine, true, atol=1e-5, rtol=1e-5)


def test_a_pupil_that_says_what_its_teacher_says_has_nothing_to_learn_from_it():
    a, p = batch(5)
    terms = LOSSES["distilled"](3 * a, 0.5 * p, taught=(a, p)).terms
    assert float(terms["copies"]) == pytest.approx(0, abs=1e-9)
    assert float(terms["neighbours"]) == pytest.approx(0, abs=1e-9)


def test_a_teacher_whose_descriptors_are_longer_teaches_neighbours_only():
    a, p = batch(5)
    longer = torch.cat([a, a], 1), torch.cat([p, p], 1)
    terms = LOSSES["distilled"](a, p, taught=longer).terms
    assert "copies" not in terms
    assert float(terms["neighbours"]) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", ["hynet", "s_only", "d_only", "loss_a", "loss_b"])
def test_the_measures_of_similarity_are_compared_with_one_norm_regulariser(name):
    a, p = batch(4)
    without, default = LOSSES[name](a, p, gamma=0.0), LOSSES[name](a, p)
    torch.testing.assert_close(default.total - without.total, 0.1 * reference.norms(a, p))


def test_pairs_without_a_negative_do_not_move_the_threshold():
    d_pos, d_neg = torch.tensor([0.6, 0.7, 0.8]), torch.tensor([1.0, 1.1, 2.0])
    alone = one_threshold(d_pos, d_neg[:2])
    assert torch.equal(one_threshold(d_pos, d_neg), alone)
    assert one_threshold(d_pos, torch.full((3,), 2.0)) == 0


def test_l2net_loss_compares_feature_maps_too():
    a, p = batch(0)
    maps = [tuple(torch.randn(6, 2, 3, 3, dtype=torch.float64) for _ in range(2)) for _ in range(2)]
    torch.testing.assert_close(LOSSES["l2net"](a, p, maps=maps).total, reference.l2net(a, p, maps))


def test_doap_is_one_minus_average_precision_where_bins_are_fine():
    # A partner shared between two bins ranks between them, so even fine bins leave a little.
    a, p = batch(5, pairs=8, noise=1.5)
    patches = torch.nn.functional.normalize(torch.cat([a, p]))
    cosines = (patches @ patches.T).fill_diagonal_(-2)
    own = cosines.diagonal(8).repeat(2)
    ranks = (cosines > own[:, None]).sum(1) + 1  # among all other 15 patches
    assert LOSSES["doap"](a, p, bins=20_001).total == pytest.approx(1 - (1 / ranks).mean().item(), abs=0.01)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "l2net"])  # whose relative loss never ends
def test_pairs_that_agree_and_stand_apart_cost_nothing(name):
    a = 10 * torch.eye(8)  # sqrt(2) apart, and far apart for TFeat, which looks at raw distances
    assert LOSSES[name](a, a.clone()).total == pytest.approx(0, abs=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_against_the_gradient_lowers_the_loss(name):
    a, p = batch(3, pairs=12, dim=16, noise=3.0)
    before, grad_a, grad_p = value_and_gradient(LOSSES[name], a, p)
    after = LOSSES[name](a - 1e-3 * grad_a, p - 1e-3 * grad_p).total
    assert after < before


@pytest.mark.parametrize("name", [name for name in NAMES if name != "tfeat"])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10)
def test_the_order_of_the_pairs_does_not_matter(name, seed):
    a, p = batch(seed, pairs=9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(seed))
    plain, shuffled = value_and_gradient(LOSSES[name], a, p), value_and_gradient(LOSSES[name], a[order], p[order])
    torch.testing.assert_close(shuffled[0], plain[0])
    torch.testing.assert_close(shuffled[1], plain[1][order])
    torch.testing.assert_close(shuffled[2], plain[2][order])


def degenerate() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    random = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    return {
        "identical": (torch.ones(6, 8), torch.ones(6, 8)),
        "zero": (torch.zeros(6, 8), torch.zeros(6, 8)),
        "one zero": (random * (torch.arange(6) > 0)[:, None], random),
        "opposite": (random, -random),
        "huge": (1e4 * random, 1e4 * random + 1),
        "perfect": (random, random.clone()),
        "two pairs": (random[:2], random[:2] + 0.1),
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", degenerate())
def test_no_batch_makes_nan(name, case):
    for number in value_and_gradient(LOSSES[name], *degenerate()[case]):
        assert torch.isfinite(number).all()


@pytest.mark.parametrize("name", NAMES)
def test_losses_run_in_full_precision_under_autocast(name):
    a, p = (x.float() for x in batch(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = LOSSES[name](a, p).total
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, LOSSES[name](a, p).total)
    assert torch.isfinite(LOSSES[name](a.bfloat16(), p.bfloat16()).total)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5)
@given(seed=st.integers(0, 10_000))
def test_every_loss_leaves_uncertain_negatives_out(name, seed):
    a, p = batch(seed, pairs=5, noise=2.0)
    certain = torch.rand(5, 5, generator=torch.Generator().manual_seed(seed)) < 0.5
    certain = certain & certain.T
    ours = value_and_gradient(LOSSES[name], a, p, negatives=NegativeMask(certain))
    for mine, true in zip(ours, value_and_gradient(reference.LOSSES[name], a, p, allowed=certain), strict=True):
        torch.testing.assert_close(mine, true, atol=1e-5, rtol=1e-5)


def test_second_order_neighbours_are_the_eight_nearest_of_four_graphs_and_mutual():
    a, p = batch(0, pairs=40, dim=8, noise=2.0)
    ours, loops = value_and_gradient(LOSSES["sosnet"], a, p), value_and_gradient(reference.sosnet, a, p)
    for mine, true in zip(ours, loops, strict=True):
        torch.testing.assert_close(mine, true, atol=1e-9, rtol=0)


def test_doap_keeps_a_few_matrices_not_one_a_bin():
    a, p = (x.requires_grad_() for x in batch(0, pairs=64, dim=8))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        LOSSES["doap"](a, p).total.backward()
    assert sum(size >= 128 * 128 for size in kept) < 25


@pytest.mark.parametrize("shapes", [((1, 8), (1, 8)), ((4, 8), (5, 8)), ((4, 8, 1), (4, 8, 1))])
def test_a_batch_that_makes_no_sense_gets_one_sentence(shapes):
    with pytest.raises(BadInput, match="two or more pairs"):
        LOSSES["hynet"](torch.ones(shapes[0]), torch.ones(shapes[1]))


def test_terms_add_up_to_the_total_and_the_log_sees_the_batch():
    terms = LOSSES["hynet"](*batch(0), sosr=1.0)
    assert terms.total == pytest.approx(sum(term.item() for term in terms.terms.values()))
    assert set(terms.terms) == {"triplet", "norms", "second_order"}
    assert terms.d_pos.shape == terms.d_neg.shape == (6,)
    assert 0 <= terms.violated <= 1

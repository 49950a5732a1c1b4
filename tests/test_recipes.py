"""Every recipe is a run that works."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from hynet.datasets import synthetic
from hynet.training import loop
from hynet.training.recipes import RECIPES

PAPER = set(RECIPES) - {"hynet-cpu"}


@pytest.mark.parametrize("name", sorted(PAPER))
def test_the_papers_recipes_use_the_papers_settings(name):
    config = RECIPES[name].config
    assert (config.epochs, config.pairs_per_batch) == (200, 512)
    assert config.schedule == "constant"


def test_the_recipes_are_those_of_the_paper_and_one_for_cpus():
    rows = {"hynet", "hynet-sosr", "hardnet", "sosnet", "l2net", "tfeat", "doap"}
    ablations = {"hynet-no-norms", "hynet-s", "hynet-d", "hynet-bn", "hynet-in", "hardnet-frn", "sosnet-frn"}
    assert set(RECIPES) == rows | ablations | {"loss-a", "loss-b", "hynet-cpu"}
    assert RECIPES["hynet-cpu"].config.minutes is not None


@pytest.fixture(scope="module")
def patches():
    return synthetic.patch_set(24, 2, seed=0)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_takes_a_step_that_changes_its_weights(name, patches):
    config = replace(RECIPES[name].config, pairs_per_batch=6, compiled=False)
    state = loop.start(config, "cpu")
    learnt = [part.weight for part in state.network.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    before = [weights.detach().clone() for weights in learnt]
    model = loop.tiled(state.network, config)
    batch = next(loop.batches(loop.mix([patches]), config, first=0, per_epoch=4, device="cpu"))
    terms = loop.loss_of(model, batch, loop.loss_function(config))
    loop.step(state, terms.total, 0.01)
    assert torch.isfinite(terms.total)
    assert not any(torch.equal(old, new) for old, new in zip(before, learnt, strict=True))
    assert all(weights.isfinite().all() for weights in state.network.parameters())

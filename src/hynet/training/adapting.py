"""A descriptor fine-tuned on one's own patches, and whether that made it better: the heart of `hynet adapt`.

What is measured on was kept apart, and chooses nothing: the last weights of the run are compared once with those that
it started from, on the same pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .. import datasets
from ..errors import BadInput
from ..features.descriptors.loading import load
from ..geometry import metrics
from .descriptor import start
from .logbook import Watch, unwatched
from .recipes import RECIPES
from .train import train
from .validation import pair_distances

RECIPE = "hynet-cpu"
LEARNING_RATE = 5e-4  # a tenth of the recipe's, which starts from nothing
PAIRS_PER_BATCH = 256
AVERAGE = 0.99  # of the weights, over the last hundred steps or so
FEWEST = 200  # matching pairs kept apart: with fewer, hardly a difference would show


@dataclass(frozen=True)
class Adapted:
    """FPR@95 in percent on the pairs kept apart."""

    before: float
    after: float
    difference: tuple[float, float]  # after - before, 95% by paired bootstrap
    pairs: int
    steps: int
    checkpoint: Path

    @property
    def better(self) -> bool:
        return self.difference[1] < 0


def check_model(model: str) -> None:
    """Whether the recipe can start from it, before the patches, which take long."""
    start(replace(RECIPES[RECIPE].config, start_from=model), "cpu")


def adapt(
    learn: Path,
    kept_apart: Path,
    run_folder: Path,
    *,
    minutes: float,
    model: str = "default",
    seed: int = 0,
    compiled: bool = True,
    watch: Watch = unwatched,
) -> Adapted:
    """Train on the patch set `learn`, from the weights of `model`, and measure both on `kept_apart`.

    A run that is in the folder already goes on.
    """
    known = datasets.test_pairs(kept_apart)
    if known.is_match.sum() < FEWEST:
        raise BadInput(
            f"the photos kept apart share too little to measure on: {known.is_match.sum()} matching pairs, {FEWEST} "
            "are needed. Give more photos that overlap."
        )
    patches = datasets.find_patches(learn).load(learn)
    points = len(np.unique(patches.points))
    trained = train(
        RECIPE,
        {str(learn): patches},
        run_folder,
        start_from=model,
        minutes=minutes,
        learning_rate=LEARNING_RATE,
        pairs_per_batch=min(PAIRS_PER_BATCH, points),
        balance=0.0,  # one scene, ...
        certain=False,  # ... whose points are different places
        level=1.0,  # as `default` was trained in the end: without, it would first unlearn its one threshold
        average=AVERAGE,
        precision="auto",
        seed=seed,
        compiled=compiled,
        resume=(run_folder / "last.pt").exists(),
        watch=watch,
        recipe_name="adapt",
    )
    test = datasets.find_patches(kept_apart).load(kept_apart, 32)
    # Both in floats: by its name, `default` is in 8-bit integers, whose rounding is not what training changed.
    both = [load(weights, "torch") for weights in (model, trained.checkpoint)]
    distances = np.stack([pair_distances(each.describe, test, known) for each in both])
    before, after = (100 * metrics.fpr95(each, known.is_match) for each in distances)
    redrawn = 100 * metrics.fpr95_paired_bootstrap(distances, known.is_match)
    low, high = metrics.interval(redrawn[1] - redrawn[0])
    return Adapted(before, after, (low, high), len(known), trained.steps, trained.checkpoint)

"""The task of fine-tuning a descriptor on one's own patches, and of measuring whether that made it better.

The pairs that it is measured on were kept apart, and choose nothing: the last weights of the run are compared once with
those that it started from, on the same pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import datasets
from ..errors import BadInput, plural
from ..features.descriptors.loading import load
from ..geometry import metrics
from ..types import PatchSet
from .configuration import AdaptConfig
from .descriptor import PATCH_SIZE, Descriptor, start
from .logbook import Watch, unwatched
from .recipes import ADAPT
from .tasks import Trained
from .train import train
from .validation import ValidationSets, pair_distances

FEWEST = 200  # matching pairs kept apart: with fewer, hardly a difference would show


class Adaptation(Descriptor):
    """A trained descriptor, on one's own photos. The validation set is what it is measured on in the end."""

    config: AdaptConfig

    def __init__(
        self,
        config: AdaptConfig,
        data: Mapping[str, PatchSet],
        validate: ValidationSets | None = None,
        *values: Any,
        **options: Any,
    ) -> None:
        super().__init__(config, data, None, *values, **options)
        self._kept_apart = list((validate or {}).values())

    def finish(self, ended: Trained, out: Path) -> Trained:
        """Compares FPR@95 in percent before and after, with a 95% interval of the difference by paired bootstrap."""
        if not self._kept_apart:
            return ended
        [(test, known)] = self._kept_apart
        assert self.config.start_from is not None  # as `check_model` has seen
        # Both in floats: by its name, `default` is in 8-bit integers, whose rounding is not what training changed.
        both = [load(weights, "torch") for weights in (self.config.start_from, ended.checkpoint)]
        distances = np.stack([pair_distances(each.describe, test, known) for each in both])
        before, after = (100 * metrics.fpr95(each, known.is_match) for each in distances)
        redrawn = 100 * metrics.fpr95_paired_bootstrap(distances, known.is_match)
        low, high = metrics.interval(redrawn[1] - redrawn[0])
        details = {"better": high < 0, "before": before, "after": after, "difference": [low, high], "pairs": len(known)}
        note = (
            f"FPR@95 on {len(known):,} pairs of photos kept apart: {before:.2f}% with {self.config.start_from}, "
            f"{after:.2f}% after {plural(ended.steps, 'step', spec=',')}, a difference of {after - before:+.2f} "
            f"[{low:+.2f}, {high:+.2f}]."
        )
        return replace(ended, details=details, notes=[note])


def check_model(model: str) -> None:
    """Refuse a model that the recipe cannot start from, before the patches, which take long."""
    start(replace(ADAPT, start_from=model), "cpu")


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
) -> Trained:
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
    return train(
        ADAPT,
        {str(learn): patches},
        run_folder,
        validate={"kept apart": (datasets.find_patches(kept_apart).load(kept_apart, PATCH_SIZE), known)},
        start_from=model,
        minutes=minutes,
        pairs_per_batch=min(ADAPT.pairs_per_batch, points),
        seed=seed,
        compiled=compiled,
        resume=(run_folder / "last.pt").exists(),
        watch=watch,
        recipe_name="adapt",
    )

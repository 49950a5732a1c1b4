"""PhotoTour: how many non-matching pairs pass when 95% of the matching ones do (the paper's Table 1).

Exact: the threshold is an order statistic. The variants of released codes are columns of their own.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import datasets
from ..errors import BadInput, DataNotFound
from ..geometry import metrics
from ..runtime import fingerprints
from ..types import Array, PatchPairs, Progress, silent
from . import comparing, papers
from .contestants import SANITY, Contestant, Model, describe, open_contestants
from .distances import paired
from .results import Comparison, Curves, Evaluation

# scene -> the paper's abbreviation, and the words by which names of published weights tell what they were trained on
SCENES = {
    "liberty": ("LIB", {"liberty", "lib"}),
    "notredame": ("ND", {"notredame", "notre", "nd"}),
    "yosemite": ("YOS", {"yosemite", "yos"}),
}
VARIANTS = {
    "fpr95": metrics.fpr95,
    "fpr95_hynet": metrics.fpr95_hynet,
    "fpr95_hardnet": metrics.fpr95_hardnet,
}


@dataclass(frozen=True)
class UbcOptions:
    """Pairs to test, and the model to compare with."""

    pair_list: int | None = None  # which m50_N_N_0.txt to use; by default that of 100,000, or the largest there is
    against: str | None = None  # the model to compare the others with; by default rootsift, or the first


def evaluate(models: Sequence[Model], data: Path, options: UbcOptions, progress: Progress = silent) -> Evaluation:
    """FPR@95 on one PhotoTour set, or on each that lies in the folder."""
    sets = [open_set(root, options.pair_list, progress) for root in _sets(data)]
    contestants = open_contestants(models or ["default"])
    rival = comparing.rival([contestant.name for contestant in contestants], options.against)
    cells, curves = [], {}
    for test in sets:
        lines = {}
        for contestant in contestants:
            trained = trained_on(contestant.name)
            if test.name in trained and any(other.name not in trained for other in sets):
                continue  # a model is not tested on what it was trained on
            distances = pair_distances(contestant, test, progress)
            cells.append(_cell(contestant.name, trained, test, distances))
            x, y = metrics.roc_curve(distances, test.pairs.is_match)
            lines[contestant.name] = {"x": (100 * x).tolist(), "y": (100 * y).tolist()}
        title = f"{test.name}: {len(test.pairs):,} pairs; FPR@95 is where a curve crosses 95%"
        axes = "non-matches accepted, %", "matches accepted, %"
        curves[f"roc-{test.name}"] = Curves(title, *axes, lines, log_x=True, level=95.0)

    official = all(test.name in SCENES for test in sets)
    same_data = all(
        test.patches == papers.UBC_PATCHES.get(test.name) and len(test.pairs) == datasets.PAIRS for test in sets
    )
    rows, intervals = {}, {}
    for method, own in _by_method(cells, [contestant.name for contestant in contestants]).items():
        rows[method] = {variant: float(np.mean([cell.values[variant] for cell in own])) for variant in VARIANTS}
        intervals[method] = {"fpr95": metrics.interval(np.mean([cell.redrawn for cell in own], axis=0))}
        for cell in own if len(sets) > 1 or official else ():
            for column in _columns(cell, official):
                rows[method][column] = cell.values["fpr95"]
                intervals[method][column] = metrics.interval(cell.redrawn)
    named = [column for column in papers.UBC_COLUMNS[:-1] if official and any(column in row for row in rows.values())]
    columns = ["fpr95", *(named or ([test.name for test in sets] if len(sets) > 1 else [])), *list(VARIANTS)[1:]]
    return Evaluation(
        "ubc",
        str(data),
        columns,
        rows,
        intervals,
        title=f"FPR@95 in % on {', '.join(test.name for test in sets)}",
        paper=papers.ubc(columns) if same_data else None,
        lower_is_better=columns,
        comparisons=_comparisons(cells, sets, rival),
        pictures=curves,
        details={"cells": [cell.to_dict() for cell in cells]},
        notes=_notes(sets, official, same_data, [cell.method for cell in cells if cell.test in cell.trained]),
    )


def trained_on(name: str) -> tuple[str, ...]:
    """The PhotoTour scenes that a model was trained on, by its name, or by what lies beside a run's checkpoint."""
    words = set(re.split(r"[^a-z]+", Path(name).stem.lower()))
    if named := tuple(scene for scene, (_, known) in SCENES.items() if words & known):
        return named
    if not Path(name).is_file():  # a baseline, or a model that ships
        return ()
    try:
        sets = {
            Path(root).name.lower()
            for root in json.loads(Path(name).with_name("run.json").read_text(encoding="utf-8"))["data"]
        }
    except (OSError, ValueError, KeyError, TypeError):  # no checkpoint of `hynet train`
        return ()
    return tuple(scene for scene in SCENES if scene in sets)


@dataclass(frozen=True)
class TestSet:
    """The patches that the test pairs name, each once, and the pairs as rows of them."""

    name: str
    root: Path
    patches: int  # of the whole set
    rows: Array  # (U,) of the set
    pairs: PatchPairs


@dataclass(frozen=True)
class _Cell:
    """One model on one set, in percent."""

    method: str
    trained: tuple[str, ...]
    test: str
    distances: Array  # (K,) of the set's pairs
    values: Mapping[str, float]  # variant -> FPR@95
    auc: float
    redrawn: Array  # (rounds,) by bootstrap

    def to_dict(self) -> dict[str, Any]:
        low_high = list(metrics.interval(self.redrawn))
        named = {"method": self.method, "trained_on": list(self.trained), "test": self.test}
        return {**named, **self.values, "roc_auc": self.auc, "interval": low_high}


def _sets(data: Path) -> list[Path]:
    folders = [data, *sorted(path for path in data.glob("*") if path.is_dir())]
    found = [folder for folder in folders if datasets.holds_patches(folder)]
    if data in found:
        return [data]
    if not found:
        raise DataNotFound(f"no PhotoTour set in {data}: neither info.txt nor SET/info.txt; `hynet data list` helps.")
    return found


def open_set(root: Path, count: int | None, progress: Progress, *, most: int | None = None) -> TestSet:
    """A PhotoTour set with its test pairs; by default 100,000, or the most it lists. most: take fewer of them."""
    kind = datasets.find_patches(root)
    pairs = datasets.test_pairs(root, count)
    if most is not None:
        pairs = pairs.evenly(most)
    if pairs.is_match.all() or not pairs.is_match.any():
        raise BadInput(f"the pairs of {root} are all of one kind; FPR@95 needs matches and non-matches.")
    count_all = len(kind.load(root, 32, progress))  # decodes the bitmaps where that was not done
    rows, inverse = np.unique(np.concatenate([pairs.first, pairs.second]), return_inverse=True)
    first, second = np.split(inverse, 2)
    return TestSet(root.resolve().name, root, count_all, rows, PatchPairs(first, second, pairs.is_match))


def pair_distances(contestant: Contestant, test: TestSet, progress: Progress) -> Array:
    """(K,) distances of the set's pairs."""
    size = 32 if contestant.descriptor.patch_size <= 32 else 64
    kind = datasets.find_patches(test.root)
    patches = kind.load(test.root, size, progress).patches
    key = {
        "what": "ubc",
        "data": kind.fingerprint(test.root),
        "size": size,
        "pairs": fingerprints.arrays(test.rows),
    }
    found = describe(contestant, lambda some: patches[test.rows[some]], len(test.rows), key, progress)
    return paired(found, test.pairs.first, test.pairs.second)


def _cell(method: str, trained: tuple[str, ...], test: TestSet, distances: Array) -> _Cell:
    is_match = test.pairs.is_match
    values = {name: 100 * variant(distances, is_match) for name, variant in VARIANTS.items()}
    auc = 100 * metrics.roc_auc(distances, is_match)
    seed = _seed(test.name)
    return _Cell(
        method,
        trained,
        test.name,
        distances,
        values,
        auc,
        100 * metrics.fpr95_bootstrap(distances, is_match, seed=seed),
    )


def _comparisons(cells: Sequence[_Cell], sets: Sequence[TestSet], rival: str | None) -> list[Comparison]:
    """Every model against the rival on the sets that both are tested on, the same pairs resampled for both."""
    methods = [name for name in dict.fromkeys(cell.method for cell in cells) if name == rival or name not in SANITY]
    if rival not in methods:
        return []
    redrawn: dict[str, dict[str, Array]] = {name: {} for name in methods}  # model -> set -> (rounds,)
    values: dict[str, dict[str, float]] = {name: {} for name in methods}
    for test in sets:
        here = {cell.method: cell for cell in cells if cell.test == test.name and cell.method in methods}
        if not here:  # all were trained on it
            continue
        stacked = np.stack([cell.distances for cell in here.values()])  # (M, K)
        drawn = 100 * metrics.fpr95_paired_bootstrap(stacked, test.pairs.is_match, seed=_seed(test.name))
        for name, own in zip(here, drawn, strict=True):
            redrawn[name][test.name], values[name][test.name] = own, here[name].values["fpr95"]
    found = []
    for name in methods:
        shared = [test for test in redrawn[name] if test in redrawn[rival]]
        if name == rival or not shared:
            continue
        apart = np.mean([redrawn[name][test] - redrawn[rival][test] for test in shared], axis=0)
        mean = float(np.mean([values[name][test] - values[rival][test] for test in shared]))
        found.append(Comparison("fpr95", name, rival, mean, metrics.interval(apart)))
    return found


def _seed(test: str) -> int:
    """Models are resampled alike on a set, sets independently of each other."""
    return zlib.crc32(test.encode())


def _by_method(cells: Sequence[_Cell], names: Sequence[str]) -> dict[str, list[_Cell]]:
    """The cells of each model, as `names` order them; and of families that differ only in what they were trained on."""
    methods = {name: own for name in names if (own := [cell for cell in cells if cell.method == name])}
    families: dict[str, list[_Cell]] = {}
    for cell in cells:
        if len(cell.trained) == 1:
            known = "|".join(sorted(SCENES[cell.trained[0]][1], key=len, reverse=True))
            family = re.sub(rf"(?<![a-z])({known})(?![a-z])", "*", cell.method, flags=re.IGNORECASE)
            families.setdefault(family, []).append(cell)
    several = {name: own for name, own in families.items() if len({cell.trained for cell in own}) > 1}
    return methods | several


def _columns(cell: _Cell, official: bool) -> list[str]:
    """Columns of a cell: the paper has one for each pair of scenes, and repeats what was trained on neither."""
    if not official:
        return [cell.test]
    if len(cell.trained) > 1:
        return []  # the paper has no column for it
    trained = cell.trained or tuple(SCENES)
    return [f"{SCENES[scene][0]}>{SCENES[cell.test][0]}" for scene in trained if scene != cell.test]


def _notes(sets: Sequence[TestSet], official: bool, same_data: bool, trained_here: Sequence[str]) -> list[str]:
    counts = ", ".join(f"{test.name} {len(test.pairs):,}" for test in sets)
    notes = [
        f"Pairs: {counts}. fpr95 is exact: the threshold is the match of rank ceil(0.95 n), and d <= threshold passes.",
        "fpr95_hynet: one rank higher, as HyNet's released code; fpr95_hardnet: non-matches listed before that match.",
        "Intervals: 95%, matches and non-matches resampled 2,000 times, for differences the same for both models; they "
        "hold no seed of training.",
    ]
    if same_data:
        notes.append("fpr95 is the mean over the sets of a row; the paper's is over all six combinations.")
    if trained_here:
        notes.append(f"Trained on what they are tested on: {', '.join(dict.fromkeys(trained_here))}.")
    if not same_data:
        notes.append(papers.note(papers.ubc(["fpr95"]), f"the published {', '.join(SCENES)}"))
    return notes

"""HPatches: verification, matching and retrieval of patches (the paper's Fig. 4).

From the patch release, or from image sequences, of which stacks are cut by its recipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ... import geometry, images
from ...datasets import hpatches, hpatches_cutting
from ...datasets import sequences as image_sequences
from ...errors import BadInput, choose
from ...geometry import metrics
from ...runtime import cache, fingerprints
from ...types import Array, Progress, silent
from .. import papers
from ..contestants import SANITY, Contestant, Model, describe, open_contestants
from ..results import Evaluation, shown
from . import csv_files as hpatches_csv
from . import summary
from . import tasks as hpatches_tasks

CUTTING = (hpatches, hpatches_cutting, image_sequences, images, geometry)  # our code that makes stacks of photos
SPLITS = ("a", "b", "c", "full", "view", "illum")


@dataclass(frozen=True)
class HpatchesOptions:
    """Split, scoring, lists, and descriptors of others."""

    # a, b, c, full, view or illum; by default a, or full if some of a's sequences are missing.
    split: str | None = None
    # `compatible` reproduces the public Python code, quirks included; `corrected` is the same, but averages ties in
    # distance over all orders, so that a constant descriptor is not rewarded.
    mode: Literal["corrected", "compatible"] = "corrected"
    # Folder with the release's lists (verif_pos_split-a.csv ...); without it, lists are drawn by the same rules.
    tasks: Path | None = None
    # Folders of any descriptors in the public layout (SEQUENCE/ref.csv ...), scored as additional rows.
    csv: tuple[Path, ...] = ()
    write_csv: Path | None = None  # folder to write our descriptors to, in the public layout, one folder per model
    seed: int = 0  # of drawn lists, and of patches cut from image sequences


def evaluate(models: Sequence[Model], data: Path, options: HpatchesOptions, progress: Progress = silent) -> Evaluation:
    """Verification, matching and retrieval on one split."""
    if options.seed < 0:
        raise BadInput(f"seed must be 0 or more, got {options.seed}.")
    if options.split is not None:
        choose(dict.fromkeys(SPLITS), options.split, "split")
    # First, so that a misspelt name is reported before long work.
    contestants = open_contestants(models or ([] if options.csv else ["default"]))
    stacks = open_stacks(data, options, progress)
    root, sequences, sizes, lists = stacks.root, stacks.sequences, stacks.sizes, stacks.lists
    entered = [*map(str, options.csv), *(contestant.name for contestant in contestants)]
    if twice := next((name for name in entered if entered.count(name) > 1), None):
        raise BadInput(f"{twice} is named twice; name it once, or give the whole path of a folder named like a model.")
    scores = {}
    folders = {method: name.replace("/", "_") for method, name in shown(c.name for c in contestants).items()}
    for folder in options.csv:
        described = hpatches_csv.read(folder, sequences, sizes)
        scores[str(folder)] = summary.scored(described, lists, progress)
    for contestant in contestants:
        described = describe_stacks(contestant, stacks, progress)
        if options.write_csv is not None and contestant.name not in SANITY:
            for sequence, rows_of_stacks in zip(sequences, described, strict=True):
                hpatches_csv.write(options.write_csv / folders[contestant.name], sequence, rows_of_stacks)
        scores[contestant.name] = summary.scored(described, lists, progress)

    area = summary.AREAS[options.mode]
    release = root == data and options.tasks is not None
    papers_data = release and stacks.split == "a" and len(lists.queries) == papers.HPATCHES_QUERIES
    rows = {method: summary.row(own, area) for method, own in scores.items()}
    drawn = {method: summary.redrawn(own, area) for method, own in scores.items()}
    details = {method: summary.details(own, sequences) for method, own in scores.items()}
    return Evaluation(
        "hpatches",
        str(data),
        summary.COLUMNS,
        rows,
        {method: {column: metrics.interval(values) for column, values in own.items()} for method, own in drawn.items()},
        title=f"HPatches split {stacks.split}, mAP in %, {options.mode}",
        paper=papers.HPATCHES if papers_data else None,
        comparisons=summary.comparisons(drawn, rows),
        pictures=summary.pictures(scores, area, sequences),
        details={
            "split": stacks.split,
            "sequences": dict(zip(sequences, sizes, strict=True)),
            "mode": options.mode,
            "methods": details,
        },
        notes=[*_notes(sequences, sizes, lists, options.mode), *papers.hpatches_notes(papers_data)],
    )


@dataclass(frozen=True)
class Stacks:
    """The patch stacks of a split, and the lists of pairs and queries that are drawn or read for them."""

    root: Path
    split: str
    sequences: Sequence[str]
    sizes: Sequence[int]  # patches a stack, of each sequence
    lists: hpatches_tasks.Tasks


def open_stacks(data: Path, options: HpatchesOptions, progress: Progress = silent) -> Stacks:
    """The release, or stacks cut from image sequences."""
    root = _stacks(data, options.seed, progress)
    chosen = options.split or ("a" if "a" in hpatches.splits(root) else "full")
    sequences = hpatches.split(root, chosen)
    textures = [_texture(root, sequence) for sequence in sequences]
    sizes = [len(texture) for texture in textures]
    if min(sizes) < 2:
        raise BadInput(f"a sequence of {root} has fewer than two patches; verification needs two.")
    if options.tasks is None:
        lists = hpatches_tasks.draw(textures, options.seed)
    else:
        lists = hpatches_tasks.read(options.tasks, chosen, sequences, sizes)
    return Stacks(root, chosen, sequences, sizes, lists)


def describe_stacks(contestant: Contestant, stacks: Stacks, progress: Progress = silent) -> list[Array]:
    """Describe all stacks: (16, N, D) of each sequence."""
    pieces = zip(stacks.sequences, stacks.sizes, strict=True)
    return [_described(contestant, stacks.root, sequence, size, progress) for sequence, size in pieces]


def _stacks(data: Path, seed: int, progress: Progress) -> Path:
    """The folder of patch stacks: the release itself, or cut from image sequences, once."""
    if any(data.glob("*/ref.png")):
        return data
    # With the names: what was cut of a sequence that is no longer there must not take part.
    names = [folder.name for folder in image_sequences.folders(data)]
    made = {"data": str(data.resolve()), "names": names, "seed": seed, "code": fingerprints.code(*CUTTING)}
    place = cache.folder().parent / "cut" / f"{data.resolve().name}-{fingerprints.values(made)[:16]}"
    return hpatches_cutting.cut(data, place, seed, progress)


def _fingerprint(root: Path, sequence: str) -> str:
    return fingerprints.files(*(root / sequence / f"{column}.png" for column in hpatches.COLUMNS))


def _texture(root: Path, sequence: str) -> Array:
    """Grey deviation of each reference patch: (N,)."""
    key = {"what": "hpatches texture", "data": _fingerprint(root, sequence)}
    return cache.array(key, lambda: hpatches.load(root, sequence)["ref"].std((1, 2)))


def _described(contestant: Contestant, root: Path, sequence: str, size: int, progress: Progress) -> Array:
    """(16, N, D), mapped into memory where it is cached."""

    def patches(rows: slice) -> Array:
        return np.concatenate(list(hpatches.load(root, sequence).values()))[rows]

    count = len(hpatches.COLUMNS) * size
    key = {"what": "hpatches", "data": _fingerprint(root, sequence)}
    found = describe(contestant, patches, count, key, progress, block=count)
    return found.reshape(len(hpatches.COLUMNS), size, -1)


def _notes(sequences: Sequence[str], sizes: Sequence[int], lists: hpatches_tasks.Tasks, mode: str) -> list[str]:
    counts = f"{len(lists.positive):,} pairs of each kind, {len(lists.queries):,} queries"
    notes = [
        f"{len(sequences)} sequences, {sum(sizes):,} regions; {counts}, {len(lists.distractors):,} distractors; "
        f"lists: {lists.source}.",
        "verification: imbalanced AP, mean of easy, hard, tough x intra, inter; verification_auc: balanced ROC AUC. "
        "matching: mean over sequences, levels, images. retrieval: mean of the seven pools (100 to 20,000) and the "
        "levels; retrieval_full: the largest pool only.",
        "compatible: equal distances stay as listed, as in the public Python code (a constant descriptor gets 100 in "
        "retrieval)."
        if mode == "compatible"
        else "corrected: as the public Python code, but equal distances are averaged over all orders.",
        "Intervals: 95%, sequences resampled 1,000 times.",
    ]
    if not summary.can_retrieve(lists):
        notes.append("No retrieval: it needs textured patches of at least two sequences.")
    return notes

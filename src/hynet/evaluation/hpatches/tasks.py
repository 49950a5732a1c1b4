"""Lists of the patches that HPatches compares: those of its release, or drawn by the same rules.

    verif_pos_split-a.csv, verif_neg_intra_split-a.csv, verif_neg_inter_split-a.csv     s1,t1,idx1,s2,t2,idx2
    retr_queries_split-a.csv, retr_distractors_split-a.csv                              s,idx

t is 0 for the reference patch and k for image k; the same lists serve easy, hard and tough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import BadData, DataNotFound
from ...runtime import cache, fingerprints
from ...types import Array

PAIRS = 1_000_000  # as released, here and below
QUERIES = 10_000
DISTRACTORS = 20_000
PAIRS_PER_PATCH = 20  # of small data: as many as a patch has ordered pairs of five images
IMAGES = 5  # the release draws images 0 to 4, so that the fifth is never looked at
TEXTURED = 10.0  # standard deviation in grey levels above which a patch is asked for in retrieval


@dataclass(frozen=True)
class Tasks:
    """Rows s, t, idx, s, t, idx of pairs, and rows s, idx for retrieval; s counts the sequences of the split."""

    positive: Array  # (K, 6) int64
    intra: Array  # (K, 6) two patches of one sequence
    inter: Array  # (K, 6) patches of any two sequences
    queries: Array  # (Q, 2)
    distractors: Array  # (M, 2), none of them a query
    source: str


def read(folder: Path, split: str, sequences: Sequence[str], sizes: Sequence[int]) -> Tasks:
    """The lists of the release for one split."""
    numbers = {name: number for number, name in enumerate(sequences)}

    def table(name: str, named: tuple[int, ...]) -> Array:
        path = folder / f"{name}_split-{split}.csv"
        if not path.exists():
            raise DataNotFound(f"no {path.name} in {folder}; give the folder `tasks` of the HPatches benchmark.")
        key = {"what": "hpatches task", "file": fingerprints.files(path), "sequences": list(sequences)}
        rows = cache.array(key, lambda: _parsed(path, numbers, named))
        for s, i in ((k, k + (2 if len(named) == 2 else 1)) for k in named):
            if (rows[:, i] < 0).any() or (rows[:, i] >= np.array(sizes)[rows[:, s]]).any():
                raise BadData(f"{path} names a patch that its sequence does not have; the data are not the release's.")
            if len(named) == 2 and not ((rows[:, s + 1] >= 0) & (rows[:, s + 1] <= IMAGES)).all():
                raise BadData(f"{path} names an image other than 0 to {IMAGES}; give the lists of the release.")
        return rows

    return Tasks(
        table("verif_pos", (0, 3)),
        table("verif_neg_intra", (0, 3)),
        table("verif_neg_inter", (0, 3)),
        table("retr_queries", (0,)),
        table("retr_distractors", (0,)),
        source=f"the lists in {folder}",
    )


def draw(textures: Sequence[Array], seed: int = 0) -> Tasks:
    """Lists drawn by the rules of the release; textures: grey deviation of each reference patch, by sequence."""
    rng = np.random.default_rng(seed)
    sizes = np.array([len(texture) for texture in textures])
    count = min(PAIRS, PAIRS_PER_PATCH * int(sizes.sum()))
    s = rng.integers(len(sizes), size=count)
    first = rng.integers(sizes[s])
    other = (first + 1 + rng.integers(np.maximum(sizes[s] - 1, 1))) % sizes[s]
    t1 = rng.integers(IMAGES, size=count)
    t2 = (t1 + 1 + rng.integers(IMAGES - 1, size=count)) % IMAGES
    anywhere = rng.integers(len(sizes), size=count)
    stranger = rng.integers(sizes[anywhere])
    same = (anywhere == s) & (stranger == first)  # the release would list it as a non-match
    stranger[same] = (stranger[same] + 1) % sizes[anywhere[same]]

    eligible = np.concatenate(
        [np.column_stack([np.full(len(t), k), np.arange(len(t))]) for k, t in enumerate(textures)]
    )
    eligible = eligible[np.concatenate(list(textures)) > TEXTURED]
    # Each sequence as likely as any other, then each of its patches, none twice: a race of exponential clocks.
    order = np.argsort(rng.exponential(size=len(eligible)) * sizes[eligible[:, 0]])
    queries, distractors = min(QUERIES, len(eligible) // 3), DISTRACTORS
    eligible = eligible[order[: queries + distractors]]
    return Tasks(
        np.column_stack([s, t1, first, s, t2, first]),
        np.column_stack([s, t1, first, s, t2, other]),
        np.column_stack([s, t1, first, anywhere, t2, stranger]),
        eligible[:queries],
        eligible[queries:],
        source=f"drawn by the release's rules, seed {seed}",
    )


def _parsed(path: Path, numbers: dict[str, int], named: tuple[int, ...]) -> Array:
    columns = list(range(6 if len(named) == 2 else 2))

    # One name at a time, but once: what is read is cached.
    converters: dict[int | str, Callable[[str], int]] = dict.fromkeys(named, numbers.__getitem__)
    try:
        table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2, converters=converters, usecols=columns)
    except ValueError as error:
        if isinstance(error.__cause__, KeyError):
            raise BadData(f"{path} names {error.__cause__}, which is not a sequence of this split.") from None
        raise BadData(f"{path} is not a list of patches: {str(error).rstrip('.')}.") from None
    return table.astype(np.int64)

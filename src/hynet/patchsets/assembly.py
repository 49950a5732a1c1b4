"""Finished scenes -> one patch set in PhotoTour's own format: which points are kept, and the pairs to test on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import ubc
from ..errors import BadData
from ..runtime.files import atomic_write
from ..types import DIFFERENT_PIXELS, Array, PatchPairs, PatchSet

PAIR_FILES = (1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000)  # rows, half of them matches, as PhotoTour has them
NEARBY_DRAWS = 32  # a non-match is the nearest of so many random points of its photo: half are within 50 pixels or so
SEED = 1


def assemble(out: Path, settings: Mapping[str, Any], hard_share: float) -> dict[str, Any]:
    """Write all finished parts as one PhotoTour set: those that were in it before come first."""
    before = [scene["name"] for scene in read(out / "scene.json")["scenes"]] if (out / "scene.json").exists() else []
    notes = finished(out / ".parts")
    names = [name for name in before if name in notes] + [name for name in notes if name not in before]
    made = [notes[name] for name in names if not notes[name]["skipped"]]
    skipped = [{"name": name, "why": notes[name]["skipped"]} for name in names if notes[name]["skipped"]]
    if not made:
        reasons = "; ".join(f"{scene['name']}: {scene['why']}" for scene in skipped)
        raise BadData(f"no scene could be made ({reasons}); give more photos, or photos that overlap more.")
    folders = [out / ".parts" / part["name"] for part in made]
    columns = _stack([dict(np.load(folder / "columns.npz")) for folder in folders])
    kept = _kept(columns, hard_share)
    columns = _select(columns, kept)
    summary = {
        "scenes": [_told(part, columns, number) for number, part in enumerate(made)],
        "settings": {**settings, "hard_share": hard_share},
        "skipped": skipped,
        "unreadable": [why for part in made for why in part["unreadable"]],
    }
    for stale in ("scene.json", "correspondences.npz"):  # they would not fit the rows that are written now
        (out / stale).unlink(missing_ok=True)
    with _gathered([folder / "patches.npy" for folder in folders], kept, out / ".parts") as patches:
        ubc.write(
            out,
            PatchSet(patches, columns["point"], columns["image"], columns["scene"]),
            xy=columns["xy"],
            angle=columns["angle"],
            log2_scale=columns["log2_scale"],
            pairs=_pair_files(columns, hard_share),
        )
    with atomic_write(out / "correspondences.npz") as temporary:
        np.savez(temporary, first=columns["first"], second=columns["second"], hard=columns["hard"])
    with atomic_write(out / "scene.json") as temporary:
        temporary.write_text(json.dumps(summary, indent=1), encoding="utf-8")
    return summary


def _told(part: Mapping[str, Any], columns: Mapping[str, Array], number: int) -> dict[str, Any]:
    """Summarise one scene for scene.json."""
    rows = np.flatnonzero(columns["scene"] == number)
    pairs = columns["scene"][columns["first"]] == number
    return {
        "name": part["name"],
        "first_patch": int(rows[0]) if len(rows) else 0,
        "patches": len(rows),
        "photos": part["photos"],
        "registered": part["registered"],
        "registered_by": part.get("registered_by", "sift"),
        "points": len(np.unique(columns["point"][rows])),
        "correspondences": int(pairs.sum()),
        "hard_share": round(float(columns["hard"][pairs].mean()), 4) if pairs.any() else 0.0,
    }


def _stack(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Stack the columns of all parts; points, photos and rows are numbered on."""
    stacked: list[dict[str, Array]] = []
    points = photos = rows = 0
    for number, part in enumerate(parts):
        stacked.append(
            {
                **part,
                "scene": np.full(len(part["point"]), number),
                "point": part["point"] + points,
                "image": part["image"] + photos,
                "first": part["first"] + rows,
                "second": part["second"] + rows,
            }
        )
        points += int(part["point"].max()) + 1
        photos += int(part["image"].max()) + 1
        rows += len(part["point"])
    return {name: np.concatenate([part[name] for part in stacked]) for name in stacked[0]}


def _kept(columns: Mapping[str, Array], hard_share: float) -> Array:
    """(P,) bool: all points with a hard pair, and as many others as leave the share of hard pairs above the wish."""
    point = columns["point"]
    count = int(point.max()) + 1
    pairs = np.bincount(point[columns["first"]], minlength=count)
    hard = np.bincount(point[columns["first"]], weights=columns["hard"], minlength=count)
    keep = hard > 0
    easy = np.random.default_rng(SEED).permutation(np.flatnonzero(~keep))
    room = hard.sum() / max(hard_share, 1e-9) - pairs[keep].sum()
    keep[easy[np.cumsum(pairs[easy]) <= room]] = True
    return keep[point]


def _select(columns: Mapping[str, Array], kept: Array) -> dict[str, Array]:
    new_row = np.cumsum(kept) - 1
    pairs = kept[columns["first"]]
    selected = {
        name: column[pairs if name in ("first", "second", "hard") else kept] for name, column in columns.items()
    }
    return {
        **selected,
        "first": new_row[selected["first"]],
        "second": new_row[selected["second"]],
        "point": np.unique(selected["point"], return_inverse=True)[1],
    }


@contextmanager
def _gathered(sources: Sequence[Path], kept: Array, folder: Path) -> Iterator[Array]:
    """Gather the kept patches of all parts in one array on disk, for as long as the set is written."""
    path = folder / ".all.npy"
    shape = (int(kept.sum()), ubc.TILE, ubc.TILE)
    gathered = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    try:
        row = at = 0
        for source in sources:
            part = np.load(source, mmap_mode="r")
            chosen = np.flatnonzero(kept[row : row + len(part)])
            for block in np.array_split(chosen, -(-len(chosen) // 4096) or 1):
                gathered[at : at + len(block)] = part[block]
                at += len(block)
            row += len(part)
        yield gathered
    finally:
        del gathered
        path.unlink(missing_ok=True)


def _pair_files(columns: Mapping[str, Array], hard_share: float) -> list[PatchPairs]:
    """Draw test pairs of every size that there are enough matches for, the share of hard ones exact."""
    rng = np.random.default_rng(SEED)
    hard = rng.permutation(np.flatnonzero(columns["hard"]))
    easy = rng.permutation(np.flatnonzero(~columns["hard"]))
    limits = [len(some) / share for some, share in ((hard, hard_share), (easy, 1 - hard_share)) if share > 0]
    negatives = _negatives(columns, int(min(PAIR_FILES[-1] // 2, *limits)), rng)
    sizes = [size for size in PAIR_FILES if size // 2 <= len(negatives)] or [2 * len(negatives)]
    files = []
    for matches in (size // 2 for size in sizes if size):
        from_hard = round(matches * hard_share)
        rows = np.concatenate([hard[:from_hard], easy[: matches - from_hard]])
        pairs = np.concatenate([np.column_stack([columns["first"], columns["second"]])[rows], negatives[:matches]])
        order = rng.permutation(len(pairs))
        files.append(PatchPairs(pairs[order, 0], pairs[order, 1], order < matches))
    return files


def _negatives(columns: Mapping[str, Array], count: int, rng: np.random.Generator) -> Array:
    """(<= count, 2) rows of different points of one reference photo, seen there in certainly different places."""
    by_image = np.argsort(columns["image"], kind="stable")
    image = columns["image"][by_image]
    start, end = np.searchsorted(image, image), np.searchsorted(image, image, "right")
    found = [np.zeros((0, 2), np.int64)]
    for block in np.array_split(rng.integers(len(image), size=2 * count), -(-count // 10_000) or 1):
        draws = rng.integers(start[block, None], end[block, None], size=(len(block), NEARBY_DRAWS))
        a, b = by_image[block], by_image[draws]  # (n,), (n, 32)
        apart = np.linalg.norm(columns["xy"][a][:, None] - columns["xy"][b], axis=2)
        apart[apart <= DIFFERENT_PIXELS] = np.inf
        nearest = apart.argmin(1)
        certain = np.isfinite(apart[np.arange(len(a)), nearest])
        found.append(np.column_stack([a, b[np.arange(len(a)), nearest]])[certain])
    return np.concatenate(found)[:count]


def finished(parts: Path) -> dict[str, dict[str, Any]]:
    """Read the notes of finished parts; those under a dot are still being written."""
    paths = sorted(path for path in parts.glob("*/part.json") if not path.parent.name.startswith("."))
    return {path.parent.name: read(path) for path in paths}


def read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadData(f"{path} cannot be read ({error}); remove its folder and run again.") from None

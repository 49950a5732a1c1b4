"""PhotoTour (UBC / Brown) patch sets, exactly as distributed: liberty, notredame, yosemite, and any folder like them.

    patchesNNNN.bmp         1024 x 1024 grey, 16 x 16 tiles of 64 x 64, row by row; the last one is padded
    info.txt                one row a patch: pointID 0
    interest.txt            one row a patch: referenceImageID x y orientation log2(scale)
    m50_N_N_0.txt           N test pairs: patchID pointID 0 patchID pointID 0
    scene.json              ours, optional: which rows come from which scene

The bitmaps are decoded once (`ubc_decoding.py`), into a cache that later opens map into memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from ..errors import BadData, BadInput, DataNotFound
from ..runtime import fingerprints
from ..runtime.arrays import read_npz
from ..runtime.files import atomic_write
from ..types import Array, PatchPairs, PatchSet, Progress, silent
from .ubc_decoding import MOSAIC, PER_MOSAIC, PER_ROW, TILE, cached, decoded, mosaic_files, needed, numbers, write_lines

SIZES = (64, 32)


def load(root: str | Path, size: int = 64, progress: Progress = silent) -> PatchSet:
    """The whole set, memory-mapped. Size 32 is the 2 x 2 mean of 64. The first open decodes the bitmaps, once."""
    root = _folder(root)
    if size not in SIZES:
        raise BadInput(f"PhotoTour patches come in size 64 or 32, got {size}.")
    cache = decoded(root, progress)
    try:
        patches, points, seen = cached(cache, size)
    except (OSError, EOFError, ValueError, IndexError):  # damaged: it vouches for itself no longer, and is made again
        (cache / "key.json").unlink(missing_ok=True)
        patches, points, seen = cached(decoded(root, progress), size)
    return PatchSet(
        patches,
        points,
        None if seen is None else seen[:, 0].astype(np.int64),
        _scenes(root, len(points)),
        None if seen is None else seen[:, 1:],
        _hard_pairs(root, points),
    )


def recognise(root: Path) -> bool:
    """Whether a folder has this layout."""
    return (root / "info.txt").exists() or any(root.glob("patches*.bmp"))


def test_pairs(root: str | Path, count: int = 100_000) -> PatchPairs:
    """The pairs of m50_{count}_{count}_0.txt: half of them match."""
    root = _folder(root)
    path = root / _pairs_name(count)
    if not path.exists():
        there = ", ".join(map(str, pairs_available(root))) or "none"
        raise DataNotFound(f"no {path.name} in {root}; pair files there: {there}.")
    # Some copies carry a seventh column; only these four mean anything.
    first, first_point, second, second_point = numbers(path, (0, 1, 3, 4)).T
    if len(first) != count:
        raise BadData(f"{path} holds {len(first)} pairs, but its name says {count}; unpack the set again.")
    patches = len(numbers(needed(root, "info.txt"), (0,)))
    for column in (first, second):
        if column.min() < 0 or column.max() >= patches:
            stranger = column[(column < 0) | (column >= patches)][0]
            raise BadData(f"{path} names patch {stranger}, but info.txt lists {patches} patches.")
    return PatchPairs(first, second, first_point == second_point)


def fingerprint(root: str | Path) -> str:
    """Changes with any patch or point of a set, not with where it lies."""
    root = _folder(root)
    return fingerprints.files(needed(root, "info.txt"), *mosaic_files(root))


def pairs_available(root: str | Path) -> list[int]:
    """The counts that `test_pairs` can be asked for, smallest first."""
    found = (re.fullmatch(r"m50_(\d+)_(\d+)_0\.txt", path.name) for path in Path(root).glob("m50_*.txt"))
    return sorted(int(match[1]) for match in found if match and match[1] == match[2])


def regions(root: str | Path) -> tuple[Array, Array, Array]:
    """Regions that patches were cut from: xy (P, 2), angle (P,), log2 of the scale (P,), all in the reference image."""
    table = numbers(needed(_folder(root), "interest.txt"), (1, 2, 3, 4), np.float64)
    return table[:, :2], table[:, 2], table[:, 3]


def write(
    root: str | Path,
    patch_set: PatchSet,
    *,
    xy: Array,
    angle: Array,
    log2_scale: Array,
    pairs: Sequence[PatchPairs] = (),
) -> None:
    """Write a set that any PhotoTour reader opens, in place of one that was there. `scene.json` is the caller's."""
    root = Path(root)
    points, images = patch_set.points, patch_set.images
    if patch_set.patches.shape[1] != TILE or len(patch_set) == 0 or images is None:
        raise BadInput(
            f"a PhotoTour set needs patches of {TILE} pixels with their reference images, "
            f"got {patch_set.patches.shape} {'without' if images is None else 'with'} images."
        )
    lines = {_pairs_name(len(some)): _pair_lines(some, points) for some in pairs}
    if len(lines) < len(pairs):
        raise BadInput("two lists of pairs of one length would go into one file; make their lengths differ.")
    for stale in [root / "info.txt", *mosaic_files(root), *root.glob("m50_*.txt")]:
        stale.unlink(missing_ok=True)
    count = -(-len(patch_set) // PER_MOSAIC)
    digits = max(4, len(str(count - 1)))  # readers sort by name
    for k in range(count):
        with atomic_write(root / f"patches{k:0{digits}}.bmp") as temporary:
            Image.fromarray(_mosaic(patch_set.patches[k * PER_MOSAIC : (k + 1) * PER_MOSAIC])).save(temporary)
    rows = zip(images, np.asarray(xy), np.asarray(angle), np.asarray(log2_scale), strict=True)
    write_lines(root / "interest.txt", (f"{i} {x:.4f} {y:.4f} {a:.4f} {s:.4f}\n" for i, (x, y), a, s in rows))
    for name, text in lines.items():
        write_lines(root / name, text)
    # Last, because a set without its info.txt is seen to be unfinished.
    write_lines(root / "info.txt", (f"{point} 0\n" for point in points))


def _mosaic(tiles: Array) -> Array:
    """(<= 256, 64, 64) -> (1024, 1024), black where tiles are missing."""
    whole_page = np.zeros((PER_MOSAIC, TILE, TILE), np.uint8)
    whole_page[: len(tiles)] = tiles
    return whole_page.reshape(PER_ROW, PER_ROW, TILE, TILE).swapaxes(1, 2).reshape(MOSAIC, MOSAIC)


def scene_names(root: str | Path) -> list[str]:
    """Names of scenes by their number in `PatchSet.scenes`; none where the set does not list them."""
    try:
        listed = json.loads((Path(root) / "scene.json").read_text(encoding="utf-8"))["scenes"]
        return [str(scene["name"]) for scene in listed if scene.get("patches")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _scenes(root: Path, patches: int) -> Array | None:
    """(P,) scene numbers, from the ranges of scene.json."""
    path = root / "scene.json"
    if not path.exists():
        return None
    scenes = np.full(patches, -1, np.int64)
    try:
        listed = [scene for scene in json.loads(path.read_text(encoding="utf-8"))["scenes"] if scene.get("patches")]
        for number, scene in enumerate(listed):
            scenes[scene["first_patch"] : scene["first_patch"] + scene["patches"]] = number
        listed_patches = sum(scene["patches"] for scene in listed)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadData(f"{path} does not list its scenes ({error!r}); remove it or make the set again.") from None
    if listed_patches != patches or (scenes < 0).any():
        raise BadData(f"{path} shares out {listed_patches} patches, but info.txt lists {patches}; make the set again.")
    return scenes


def _hard_pairs(root: Path, points: Array) -> Array | None:
    """(K, 2) rows, from the correspondences that `hynet patches` writes beside the set."""
    path = root / "correspondences.npz"
    if not path.exists():
        return None
    try:
        table = read_npz(path)
        hard = np.column_stack([table["first"], table["second"]])[table["hard"].astype(bool)]
        if hard.dtype.kind not in "iu":
            raise ValueError(f"rows are whole numbers, not {hard.dtype}")
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise BadData(f"{path} cannot be read ({error}); remove it or make the set again.") from None
    listed = len(hard) == 0 or 0 <= hard.min() <= hard.max() < len(points)
    if not listed or (points[hard[:, 0]] != points[hard[:, 1]]).any():
        raise BadData(f"{path} is not of the patches that info.txt lists; remove it or make the set again.")
    return hard


def _pair_lines(pairs: PatchPairs, points: Array) -> Iterator[str]:
    first, second = points[pairs.first], points[pairs.second]
    if ((first == second) != pairs.is_match).any():
        raise BadInput("pairs of a PhotoTour set match exactly where their points are the same; these do not.")
    rows = zip(pairs.first, first, pairs.second, second, strict=True)
    return (f"{a} {a_point} 0 {b} {b_point} 0\n" for a, a_point, b, b_point in rows)


def _pairs_name(count: int) -> str:
    return f"m50_{count}_{count}_0.txt"


def _folder(root: str | Path) -> Path:
    root = Path(root)
    if not root.is_dir():
        raise DataNotFound(f"no folder {root}; unpack a PhotoTour set there, or `hynet data get` downloads one.")
    return root

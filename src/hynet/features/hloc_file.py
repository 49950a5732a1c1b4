"""Features as HDF5 in hloc's layout: a group a photo. What comes from a file is checked here, once.

Wherever a file is read, a collection of files (`features/collection`) may stand.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import images
from ..errors import BadData, BadInput
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from ..runtime.machine import cache_folder
from ..types import Array, Features, Keypoints
from .collection import is_collection, open_collection, stamp

MOST_BYTES = 1 << 30  # of one column: a million keypoints with 256 numbers each
STEP = "descriptors_step"  # of descriptors that are stored as integers
# What HDF5 raises, in one way or another, where bytes are broken
BROKEN = (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, OverflowError, MemoryError)


class FeaturesFile:
    """The features that a file holds of a photo, which is looked up by its path, or by the end of its path."""

    def __init__(self, path: Path, max_keypoints: int) -> None:
        self.path = path
        self.max_keypoints = max_keypoints
        self._names = frozenset(h5_names(path))
        if not self._names:
            raise BadData(f"{path} holds no features in hloc's layout; `hynet extract` writes such a file.")
        with open_features(path) as file, reading(path):
            self.ratio = _ratio(file)
            self.thresholds = _thresholds(file, path)

    @classmethod
    def from_file(cls, path: Path, max_keypoints: int) -> FeaturesFile:
        return cls(path, max_keypoints)

    def __call__(self, photo: Any) -> Features:
        """The strongest, as unit vectors; what others stored need not be in order, nor of length one."""
        if not isinstance(photo, str | Path):
            raise BadInput(f"{self.path} knows photos by their names; give the path of the photo, not its pixels.")
        found = read_h5(self.path, self.name_of(photo), photo)
        # In the order of the file: matches of others name its rows.
        best = np.sort(np.argsort(-found.keypoints.scores, kind="stable")[: self.max_keypoints])
        return replace(unit_features(found[best]), photo=images.remembered(photo))

    def name_of(self, photo: str | Path) -> str:
        """The photo's name in the file: as much of its path as is one."""
        parts = Path(os.path.abspath(photo)).parts  # not where a link leads: photos are named by where they lie
        ends = ("/".join(parts[start:]) for start in range(1, len(parts)))
        found = next((end for end in ends if end in self._names), None)
        if found is None:
            raise BadData(f"{self.path} holds no features of {photo}; name its groups like the photos' paths.")
        return found


def columns(features: Features, precision: str = "float32") -> dict[str, Array]:
    """hloc's layout: descriptors (D, N), the rest one row a keypoint; and the focal length, where it is known.

    precision: of the descriptors, "float16" or "int8", which has a column more: what its integers are multiples of.
    """
    keypoints = features.keypoints
    known = {} if features.focal is None else {"focal": np.array(features.focal)}
    rows = features.descriptors
    if precision == "float16":
        rows = rows.astype(np.float16)
    elif precision == "int8":
        step = np.float32(max(np.abs(rows).max(initial=0), 1e-6) / 127)
        rows, known[STEP] = np.rint(rows / step).astype(np.int8), np.array(step)
    elif precision != "float32":
        raise BadInput(f"descriptors are stored as float32, float16 or int8, not as {precision!r}.")
    return {
        "keypoints": keypoints.xy,
        "descriptors": rows.T,
        "scores": keypoints.scores,
        "scales": keypoints.sigma,
        "angles": keypoints.angle,
        "image_size": np.array(features.image_size),
        **known,
    }


def write_settings(file: Any, ratio: float | None, thresholds: Mapping[str, float]) -> None:
    """Write ratio and thresholds into attributes of the file, which hloc and others ignore."""
    if ratio is not None:
        file.attrs["ratio"] = ratio
    if thresholds:
        file.attrs["thresholds"] = json.dumps(dict(thresholds))


def write_group(file: Any, name: str, features: Features) -> None:
    """The features of one photo into an open file."""
    for key, column in columns(features).items():
        file.create_dataset(f"{name}/{key}", data=column)


def read_h5(path: str | Path, name: str, photo: str | Path | None = None) -> Features:
    """Read the features of one photo in hloc's layout, by any program; without scales, angles or scores: 1, 0 and 1.

    photo: where the photo itself is, which is asked for its size if the file does not say it.
    """
    if is_collection(path):
        path = open_collection(path).shard(name)
    with open_features(path) as file, reading(path, name):
        if not _holds(file, f"{name}/keypoints") or not _holds(file, f"{name}/descriptors"):
            raise BadData(f"{path} holds no features of {name}.")
        group = file[name]
        xy = _column(group, "keypoints", 2)
        if xy.shape[1] < 2:
            raise BadData(f"{path} has keypoints of {name} that are not rows of x and y, but {xy.shape}.")
        xy = xy[:, :2].astype(np.float32)
        ones = np.ones(len(xy), np.float32)
        scales = _column(group, "scales", 1) if _holds(group, "scales") else ones
        scores = _column(group, "scores", 1) if _holds(group, "scores") else ones
        angles = _column(group, "angles", 1) if _holds(group, "angles") else 0 * ones
        if _holds(group, "image_size"):
            size = _column(group, "image_size", 1)
        elif photo is not None:
            size = np.array(images.read(photo).shape[::-1])
        else:  # it reaches at least as far as its keypoints
            size = np.ceil(xy.max(axis=0, initial=0)) + 1
        width, height = (int(side) for side in size)
        descriptors = np.ascontiguousarray(_column(group, "descriptors", 2).astype(np.float32).T)  # (N, D)
        if _holds(group, STEP):  # integers of ours: unit rows again
            lengths = np.linalg.norm(descriptors, axis=1, keepdims=True)
            descriptors /= np.maximum(lengths, 1e-12)
        ratio = _ratio(file)
        thresholds = _thresholds(file, path)
        keypoints = Keypoints.from_circles(xy, scales, angles, scores)
        focal = float(group["focal"][()]) if "focal" in group else None
        return Features(keypoints, descriptors, (width, height), ratio, thresholds, focal)


def unit_features(found: Features) -> Features:
    """With descriptors of length one, which those that others stored need not have."""
    lengths = np.linalg.norm(found.descriptors, axis=1, keepdims=True)
    return replace(found, descriptors=found.descriptors / np.maximum(lengths, 1e-12))


def _ratio(file: Any) -> float | None:
    ratio = file.attrs.get("ratio")
    return None if ratio is None else float(ratio)


def _thresholds(file: Any, path: str | Path) -> dict[str, float]:
    try:
        stored = json.loads(file.attrs.get("thresholds", "{}"))
        return {str(geometry): float(pixels) for geometry, pixels in stored.items()}
    except (AttributeError, TypeError, ValueError):
        raise BadData(f"{path} has an attribute `thresholds` that is not JSON of geometries and pixels.") from None


def h5_names(path: str | Path) -> list[str]:
    """The photos in a features file, or in a collection."""
    if is_collection(path):
        return sorted(open_collection(path).shards)
    names: list[str | bytes] = []
    with open_features(path) as file, reading(path):
        file.visititems(lambda name, item: names.append(name) if "keypoints" in getattr(item, "keys", dict)() else None)
    readable = [name for name in names if isinstance(name, str)]  # h5py leaves the others as they are
    if len(readable) < len(names):
        raise BadData(f"{path} names photos in other letters than UTF-8; extract it again.")
    return sorted(readable)


def h5_fingerprints(path: str | Path) -> dict[str, str]:
    """Photo -> what its features were made from, or what they are where nobody noted that."""
    if is_collection(path):
        return dict(open_collection(path).fingerprints)
    names = h5_names(path)
    with open_features(path) as file, reading(path):
        noted = {name: file[name].attrs.get("fingerprint") for name in names}
    found = {name: str(made_from) for name, made_from in noted.items() if made_from}
    others = [name for name in names if name not in found]
    return found | (_of_others(Path(path), others) if others else {})


def _of_others(path: Path, names: Sequence[str]) -> dict[str, str]:
    """Fingerprints of features that another program wrote; read once, until the file is written again."""
    key = fingerprints.values([str(path.absolute()), stamp(path)])
    note = cache_folder() / "fingerprints" / f"{key}.json"
    try:
        known = json.loads(note.read_text(encoding="utf-8"))
        return {name: str(known[name]) for name in names}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with open_features(path) as file, reading(path):
        found = {name: _what_they_are(file[name]) for name in names}
    with suppress(OSError), atomic_write(note) as temporary:
        temporary.write_text(json.dumps(found), encoding="utf-8")
    return found


def _what_they_are(group: Any) -> str:
    return fingerprints.arrays(*(_column(group, key, 2) for key in ("keypoints", "descriptors") if _holds(group, key)))


def h5_identities(path: str | Path) -> dict[str, str]:
    """Photo -> what its features are: made from what, and by which settings. Other features, another identity."""
    with open_features(path) as file:
        made_with = str(file.attrs.get("settings", ""))
    return {name: fingerprints.values([made_with, found])[:16] for name, found in h5_fingerprints(path).items()}


def are_features(path: str | Path) -> bool:
    """Whether a features file, or a collection, may be there."""
    return Path(path).is_file() or is_collection(path)


@contextmanager
def open_features(path: str | Path) -> Iterator[Any]:
    """The file; of a collection its first shard, whose attributes are those of all."""
    import h5py  # here, since matching two photos does not need it

    if is_collection(path):
        collection = open_collection(path)
        path = collection.shard(next(iter(collection.shards)))
    try:
        file = h5py.File(path, "r")
    except (OSError, ValueError, RuntimeError):
        raise BadData(
            f"{path} is not a features file (HDF5); choose another, or delete it and extract again."
        ) from None
    with file:
        yield file


@contextmanager
def reading(path: str | Path, name: str = "a photo") -> Iterator[None]:
    """Whatever HDF5 raises inside the block, where bytes are broken, becomes a sentence."""
    try:
        yield
    except BadData:
        raise
    except BadInput as error:  # from Keypoints or Features, which do not know where their numbers come from
        raise BadData(f"{path} holds features of {name} that cannot be used: {error}") from None
    except BROKEN as error:
        raise BadData(f"{path} is broken at {name} ({type(error).__name__}); extract it again.") from None


def _holds(group: Any, name: str) -> bool:
    """Whether it is there, in this file: a link to another one would read files of ours for who made this one."""
    import h5py

    for part in name.strip("/").split("/"):
        link = group.get(part, getlink=True)
        if link is None:
            return False
        if not isinstance(link, h5py.HardLink):
            raise BadData(
                f"{group.file.filename} leads to another file or place ({name}); such links are not followed."
            )
        group = group[part]
    return True


def _column(group: Any, key: str, dimensions: int) -> Array:
    """A dataset of finite numbers that lies in this file."""
    import h5py

    column, where = group[key], f"{group.file.filename} has {key} of {group.name.strip('/')}"
    if not isinstance(column, h5py.Dataset):
        raise BadData(f"{where} that are no dataset.")
    if column.external or column.is_virtual:
        raise BadData(f"{where} that are stored in another file, which is not read.")
    if column.ndim != dimensions or column.dtype.kind not in "fiu" or column.nbytes > MOST_BYTES:
        raise BadData(f"{where} of a wrong shape or type: {column.shape} {column.dtype}.")
    numbers = np.asarray(column)
    if not np.isfinite(numbers).all():
        raise BadData(f"{where} that are NaN or infinite; extract them again.")
    return numbers

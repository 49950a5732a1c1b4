"""Features as HDF5 in hloc's layout: a group a photo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadData
from ..types import Array, Features, Keypoints


def columns(features: Features) -> dict[str, Array]:
    """hloc's layout: descriptors (D, N), the rest one row a keypoint."""
    keypoints = features.keypoints
    return {
        "keypoints": keypoints.xy,
        "descriptors": features.descriptors.T,
        "scores": keypoints.scores,
        "scales": keypoints.sigma,
        "angles": keypoints.angle,
        "image_size": np.array(features.image_size),
    }


def write_group(file: Any, name: str, features: Features) -> None:
    """The features of one photo into an open file."""
    for key, column in columns(features).items():
        file.create_dataset(f"{name}/{key}", data=column)


def read_h5(path: str | Path, name: str) -> Features:
    """The features of one photo, ours or anyone's in hloc's layout; without scales, angles or scores: 1, 0 and 1."""
    with opened(path) as file:
        if name not in file or "keypoints" not in file[name] or "descriptors" not in file[name]:
            raise BadData(f"{path} holds no features of {name}.")
        group = file[name]
        xy = np.asarray(group["keypoints"], np.float32)
        if xy.ndim != 2 or xy.shape[1] < 2:
            raise BadData(f"{path} has keypoints of {name} that are not rows of x and y, but {xy.shape}.")
        xy = xy[:, :2]
        ones = np.ones(len(xy), np.float32)
        scales, scores = (np.asarray(group[key]) if key in group else ones for key in ("scales", "scores"))
        angles = np.asarray(group["angles"]) if "angles" in group else 0 * ones
        # Who left out the size of the photo left us its keypoints: it reaches at least as far.
        size = group["image_size"] if "image_size" in group else np.ceil(xy.max(axis=0, initial=0)) + 1
        width, height = (int(side) for side in size)
        descriptors = np.ascontiguousarray(np.asarray(group["descriptors"], np.float32).T)  # (N, D)
        ratio = file.attrs.get("ratio")
        keypoints = Keypoints.from_circles(xy, scales, angles, scores)
        return Features(keypoints, descriptors, (width, height), None if ratio is None else float(ratio))


def h5_names(path: str | Path) -> list[str]:
    """The photos in a features file."""
    names: list[str] = []
    with opened(path) as file:
        file.visititems(lambda name, item: names.append(name) if "keypoints" in getattr(item, "keys", dict)() else None)
    return sorted(names)


@contextmanager
def opened(path: str | Path) -> Iterator[Any]:
    import h5py  # here, since matching two photos does not need it

    try:
        file = h5py.File(path, "r")
    except OSError:
        raise BadData(
            f"{path} is not a features file (HDF5); choose another, or delete it and extract again."
        ) from None
    with file:
        yield file

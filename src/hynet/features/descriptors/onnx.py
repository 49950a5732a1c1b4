"""Run a trained network fast where it is: ONNX Runtime, which starts in a third of a second and needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ...errors import BadInput, BadWeights
from ...runtime.machine import cores
from ...runtime.onnx_runtime import run, session
from ...types import Array, Descriptor
from .resizing import resized

TILE = 32  # patches a call where the file names no number: enough for a fast last product, few enough for all threads


class OnnxEngine(Descriptor):
    """A network in an .onnx file, from (N, S, S) uint8 patches to unit rows; the whole pipeline is in the graph.

    `about` is what the file says of itself: training data, licence, calibration.
    """

    def __init__(self, path: str | Path, threads: int | None = None) -> None:
        self.threads = threads or len(cores())
        # Each thread takes tiles of its own: threads that share a layer wait for each other after every one.
        self._session = session(path, threads=1)
        try:
            (patches,), (descriptors,) = self._session.get_inputs(), self._session.get_outputs()
            self.patch_size, self.dim = int(patches.shape[-1]), int(descriptors.shape[-1])
        except (ValueError, TypeError, IndexError):  # other inputs and outputs, or of other shapes
            raise BadWeights(f"{path} is another network than a descriptor; `hynet export` writes one.") from None
        if descriptors.name == "shapes":  # OUTPUT of features/detectors/affine_network.py
            raise BadWeights(f"{path} is a network for affine shapes, not a descriptor; give it as the shape.")
        self._names = [descriptors.name], patches.name
        self.about: dict[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)
        self.support = _number(self.about, "support", path)
        self.ratio = _number(self.about, "ratio", path)
        self._tile = max(1, round(_number(self.about, "tile", path) or TILE))

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, dim) float32 unit rows."""
        patches = resized(patches, self.patch_size)
        tiles = [patches[start : start + self._tile] for start in range(0, len(patches), self._tile)]
        with ThreadPoolExecutor(self.threads) as pool:
            rows = np.concatenate([np.zeros((0, self.dim), np.float32), *pool.map(self._run, tiles)])
        if not np.isfinite(rows).all():
            raise BadWeights(
                "the network gives NaN or infinity; its weights are broken, so export or download it again."
            )
        return rows

    def _run(self, tile: Array) -> Array:
        outputs, name = self._names
        (rows,) = run(self._session, outputs, {name: tile})
        if rows.shape != (len(tile), self.dim):
            raise BadWeights(f"the network gives {rows.shape} for {len(tile)} patches; export or download it again.")
        return rows


def open_onnx(path: Path, device: str | None = None) -> OnnxEngine:
    """The engine: ONNX Runtime as it comes, on the CPU."""
    if path.suffix != ".onnx" or not path.is_file():
        raise BadInput(f"{path} is for torch; `hynet export --model {path} --to m.onnx` writes it for ONNX Runtime.")
    if device not in (None, "cpu"):
        raise BadInput(f"ONNX Runtime runs on the CPU here, not on {device!r}; choose the engine torch.")
    return OnnxEngine(path)


def _number(about: Mapping[str, str], name: str, path: str | Path) -> float | None:
    try:
        number = float(about[name]) if name in about else None
    except ValueError:
        number = np.nan
    if number is not None and not 0 < number < np.inf:
        raise BadWeights(f"{path} says that its {name} is {about[name]!r}; export or download it again.")
    return number

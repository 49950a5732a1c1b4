"""Run a trained network fast where it is: ONNX Runtime, which starts in a third of a second and needs no torch."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from .door import enter
from .errors import BadWeights
from .types import Array

TILE = 32  # patches a call: their activations stay in the cache


class OnnxEngine:
    """A network in an .onnx file, from (N, S, S) uint8 patches to unit rows; the whole pipeline is in the graph.

    `about` is what the file says of itself: training data, licence, calibration.
    """

    def __init__(self, path: str | Path, threads: int | None = None) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or len(os.sched_getaffinity(0))
        # Threads that spin while they wait take the core from whoever shares it.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            (patches,), (descriptors,) = self._session.get_inputs(), self._session.get_outputs()
            self.patch_size, self.dim = int(patches.shape[-1]), int(descriptors.shape[-1])
        except Exception as error:  # ONNX Runtime raises its own kind for each way in which a file can be broken
            raise BadWeights(
                f"{path} is not a descriptor in ONNX ({type(error).__name__}); `hynet export` writes one."
            ) from None
        self._names = [descriptors.name], patches.name
        self.about: dict[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)
        # The patch width in sigmas that the weights were trained with, and the ratio test that suits them.
        for number in ("support", "ratio"):
            if number in self.about:
                setattr(self, number, float(self.about[number]))

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, dim) float32 unit rows."""
        patches = enter(patches, self.patch_size)
        outputs, name = self._names
        rows = [np.zeros((0, self.dim), np.float32)]
        for start in range(0, len(patches), TILE):
            rows += self._session.run(outputs, {name: patches[start : start + TILE]})
        return np.concatenate(rows)

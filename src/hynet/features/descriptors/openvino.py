"""A network in OpenVINO's format, for processors that it is fast on: what `hynet export --to m.openvino` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import BadInput, BadWeights, need
from ...types import Array, Descriptor
from .resizing import resized

TILE = 256  # patches a call: memory is bounded whatever their number


class OpenVinoEngine(Descriptor):
    """A folder with model.xml and model.bin, from (N, S, S) uint8 patches to unit rows."""

    def __init__(self, folder: Path, device: str) -> None:
        openvino = need("openvino", "openvino", f"{folder}, a model in OpenVINO's format,")
        try:
            model = openvino.Core().read_model(folder / "model.xml")
            (patches,), (descriptors,) = model.inputs, model.outputs
            self.patch_size = patches.partial_shape[2].get_length()
            self.dim = descriptors.partial_shape[1].get_length()
            self._compiled = openvino.Core().compile_model(model, device)
        except (RuntimeError, ValueError, IndexError):
            raise BadWeights(f"{folder} is not a descriptor in OpenVINO's format; `hynet export` writes one.") from None
        self.support = _number(model, "support")
        self.ratio = _number(model, "ratio")

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, dim) float32 unit rows."""
        patches = resized(patches, self.patch_size)
        rows = [np.zeros((0, self.dim), np.float32)]
        request = self._compiled.create_infer_request()  # one a call, since threads may describe at once
        for start in range(0, len(patches), TILE):
            rows.append(request.infer(patches[start : start + TILE])[0].copy())
        return np.concatenate(rows)


def open_openvino(path: Path, device: str | None = None) -> OpenVinoEngine:
    """The engine; devices are OpenVINO's, of which cpu is always there."""
    if path.suffix != ".openvino":
        raise BadInput(f"{path} is not for OpenVINO; `hynet export --model {path} --to m.openvino` writes it so.")
    return OpenVinoEngine(path, (device or "cpu").upper())


def _number(model: Any, name: str) -> float | None:
    return float(model.get_rt_info(["hynet", name]).value) if model.has_rt_info(["hynet", name]) else None

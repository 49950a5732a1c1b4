"""A torch network -> one file that runs without torch, checked to say the same."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..descriptors.layers import Network
from ..descriptors.onnx import OnnxEngine
from ..descriptors.resizing import enter
from ..errors import BadInput, choose, need
from ..system.files import whole
from ..types import Array
from . import Disagreement, graphs, stages

AGREE = 1e-4  # the largest difference of any number of a unit descriptor
AGREE_INT8 = 0.99  # the least mean cosine to the network's own descriptors; trained networks reach 0.9999
CALIBRATE_ON, CHECK_ON = 1024, 256  # patches
FEWEST = 50  # patches that say something about ranges


class Pipeline(nn.Module):
    """All of describing in one graph: uint8 (N, S, S) in, unit rows (N, D) out."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, patches: Tensor) -> Tensor:
        raw = self.network(patches[:, None].float())
        return raw * torch.rsqrt(raw.square().sum(1, keepdim=True) + 1e-10)


def export(network: Network, path: str | Path, about: Mapping[str, str] | None = None) -> float:
    """Write the network in the format that the path's ending names; returns the largest difference in the check."""
    write = choose(FORMATS, Path(path).suffix, "format")
    pipeline = Pipeline(network).eval()
    patches = np.random.default_rng(0).integers(0, 256, (33, network.patch_size, network.patch_size), np.uint8)
    with torch.inference_mode():
        expected = pipeline(torch.from_numpy(patches)).numpy()
    with whole(path) as temporary:
        said = write(pipeline, temporary, torch.from_numpy(patches), about or {})
        difference = float(np.abs(said - expected).max())
        if not difference < AGREE:
            raise Disagreement(f"{path} would differ from the network by {difference:.2g}; it was not written.")
    return difference


def export_int8(network: Network, path: str | Path, patches: Array, about: Mapping[str, str] | None = None) -> float:
    """Write HyNet in 8-bit integers whose ranges come from real patches (N, S, S), some of them, always the same.

    Returns the mean cosine to the network's own descriptors of patches that were not calibrated on.
    """
    if Path(path).suffix != ".onnx":
        raise BadInput(f"8-bit integers are written as .onnx, not as {Path(path).name!r}.")
    if not stages.fits(network):
        raise BadInput("only HyNet with FRN is written in 8-bit integers; export this network without.")
    if len(patches) < FEWEST:
        raise BadInput(f"calibrating needs {FEWEST} patches or more, got {len(patches)}.")
    some = np.random.default_rng(0).permutation(len(patches))[: CALIBRATE_ON + CHECK_ON]
    unseen, seen = np.split(some, [min(CHECK_ON, len(some) // 4)])
    unseen, seen = (enter(patches[np.sort(rows)], network.patch_size) for rows in (unseen, seen))
    with whole(path) as temporary:
        said = _saved(graphs.in_integers(network.eval(), seen, about or {}), temporary).describe(unseen)
        cosine = float((said * network.describe(unseen)).sum(1).mean())
        if not cosine > AGREE_INT8:
            raise Disagreement(f"{path} would agree with the network only to a cosine of {cosine:.4f}; not written.")
    return cosine


def _onnx(pipeline: Pipeline, path: Path, patches: Tensor, about: Mapping[str, str]) -> Array:
    if stages.fits(pipeline.network):
        model = graphs.in_floats(pipeline.network, about)
    else:
        model = _by_torch(pipeline, patches)
        for key, value in about.items():
            model.metadata_props.add(key=key, value=value)
    return _saved(model, path).describe(patches.numpy())


def _saved(model: Any, path: Path) -> OnnxEngine:
    need("onnx", "train", "writing ONNX").save(model, path)
    return OnnxEngine(path)


def _by_torch(pipeline: Pipeline, patches: Tensor) -> Any:
    need("onnxscript", "train", "writing ONNX")
    with warnings.catch_warnings(), _quiet("torch.onnx"):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            pipeline,
            (patches,),
            input_names=["patches"],
            output_names=["descriptors"],
            dynamic_shapes={"patches": {0: "N"}},
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


def _pt2(pipeline: Pipeline, path: Path, patches: Tensor, about: Mapping[str, str]) -> Array:
    batch = torch.export.Dim("N", min=1)
    torch.export.save(torch.export.export(pipeline, (patches,), dynamic_shapes=({0: batch},)), path)
    return torch.export.load(path).module()(patches).detach().numpy()


FORMATS = {".onnx": _onnx, ".pt2": _pt2}


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Exporters log at length what is no news to a user."""
    level = logging.getLogger(logger).level
    logging.getLogger(logger).setLevel(logging.ERROR)
    try:
        yield
    finally:
        logging.getLogger(logger).setLevel(level)

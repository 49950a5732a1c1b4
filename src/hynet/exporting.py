"""A torch network -> one file that runs without torch, checked to say the same."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from .descriptors.layers import Network
from .engines import OnnxEngine
from .errors import HynetError, choose, need
from .files import whole

AGREE = 1e-4  # the largest difference of any number of a unit descriptor


class Disagreement(HynetError):
    """The written file says something else than the network: it is not kept."""


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


def _onnx(pipeline: Pipeline, path: Path, patches: Tensor, about: Mapping[str, str]) -> np.ndarray:
    onnx = need("onnx", "train", "writing ONNX")
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
    model = program.model_proto
    for key, value in about.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, path)
    return OnnxEngine(path).describe(patches.numpy())


def _pt2(pipeline: Pipeline, path: Path, patches: Tensor, about: Mapping[str, str]) -> np.ndarray:
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

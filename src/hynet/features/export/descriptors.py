"""A torch network -> one file that runs without torch, checked to say the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import BadInput, BadWeights, need
from ...runtime.files import atomic_write
from ...types import Array
from ..descriptors.layers import Network
from ..descriptors.onnx import OnnxEngine
from ..descriptors.resizing import resized
from . import Disagreement, formats, graphs, integers
from .formats import Exportable

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
    return formats.write(_exportable(network), path, about or {}, AGREE)


def _exportable(network: Network) -> Exportable:
    pipeline, patches, names = (
        Pipeline(network).eval(),
        formats.real_patches(network.patch_size),
        ("patches", "descriptors"),
    )

    def by_torch(about: Mapping[str, str]) -> Any:
        return formats.by_torch(pipeline, patches, names, about)

    def by_hand(about: Mapping[str, str]) -> Any:
        return graphs.in_floats(network, about)

    return Exportable(
        pipeline,
        patches,
        names,
        free=("N",),
        multiple=1,
        onnx=by_hand if graphs.fits(network) else by_torch,
        difference=_checked_difference,
        standard=by_torch,
    )


def _checked_difference(said: Array, expected: Array) -> float:
    if not np.isfinite(said).all():
        raise BadWeights("the network gives NaN or infinity; its weights are broken.")
    return formats.largest_difference(said, expected)


def export_int8(network: Network, path: str | Path, patches: Array, about: Mapping[str, str] | None = None) -> float:
    """Write a network in 8-bit integers whose ranges come from real patches (N, S, S), some of them, always the same.

    Returns the mean cosine to the network's own descriptors of patches that were not calibrated on.
    """
    check_int8(network, path)
    unseen, seen = (resized(some, network.patch_size) for some in to_calibrate_on(patches))
    with atomic_write(path) as temporary:
        in_integers = graphs.in_integers if graphs.fits(network) else integers.in_integers
        said = _saved(in_integers(network.eval(), seen, about or {}), temporary).describe(unseen)
        cosine = float((said * network.describe(unseen)).sum(1).mean())
        if not cosine > AGREE_INT8:
            raise Disagreement(f"{path} would agree with the network only to a cosine of {cosine:.4f}; not written.")
    return cosine


def check_int8(network: nn.Module, path: str | Path) -> None:
    """Whether it can be written there in 8-bit integers, before patches are read."""
    check_suffix(path)
    if not graphs.fits(network) and not integers.fits(network):
        raise BadInput(
            "only HyNet with FRN, LightNet, DesDis and AffNet are written in 8-bit integers; export it without --int8."
        )


def check_suffix(path: str | Path) -> None:
    if Path(path).suffix != ".onnx":
        raise BadInput(f"8-bit integers are written as .onnx, not as {Path(path).name!r}.")


def to_calibrate_on(patches: Array) -> tuple[Array, Array]:
    """Some of the patches to check by, and others to take the ranges of 8-bit integers from."""
    if len(patches) < FEWEST:
        raise BadInput(f"calibrating needs {FEWEST} patches or more, got {len(patches)}.")
    some = np.random.default_rng(0).permutation(len(patches))[: CALIBRATE_ON + CHECK_ON]
    unseen, seen = np.split(some, [min(CHECK_ON, len(some) // 4)])
    return patches[np.sort(unseen)], patches[np.sort(seen)]


def _saved(model: Any, path: Path) -> OnnxEngine:
    need("onnx", "train", "writing ONNX").save(model, path)
    return OnnxEngine(path)

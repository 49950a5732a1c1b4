"""Affine shapes by a network that learnt which ellipses match best (AffNet, ECCV 2018). Needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ...errors import BadWeights, need
from ...images.patches import SUPPORT_SIGMAS, cut
from ...runtime.machine import cores
from ...runtime.onnx_runtime import run, session
from ...types import Array, Keypoints
from ..models import shipped
from .shape import reshaped

SHIPPED = shipped("shape")["shape"]
SIDE = 32  # pixels of the patch that the network looks at
OUTPUT = "shapes"
FLATTEST = 1e-3  # of 1 + a and 1 + c, which are 0 where the network's tanh gives -1: an ellipse of no area
TILE = 64  # patches a call: of 16, 32, 64 and 128 no slower in floats, and a sixth faster than 16 in integers


REGION = 1 / 1.4  # of a patch's width: what the network looks at in training; the rest is there for warps to bring in
LOOKED_AT = REGION * SUPPORT_SIGMAS  # sigmas, of patches as `hynet patches` cuts them

Numbers = Callable[[Array], Array]  # (n, SIDE, SIDE) uint8 -> (n, 3)


class AffineNetwork:
    """Round keypoints -> elliptic ones of the same places and areas, the vertical of the photo kept vertical.

    support: how many sigmas wide the patches were that it learnt from; None where its file does not say.
    """

    def __init__(self, weights: str | Path = SHIPPED) -> None:
        self.support: float | None = None
        if Path(weights).suffix == ".onnx":
            self._run, self.support = _in_onnx(weights)
        else:
            self._run, self.support = _in_torch(weights), learnt_from(Path(weights))

    def __call__(self, image: Array, keypoints: Keypoints, support: float = SUPPORT_SIGMAS) -> Keypoints:
        """In (H, W) grey, from patches as it learnt from, else `support` sigmas wide; their angles do not matter."""
        looked_at = cut(image, reshaped(keypoints, np.eye(2)[None]), SIDE, self.support or support)
        a, b, c = self.numbers(looked_at).T
        a, c = (np.maximum(each, FLATTEST - 1) for each in (a, c))
        shapes = np.stack([np.stack([1 + a, 0 * a], -1), np.stack([b, 1 + c], -1)], 1).astype(np.float64)
        return reshaped(keypoints, shapes)

    def numbers(self, patches: Array) -> Array:
        """Predict a, b, c of the shapes. (N, 32, 32) uint8 -> (N, 3)."""
        tiles = [patches[start : start + TILE] for start in range(0, len(patches), TILE)]
        with ThreadPoolExecutor(len(cores())) as pool:
            return np.concatenate([np.zeros((0, 3), np.float32), *pool.map(self._run, tiles)])


def _in_onnx(weights: str | Path) -> tuple[Numbers, float | None]:
    opened = session(weights, threads=1)  # each thread takes tiles of its own
    if [each.name for each in opened.get_outputs()] != [OUTPUT]:
        raise BadWeights(f"{weights} is not a network for affine shapes; `hynet train shape` writes one.")
    try:
        support = float(opened.get_modelmeta().custom_metadata_map["support"])
    except (KeyError, ValueError):
        support = 0.0
    known = support if 0 < support < np.inf else None
    return lambda patches: run(opened, [OUTPUT], {"patches": patches})[0], known


def learnt_from(weights: Path) -> float | None:
    """Width in sigmas of the patches that weights of `hynet train shape` were trained on; None for others."""
    try:
        if weights.suffix == ".safetensors":
            with need("safetensors", "train", "weights in .safetensors").safe_open(weights, "pt") as file:
                recipe = (file.metadata() or {}).get("recipe")
        else:
            torch = need("torch", "train", "AffNet from a file that is not .onnx")
            recipe = torch.load(weights, map_location="cpu", weights_only=True)["about"]["recipe"]
    except Exception:  # of another kind, or broken, as who reads the weights will say
        return None
    return LOOKED_AT if recipe in ("shape", "joint") else None


def _in_torch(weights: str | Path) -> Numbers:
    """Published weights as they are."""
    torch = need("torch", "train", "AffNet from a file that is not .onnx")
    from .affnet import load

    network = load(weights)

    def by_torch(patches: Array) -> Array:
        with torch.inference_mode():
            return network(torch.from_numpy(patches)[:, None].float()).numpy()

    return by_torch

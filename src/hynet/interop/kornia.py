"""Our parts as kornia's: a module for its LAFDescriptor, and a LocalFeature that says what `hynet.Extractor` says.

    kornia.feature.LAFDescriptor(PatchDescriptor("default"))      # our network on patches that kornia cuts
    local_feature(max_keypoints=2048)(images)                     # (B, 1, H, W) from 0 to 1 -> lafs, responses, rows

A LAF spans the whole patch, a frame of ours one detector sigma.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import BadInput, need
from ..features.descriptors.loading import load
from ..features.extractors.patchwise import Extractor
from ..images.patches import cut
from ..types import Array, Keypoints

LAF_WIDTH = 2.0  # of a patch in units of its LAF: from -1 to 1


class PatchDescriptor(nn.Module):
    """(N, 1, S, S) patches from 0 to 1 -> (N, D) unit rows, with gradients. S is `patch_size`."""

    def __init__(self, model: str | Path = "default") -> None:
        super().__init__()
        network = load(model, engine="torch")
        if not isinstance(network, nn.Module):
            raise BadInput(f"{model} is not a network in torch; give `default`, a checkpoint or published weights.")
        self.network = network
        self.patch_size = network.patch_size

    def forward(self, patches: Tensor) -> Tensor:
        return nn.functional.normalize(self.network(255 * patches), dim=1)


def local_feature(
    detector: str | Path = "dog",
    model: str | Path = "default",
    max_keypoints: int = 2048,
    upright: bool = False,
) -> nn.Module:
    """kornia's LocalFeature with our detector, our way of cutting patches and our descriptor.

    Photos of a batch with fewer keypoints than others end in empty slots, as kornia's own detectors leave them: LAF
    and response zero.
    """
    feature = need("kornia.feature", "baselines", "kornia's LocalFeature")
    extract = Extractor(
        detector=detector,
        model=model,
        max_keypoints=max_keypoints,
        orientation="upright" if upright else "auto",
    )
    return feature.LocalFeature(LAFDetector(extract), LAFPatches(extract))


class LAFDetector(nn.Module):
    """Images (B, 1 or 3, H, W) from 0 to 1 -> LAFs (B, N, 2, 3) and responses (B, N), the strongest first."""

    def __init__(self, extract: Extractor) -> None:
        super().__init__()
        self.extract = extract

    def forward(self, images: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        masks = [None] * len(images) if mask is None else [(each[0] > 0).cpu().numpy() for each in mask]
        found = [
            self.extract.detect(image, None if hidden is None else hidden.astype(np.uint8))
            for image, hidden in zip(_grey(images), masks, strict=True)
        ]
        most = max((len(keypoints) for keypoints in found), default=0)
        width = np.array([self.extract.support / LAF_WIDTH] * 2 + [1], np.float32)  # of the shapes; places stay
        lafs = np.zeros((len(found), most, 2, 3), np.float32)
        responses = np.zeros((len(found), most), np.float32)
        for row, keypoints in enumerate(found):
            lafs[row, : len(keypoints)] = keypoints.frames * width
            responses[row, : len(keypoints)] = keypoints.scores
        return torch.from_numpy(lafs).to(images.device), torch.from_numpy(responses).to(images.device)


class LAFPatches(nn.Module):
    """Images and LAFs -> unit rows (B, N, D), of patches cut as everywhere in `hynet`."""

    def __init__(self, extract: Extractor) -> None:
        super().__init__()
        self.extract = extract

    def forward(self, images: Tensor, lafs: Tensor) -> Tensor:
        describe, size = self.extract.descriptor.describe, self.extract.descriptor.patch_size
        rows = [
            describe(cut(image, Keypoints(frames, np.zeros(len(frames))), size, support=LAF_WIDTH))
            for image, frames in zip(_grey(images), lafs.detach().cpu().numpy(), strict=True)
        ]
        return torch.from_numpy(np.stack(rows)).to(images.device)


def _grey(images: Tensor) -> list[Array]:
    """(B, 1 or 3, H, W) from 0 to 1 -> B times (H, W) uint8."""
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise BadInput(f"images must be (B, 1, H, W) or (B, 3, H, W) from 0 to 1, got {tuple(images.shape)}.")
    if images.shape[1] == 3:
        images = _kornia_grey(images)
    return list(np.rint(255 * images.detach().cpu().numpy()[:, 0]).clip(0, 255).astype(np.uint8))


def _kornia_grey(images: Tensor) -> Any:
    return need("kornia.color", "baselines", "kornia's LocalFeature").rgb_to_grayscale(images)

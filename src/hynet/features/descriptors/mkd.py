"""MKD, the multiple-kernel descriptor (Mukundan 2018), by kornia: no training but that of its whitening."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import need
from ...types import Array, Descriptor
from .resizing import resized

BATCH = 128  # patches at once: bounds the memory
WHITENED = 128  # numbers kept, and PCA with attenuated eigenvalues, as kornia does
WHITENING = "pcawt"
TRAINED_ON = "liberty"  # of the whitenings in the published file, as most published networks


class MKD(Descriptor):
    """Without whitening 238 numbers; with the authors' (`hynet.load("mkd-concat-64.pth")`) 128 and far better."""

    patch_size = 32

    def __init__(self, whitening: Mapping[str, Any] | None = None) -> None:
        mkd = need("kornia.feature.mkd", "baselines", "MKD")
        self._torch = need("torch", "baselines", "MKD")
        # Its own way to whiten would download the file.
        self._embed = mkd.MKDDescriptor(self.patch_size, "concat", whitening=None)
        self._whiten = None
        self.dim = self._embed.odims
        if whitening is not None:
            self._whiten = mkd.Whitening(WHITENING, whitening, in_dims=self.dim, output_dims=WHITENED)
            self.dim = WHITENED

    @classmethod
    def recognise(cls, weights: Mapping[str, Any]) -> MKD | None:
        """The authors' file holds three whitenings, by what they were learnt on."""
        return cls(whitening=weights[TRAINED_ON]) if isinstance(weights.get(TRAINED_ON), Mapping) else None

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, dim) float32 unit rows."""
        patches = resized(patches, self.patch_size)
        rows = [np.zeros((0, self.dim), np.float32)]
        with self._torch.inference_mode():
            for start in range(0, len(patches), BATCH):
                batch = self._torch.tensor(patches[start : start + BATCH])[:, None].float() / 255
                embedded = self._embed(batch)
                rows.append((self._whiten(embedded) if self._whiten else embedded).numpy())
        return np.concatenate(rows)

"""For torch.hub: torch.hub.load("OWNER/hynet", "hynet"), where OWNER/hynet is this repository on GitHub."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "src"))  # torch.hub unpacks the repository and installs nothing

dependencies = ["torch", "numpy", "cv2", "PIL", "onnxruntime", "safetensors"]


def hynet(model: str = "default") -> Any:
    """The network: (N, 1, 32, 32) grey from 0 to 255 -> raw (N, 128); `describe` takes uint8 and gives unit rows."""
    from hynet.features.descriptors.loading import load

    return load(model, engine="torch")


def patch_descriptor(model: str = "default") -> Any:
    """(N, 1, 32, 32) from 0 to 1 -> unit rows (N, 128), with gradients: for kornia's LAFDescriptor."""
    from hynet.interop.kornia import PatchDescriptor

    return PatchDescriptor(model).eval()

"""A weights file -> the state dict in it, for the networks of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ...errors import BadWeights, need


def read_state(path: str | Path) -> Any:
    """What a published file (.pth), one of ours (.safetensors) or a checkpoint holds; the caller knows its layers."""
    try:
        if Path(path).suffix == ".safetensors":
            content: Any = need("safetensors.torch", "train", "reading .safetensors").load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise BadWeights(f"cannot read {path}: {error.strerror or error}.") from None
    except Exception as error:  # each format fails in its own way, on arbitrary bytes in many
        raise BadWeights(f"{path} is not a weights file ({type(error).__name__}); give .pth or .safetensors.") from None
    for key in ("state_dict", "network"):
        if isinstance(content, dict) and key in content:
            content = content[key]
    if not isinstance(content, dict):
        return content
    prefix = "joint_shape."  # of a run that trained a descriptor as well
    shape = {key.removeprefix(prefix): value for key, value in content.items() if str(key).startswith(prefix)}
    return shape or content

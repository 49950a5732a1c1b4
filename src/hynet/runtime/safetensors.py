"""Weights -> a .safetensors file, whole, with the rights of any other file, and with the same bytes each time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import need
from .files import atomic_write


def write(path: str | Path, weights: Mapping[str, Any], **about: str) -> None:
    """Tensors of torch by name; about: texts for the file's header, which the library orders by chance."""
    save = need("safetensors.torch", "train", "writing .safetensors").save
    content = save({name: value.contiguous() for name, value in weights.items()}, {"format": "pt", **about})
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:start]), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    with atomic_write(path) as temporary:
        temporary.write_bytes(content[:8] + header.encode().ljust(start - 8) + content[start:])

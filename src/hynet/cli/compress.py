"""Compress a descriptor: fewer dimensions, float16 or int8, binary codes, or a product code, learnt from a patch set.

Example: hynet compress --model default --fit set/ --to pca64 --out default-pca64.hynet
         hynet match a.jpg b.jpg --model default-pca64.hynet
"""

from __future__ import annotations

from pathlib import Path

from ..datasets import find_patches
from ..features.descriptors.compressed import compress
from . import Report
from .progress import bar


def run(*, model: str = "default", fit: Path, to: str, out: Path) -> Report:
    """Compress a descriptor; every command accepts the file as its --model.

    Args:
        model: A name, or a path to weights.
        fit: The patch set that the code is learnt from.
        to: pca32, pca64, pca96 (that many floats); float16; int8; bits128, bits256; pq16 (16 bytes; needs faiss).
        out: The file to write, NAME.hynet; it contains the model.
    """
    with bar() as progress:
        patches = find_patches(fit).load(fit, 32, progress).patches
        progress(0, 1, f"describing {fit}")
        made = compress(model, patches, to, out)
    said = f"{out}: {model} in {made.bytes} bytes a descriptor, {made.dim} numbers when it is read."
    return Report(said, {"file": str(out), "code": to, "bytes": made.bytes, "dim": made.dim})

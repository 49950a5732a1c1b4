"""Splitting photos in two parts: to learn from, and to measure on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from .. import images
from ..errors import BadInput
from ..runtime.files import make_folder

KEPT_APART = 0.25  # of the photos
FEWEST = 6  # photos in either part: fewer are seldom reconstructed


def in_two(photos: Path, out: Path) -> tuple[list[Path], list[Path]]:
    """Split photos: those to learn from, and the last quarter by name; what lies in `out` is not taken for a photo.

    Neighbours by name are often neighbours in the scene, so that each part overlaps within itself, and shows places of
    its own.
    """
    own = out.resolve()  # may lie among the photos, with the links of an earlier run
    every = [photo for photo in images.list_photos(photos) if not photo.parent.resolve().is_relative_to(own)]
    kept = max(FEWEST, round(KEPT_APART * len(every)))
    if len(every) - kept < FEWEST:
        raise BadInput(
            f"{photos} has {len(every)} photos; give at least {2 * FEWEST}: {FEWEST} to learn from and {FEWEST} to "
            "measure on."
        )
    return every[:-kept], every[-kept:]


def link(photos: Sequence[Path], folder: Path) -> None:
    """Make a folder of links to photos, in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    for number, photo in enumerate(photos):
        link = folder / f"{number:06d}{photo.suffix}"  # photos of different folders may share a name
        try:
            os.symlink(photo.resolve(), link)
        except OSError:  # not allowed here
            shutil.copyfile(photo, link)

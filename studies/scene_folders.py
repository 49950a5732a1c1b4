"""Folders of photos, each a scene of a place of its own, whose photos are named SCENE/PHOTO in what is made of them."""

from __future__ import annotations

from pathlib import Path

from hynet import images


def named_photos(scene: Path, most: int | None) -> dict[str, Path]:
    """SCENE/PHOTO -> the photo; `most` of them at the most, evenly through all."""
    photos = images.list_photos(scene)
    some = photos if most is None else photos[:: max(1, -(-len(photos) // most))]
    return {f"{scene.resolve().name}/{photo.relative_to(scene).as_posix()}": photo.resolve() for photo in some}


def scene_of(name: str) -> str:
    return name.partition("/")[0]

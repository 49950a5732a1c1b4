"""Folders of photos, each a scene of a place of its own, whose photos are named SCENE/PHOTO in what is made of them."""

from __future__ import annotations

from pathlib import Path

from hynet import images


def photos_by_name(scenes: list[Path], most: int | None) -> dict[str, Path]:
    """SCENE/PHOTO -> the photo; of each scene `most` at the most, evenly through all."""
    named = {}
    for scene in scenes:
        photos = images.list_photos(scene)
        for photo in photos if most is None else photos[:: max(1, -(-len(photos) // most))]:
            named[f"{scene.resolve().name}/{photo.relative_to(scene).as_posix()}"] = photo.resolve()
    return named


def scene_of(name: str) -> str:
    return name.partition("/")[0]

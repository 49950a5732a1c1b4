"""A model as one self-contained web page to turn and zoom, or as a Rerun recording."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from .. import images, pages
from ..errors import BadInput, UnreadableImage, need
from ..runtime.files import atomic_write
from ..sfm.colmap import Model, ModelPhoto
from ..types import Array
from . import escape

MOST_POINTS = 200_000  # a page of some 4 MB; more are thinned at random
SPARSE = 0.03  # how far apart points are, on the page, that have no neighbours
THUMBNAILS = {150: 96, 600: 48, 2400: 24}  # up to so many photos -> pixels a side; a page of more has none
FAR = 85  # percent of the points are within a distance of 1 on the page
LENGTH = 0.6  # of a camera as it is drawn, in distances between neighbouring cameras


def page(model: Model, title: str, *, most: int = MOST_POINTS, photos: Mapping[str, Any] | None = None) -> str:
    """Points and cameras, centred, with z up and about as large as 1: all that the script has to do is turn it.

    photos: name -> photo (whatever `images.read` takes), for thumbnails at the cameras.
    """
    if most < 1:
        raise BadInput(f"the page must show at least one point, not {most}.")
    if not model.photos:
        raise BadInput(f"{title} is an empty model; `hynet doctor` says why.")
    keep = thinned(len(model.xyz), most)
    upright, centre, scale = _placement(model)

    def placed(xyz: Array) -> Array:
        return (xyz - centre) @ upright.T * scale

    shown = f"{len(keep):,} of {len(model.xyz):,} points" if len(keep) < len(model.xyz) else f"{len(keep):,} points"
    frusta = placed(_frusta(model, _length(model)))  # (C, 5, 3)
    points = placed(model.xyz[keep])
    spacing = _spacing(points)
    data = {
        "points": _packed(points, np.float32),
        "spacing": _packed(np.rint(spacing / SPARSE * 255), np.uint8),  # in 255ths of "sparse"
        "sparse": SPARSE,
        "colours": _packed(colours(model)[keep], np.uint8),
        "frusta": _packed(frusta, np.float32),
        "names": [photo.name for photo in model.photos],
        "seen": [int((photo.points >= 0).sum()) for photo in model.photos],
        "depths": [round(_depth(model, photo) * scale, 4) for photo in model.photos],
        "yaw": _yaw(frusta[:, 0]),
        "reach": float(np.clip(np.percentile(np.linalg.norm(frusta[:, 0], axis=1), 90), 1, 5)),  # in sight at first
        "thumbnails": None if photos is None else _thumbnails(model, photos),
    }
    # "<" would end the script element where a photo's name holds </script>
    inline = json.dumps(data).replace("<", "\\u003c")
    body = f"""<canvas></canvas>
<aside><b>{escape(title)}</b> <span>{shown}, {len(model.photos)} photos</span>
<label>points <input id="points" type="range" min="0.2" max="4" step="0.05" value="1"></label>
<label>cameras <input id="cameras" type="range" min="0" max="4" step="0.05" value="1"></label>
<button id="home">reset</button>
<small id="help"><span class="mice">drag: turn; shift-drag: move; wheel: zoom; click a camera: look through it</span>
<span class="fingers">one finger: turn; two: move and zoom; tap a camera: look through it</span></small></aside>
<div id="label" hidden><canvas hidden></canvas><span></span></div>
<script type="application/json" id="model">{inline}</script>"""
    return pages.page(title, body, scripts=[pages.asset("cloud.js")], kind="cloud")


def record(model: Model, title: str, out: Path) -> None:
    """A Rerun recording of everything: `rerun OUT` opens it."""
    rerun: Any = need("rerun", "view", "a Rerun recording")
    with atomic_write(out) as temporary:
        recording = rerun.RecordingStream("hynet")
        recording.save(temporary)
        recording.send_recording_name(title)
        recording.log("points", rerun.Points3D(model.xyz, colors=colours(model)), static=True)
        for photo in model.photos:
            world_from_cam = photo.cam_from_world[:, :3].T
            pinhole = rerun.Pinhole(image_from_camera=photo.camera.K, resolution=list(photo.camera.size))
            place = rerun.Transform3D(translation=photo.centre, mat3x3=world_from_cam)
            recording.log(["photos", photo.name], place, pinhole, static=True)
        recording.disconnect()


def thinned(count: int, most: int) -> Array:
    """Rows to show: all, or as many as allowed, drawn at random but always the same."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def colours(model: Model) -> Array:
    """(M, 3) uint8: those of the photos; where the model has none, from blue below to orange above."""
    if model.colours.any():
        return model.colours
    upright, centre, scale = _placement(model)
    height = np.clip(((model.xyz - centre) @ upright.T * scale)[:, 2] + 0.5, 0, 1)[:, None]
    return np.rint((1 - height) * [60, 110, 200] + height * [240, 150, 60]).astype(np.uint8)


def _placement(model: Model) -> tuple[Array, Array, float]:
    """Rotation that makes z up, the point that becomes the origin, and the scale."""
    anchor = model.xyz if len(model.xyz) else np.array([photo.centre for photo in model.photos])
    centre = np.median(anchor, axis=0)
    reach = float(np.percentile(np.linalg.norm(anchor - centre, axis=1), FAR))
    z = up(model)
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z]), centre, 1 / reach if reach > 0 else 1.0


def up(model: Model) -> Array:
    """(3,) what is up in the world: whoever photographs holds the camera level, be it ahead or down from a drone."""
    right, down, ahead = (np.array([photo.cam_from_world[axis, :3] for photo in model.photos]) for axis in range(3))
    # Across all that is right of a camera; where all look the same way, that leaves a choice, and down decides.
    direction = np.linalg.eigh(right.T @ right - 0.1 * down.T @ down)[1][:, 0]
    return direction if direction @ -(down.mean(0) + 0.3 * ahead.mean(0)) >= 0 else -direction


def _frusta(model: Model, length: float) -> Array:
    """(C, 5, 3): the centre of each camera and the corners of its picture, clockwise from the top left."""
    frusta = []
    for photo in model.photos:
        width, height = photo.camera.size
        corners = np.array([[0, 0, 1], [width, 0, 1], [width, height, 1], [0, height, 1]], float) - [0.5, 0.5, 0]
        rays = corners @ np.linalg.inv(photo.camera.K).T * length  # (4, 3) in the camera
        rotation = photo.cam_from_world[:, :3]
        frusta.append(np.vstack([photo.centre, rays @ rotation + photo.centre]))
    return np.array(frusta)


def _length(model: Model) -> float:
    """Length of drawn cameras in world units: less than the distance between them, and in proportion to the model."""
    centres = np.array([photo.centre for photo in model.photos])[:500]  # enough to know
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    scale = _placement(model)[2]
    nearest = float(np.median(apart.min(1))) if len(centres) > 1 else 1 / scale
    return float(np.clip(LENGTH * nearest, 0.02 / scale, 0.2 / scale))


def _depth(model: Model, photo: ModelPhoto) -> float:
    """Median depth of the points that a photo sees; without points, the length of drawn cameras."""
    seen = model.xyz[photo.points[photo.points >= 0]]
    if not len(seen):
        return _length(model)
    return max(float(np.median(seen @ photo.cam_from_world[2, :3] + photo.cam_from_world[2, 3])), 1e-6)


def _yaw(centres: Array) -> float:
    """Initial yaw of the view, towards the cameras' mean position, so that the page opens near a view of the photos."""
    x, y, _ = centres.mean(0)
    return float(np.arctan2(y, x)) if np.hypot(x, y) > 1e-9 else 0.0


def _spacing(points: Array) -> Array:
    """(M,) how far each point is from its neighbours, about: from how many share its cell of a grid, and SPARSE alone.

    Points lie on surfaces, so that a cell with four times as many has them half as far apart.
    """
    if not len(points):
        return np.zeros(0)
    cells = np.floor(points / SPARSE).clip(-(2**30), 2**30).astype(np.int64)
    _, mine, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    return SPARSE / np.sqrt(counts[mine.ravel()])


def _thumbnails(model: Model, photos: Mapping[str, Any]) -> dict[str, Any] | None:
    """One picture of square cells, row by row: which cell is whose photo, -1 for those that cannot be read."""
    side = next((side for most, side in THUMBNAILS.items() if len(model.photos) <= most), None)
    if side is None:
        return None
    cells: list[int] = []
    pictures: list[Array] = []
    for photo in model.photos:
        try:
            small = images.thumbnail(photos[photo.name], 2 * side)
        except (KeyError, UnreadableImage):
            cells.append(-1)
            continue
        cells.append(len(pictures))
        pictures.append(cv2.resize(small, (side, side), interpolation=cv2.INTER_AREA))
    if not pictures:
        return None
    columns = int(np.ceil(np.sqrt(len(pictures))))
    blank = [np.zeros((side, side, 3), np.uint8)] * (-len(pictures) % columns)
    rows = [*pictures, *blank]
    atlas = np.vstack([np.hstack(rows[start : start + columns]) for start in range(0, len(rows), columns)])
    content = io.BytesIO()
    Image.fromarray(atlas).save(content, "JPEG", quality=80)
    picture = f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"
    aspects = [round(photo.camera.size[0] / photo.camera.size[1], 3) for photo in model.photos]
    return {"picture": picture, "cells": cells, "columns": columns, "rows": len(rows) // columns, "aspects": aspects}


def _packed(values: Array, kind: type) -> str:
    return base64.b64encode(np.asarray(values, np.dtype(kind).newbyteorder("<")).tobytes()).decode()

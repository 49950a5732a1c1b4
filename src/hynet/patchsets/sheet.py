"""A patch set as a picture: one point per row, by scene, with its hard pairs marked."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from ..images import drawing
from ..types import Array, PatchSet

CELL, GAP, EDGE = 64, 8, 3  # pixels of a patch, between patches, and of a mark
NAME = 190  # pixels for the names of scenes


def sheet(
    patch_set: PatchSet, rows: int = 24, columns: int = 8, seed: int = 0, *, title: str = "", scenes: Sequence[str] = ()
) -> Array:
    """Draw random points with as many of their patches as fit, by scene: (H, W, 3) uint8.

    scenes: their names, by number. Patches of a hard pair, one that SIFT matching missed, have an amber frame.
    """
    points = np.unique(patch_set.points)
    order = np.argsort(patch_set.points, kind="stable")
    starts = np.searchsorted(patch_set.points[order], points)
    ends = np.searchsorted(patch_set.points[order], points, "right")
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(points), min(rows, len(points)), replace=False))
    scene_of = np.zeros(len(patch_set), np.int64) if patch_set.scenes is None else patch_set.scenes
    chosen = chosen[np.argsort(scene_of[order[starts[chosen]]], kind="stable")]
    hard = np.zeros(len(patch_set), bool)
    if patch_set.hard_pairs is not None:
        hard[patch_set.hard_pairs] = True

    left = NAME if scenes else GAP
    step = CELL + GAP
    picture = np.full((len(chosen) * step + GAP, left + columns * step, 3), drawing.GROUND, np.uint8)
    shown = None
    for line, point in enumerate(chosen):
        own = order[starts[point] : ends[point]]
        own = own[np.argsort(~hard[own], kind="stable")][:columns]  # the hard ones first, so that they are seen
        y, scene = GAP + line * step, int(scene_of[own[0]])
        if scenes and scene != shown:
            drawing.write(picture, scenes[scene] if scene < len(scenes) else f"scene {scene}", (GAP, y), NAME - 2 * GAP)
            shown = scene
        for column, row in enumerate(own):
            x = left + column * step
            if hard[row]:
                picture[y - EDGE : y + CELL + EDGE, x - EDGE : x + CELL + EDGE] = drawing.AMBER
            patch = cv2.resize(patch_set.patches[row], (CELL, CELL), interpolation=cv2.INTER_AREA)
            picture[y : y + CELL, x : x + CELL] = patch[:, :, None]
    share = f"{hard.mean():.0%} of the patches are in a hard pair" if patch_set.hard_pairs is not None else ""
    words: drawing.Words = [
        (f"{title or 'the set'}: {len(patch_set):,} patches of {len(points):,} points", drawing.INK)
    ]
    if share:
        words += [("; ", drawing.INK), (share, drawing.AMBER)]
    return drawing.captioned(picture, words)

"""Reconstruction of rendered photos whose cameras are known."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hynet import images
from hynet.datasets import synthetic
from hynet.patchsets import scenes as sfm
from hynet.sfm import colmap
from hynet.sfm.colmap import Camera

pytest.importorskip("pycolmap")


@given(k=st.floats(-0.15, 0.3), x=st.floats(0, 999), y=st.floats(0, 699))
def test_rays_undo_pixels_with_lens_distortion(k: float, x: float, y: float):
    camera = Camera("SIMPLE_RADIAL", (1000, 700), (1000.0, 500.0, 350.0, k))
    assert camera.pixels(camera.rays(np.array([[x, y]]))) == pytest.approx(np.array([[x, y]]), abs=1e-3)
    ray = camera.rays(np.array([[x, y]]))
    written_out = 1000 * ray * (1 + k * np.sum(ray**2)) + [499.5, 349.5]  # our pixels: the half is taken off
    assert written_out == pytest.approx(np.array([[x, y]]), abs=1e-3)


def test_too_few_photos_are_no_scene(tmp_path: Path):
    cv2.imwrite(str(tmp_path / "a.png"), synthetic.texture((200, 150), 0))
    (tmp_path / "b.png").write_bytes(b"not a picture")
    with pytest.raises(sfm.NotReconstructed, match="1 readable"):
        sfm.reconstruct_sift(images.list_photos(tmp_path), tmp_path / "work", max_keypoints=100)


def test_rendered_photos_give_their_cameras_back_and_a_second_run_reuses_the_first(tmp_path: Path):
    truth = synthetic.scene(seed=1, photos=5, size=(480, 360))
    for number, photo in enumerate(truth.photos):
        cv2.imwrite(str(tmp_path / f"{number}.png"), photo)
    photos = images.list_photos(tmp_path)
    scene = sfm.reconstruct_sift(photos, tmp_path / "work", max_keypoints=2000)
    assert len(scene.photos) == 5
    assert turn_error(scene, truth) < 0.5
    triangulated = scene.photos[0].points >= 0
    projected = project(scene.photos[0], scene.points[scene.photos[0].points[triangulated]])
    away = np.linalg.norm(projected - scene.photos[0].keypoints.xy[triangulated], axis=1)
    assert np.median(away) < 0.5  # the half pixel is taken off on both sides

    database = (tmp_path / "work" / "database.db").stat().st_size
    again = sfm.reconstruct_sift(photos, tmp_path / "work", max_keypoints=2000)
    assert np.array_equal(again.photos[0].keypoints.frames, scene.photos[0].keypoints.frames)
    assert (tmp_path / "work" / "database.db").stat().st_size == database


@pytest.fixture(scope="module")
def unmatched(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Path]:
    """Photos of one scene, and a work folder in which SIFT matching is done and has found nothing."""
    folder = tmp_path_factory.mktemp("unmatched")
    for number, photo in enumerate(synthetic.scene(seed=1, photos=4, size=(480, 360)).photos):
        cv2.imwrite(str(folder / f"{number}.png"), photo)
    photos, work = images.list_photos(folder), folder / "work"
    matched = sfm.match_by_sift(photos, work, max_keypoints=1200)
    with colmap.opened(matched.database) as store:
        nothing = colmap.pycolmap().TwoViewGeometry()
        for first, second in combinations(store.names, 2):
            with store.transaction():
                store.replace_pair(first, second, np.zeros((0, 2), np.int64), nothing)
    return photos, work


def test_photos_that_sift_does_not_join_are_joined_by_our_own_matches(unmatched):
    photos, work = unmatched
    with pytest.raises(sfm.NotReconstructed):
        sfm.reconstruct_sift(photos, work, max_keypoints=1200)
    scene = sfm.reconstruct_scene(photos, work, max_keypoints=1200)
    assert len(scene.photos) == 4
    assert scene.registered_by == "default"
    assert not any(len(rows) for rows in scene.matches.values())  # still what SIFT found: every pair is hard
    seen = scene.photos[0]
    triangulated = seen.points >= 0
    away = np.linalg.norm(
        project(seen, scene.points[seen.points[triangulated]]) - seen.keypoints.xy[triangulated], axis=1
    )
    assert triangulated.sum() > 100
    assert np.median(away) < 1  # the points belong to SIFT's own keypoints


def test_photos_that_sift_joins_are_left_to_it(tmp_path: Path):
    for number, photo in enumerate(synthetic.scene(seed=1, photos=3, size=(480, 360)).photos):
        cv2.imwrite(str(tmp_path / f"{number}.png"), photo)
    scene = sfm.reconstruct_scene(images.list_photos(tmp_path), tmp_path / "work", max_keypoints=1200)
    assert scene.registered_by == "sift"
    assert not (tmp_path / "work" / "features.h5").exists()


def project(photo: sfm.Photo, points: np.ndarray) -> np.ndarray:
    seen = points @ photo.cam_from_world[:, :3].T + photo.cam_from_world[:, 3]
    return photo.camera.pixels(seen[:, :2] / seen[:, 2:])


def turn_error(scene: sfm.Scene, truth: synthetic.SyntheticScene) -> float:
    """Largest error in degrees of the rotations between photos: those do not depend on the world chosen."""
    ours = [photo.cam_from_world[:, :3] for photo in scene.photos]
    theirs = truth.cam_from_world[:, :, :3]
    errors = [
        np.arccos(np.clip((np.trace((ours[k] @ ours[0].T).T @ (theirs[k] @ theirs[0].T)) - 1) / 2, -1, 1))
        for k in range(len(ours))
    ]
    return float(np.degrees(max(errors)))

"""Models as web pages."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest

from hynet import images
from hynet.cli import main
from hynet.pages import view
from hynet.sfm.colmap import Camera, Model, ModelPhoto
from hynet.sfm.colmap.reading import read_model

pycolmap = pytest.importorskip("pycolmap")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Six photos of 300 points, by pycolmap's own synthesis."""
    asked = pycolmap.SyntheticDatasetOptions()
    asked.num_rigs, asked.num_frames_per_rig, asked.num_points3D = 1, 6, 300
    pycolmap.set_random_seed(1)
    out = tmp_path_factory.mktemp("model")
    pycolmap.synthesize_dataset(asked).write(out)
    return out


@pytest.fixture
def model(folder) -> Model:
    return read_model(folder)


def payload(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="model">(.*?)</script>', page, re.DOTALL)
    assert found
    data = json.loads(found[1])
    for name, kind, shape in (("points", "<f4", (-1, 3)), ("colours", "u1", (-1, 3)), ("frusta", "<f4", (-1, 5, 3))):
        data[name] = np.frombuffer(base64.b64decode(data[name]), kind).reshape(shape)
    return data


def test_the_page_holds_the_model_turned_moved_and_scaled_only(model):
    data = payload(view.page(model, "six photos"))
    shown = np.concatenate([data["points"], data["frusta"][:, 0]])
    world = np.concatenate([model.xyz, [photo.centre for photo in model.photos]])
    between_shown, between = (np.linalg.norm(each[:-1] - each[1:], axis=1) for each in (shown, world))
    assert between_shown / between == pytest.approx(np.full(len(between), between_shown[0] / between[0]), rel=1e-3)
    signs = [np.linalg.det(np.diff(each[:4], axis=0)) for each in (shown, world)]
    assert signs[0] * signs[1] > 0  # not mirrored
    assert data["names"] == [photo.name for photo in model.photos]
    assert data["seen"] == [300] * 6


def test_cameras_look_at_what_they_see(model):
    data = payload(view.page(model, "six photos"))
    for photo, corners in zip(model.photos, data["frusta"], strict=True):
        centre, top_left, top_right, bottom_right, bottom_left = corners.astype(float)
        ahead = (top_left + bottom_right) / 2 - centre
        seen = data["points"][photo.points[photo.points >= 0]] - centre
        # Inside the pyramid: on the same side of its four faces as its middle.
        for a, b in (
            (top_left, top_right),
            (top_right, bottom_right),
            (bottom_right, bottom_left),
            (bottom_left, top_left),
        ):
            inward = np.cross(a - centre, b - centre)
            inward *= np.sign(inward @ ahead)
            assert (seen @ inward / np.linalg.norm(inward) > -0.05 * np.linalg.norm(seen, axis=1)).all()


@pytest.mark.parametrize("flight", ["around", "one way", "from above"])
def test_up_is_up_however_the_cameras_look(flight):
    """Level cameras in a world whose z is up, which is then turned anyhow."""
    random = np.random.default_rng(0)
    turned = np.linalg.qr(random.normal(size=(3, 3)))[0]
    turned *= np.linalg.det(turned)
    camera = Camera("SIMPLE_PINHOLE", (640, 480), (500.0, 320.0, 240.0))
    photos = []
    for k in range(8):
        heading = 0.02 * k if flight == "one way" else 2 * np.pi * k / 8
        pitch = np.pi / 2 if flight == "from above" else 0.2  # downwards
        right = np.array([np.sin(heading), -np.cos(heading), 0])
        ahead = np.array([np.cos(heading) * np.cos(pitch), np.sin(heading) * np.cos(pitch), -np.sin(pitch)])
        rotation = np.stack([right, np.cross(ahead, right), ahead]) @ turned.T
        cam_from_world = np.hstack([rotation, random.normal(size=(3, 1))])
        photos.append(ModelPhoto(f"{k}.jpg", camera, cam_from_world, np.zeros((0, 2)), np.zeros(0, int)))
    xyz = random.normal(size=(50, 3))
    model = Model(tuple(photos), xyz @ turned.T, np.ones((50, 3), np.uint8), np.ones(50, int), np.zeros(50))
    height = payload(view.page(model, ""))["points"][:, 2]
    # Cameras that all look one way, slightly down, cannot tell that from level ones: cos(0.2) is 0.98.
    assert np.corrcoef(height, xyz[:, 2])[0, 1] > 0.97


def test_large_models_are_thinned_to_a_stated_number(model):
    page = view.page(model, "six photos", most=50)
    assert "50 of 300 points" in page
    assert len(payload(page)["points"]) == 50
    assert page == view.page(model, "six photos", most=50)


def test_colours_are_the_models_or_by_height_where_it_has_none(model):
    grey = Model(model.photos, model.xyz, np.full((300, 3), 7, np.uint8), model.track_lengths, model.errors)
    assert (payload(view.page(grey, ""))["colours"] == 7).all()
    black = Model(model.photos, model.xyz, np.zeros((300, 3), np.uint8), model.track_lengths, model.errors)
    data = payload(view.page(black, ""))
    low, high = np.argmin(data["points"][:, 2]), np.argmax(data["points"][:, 2])
    assert data["colours"][low, 2] > data["colours"][low, 0]  # blue
    assert data["colours"][high, 0] > data["colours"][high, 2]  # orange


def test_one_photo_without_points_is_still_a_page(model):
    photo = model.photos[0]
    lonely = type(photo)(photo.name, photo.camera, photo.cam_from_world, photo.xy, np.full(len(photo.points), -1))
    data = payload(
        view.page(Model((lonely,), np.zeros((0, 3)), np.zeros((0, 3), np.uint8), np.zeros(0), np.zeros(0)), "")
    )
    assert len(data["points"]) == 0
    assert np.isfinite(data["frusta"]).all()
    assert np.isfinite([*data["depths"], data["yaw"], data["reach"]]).all()


def test_points_that_stand_alone_are_drawn_larger_than_dense_ones(model):
    random = np.random.default_rng(0)
    dense, loose = random.uniform(0, 0.01, (500, 3)), random.uniform(-1, 1, (100, 3))
    xyz = np.concatenate([dense, loose])
    crowd = Model(model.photos, xyz, np.ones((600, 3), np.uint8), np.ones(600, int), np.zeros(600))
    data = payload(view.page(crowd, ""))
    spacing = np.frombuffer(base64.b64decode(data["spacing"]), "u1")
    assert np.median(spacing[500:]) == 255
    assert np.median(spacing[:500]) < 100


def test_cameras_show_their_photos_where_these_can_be_read(model):
    photos = {photo.name: np.full((30, 40, 3), 20 * k, np.uint8) for k, photo in enumerate(model.photos)}
    photos[model.photos[2].name] = "absent.jpg"
    shown = payload(view.page(model, "", photos=photos))["thumbnails"]
    assert shown["cells"] == [0, 1, -1, 2, 3, 4]
    assert (shown["columns"], shown["rows"]) == (3, 2)
    atlas = images.read(base64.b64decode(shown["picture"].partition(",")[2]))
    assert atlas.shape == (2 * 96, 3 * 96)
    assert abs(int(atlas[96 + 48, 96 + 48]) - 100) < 4  # of the fifth cell, the sixth photo
    assert payload(view.page(model, "", photos={}))["thumbnails"] is None
    assert payload(view.page(model, ""))["thumbnails"] is None


def test_names_from_outside_cannot_become_code(model):
    photo = model.photos[0]
    bad = "</script><script>alert(1)</script>"
    named = type(photo)(bad, photo.camera, photo.cam_from_world, photo.xy, photo.points)
    page = view.page(Model((named,), model.xyz, model.colours, model.track_lengths, model.errors), bad)
    assert "<script>alert" not in page
    assert payload(page)["names"] == [bad]


def test_the_command_writes_a_page_that_needs_no_network(folder, tmp_path, capsys):
    out = tmp_path / "view.html"
    assert main(["view", str(folder), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"photos": 6, "points": 300, "page": str(out)}
    assert not re.search(r'https?:|(src|href)\s*=\s*"|@import|url\(|fetch\(', out.read_text())


@pytest.mark.parametrize("wrong", ["nowhere", "empty", "cut", "number"])
def test_what_cannot_be_shown_is_told_in_one_sentence(wrong, folder, tmp_path, capsys):
    place, more = tmp_path / wrong, []
    if wrong == "empty":
        place.mkdir()
    elif wrong == "cut":
        place.mkdir()
        for file in folder.iterdir():
            (place / file.name).write_bytes(file.read_bytes()[:100])
    elif wrong == "number":
        place, more = folder, ["--max-points", "0"]
    assert main(["view", str(place), "--out", str(tmp_path / "view.html"), *more]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "view.html").exists()


def test_rerun_is_asked_for_only_when_wanted(folder, tmp_path, capsys):
    out = tmp_path / "view.rrd"
    try:
        import rerun  # noqa: F401
    except ImportError:
        assert main(["view", str(folder), "--rerun", "--out", str(out)]) == 2
        assert "hynet-features[view]" in capsys.readouterr().err
        assert not out.exists()
    else:
        assert main(["view", str(folder), "--rerun", "--out", str(out)]) == 0
        assert out.read_bytes()[:3] == b"RRF"

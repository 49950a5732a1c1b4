"""A known focal length makes poses better; a wrong one, or a guess, does not make them worse."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import ExifTags, Image

from hynet import images
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadInput
from hynet.features.extractors.patchwise import Extractor
from hynet.features.folder import extract_all
from hynet.features.hloc_file import read_h5
from hynet.features.settings import FeatureSettings
from hynet.geometry import two_views
from hynet.geometry.two_views import Pose, pose_error
from hynet.matching.nearest import match
from hynet.matching.settings import MatchSettings
from hynet.matching.verification import verify
from hynet.types import Features, Keypoints, Matches

SIZE = (480, 360)


def written(path: Path, pixels: np.ndarray | tuple[int, int], **tags: float) -> Path:
    """A photo with these tags of EXIF, by their names."""
    photo = Image.fromarray(pixels) if isinstance(pixels, np.ndarray) else Image.new("L", pixels, 90)
    exif = Image.Exif()
    exif[ExifTags.IFD.Exif] = {ExifTags.Base[name].value: value for name, value in tags.items()}
    read = Image.Exif()  # Pillow writes TIFF from what it has read only
    read.load(exif.tobytes())
    photo.save(path, exif=read)
    return path


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
def test_the_35_mm_field_is_read(tmp_path, suffix):
    photo = written(tmp_path / f"a{suffix}", (600, 400), FocalLengthIn35mmFilm=36)
    assert images.focal(photo) == pytest.approx(600, rel=1e-3)  # 36 mm of film are 36 mm wide


@pytest.mark.parametrize(("unit", "density"), [(2, 2540.0), (3, 1000.0), (4, 100.0)])  # inch, cm, mm: 100 pixels a mm
def test_the_focal_length_is_read_by_the_density_of_the_sensor(tmp_path, unit, density):
    tags = {"FocalLength": 8.0, "FocalPlaneXResolution": density, "FocalPlaneResolutionUnit": unit}
    assert images.focal(written(tmp_path / "a.jpg", (600, 400), **tags)) == pytest.approx(800)
    resized = written(tmp_path / "b.jpg", (600, 400), **tags, ExifImageWidth=1200, ExifImageHeight=800)
    assert images.focal(resized) == pytest.approx(400)


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {"FocalLength": 8.0},  # of a sensor of unknown size
        {"FocalLengthIn35mmFilm": 0},
        {"FocalLengthIn35mmFilm": 60_000},
        {"FocalLengthIn35mmFilm": 36, "ExifImageWidth": 600, "ExifImageHeight": 600},  # cropped
    ],
)
def test_what_cannot_be_known_is_not_guessed(tmp_path, tags):
    assert images.focal(written(tmp_path / "a.jpg", (600, 400), **tags)) is None


@pytest.fixture(scope="module")
def views() -> tuple[synthetic.Scene, list[Features]]:
    scene = synthetic.scene(seed=1, photos=3, size=SIZE)
    extract = Extractor(model="rootsift", max_keypoints=1000)
    return scene, [extract(photo) for photo in scene.photos[:2]]


def fitted(views: tuple[synthetic.Scene, list[Features]], focals: tuple[float | None, float | None]):
    scene, features = views
    a, b = (replace(each, focal=focal) for each, focal in zip(features, focals, strict=True))
    fit = verify(a, b, match(a, b, 0.8))
    first, second = (Pose(each[:, :3], each[:, 3]) for each in scene.cam_from_world[:2])
    rotation = second.rotation @ first.rotation.T
    truth = Pose(rotation, second.translation - rotation @ first.translation)
    assert fit.pose is not None
    return fit, pose_error(fit.pose, truth)


@pytest.mark.parametrize("given", [(500.0, 600.0), [500.0, 600.0]])
def test_focal_lengths_may_be_given_as_any_sequence_of_two(given):
    assert MatchSettings().replace(focal=given).focal_of_each() == (500, 600)
    assert MatchSettings().replace(focal=[500.0]).focal_of_each() == (500, 500)
    assert MatchSettings().replace(focal=500.0).focal_of_each() == (500, 500)
    with pytest.raises(BadInput, match="or one of each"):
        MatchSettings().replace(focal=[500.0, 600.0, 700.0]).focal_of_each()


def test_known_focal_lengths_give_the_essential_matrix_and_the_pose(views):
    f = float(views[0].K[0, 0])
    fit, error = fitted(views, (f, f))
    assert (fit.name, fit.why) == ("essential", "both focal lengths are known")
    assert error < 1


def test_wrong_focal_lengths_are_noticed_and_not_used(views):
    f = 0.5 * float(views[0].K[0, 0])
    fit, error = fitted(views, (f, f))
    assert fit.name != "essential"
    assert "look wrong" in fit.why
    assert error < 1


@pytest.mark.parametrize(
    ("known", "told"), [((None, None), "the focal lengths are not known"), ((500.0, None), "the second photo")]
)
def test_one_unknown_focal_length_is_found_from_two_photos_of_one_size(views, known, told):
    fit, error = fitted(views, known)
    assert fit.name == "shared-focal"
    assert told in fit.why
    assert error < 1


def test_few_matches_do_not_speak_against_the_true_cameras():
    """A fundamental matrix fits thirty matches a little better than any camera does, by chance."""
    K = two_views.camera(900, (800, 600))
    for seed in range(40):
        random = np.random.default_rng(seed)
        points = random.uniform((-3, -2, 5), (3, 2, 12), (30, 3))
        turned = points @ cv2.Rodrigues(random.normal(0, 0.12, 3))[0].T + random.normal(0, 0.6, 3)
        features = []
        for seen in (points, turned):
            xy = two_views.transfer(K, seen[:, :2] / seen[:, 2:]) + random.normal(0, 0.5, (30, 2))
            keypoints = Keypoints.from_circles(xy, np.full(30, 2.0), np.zeros(30), np.ones(30))
            features.append(Features(keypoints, np.zeros((30, 1), np.float32), (800, 600), focal=900.0))
        matches = Matches(np.column_stack([np.arange(30)] * 2), np.zeros(30, np.float32))
        assert verify(*features, matches).name == "essential", seed


def test_photos_of_two_sizes_without_focal_lengths_give_the_fundamental_matrix(views):
    a, b = views[1]
    b = replace(b, image_size=(SIZE[0], SIZE[1] + 40))
    matches = match(a, b, 0.8)
    fit = verify(a, b, matches)
    assert fit.name == "fundamental"
    assert fit.model == pytest.approx(verify(a, b, matches, "fundamental").model)
    with pytest.raises(BadInput, match="one size"):
        verify(a, b, matches, "shared-focal")


def test_a_guess_of_the_focal_length_is_made_only_when_asked_for_by_name(views):
    a, b = (replace(each, focal=None) for each in views[1])
    assert verify(a, b, match(a, b, 0.8), "essential").name == "essential"


def test_nothing_matched_is_an_answer(views):
    a, b = views[1]
    matches = match(a, b, 0.8)
    assert len(verify(a, b, matches[:0])) == len(verify(a, b, matches[:5])) == 0


def test_a_features_file_keeps_the_focal_length(tmp_path):
    photo = synthetic.photo_pair(3, (320, 240))[0]
    written(tmp_path / "a.png", photo, FocalLengthIn35mmFilm=50)
    written(tmp_path / "b.png", photo)
    extract_all([tmp_path / "a.png", tmp_path / "b.png"], tmp_path / "f.h5", FeatureSettings(model="rootsift"))
    assert read_h5(tmp_path / "f.h5", "a.png").focal == images.focal(tmp_path / "a.png") > 400
    assert read_h5(tmp_path / "f.h5", "b.png").focal is None


def test_match_says_which_geometry_and_why(tmp_path, capsys):
    scene = synthetic.scene(seed=1, photos=3, size=SIZE)
    focal = float(scene.K[0, 0])
    millimetres = focal * 43.2666 / np.hypot(*SIZE)  # EXIF keeps whole ones
    names = []
    for name, photo in zip("ab", scene.photos, strict=False):
        names.append(str(written(tmp_path / f"{name}.png", photo, FocalLengthIn35mmFilm=round(millimetres))))
    common = ["match", *names, "--model", "rootsift", "--out", str(tmp_path / "m.png")]
    assert main(common) == 0
    assert "Geometry: essential, since both focal lengths are known." in capsys.readouterr().out
    assert main([*common, "--focal", str(focal / 2), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["geometry"] == "shared-focal"
    assert told["why"].startswith("the known focal lengths look wrong")
    assert np.linalg.norm(told["pose"]["translation"]) == pytest.approx(1, rel=1e-4)
    assert told["focal"] == pytest.approx(focal, rel=0.1)
    assert main([*common, "--focal", "0"]) == 2
    assert "pixels above 0" in capsys.readouterr().err

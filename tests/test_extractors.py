"""Whatever turns a photo into features, wherever that is done: by name, by weights, from a file, from a package."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

import hynet
from hynet import images
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadData, BadInput, BadWeights, UnknownName
from hynet.features import calibrated, hloc_file
from hynet.features.calibrated import Calibration
from hynet.features.extractors import EXTRACTORS, find_extractor, open_extractor
from hynet.features.extractors.patchwise import extract_with_mask
from hynet.features.folder import extract_all
from hynet.features.models import shipped
from hynet.features.settings import FeatureSettings
from hynet.geometry import two_views
from hynet.matching import MATCHERS, open_matcher
from hynet.runtime.parts import FilePart
from test_plugins import install, outside  # noqa: F401

SIZE = (320, 240)


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Two photos of a plane, and the homography between them."""
    folder = tmp_path_factory.mktemp("photos")
    first, second, second_from_first = synthetic.photo_pair(3, SIZE)
    cv2.imwrite(str(folder / "a.png"), first)
    cv2.imwrite(str(folder / "b.png"), second)
    np.savetxt(folder / "H.txt", second_from_first)
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory, photos) -> dict[str, Path]:
    """What each extractor and matcher that needs a file is made from: networks of their layout, drawn by chance."""
    torch = pytest.importorskip("torch")
    kornia = pytest.importorskip("kornia.feature")
    from hynet.features.extractors import r2d2

    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    torch.save(r2d2.R2D2Network().state_dict(), folder / "r2d2.pt")
    state = kornia.ALIKED("aliked-t16").state_dict()
    torch.save({key: value for key, value in state.items() if not key.startswith("dkd")}, folder / "aliked.pth")
    write_xfeat(folder / "xfeat.onnx")
    write_lighterglue(folder / "lighterglue.onnx")
    settings = FeatureSettings(model="rootsift", max_keypoints=300, orientation="gradient", spread=False)
    extract_all(photos, folder / "features.h5", settings)
    return {
        "r2d2": folder / "r2d2.pt",
        "aliked": folder / "aliked.pth",
        "xfeat": folder / "xfeat.onnx",
        "lighterglue": folder / "lighterglue.onnx",
        "features-file": folder / "features.h5",
    }


def write_xfeat(path: Path) -> None:
    """One convolution to each of XFeat's three maps."""
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 18]>
        xfeat (float[1, 3, H, W] input)
            => (float[1, 64, h, w] descriptors, float[1, 65, h, w] keypoint_logits, float[1, 1, h, w] reliability) {
            descriptors = Conv <strides = [8, 8]> (input, describe)
            keypoint_logits = Conv <strides = [8, 8]> (input, detect)
            seen = Conv <strides = [8, 8]> (input, rely)
            reliability = Sigmoid (seen)
        }"""
    )
    rng = np.random.default_rng(0)
    for name, channels, gain in (("describe", 64, 1), ("detect", 65, 2), ("rely", 1, 1)):
        kernel = rng.normal(0, gain, (channels, 3, 8, 8)).astype(np.float32)
        model.graph.initializer.append(
            onnx.numpy_helper.from_array(kernel - kernel.mean((1, 2, 3), keepdims=True), name)
        )
    onnx.save(model, path)


def write_lighterglue(path: Path, said: str = "") -> None:
    """LighterGlue's inputs and outputs; every feature goes with the most similar one, as sure as they are similar."""
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 18]>
        glue (float[1, N, 2] kpts0, float[1, M, 2] kpts1, float[1, N, 64] desc0, float[1, M, 64] desc1)
            => (int64[K, 2] matches, float[K] scores) {
            zero = Constant <value_int = 0> ()
            one = Constant <value_int = 1> ()
            first = Constant <value_ints = [0]> ()
            columns = Transpose <perm = [0, 2, 1]> (desc1)
            alike = MatMul (desc0, columns)
            there = ArgMax <axis = 2, keepdims = 0> (alike)
            count = Shape <start = 1, end = 2> (desc0)
            many = Squeeze (count)
            here = Range (zero, many, one)
            rows = Unsqueeze (here, first)
            both = Concat <axis = 0> (rows, there)
            matches = Transpose <perm = [1, 0]> (both)
            axis = Constant <value_ints = [2]> ()
            top = ReduceMax <keepdims = 0> (alike, axis)
            scores = Squeeze (top, first)
        }"""
    )
    model.doc_string = said
    onnx.save(model, path)


def named(name: str, files: dict[str, Path]) -> str:
    return str(files.get(name, name))


# --- every row of the table ---


@pytest.mark.parametrize("name", EXTRACTORS)
def test_every_extractor_gives_unit_vectors_in_pixels_of_the_photo_within_its_budget(name, files, photos):
    found = open_extractor(named(name, files), max_keypoints=40)(photos / "a.png")
    assert len(found) <= 40
    assert found.image_size == SIZE
    if name != "r2d2":  # whose thresholds a network made by chance does not pass
        assert len(found) > 20
    assert (found.keypoints.xy >= 0).all()
    assert (found.keypoints.xy <= SIZE).all()
    np.testing.assert_allclose(np.linalg.norm(found.descriptors, axis=1), 1, atol=1e-4)
    assert found.descriptors.dtype == np.float32


@pytest.mark.parametrize("name", [name for name, row in EXTRACTORS.items() if row.needs_file])
def test_a_name_that_needs_a_file_says_so(name):
    with pytest.raises(BadInput, match=f"{name} needs a file"):
        open_extractor(name)


def test_what_nobody_recognises_gets_one_sentence(tmp_path):
    (tmp_path / "notes.txt").write_text("no weights")
    with pytest.raises(
        BadWeights, match=r"no extractor recognises .*default.onnx; .*r2d2, aliked, xfeat or features-file"
    ):
        open_extractor(shipped("descriptor")["default"])
    with pytest.raises(BadWeights, match=r"no extractor recognises .*notes\.txt"):
        open_extractor(tmp_path / "notes.txt")
    with pytest.raises(UnknownName, match="no extractor 'sifd'; choose patchwise, opencv-sift or opencv-rootsift"):
        open_extractor("sifd")
    with pytest.raises(BadInput, match="at least 1"):
        open_extractor("opencv-sift", max_keypoints=0)


def test_xfeat_needs_no_torch(files):
    assert find_extractor(files["xfeat"]) is not None
    code = (
        "import sys; from hynet.features.extractors import open_extractor\n"
        f"open_extractor({str(files['xfeat'])!r}); print('torch' in sys.modules)"
    )
    from test_package import python

    assert python(code) == "False"


# --- wherever a photo is turned into features ---


@pytest.fixture
def matched(tmp_path, photos, capsys):
    def run(*options: str | Path) -> dict:
        args = ["match", photos / "a.png", photos / "b.png", "--out", tmp_path / "m.png", "--json", *options]
        assert main([str(arg) for arg in args]) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.mark.parametrize("name", ["opencv-rootsift", "aliked", "xfeat"])
def test_match_takes_an_extractor(name, files, matched):
    found = matched("--extractor", named(name, files), "--geometry", "none", "--max-keypoints", "60")
    assert 20 < max(found["keypoints"]) <= 60
    assert {"read", "load", "extract", "match", "verify"} <= found["seconds"].keys()
    assert len(found["points"]) == found["matches"]


def test_opencvs_sift_finds_the_homography(matched, photos):
    found = matched("--extractor", "opencv-sift", "--geometry", "homography")
    points = np.array(found["points"])
    errors = two_views.transfer_error(np.loadtxt(photos / "H.txt"), points[:, :2], points[:, 2:])
    assert np.median(errors) < 1


def test_features_of_a_file_match_as_those_they_were_made_from(files, matched):
    options = ("--geometry", "homography", "--max-keypoints", "300")
    stored = matched("--extractor", files["features-file"], *options)
    anew = matched("--model", "rootsift", "--orientation", "gradient", "--shape", "none", *options)
    assert stored["keypoints"] == anew["keypoints"]
    # A file has angles and sizes in place of frames: places that were refined in them differ in the last digit.
    np.testing.assert_allclose(sorted(stored["points"]), sorted(anew["points"]), atol=0.005)


def test_extract_takes_an_extractor(files, photos, tmp_path, capsys):
    out = tmp_path / "f.h5"
    assert main(f"extract {photos} --out {out} --extractor {files['xfeat']} --jobs 2 --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["new"] == 2
    itself = open_extractor(files["xfeat"])(photos / "a.png")
    np.testing.assert_array_equal(hloc_file.read_h5(out, "a.png").descriptors, itself.descriptors)
    assert main(f"extract {photos} --out {out} --extractor opencv-sift".split()) == 2
    assert "now opencv-sift" in capsys.readouterr().err


def test_other_weights_under_the_same_name_are_noticed(files, photos, tmp_path):
    torch = pytest.importorskip("torch")
    weights = tmp_path / "net.pth"
    state = torch.load(files["aliked"])
    torch.save(state, weights)
    settings = FeatureSettings(extractor=str(weights), max_keypoints=20)
    extract_all(photos, tmp_path / "f.h5", settings)
    torch.save({key: value * 1.01 for key, value in state.items()}, weights)
    with pytest.raises(BadInput, match=r"other settings .*weights was"):
        extract_all(photos, tmp_path / "f.h5", settings)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--detector keynet", "detector"),
        ("--model sift --orientation upright", "model, orientation"),
        ("--shape baumberg --spread", "shape"),
    ],
)
def test_what_an_extractor_would_pass_over_is_refused(option, told, photos, capsys):
    assert main(f"match {photos}/a.png {photos}/b.png --extractor opencv-sift {option}".split()) == 2
    assert f"opencv-sift finds and describes keypoints by itself; leave out {told}" in capsys.readouterr().err


def test_a_mask_holds_for_every_extractor(photos):
    mask = np.zeros(SIZE[::-1], np.uint8)
    mask[:, :160] = 255
    extract = open_extractor("opencv-sift")
    whole, half = extract(photos / "a.png"), extract_with_mask(extract, photos / "a.png", mask)
    assert 0 < len(half) == (np.rint(whole.keypoints.xy[:, 0]) < 160).sum() < len(whole)
    with pytest.raises(BadInput, match="30 x 20 pixels and its photo 320 x 240"):
        extract_with_mask(extract, photos / "a.png", mask[:20, :30])


# --- features files ---


def test_a_photo_is_looked_up_by_as_much_of_its_path_as_the_file_names(tmp_path, photos):
    import h5py

    first, second = (open_extractor("opencv-sift", count)(photos / "a.png") for count in (5, 9))
    with h5py.File(tmp_path / "f.h5", "w") as file:
        hloc_file.write_group(file, "day/a.png", first)
        hloc_file.write_group(file, "a.png", second)
    stored = open_extractor(tmp_path / "f.h5")
    for folder, count in (("day", 5), ("night", 9)):
        (tmp_path / folder).mkdir()
        assert len(stored(tmp_path / folder / "a.png")) == count
    with pytest.raises(BadData, match=r"holds no features of c\.png"):
        stored("c.png")
    with pytest.raises(BadInput, match="not its pixels"):
        stored(images.read(photos / "a.png"))


# --- the calibrated threshold travels with the features ---


def test_the_calibrated_threshold_travels_with_the_features(photos, tmp_path):
    place = calibrated.places("sift")[0]
    calibrated.save(Calibration(None, 0.85, {"homography": 0.3}), place, "dog")
    try:
        extract = hynet.Extractor(model="sift", max_keypoints=300)
        a, b = extract(photos / "a.png"), extract(photos / "b.png")
        extract_all(photos, tmp_path / "f.h5", FeatureSettings(model="sift", max_keypoints=300))
    finally:
        place.unlink()
    assert dict(a.thresholds) == {"homography": 0.3}
    matches = hynet.match(a, b)
    strict = hynet.verify(a, b, matches, "homography")
    assert len(strict.matches) == len(hynet.verify(a, b, matches, "homography", threshold=0.3).matches)
    assert len(strict.matches) < len(hynet.verify(a, b, matches, "homography", threshold=3).matches)
    stored = hloc_file.read_h5(tmp_path / "f.h5", "a.png")
    assert (dict(stored.thresholds), stored.ratio) == ({"homography": 0.3}, 0.85)


# --- matchers ---


@pytest.mark.parametrize("name", MATCHERS)
def test_every_matcher_matches_a_photo_with_itself(name, files, photos):
    features = open_extractor(files["xfeat"], max_keypoints=50)(photos / "a.png")
    if name == "hamming":  # for bits
        features = replace(features, descriptors=np.where(features.descriptors > 0, 0.125, -0.125).astype(np.float32))
    matches = open_matcher(named(name, files))(features, features)
    assert len(matches) > 0.9 * len(features)
    np.testing.assert_array_equal(matches.indices[:, 0], matches.indices[:, 1])
    none = open_matcher(named(name, files))(features, features[:0])
    assert len(none) == 0


def test_lighterglue_is_for_xfeat(files, photos, capsys):
    pair = f"{photos}/a.png {photos}/b.png --matcher {files['lighterglue']}"
    assert main(f"match {pair} --model rootsift".split()) == 2
    assert "XFeat" in capsys.readouterr().err
    assert main(f"match {pair} --ratio 0.8".split()) == 2
    assert "lighterglue.onnx does not take ratio" in capsys.readouterr().err
    assert main(f"match {photos}/a.png {photos}/b.png --matcher {files['xfeat']}".split()) == 2
    assert "no matcher recognises" in capsys.readouterr().err


def test_matches_made_with_other_weights_of_the_matcher_are_not_gone_on_with(files, photos, tmp_path, capsys):
    glue = tmp_path / "glue.onnx"
    write_lighterglue(glue)
    command = f"match {photos} --extractor {files['xfeat']} --matcher {glue} --out {tmp_path}/m.h5".split()
    assert main(command) == 0
    assert main(command) == 0
    assert ", 0 of them new" in capsys.readouterr().out
    write_lighterglue(glue, said="trained longer")
    assert main(command) == 2
    assert "other settings (matcher-weights was" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0


# --- in Python ---


def test_match_photos_does_what_the_command_does(photos, matched, tmp_path):
    told = matched("--model", "rootsift", "--geometry", "homography")
    found = hynet.match_photos(photos / "a.png", str(photos / "b.png"), model="rootsift", geometry="homography")
    assert [len(each) for each in found.features] == told["keypoints"]
    assert (len(found.matches), len(found.inliers)) == (told["matches"], told["inliers"])
    assert found.geometry.name == "homography"
    np.testing.assert_allclose(found.geometry.model, told["model"])
    assert found.seconds.keys() == told["seconds"].keys() - {"draw"}
    picture = found.draw()
    assert (picture.dtype, picture.shape[2]) == (np.uint8, 3)
    found.save(tmp_path / "python.png")
    np.testing.assert_array_equal(images.read_colour(tmp_path / "python.png"), picture)
    np.testing.assert_array_equal(images.read_colour(tmp_path / "m.png"), picture)
    assert cv2.imdecode(np.frombuffer(found._repr_png_(), np.uint8), cv2.IMREAD_COLOR).shape == picture.shape
    assert repr(found) == f"<{told['matches']} matches, {told['inliers']} inliers>"


def test_for_a_homography_the_strongest_keypoints_are_taken_wherever_they_are(photos):
    def first_of(**how):
        found = hynet.match_photos(photos / "a.png", photos / "b.png", model="rootsift", max_keypoints=100, **how)
        return found.features[0].keypoints.xy

    strongest = first_of(geometry="fundamental", spread=False)
    np.testing.assert_array_equal(first_of(geometry="homography"), strongest)
    spread = first_of(geometry="fundamental")
    np.testing.assert_array_equal(first_of(geometry="homography", spread=True), spread)
    assert not np.array_equal(spread, strongest)


def test_match_photos_takes_objects_and_arrays(photos):
    first, second = images.read(photos / "a.png"), images.read(photos / "b.png")
    mine = hynet.Extractor(model="rootsift", max_keypoints=200, orientation="gradient")
    found = hynet.match_photos(first, second, extractor=mine, matcher=lambda a, b: hynet.match(a, b, 0.7))
    assert len(found.matches) == len(hynet.match(mine(first), mine(second), 0.7))
    for show in ("keypoints", "patches"):
        assert found.draw(show).std() > 5
    with pytest.raises(BadInput, match="leave out detector"):
        hynet.match_photos(first, second, extractor=mine, detector="keynet")
    with pytest.raises(BadInput, match="has its own max_keypoints; leave max_keypoints out"):
        hynet.match_photos(first, second, extractor=mine, max_keypoints=50)
    with pytest.raises(
        BadInput, match="no geometry 'affine'; choose auto, fundamental, homography, essential, shared-focal or none"
    ):
        hynet.match_photos(first, second, geometry="affine")


# --- from outside ---


def test_an_installed_package_adds_an_extractor_that_recognises_its_file(outside, monkeypatch, photos):  # noqa: F811
    install(
        outside,
        "corners",
        "import hynet\n"
        "class Corners:\n"
        "    'Corners of a package.'\n"
        "    ratio = None\n"
        "    def __init__(self, max_keypoints):\n"
        "        self.found = hynet.Extractor(model='sift', max_keypoints=max_keypoints)\n"
        "    def __call__(self, photo):\n"
        "        return self.found(photo)\n"
        "    @classmethod\n"
        "    def from_file(cls, path, max_keypoints):\n"
        "        return cls(max_keypoints) if path.read_bytes().startswith(b'corners') else None\n",
        "[hynet.extractors]\ncorners = corners:Corners\nbroken = corners:Nothing",
    )
    from hynet.features import extractors
    from hynet.runtime.plugins import with_plugins

    monkeypatch.setattr(extractors, "EXTRACTORS", with_plugins("extractors", EXTRACTORS, FilePart))
    (outside / "mine.bin").write_bytes(b"corners 1.0")
    for name in ("corners", outside / "mine.bin"):
        found = hynet.match_photos(photos / "a.png", photos / "b.png", extractor=name, max_keypoints=50)
        assert len(found.features[0]) == 50
    with pytest.raises(hynet.HynetError, match="corners:Nothing of the package corners cannot be imported"):
        open_extractor("broken")

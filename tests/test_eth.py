"""The ETH benchmark on rendered scenes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from hynet.benchmarks import BENCHMARKS
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadData, DataNotFound
from hynet.evaluation import papers
from hynet.evaluation.contestants import SANITY, Contestant
from hynet.evaluation.eth import evaluate as eth
from hynet.evaluation.eth import published
from hynet.features.descriptors.loading import load
from hynet.features.detectors.dog import DoG
from hynet.features.hloc_file import FeaturesFile
from hynet.runtime import cache
from hynet.sfm import colmap
from hynet.sfm.colmap.reading import read_model

pytest.importorskip("pycolmap")


@pytest.fixture(scope="module")
def strecha(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_strecha(tmp_path_factory.mktemp("data") / "fountain-made")


def write_strecha(root: Path) -> Path:
    """A rendered scene in Strecha's layout, the cameras for photos of twice the size."""
    truth = synthetic.scene(seed=1, photos=4, size=(320, 240))
    for folder in ("images", "cameras"):
        (root / folder).mkdir(parents=True)
    K = np.diag([2, 2, 1]) @ truth.K + [[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]]
    for k, pose in enumerate(truth.cam_from_world):
        cv2.imwrite(str(root / "images" / f"{k}.png"), truth.photos[k])
        R, centre = pose[:, :3], -pose[:, :3].T @ pose[:, 3]
        lines = [*K, np.zeros(3), *R.T, centre, (640, 480)]
        text = "\n".join(" ".join(map(str, line)) for line in lines)
        (root / "cameras" / f"{k}.png.camera").write_text(text)
    return root


def test_orientation_and_shape_of_the_keypoints_can_be_chosen(strecha: Path, capsys):
    asked = f"evaluate eth --model rootsift --data {strecha} --protocol ours --orientation upright --shape nowhere"
    assert main(asked.split()) == 2
    assert "no shape 'nowhere'; choose none, baumberg or affine-network" in capsys.readouterr().err


def test_a_rendered_scene_is_registered_whole_in_both_readings_and_noise_is_not(
    strecha: Path, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    args = [
        "evaluate",
        "eth",
        "--model",
        "rootsift",
        "--data",
        str(strecha),
        "--max-keypoints",
        "700",
        "--protocol",
        "ours",
    ]
    assert main([*args, "--out", str(tmp_path / "results"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"registered", "points", "track_length", "reprojection_error"} <= set(told["columns"])
    ours, other, noise = (told["rows"][name] for name in ("rootsift", "rootsift, mutual only", "random"))
    assert ours["registered"] == other["registered"] == 4
    assert other["inlier_matches"] > ours["inlier_matches"]
    assert ours["observations"] == pytest.approx(ours["track_length"] * ours["points"])
    assert ours["rotation_error"] < 0.1
    assert ours["position_error"] < 1
    low, high = told["intervals"]["rootsift"]["rotation_error"]
    assert low <= ours["rotation_error"] <= high
    assert noise["registered"] == 0
    assert noise["rotation_error"] is None
    shown = (tmp_path / "results" / "eth.md").read_text()
    assert "DoG+HyNet (paper)" not in shown  # not its photos
    assert "DoG+HyNet 11, 16,500" in shown
    assert "protocol ours" in shown
    assert "need a pycolmap built with CUDA" in shown

    assert main([*args, "--json"]) == 0  # from what is on disk
    assert json.loads(capsys.readouterr().out) == told


def test_a_model_that_only_has_a_name_is_described_again_in_each_run(strecha: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def registered(kind: str) -> float | None:
        mine = Contestant("mine", load(kind) if kind != "constant" else SANITY["constant"]())
        return BENCHMARKS["eth"]([mine], strecha, max_keypoints=300).rows["mine"]["registered"]

    assert registered("constant") == 0
    assert registered("rootsift") == 4


def test_scenes_are_found_with_and_without_cameras(strecha: Path, tmp_path: Path):
    (scene,) = eth.find_scenes(strecha)
    assert (scene.name, len(scene.truth)) == ("fountain-made", 4)
    for name in ("a", "b"):
        (tmp_path / name / "images").mkdir(parents=True)
        cv2.imwrite(str(tmp_path / name / "images" / "0.png"), synthetic.texture((64, 48), 0))
    (tmp_path / "empty").mkdir()
    assert [scene.name for scene in eth.find_scenes(tmp_path)] == ["a", "b"]
    (own,) = eth.find_scenes(tmp_path / "a")
    assert own.folder == tmp_path / "a" / "images"
    with pytest.raises(DataNotFound, match="no photos"):
        eth.find_scenes(tmp_path / "empty")


def test_the_paper_is_beside_its_own_scenes_only():
    one = papers.eth(["fountain-P11"])
    assert one is not None
    assert one.rows["DoG+HyNet"]["points"] == 16_500
    both = papers.eth(["fountain-P11", "Herz-Jesus-P8"])
    assert both is not None
    assert "Herz-Jesus-P8: SIFT (11.3K)" in both.rows
    assert papers.eth(["garden"]) is None
    assert papers.is_eth({"Strecha-Fountain": (11, 3072), "Madrid_Metropolis": (1344, 1600)})
    assert not papers.is_eth({"fountain-P11": (11, 1536)})  # half size
    assert not papers.is_eth({"Madrid_Metropolis": (900, 1600)})
    assert not papers.is_eth({"garden": (11, 3072)})


# --- the benchmark's own pipeline ---


def write_keypoints(path: Path, rows: np.ndarray) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(np.array(rows.shape, "<i4").tobytes() + rows.astype("<f4").tobytes())


def test_keypoints_of_the_benchmark_are_read_with_its_half_pixel(tmp_path: Path):
    write_keypoints(tmp_path / "k" / "0.png.bin", np.array([[10.5, 20.5, 2.0, 0.5], [0.5, 0.5, 1.0, 0.0]]))
    found = published.read_keypoints(tmp_path / "k" / "0.png.bin")
    np.testing.assert_allclose(found.xy, [[10, 20], [0, 0]])
    np.testing.assert_allclose(found.sigma, [2, 1])
    np.testing.assert_allclose(found.angle, [0.5, 0], atol=1e-6)
    (tmp_path / "k" / "0.png.bin").write_bytes(b"\x02\0\0\0\x04\0\0\0half")
    with pytest.raises(BadData, match="not a keypoints file"):
        published.read_keypoints(tmp_path / "k" / "0.png.bin")


@pytest.fixture
def release(strecha: Path, tmp_path: Path) -> Path:
    """A scene as the benchmark hands it out: photos, keypoints, pairs and the cameras, without their truth."""
    root = tmp_path / "release" / "Fountain"
    shutil.copytree(strecha / "images", root / "images")
    with colmap.opened(root / "database.db") as store:
        camera = store.add_camera(colmap.Camera("SIMPLE_RADIAL", (320, 240), (352.0, 160.0, 120.0, 0.0), True))
        for photo in sorted((root / "images").iterdir()):
            found = DoG(max_keypoints=600, upright=False)(cv2.imread(str(photo), cv2.IMREAD_GRAYSCALE))
            write_keypoints(
                root / "keypoints" / f"{photo.name}.bin", np.column_stack([found.xy + 0.5, found.sigma, found.angle])
            )
            store.add_photo(photo.name, camera, found.frames[:0])
    (root / "image-pairs.txt").write_text("0.png 1.png\n1.png 2.png\n2.png 3.png\n0.png 2.png\n1.png 3.png\n")
    return root


@pytest.fixture
def models(tmp_path, monkeypatch) -> Path:
    """The folder that models are kept in, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache.folder().parent / "eth"


def test_the_published_protocol_takes_keypoints_pairs_and_cameras_of_the_scene(release: Path, models: Path):
    found = BENCHMARKS["eth"](["rootsift"], release)
    row = found.rows["rootsift"]
    assert row["registered"] == 4
    assert row["inlier_pairs"] == 5  # of six: 0 and 3 are not listed
    assert "protocol published" in found.title
    assert any("the scene's own keypoints, the listed pairs, the cameras of its database" in n for n in found.notes)
    (place,) = models.glob("Fountain-rootsift-published-*")
    model = read_model(place / "ratio-0.8")
    assert len({photo.camera for photo in model.photos}) == 1  # shared, as in the database
    assert model.photos[0].camera.params[0] != 352.0  # and refined, as COLMAP does by default
    first = published.read_keypoints(release / "keypoints" / "0.png.bin")
    np.testing.assert_allclose(next(p.xy for p in model.photos if p.name == "0.png"), first.xy, atol=1e-3)
    again = BENCHMARKS["eth"](["rootsift"], release)
    assert again.rows == found.rows


def test_keypoints_that_a_scene_brings_along_stand_for_dog_and_for_no_other_detector(release: Path, models: Path):
    found = BENCHMARKS["eth"](["rootsift"], release, detector=("dog", "keynet"))
    assert {"dog+rootsift", "keynet+rootsift"} <= found.rows.keys()
    given = published.read_keypoints(release / "keypoints" / "0.png.bin").xy
    taken = {}
    for detector in ("dog", "keynet"):
        (file,) = models.glob(f"Fountain-{detector}+rootsift-published-*/features.h5")
        taken[detector] = FeaturesFile(file, 2000)(release / "images" / "0.png").keypoints.xy
    np.testing.assert_allclose(taken["dog"], given, atol=1e-3)
    assert len(taken["keynet"]) != len(given) or not np.allclose(taken["keynet"], given)


def test_without_its_files_the_published_protocol_guesses_a_camera_per_photo(strecha: Path, models: Path):
    found = BENCHMARKS["eth"](["rootsift"], strecha, max_keypoints=700)
    assert found.rows["rootsift"]["registered"] == 4
    (place,) = models.glob("fountain-made-rootsift-published-*")
    assert len({photo.camera for photo in read_model(place / "ratio-0.8").photos}) == 4
    assert any("a camera per photo by EXIF or guessed" in note for note in found.notes)


def test_keypoints_of_some_photos_only_are_refused(release: Path):
    (release / "keypoints" / "2.png.bin").unlink()
    with pytest.raises(BadData, match=r"2\.png\.bin is missing"):
        BENCHMARKS["eth"](["rootsift"], release)

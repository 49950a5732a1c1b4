"""The ETH benchmark on rendered scenes."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from hynet.benchmarks import BENCHMARKS
from hynet.benchmarks.eth import evaluate as eth
from hynet.benchmarks.eth import paper as eth_paper
from hynet.benchmarks.harness.contestants import Contestant
from hynet.benchmarks.harness.sanity import SANITY
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.descriptors.loading import load
from hynet.errors import DataNotFound

pytest.importorskip("pycolmap")


@pytest.fixture(scope="module")
def strecha(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rendered scene in Strecha's layout, the cameras for photos of twice the size."""
    truth = synthetic.scene(seed=1, photos=4, size=(320, 240))
    root = tmp_path_factory.mktemp("data") / "fountain-made"
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


def test_a_rendered_scene_is_registered_whole_in_both_readings_and_noise_is_not(
    strecha: Path, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    args = ["evaluate", "eth", "--model", "rootsift", "--data", str(strecha), "--max-keypoints", "700"]
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
    assert "DoG+HyNet (paper)" in shown
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
    one = eth_paper.paper(["fountain-P11"])
    assert one is not None
    assert one.rows["DoG+HyNet"]["points"] == 16_500
    both = eth_paper.paper(["fountain-P11", "Herz-Jesus-P8"])
    assert both is not None
    assert "Herz-Jesus-P8: SIFT (11.3K)" in both.rows
    assert eth_paper.paper(["garden"]) is None

"""What users rely on, written down before the house was rebuilt: these lists may grow, nothing may leave them."""

from __future__ import annotations

import importlib
import inspect
import json
import operator
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest

import hynet
from conftest import write_set
from hynet.cli import COMMANDS, main
from hynet.datasets import synthetic

PUBLIC = """Extractor Features HynetError Keypoints Matches PatchPairs PatchSet Table benchmarks datasets
    descriptors detectors draw extract_all load localize losses match match_photos metrics mining reconstruct similarity
    train verify"""
MODULES = "mining datasets benchmarks losses metrics similarity descriptors detectors"
PARTS = "losses.LOSSES descriptors.DESCRIPTORS detectors.DETECTORS datasets.DATASETS benchmarks.BENCHMARKS"
SIGNATURES = {
    "Extractor": "detector max_keypoints",
    "load": "name_or_path",
    "match": "a b ratio",
    "verify": "a b matches geometry",
    "reconstruct": "photos out",
    "match_photos": "first second geometry model max_keypoints",
    "draw": "a b matches",
    "train": "recipe data out",
    "localize": "photo map",
    "losses.hynet": "raw_a raw_p margin alpha gamma z sosr",
    "metrics.fpr95": "distances is_match",
    "similarity.unit_slope": "alpha",
}
# Those that stay or get more to do; commands that merge into others are in the table of the changelog.
COMMAND_NAMES = """match extract pairs reconstruct colmap-features localize patches train adapt view doctor app report
    export compress data evaluate info"""
BENCHMARKS = "ubc hpatches homography imc eth"
RECIPES = """hynet hynet-sosr hynet-cpu hardnet sosnet l2net tfeat doap hynet-no-norms hynet-s hynet-d hynet-bn hynet-in
    hardnet-frn sosnet-frn loss-a loss-b light"""
MATCH_JSON = "keypoints matches inliers seconds model points picture geometry overlap indices confidence"
RECONSTRUCT_JSON = "registered photos points track_length reprojection_error model"
MODEL_FOLDER = "cameras.bin images.bin points3D.bin database.db features.h5 table.json table.md photos.json"
TRAIN_JSON = "steps patches_per_second validation checkpoint"
RUN_FOLDER = "run.json log.jsonl last.pt best.pt"
EVALUATE_JSON = "benchmark data columns rows intervals"
FEATURES_H5 = "keypoints descriptors scores scales angles image_size"
CHECKPOINT = "network trained optimiser position about"
ABOUT = "recipe config data environment"


def test_public_names_stay():
    assert set(PUBLIC.split()) <= set(hynet.__all__)
    assert all(hasattr(hynet, name) for name in PUBLIC.split())


@pytest.mark.parametrize("name", MODULES.split())
def test_public_modules_are_attributes_and_imports(name):
    assert importlib.import_module(f"hynet.{name}") is getattr(hynet, name)


@pytest.mark.parametrize("name", PARTS.split())
def test_dicts_of_parts_stay(name):
    assert len(operator.attrgetter(name)(hynet)) > 0


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_of_public_functions_stay(name):
    parameters = [*inspect.signature(operator.attrgetter(name)(hynet)).parameters]
    promised = SIGNATURES[name].split()
    assert [each for each in parameters if each in promised] == promised


def test_the_loss_of_the_paper_keeps_its_defaults():
    parameters = inspect.signature(hynet.losses.hynet).parameters
    defaults = {name: parameters[name].default for name in ("margin", "alpha", "gamma", "z", "sosr")}
    assert defaults == {"margin": 1.2, "alpha": 2.0, "gamma": 0.1, "z": 1.0, "sosr": 0.0}


def test_fpr95_is_a_fraction():
    distances = np.arange(40.0)
    assert hynet.metrics.fpr95(distances, distances % 2 == 0) == pytest.approx(0.9, abs=0.06)


def test_the_network_maps_patches_to_raw_vectors():
    torch = pytest.importorskip("torch")
    network = hynet.descriptors.HyNet().eval()
    assert network(torch.full((2, 1, 32, 32), 128.0)).shape == (2, 128)


def test_the_snippets_of_the_readme_run(tmp_path):
    first, second, _ = synthetic.photo_pair(2, (320, 240))
    extract = hynet.Extractor(detector="dog", max_keypoints=300)
    a, b = extract(first), extract(second)
    assert isinstance(a, hynet.Features)
    matches = hynet.match(a, b, ratio=None)
    fit = hynet.verify(a, b, matches, geometry="fundamental")
    assert 0 < len(fit.matches) <= len(matches)
    assert fit.model.shape == (3, 3)
    assert hynet.draw(a, b, matches).shape[2] == 3
    a.save(tmp_path / "a.npz")
    loaded = hynet.Features.load(tmp_path / "a.npz")
    assert np.array_equal(loaded.descriptors, a.descriptors)
    assert len(hynet.Keypoints.from_cv2(a.keypoints.to_cv2())) == len(a.keypoints)
    vectors = hynet.load("default").describe(np.zeros((2, 32, 32), np.uint8))
    assert vectors.shape == (2, 128)
    assert vectors.dtype == np.float32
    found = hynet.match_photos(first, second, max_keypoints=300)
    assert len(found.features) == 2
    assert found.geometry is not None
    assert found.draw().shape[2] == 3
    found.save(tmp_path / "m.png")
    assert (tmp_path / "m.png").exists()


def test_what_the_examples_import_stays_where_it_was():
    from hynet.images.example import example

    assert callable(example)


def test_commands_benchmarks_and_recipes_stay(capsys):
    assert set(COMMAND_NAMES.split()) <= set(COMMANDS)
    assert set(BENCHMARKS.split()) <= set(hynet.benchmarks.BENCHMARKS)
    pytest.importorskip("torch")
    assert set(RECIPES.split()) <= set(answer(capsys, "train", "--list")["recipes"])


def answer(capsys, *arguments: object) -> dict:
    """The JSON object that a command prints."""
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_the_json_of_match_and_the_layout_of_a_features_file_stay(tmp_path, capsys):
    photo = save(tmp_path / "photo.png", synthetic.texture((320, 240), seed=3))
    told = answer(capsys, "match", photo, photo, "--model", "rootsift", "--out", tmp_path / "m.png")
    assert set(MATCH_JSON.split()) <= told.keys()
    assert len(told["points"]) == len(told["indices"]) == len(told["confidence"]) == told["inliers"]
    assert all(len(point) == 4 for point in told["points"])
    answer(capsys, "extract", photo, "--model", "rootsift", "--out", tmp_path / "f.h5")
    with h5py.File(tmp_path / "f.h5") as file:
        group = file["photo.png"]
        assert set(FEATURES_H5.split()) <= set(group)
        count = len(group["keypoints"])
        assert group["keypoints"].shape == (count, 2)
        assert group["descriptors"].shape == (128, count)
        assert group["image_size"][()].tolist() == [320, 240]


def test_the_layout_of_a_file_of_matches_stays(tmp_path, capsys):
    for k, photo in enumerate(synthetic.photo_pair(4, (320, 240))[:2]):
        save(tmp_path / "photos" / f"{k}.png", photo)
    (tmp_path / "pairs.txt").write_text("0.png 1.png\n", encoding="utf-8")
    given = ("--pairs", tmp_path / "pairs.txt", "--model", "rootsift", "--out", tmp_path / "matches.h5")
    answer(capsys, "match", tmp_path / "photos", *given)
    with h5py.File(tmp_path / "matches.h5") as file:
        group = file["0.png/1.png"]
        assert group["matches0"].shape == group["matching_scores0"].shape
        assert np.issubdtype(group["matches0"].dtype, np.integer)


def test_the_json_and_the_folder_of_a_reconstruction_stay(tmp_path, capsys):
    pytest.importorskip("pycolmap")
    for k, photo in enumerate(synthetic.scene(seed=1, photos=4, size=(320, 240)).photos):
        save(tmp_path / "photos" / f"{k}.png", photo)
    given = ("--model", "rootsift", "--max-keypoints", 500, "--out", tmp_path / "model")
    told = answer(capsys, "reconstruct", tmp_path / "photos", *given)
    assert set(RECONSTRUCT_JSON.split()) <= told.keys()
    assert set(MODEL_FOLDER.split()) <= {each.name for each in (tmp_path / "model").iterdir()}


def test_the_json_the_folder_and_the_checkpoint_of_a_run_stay(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    sets = [write_set(tmp_path / name, 40, seed) for seed, name in enumerate(("train", "other"))]
    given = ("--steps", 2, "--pairs-per-batch", 8, "--no-compiled", "--out", tmp_path / "run")
    told = answer(capsys, "train", "tfeat", "--data", sets[0], "--validate", sets[1], *given)
    assert set(TRAIN_JSON.split()) <= told.keys()
    assert told["steps"] == 2
    assert {Path(name).name for name in told["validation"]} == {"other"}
    assert set(RUN_FOLDER.split()) <= {each.name for each in (tmp_path / "run").iterdir()}
    content = torch.load(told["checkpoint"], weights_only=True)
    assert set(CHECKPOINT.split()) <= content.keys()
    assert set(ABOUT.split()) <= content["about"].keys()


def test_the_json_and_the_files_of_an_evaluation_stay(tmp_path, capsys):
    data = write_set(tmp_path / "liberty", 40, seed=0)
    told = answer(capsys, "evaluate", "ubc", "--model", "rootsift", "--data", data, "--out", tmp_path / "results")
    assert set(EVALUATE_JSON.split()) <= told.keys()
    assert "fpr95" in told["rows"]["rootsift"]
    assert len(told["intervals"]["rootsift"]["fpr95"]) == 2
    assert {"ubc.json", "ubc.md"} <= {each.name for each in (tmp_path / "results").iterdir()}


def save(path: Path, picture: np.ndarray) -> Path:
    path.parent.mkdir(exist_ok=True)
    cv2.imwrite(str(path), picture)
    return path

"""What users rely on, written down before the house was rebuilt: these lists may grow, nothing may leave them."""

from __future__ import annotations

import importlib
import json

import cv2
import h5py
import numpy as np
import pytest

import hynet
from hynet.cli import COMMANDS, main
from hynet.datasets import synthetic

PUBLIC = """Extractor Features HynetError Keypoints Matches PatchPairs PatchSet Table benchmarks datasets
    descriptors detectors extract_all load losses match metrics mining reconstruct similarity verify"""
MODULES = "mining datasets benchmarks losses metrics similarity descriptors detectors"
COMMAND_NAMES = """match extract pairs calibrate choose reconstruct patches train adapt view doctor report plot push
    export data evaluate info app"""
BENCHMARKS = "ubc hpatches homography imc eth"
RECIPES = """hynet hynet-sosr hynet-cpu hardnet sosnet l2net tfeat doap hynet-no-norms hynet-s hynet-d hynet-bn hynet-in
    hardnet-frn sosnet-frn loss-a loss-b light"""
MATCH_JSON = "keypoints matches inliers seconds model points picture"
FEATURES_H5 = "keypoints descriptors scores scales angles image_size"
CHECKPOINT = "network trained optimiser position about"
ABOUT = "recipe config data environment"


def test_public_names_stay():
    assert set(PUBLIC.split()) <= set(hynet.__all__)


@pytest.mark.parametrize("name", MODULES.split())
def test_documented_modules_stay_importable(name):
    assert importlib.import_module(f"hynet.{name}")


def test_what_the_examples_import_stays_where_it_was():
    from hynet.images.example import example

    assert callable(example)


def test_commands_benchmarks_and_recipes_stay():
    from hynet.training import recipes

    assert set(COMMAND_NAMES.split()) <= set(COMMANDS)
    assert set(BENCHMARKS.split()) <= set(hynet.benchmarks.BENCHMARKS)
    assert set(RECIPES.split()) <= set(recipes.RECIPES)


def test_the_json_of_match_and_the_layout_of_a_features_file_stay(tmp_path, capsys):
    photo = tmp_path / "photo.png"
    cv2.imwrite(str(photo), synthetic.texture((320, 240), seed=3))
    assert main(f"match {photo} {photo} --model rootsift --out {tmp_path}/m.png --json".split()) == 0
    assert set(MATCH_JSON.split()) <= json.loads(capsys.readouterr().out).keys()
    assert main(f"extract {photo} --model rootsift --out {tmp_path}/f.h5 --json".split()) == 0
    with h5py.File(tmp_path / "f.h5") as file:
        group = file["photo.png"]
        assert set(FEATURES_H5.split()) <= set(group)
        keypoints, descriptors = group["keypoints"].shape[0], group["descriptors"].shape[1]
        assert keypoints == descriptors > 0


def test_the_keys_of_a_checkpoint_stay(tmp_path):
    torch = pytest.importorskip("torch")
    from hynet.training.loop import TrainConfig, train

    rng = np.random.default_rng(0)
    patch_set = hynet.PatchSet(rng.integers(0, 255, (32, 32, 32), np.uint8), np.repeat(np.arange(16), 2))
    config = TrainConfig(network="tfeat", loss="tfeat", epochs=None, steps=1, pairs_per_batch=4, compiled=False)
    ended = train(config, {"set": patch_set}, tmp_path / "run")
    content = torch.load(ended.checkpoint, weights_only=True)
    assert set(CHECKPOINT.split()) <= content.keys()
    assert set(ABOUT.split()) <= content["about"].keys()

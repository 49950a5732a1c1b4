"""torch.hub and huggingface_hub, on folders of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

import hynet
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadInput, BadWeights, DataNotFound, MissingExtra

torch = pytest.importorskip("torch")

from hynet.interop import hub  # noqa: E402

ROOT = Path(__file__).parents[1]


def test_torch_hub_loads_the_network_from_this_repository(patches):
    network = torch.hub.load(str(ROOT), "hynet", source="local")
    expected = hynet.load("default", engine="torch").describe(patches)
    assert np.array_equal(network.describe(patches), expected)
    module = torch.hub.load(str(ROOT), "patch_descriptor", source="local")
    with torch.inference_mode():
        rows = module(torch.from_numpy(patches[:, None] / np.float32(255))).numpy()
    assert np.abs(rows - expected).max() < 1e-5


def test_a_saved_folder_loads_as_the_same_descriptor(patches, tmp_path, capsys):
    folder = hub.save("default", tmp_path / "my-hynet", licence="apache-2.0", trained_on="photos")
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    expected = hynet.load("default", engine="torch")
    for found in (hub.load(folder), hynet.load(folder)):
        assert np.array_equal(found.describe(patches), expected.describe(patches))
        assert (found.support, found.ratio) == (expected.support, expected.ratio)
    photo = tmp_path / "photo.png"

    cv2.imwrite(str(photo), synthetic.texture((160, 120), seed=3))
    assert main(f"extract {photo} --model {folder} --max-keypoints 20 --out {tmp_path}/f.h5".split()) == 0


def test_huggingface_hub_understands_the_card_and_names_the_files_so(tmp_path):
    theirs = pytest.importorskip("huggingface_hub")
    folder = hub.save("default", tmp_path / "my-hynet", licence="apache-2.0")
    card = theirs.ModelCard.load(folder / "README.md")
    assert card.data.to_dict()["license"] == "apache-2.0"
    assert card.data.library_name == "hynet"
    assert (folder / theirs.constants.CONFIG_NAME).is_file()
    assert (folder / theirs.constants.SAFETENSORS_SINGLE_FILE).is_file()


def test_folders_that_are_none_of_these_are_told(tmp_path):
    with pytest.raises(DataNotFound, match="no folder"):
        hub.load("/nowhere/at/all")
    with pytest.raises(BadWeights, match="is a folder"):
        hynet.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no")
    (tmp_path / "config.json").write_text(json.dumps({"support": 24.0}))
    with pytest.raises(BadWeights, match="not a weights file"):
        hynet.load(tmp_path)
    folder = hub.save("default", tmp_path / "mine")
    (folder / "config.json").write_text("[1]")
    with pytest.raises(BadWeights, match="not a valid config"):
        hynet.load(folder)
    with pytest.raises((BadInput, MissingExtra), match=r"could not be downloaded|needs huggingface_hub"):
        hub.load("nobody-at-all/no-such-model-of-hynet")

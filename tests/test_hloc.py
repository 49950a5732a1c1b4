"""hloc's files both ways, and our extractor among its own."""

from __future__ import annotations

import importlib
import inspect
import sys
from itertools import combinations
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest

import hynet
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadData, BadInput, MissingExtra
from hynet.features.hloc_file import read_h5
from hynet.features.settings import FeatureSettings
from hynet.matching.hloc_matches import MatchesFile, write_pair
from hynet.types import Matches

NAMES = ["a/0.png", "a/1.png", "b_c/2.png"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hloc") / "photos"
    truth = synthetic.scene(seed=1, photos=3, size=(400, 300))
    for name, photo in zip(NAMES, truth.photos, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / name), photo)
    return folder


@pytest.fixture(scope="module")
def features(photos: Path) -> Path:
    file = photos.parent / "features.h5"
    hynet.extract_all(photos, file, FeatureSettings(model="rootsift", max_keypoints=600))
    return file


@pytest.fixture(scope="module")
def found(features: Path) -> dict[tuple[str, str], Matches]:
    read = {name: read_h5(features, name) for name in NAMES}
    return {(a, b): hynet.match(read[a], read[b], 0.85) for a, b in combinations(NAMES, 2)}


def as_hloc_writes(path: Path, found: dict[tuple[str, str], Matches], features: Path) -> None:
    """int16 rows and float16 scores; slashes in names become dashes. One pair turned round, one as hloc once wrote."""
    with h5py.File(path, "w", libver="latest") as file:
        for k, ((a, b), matches) in enumerate(found.items()):
            first, second, indices = (b, a, matches.indices[:, ::-1]) if k == 1 else (a, b, matches.indices)
            rows = np.full(len(read_h5(features, first)), -1, np.int16)
            rows[indices[:, 0]] = indices[:, 1]
            group = file.create_group(("_" if k == 2 else "/").join(name.replace("/", "-") for name in (first, second)))
            group.create_dataset("matches0", data=rows)
            group.create_dataset("matching_scores0", data=np.where(rows < 0, 0, 0.5).astype(np.float16))


def as_hloc_reads(path: Path, first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    with h5py.File(path, "r", libver="latest") as file:
        group = file[first.replace("/", "-")][second.replace("/", "-")]
        rows, scores = group["matches0"].__array__(), group["matching_scores0"].__array__()
    kept = np.where(rows != -1)[0]
    return np.stack([kept, rows[kept]], -1), scores[kept]


def test_matches_of_others_give_the_model_that_they_would_give_as_ours(photos, features, found, tmp_path, capsys):
    pytest.importorskip("pycolmap")
    as_hloc_writes(tmp_path / "theirs.h5", found, features)
    ours = hynet.reconstruct(photos, tmp_path / "ours", features=features, ratio=0.85, jobs=1)
    asked = f"reconstruct {photos} --features {features} --matches {tmp_path}/theirs.h5 --out {tmp_path}/theirs"
    assert main(asked.split()) == 0
    theirs = hynet.reconstruct(photos, tmp_path / "theirs", features=features, matches=tmp_path / "theirs.h5")
    assert theirs.registered == 3
    assert (theirs.inlier_matches, theirs.points) == (ours.inlier_matches, ours.points)
    assert (tmp_path / "theirs/points3D.bin").read_bytes() == (tmp_path / "ours/points3D.bin").read_bytes()

    with h5py.File(tmp_path / "theirs.h5", "a") as file:  # one match less
        rows = file["a-0.png/a-1.png/matches0"]
        rows[np.flatnonzero(rows[()] >= 0)[0]] = -1
    assert main(asked.split()) == 2
    assert "other settings" in capsys.readouterr().err


def test_what_we_write_is_what_hloc_reads(features, found, tmp_path):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        for (a, b), matches in found.items():
            write_pair(file, a, b, matches, len(read_h5(features, a)))
    stored = MatchesFile(tmp_path / "m.h5", NAMES)
    assert sorted(stored.pairs()) == sorted(found)
    for (a, b), matches in found.items():
        rows, scores = as_hloc_reads(tmp_path / "m.h5", a, b)
        assert np.array_equal(rows, matches.indices)
        assert scores == pytest.approx(1 - matches.distances**2 / 4, abs=1e-3)
        turned = stored.read(b, a, read_h5(features, b), read_h5(features, a))
        order = np.argsort(matches.indices[:, 1])  # each side's rows in turn, as in matches of our own
        assert np.array_equal(turned.indices[:, ::-1], matches.indices[order])
        assert turned.distances == pytest.approx(matches.distances[order], abs=1e-5)


def test_matches_that_do_not_fit_are_told(photos, features, found, tmp_path):
    def refused(content: np.ndarray, error: type[Exception], why: str) -> None:
        with h5py.File(tmp_path / "m.h5", "w") as file:
            file["a-0.png/a-1.png/matches0"] = content
        first, second = (read_h5(features, name) for name in NAMES[:2])
        with pytest.raises(error, match=why):
            MatchesFile(tmp_path / "m.h5", NAMES).read(*NAMES[:2], first, second)

    count = len(read_h5(features, NAMES[0]))
    refused(np.zeros(count - 1, np.int16), BadData, "by other features than these")
    refused(np.full(count, 30_000, np.int16), BadData, "by other features than these")
    refused(np.full(count, -2, np.int16), BadData, "by other features than these")
    refused(np.zeros((count, 2), np.int16), BadData, "wrong shape or type")
    refused(np.zeros(count, np.float32), BadData, "wrong shape or type")
    with pytest.raises(BadData, match="no matches"):
        MatchesFile(features, NAMES)
    (tmp_path / "text.h5").write_text("no")
    with pytest.raises(BadData, match="not a features file"):
        MatchesFile(tmp_path / "text.h5", NAMES)
    with pytest.raises(BadInput, match="give that file as the features"):
        hynet.reconstruct(photos, tmp_path / "model", matches=tmp_path / "m.h5")
    assert not (tmp_path / "model").exists()


# --- Our extractor in hloc, which is in no package registry: its rules, in a package of that name ---

BASE = """
from torch import nn
class BaseModel(nn.Module):
    default_conf = {}
    required_inputs = []
    def __init__(self, conf):
        super().__init__()
        self.conf = {**self.default_conf, **conf}
        self._init(self.conf)
    def forward(self, data):
        assert all(key in data for key in self.required_inputs)
        return self._forward(data)
"""


@pytest.fixture
def hloc(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    for folder in ("hloc", "hloc/extractors", "hloc/utils"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "hloc/utils/base_model.py").write_text(BASE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("hloc.utils.base_model")
    for name in [name for name in sys.modules if name.split(".")[0] == "hloc"]:
        del sys.modules[name]


def test_hloc_extracts_with_our_entry_what_we_extract(hloc, photos, tmp_path):
    import torch

    from hynet.interop.hloc import entry

    conf = entry(model="rootsift", max_keypoints=300)
    module = importlib.import_module(f"hloc.extractors.{conf['model']['name']}")
    classes = [each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__]
    assert [issubclass(each, hloc.BaseModel) for each in classes] == [True]
    model = classes[0](conf["model"]).eval().to("cpu")

    photo = cv2.imread(str(photos / NAMES[0]), cv2.IMREAD_GRAYSCALE)
    with torch.no_grad():
        said = model({"image": torch.from_numpy(photo.astype(np.float32)[None, None] / 255.0)})
    columns = {key: value[0].cpu().numpy() for key, value in said.items()}
    columns["image_size"] = np.array(photo.shape[::-1])
    with h5py.File(tmp_path / "feats.h5", "a", libver="latest") as file:
        group = file.create_group(NAMES[0])
        for key, column in columns.items():
            group.create_dataset(key, data=column.astype(np.float16) if column.dtype == np.float32 else column)
    theirs = read_h5(tmp_path / "feats.h5", NAMES[0])
    ours = hynet.Extractor(model="rootsift", max_keypoints=300, orientation="upright")(photos / NAMES[0])
    assert len(theirs) == len(ours) > 200
    assert theirs.keypoints.xy == pytest.approx(ours.keypoints.xy, abs=0.13)  # float16
    assert theirs.descriptors == pytest.approx(ours.descriptors, abs=1e-3)


def test_without_hloc_the_entry_says_where_to_get_it():
    from hynet.interop.hloc import entry

    with pytest.raises(MissingExtra, match="needs hloc"):
        entry()

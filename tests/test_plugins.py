"""Parts from outside: a package with entry points adds rows to our tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import hynet
from hynet import datasets
from hynet.benchmarks import BENCHMARKS
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.detectors import DETECTORS
from hynet.errors import BadWeights, HynetError
from hynet.matching import MATCHERS
from hynet.runtime import plugins
from hynet.runtime.parts import FilePart, open_part
from hynet.runtime.plugins import BrokenPlugin, Part, importable, with_plugins


def install(folder: Path, module: str, source: str, entry_points: str) -> None:
    """A package as pip leaves it behind: its module, and a dist-info folder with its entry points."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A folder on the path in which packages can be installed."""
    monkeypatch.syspath_prepend(tmp_path)
    plugins._installed.cache_clear()
    yield tmp_path
    plugins._installed.cache_clear()
    sys.modules.pop("corners", None)


def test_a_package_adds_a_row_and_is_imported_when_it_is_used(outside):
    install(
        outside,
        "corners",
        'def find():\n    """Finds corners."""\n    return 3\n',
        "[hynet.detectors]\nfast = corners:find",
    )
    table = with_plugins("detectors", {"ours": Part("hynet.types:Keypoints", "keypoints")}, Part)
    assert list(table) == ["ours", "fast"]
    assert "corners" not in sys.modules
    assert table["fast"].summary() == "Finds corners. (from corners)"
    assert table["fast"]() == 3


def test_a_broken_package_is_named_in_one_sentence_and_the_rest_goes_on(outside):
    install(outside, "corners", "import no_such_library", "[hynet.detectors]\nfast = corners:find")
    table = with_plugins("detectors", {"ours": Part("hynet.types:Keypoints", "keypoints")}, Part)
    with pytest.raises(BrokenPlugin, match=r"corners:find of the package corners cannot be imported .*no_such_library"):
        table["fast"]()
    assert [name for name, _ in importable(table)] == ["ours"]


def test_a_package_whose_part_cannot_be_made_is_named_in_one_sentence(outside):
    source = "import hynet\n\ndef find(size):\n    return size\n\ndef refuse():\n    raise hynet.HynetError('no')"
    install(outside, "corners", source, "[hynet.detectors]\nfast = corners:find\nshy = corners:refuse")
    table = with_plugins("detectors", {"ours": Part("hynet.types:Keypoints", "keypoints")}, Part)
    with pytest.raises(BrokenPlugin, match=r"corners:find of the package corners fails \(TypeError: find\(\) missing"):
        table["fast"]()
    with pytest.raises(HynetError, match=r"^no$"):
        table["shy"]()
    with pytest.raises(TypeError):  # ours is a bug of ours
        table["ours"]()


def test_a_package_that_stumbles_over_a_file_is_named_and_the_rest_goes_on(outside):
    source = "class Find:\n    def from_file(path):\n        return 1 / 0\n\nclass Good:\n    def from_file(path):\n"
    source += "        return 3 if path.suffix == '.mine' else None"
    install(outside, "corners", source, "[hynet.detectors]\nbad = corners:Find\ngood = corners:Good")
    table = with_plugins("detectors", {"ours": FilePart("hynet.types:Keypoints", files=("onnx",))}, FilePart)
    for name in ("a.mine", "a.other"):
        (outside / name).touch()
    assert open_part(table, outside / "a.mine", "detector") == 3
    with pytest.raises(BadWeights, match=r"no detector recognises .* of the package corners fails \(ZeroDivisionError"):
        open_part(table, outside / "a.other", "detector")


def test_a_name_of_ours_stays_ours(outside):
    install(outside, "corners", "def find(): ...", "[hynet.detectors]\nours = corners:find")
    assert with_plugins("detectors", {"ours": Part("hynet.types:Keypoints")}, Part)["ours"].package == ""


# One part of each kind that knows nothing of our classes beyond the values it takes and gives.
PARTS = '''
from dataclasses import dataclass

import cv2
import numpy as np

from hynet.evaluation.results import Evaluation
from hynet.datasets import synthetic
from hynet.matching.nearest import match
from hynet.types import Keypoints, PatchPairs


class Corners:
    """OpenCV's good features."""

    def __init__(self, max_keypoints, upright):
        self.most = max_keypoints

    def __call__(self, image, mask=None):
        xy = cv2.goodFeaturesToTrack(image, self.most, 0.01, 5, mask=mask)[:, 0]
        ones = np.ones(len(xy))
        return Keypoints.from_circles(xy, 2 * ones, 0 * ones, ones)


class Nearby:
    """Nearest neighbours under a strict ratio."""

    def __call__(self, a, b):
        return match(a, b, 0.7)


def recognise(root):
    return (root / "corners.txt").exists()


def load(root, size=64, progress=None):
    made = synthetic.patch_set(30, 4, seed=int((root / "corners.txt").read_text()))
    from dataclasses import replace
    return made if size == 64 else replace(made, patches=made.patches[:, ::2, ::2].copy())


def pairs_available(root):
    return []


def test_pairs(root, count):
    points = load(root).points
    first = np.arange(0, len(points), 4)
    second = np.concatenate([first + 1, np.roll(first, 1) + 2])
    first = np.concatenate([first, first])
    return PatchPairs(first, second, points[first] == points[second])


def fingerprint(root):
    return (root / "corners.txt").read_text()


@dataclass(frozen=True)
class CountOptions:
    times: int = 1  # how often it is counted


def count(models, data, options: CountOptions, progress=None):
    """Counts what lies in a folder."""
    files = float(options.times * len(list(data.iterdir())))
    return Evaluation("count", str(data), ["files"], {name: {"files": files} for name in models}, {}, title="files")
'''
ENTRY_POINTS = """
[hynet.detectors]
corners = corners:Corners
[hynet.matchers]
nearby = corners:Nearby
[hynet.datasets]
corners = corners
[hynet.benchmarks]
count = corners:count
"""


@pytest.fixture
def parts(outside, monkeypatch):
    """That package, in the tables as at the next start of Python."""
    install(outside, "corners", PARTS, ENTRY_POINTS)
    tables = {"detectors": DETECTORS, "matchers": MATCHERS, "datasets": datasets.DATASETS, "benchmarks": BENCHMARKS}
    for group, table in tables.items():
        for name, row in with_plugins(group, table, type(next(iter(table.values())))).items():
            monkeypatch.setitem(table, name, row)


def test_a_detector_and_a_matcher_of_a_package_match_photos(parts):
    photos = synthetic.photo_pair(3, (400, 300))[:2]
    options = {"detector": "corners", "model": "rootsift", "orientation": "upright", "max_keypoints": 500}
    found = hynet.match_photos(*photos, matcher="nearby", **options)
    assert DETECTORS["corners"].package == MATCHERS["nearby"].package == "corners"
    assert len(found.features[0].keypoints) <= 500
    assert len(found.inliers) >= 10


def test_a_data_set_of_a_package_is_trained_validated_and_tested_on(parts, tmp_path):
    for seed, name in enumerate(("here", "there")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "corners.txt").write_text(str(seed))
    small = {"steps": 1, "pairs_per_batch": 8, "pairs_per_epoch": 64, "compiled": False}
    run = hynet.train("tfeat", tmp_path / "here", tmp_path / "run", validate=tmp_path / "there", **small)
    assert list(run.validation) == [str(tmp_path / "there")]
    rows = BENCHMARKS["ubc"](["sift"], tmp_path / "there").rows
    assert 0 <= rows["sift"]["fpr95"] <= 100


def test_a_benchmark_of_a_package_runs_by_command_with_its_options(parts, tmp_path, capsys):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "one").touch()
    (folder / "two").touch()
    assert main(["evaluate", "count", "--model", "sift", "--data", str(folder), "--times", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == {"sift": {"files": 6.0}}

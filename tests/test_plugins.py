"""Parts from outside: a package with entry points adds rows to our tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hynet.system import plugins
from hynet.system.plugins import BrokenPlugin, Part, importable, with_plugins


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


def test_a_name_of_ours_stays_ours(outside):
    install(outside, "corners", "def find(): ...", "[hynet.detectors]\nours = corners:find")
    assert with_plugins("detectors", {"ours": Part("hynet.types:Keypoints")}, Part)["ours"].package == ""

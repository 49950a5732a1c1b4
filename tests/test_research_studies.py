"""Studies behind tables: each can be asked for help, and the small ones run at their smallest size."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import hynet
from hynet.datasets import hpatches
from test_studies import write_stacks

FOLDER = Path(hynet.__file__).parents[2] / "research"
SCRIPTS = [path.name for path in sorted(FOLDER.glob("*.py")) if "argparse" in path.read_text(encoding="utf-8")]
SHELL = [path.name for path in sorted(FOLDER.glob("*.sh"))]


def run(monkeypatch, script: str, *args: str) -> None:
    monkeypatch.setattr(sys, "argv", [script, *args])
    monkeypatch.syspath_prepend(str(FOLDER))
    if Path(script).read_text(encoding="utf-8").count("\nfrom .") or "research." in Path(script).name:
        runpy.run_module(f"research.{Path(script).stem}", run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(script, run_name="__main__")


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_study_imports_and_shows_its_help(script, monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, str(FOLDER / script), "--help")
    assert stop.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_every_link_between_pages_of_research_leads_to_a_file():
    import re

    for page in FOLDER.glob("*.md"):
        targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
        assert missing == [], page.name


def test_fewer_patches_are_the_same_places_in_all_stacks_of_a_sequence(monkeypatch, tmp_path):
    data = write_stacks(tmp_path / "data", patches=6)
    run(monkeypatch, str(FOLDER / "fewer_patches.py"), str(data), str(tmp_path / "out"), "4")
    before, after = (hpatches.load(root, "i_scene0") for root in (data, tmp_path / "out"))
    kept = [int(np.flatnonzero((before["ref"] == patch).all((1, 2)))[0]) for patch in after["ref"]]
    assert len(kept) == 4
    assert all((before[name][kept] == after[name]).all() for name in hpatches.COLUMNS)


def test_mixed_weights_are_the_mean_by_shares(monkeypatch, tmp_path):
    for name, value in (("a", 1.0), ("b", 3.0)):
        save_file({"x": np.full(3, value, np.float32)}, tmp_path / f"{name}.safetensors", metadata={"of": name})
    files = [str(tmp_path / f"{name}.safetensors") for name in ("out", "a", "b")]
    run(monkeypatch, str(FOLDER / "mixed_weights.py"), files[0], files[1], "0.25", files[2], "0.75")
    assert load_file(files[0])["x"].tolist() == [2.5] * 3


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("script", SHELL)
def test_every_shell_script_is_valid_bash(script):
    import subprocess

    assert subprocess.run(["bash", "-n", FOLDER / script], check=False).returncode == 0

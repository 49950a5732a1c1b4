"""docs/paper.md: every link leads somewhere, every command exists, and errata follow from the paper's own numbers."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import hynet
from hynet import similarity
from hynet.benchmarks import BENCHMARKS
from hynet.cli import COMMANDS, main
from hynet.cli.paper import PARTS
from hynet.evaluation import papers
from hynet.paper.plans import PLANS
from hynet.training.recipes import RECIPES

ROOT = Path(hynet.__file__).parents[2]
TEXT = (ROOT / "docs/paper.md").read_text()
WITH_A_NAME = {
    "paper": PARTS,
    "evaluate": BENCHMARKS,
    "train": RECIPES,
}  # commands whose first argument is one of these


def commands() -> list[list[str]]:
    """Of lines that are indented, and of words between backticks."""
    joined = TEXT.replace("\\\n", " ")
    found = re.findall(r"^    (hynet .+)$", joined, re.MULTILINE) + re.findall(r"`(hynet [^`]+)`", joined)
    return [shlex.split(line) for line in dict.fromkeys(found)]


def test_every_link_leads_to_a_file_and_every_name_in_it_exists():
    links = re.findall(r"\[(`?)([^\]`]+)`?\]\((\.\./[^)]+)\)", TEXT)
    assert len(links) > 25
    for quoted, name, path in links:
        file = ROOT / "docs" / path
        assert file.is_file(), f"{path} does not exist"
        if quoted:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(f"hynet.{module}"), attribute), f"no {name}"
            assert re.search(rf"(def|class) {attribute}\b|^{attribute}\b.* = ", file.read_text(), re.MULTILINE), name


def test_every_file_and_document_it_names_exists():
    named = re.findall(r"(?<![\w/])(?:docs|tests|research)/\w+\.(?:md|py|sh)\b", TEXT)
    assert len(set(named)) > 5
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_every_command_and_option_exists(capsys):
    helps: dict[tuple[str, ...], str] = {}
    assert len(commands()) > 12
    for _, command, *rest in commands():
        assert command in COMMANDS
        named = ()
        if command in WITH_A_NAME and rest[:1] != ["--list"]:
            assert rest[0] in WITH_A_NAME[command], rest[0]
            named = (rest[0],)
        if named == ("ablate",):
            assert rest[1] in PLANS, rest[1]
        key = (command, *named)
        options = [word for word in rest if word.startswith("--") and word != "--list"]
        if options and key not in helps:
            with pytest.raises(SystemExit):
                main([*key, "--help"])
            helps[key] = capsys.readouterr().out
        for option in options:
            assert re.search(rf"{option}(?![\w-])", helps[key]), f"hynet {command} has no {option}"


def test_the_errata_follow_from_the_papers_own_numbers():
    mean = {name: np.mean(row[:-1]) for name, row in papers.UBC.items()}
    wrong = {
        name: (round(mean[name], 2), row[-1]) for name, row in papers.UBC.items() if abs(mean[name] - row[-1]) > 6e-3
    }
    assert wrong == {"TFeat": (6.61, 6.64), "HardNet": (1.52, 1.51)}  # 9
    matching = papers.MATCHING
    assert matching["HyNet"] - matching["HyNet by s alone"] == pytest.approx(0.78)  # 7
    assert matching["HyNet"] - matching["HyNet by d alone"] == pytest.approx(1.87)
    assert matching["SOSNet's loss, FRN"] - 1.10 == pytest.approx(51.02)  # 8
    assert matching["HyNet"] - papers.GAINS["matching"] == pytest.approx(51.62)
    more = {}
    for scene in ("madrid", "gendarmen"):
        rows = papers.ETH[scene]
        others = [row[1] for name, row in rows.items() if name.startswith(("SuperPoint", "D2-Net", "R2D2"))]
        more[scene] = rows["DoG+HyNet"][1] / max(others)
    assert more["madrid"] == pytest.approx(1.47, abs=0.005)  # 10
    assert more["gendarmen"] > 1.5
    x, y = np.random.default_rng(0).normal(size=(2, 128))
    assert abs(x @ similarity.grad_s_bar(x, y)) > 0.1  # 1
    assert abs(x @ similarity.grad_d_bar(x, y)) > 0.1
    assert x @ similarity.grad_s(x, y) == pytest.approx(0, abs=1e-9)
    assert x @ similarity.grad_d(x, y) == pytest.approx(0, abs=1e-9)
    assert 1000 * 512 * 2 == 1_024_000  # 3
    turned = 0.3 + np.pi
    assert similarity.g_s(turned) == pytest.approx(similarity.g_s(0.3))  # 2
    assert similarity.g_d(turned) != pytest.approx(similarity.g_d(0.3), abs=0.1)
    assert similarity.g_d(0.3 + 2 * np.pi) == pytest.approx(similarity.g_d(0.3))
    assert 1.2 / similarity.unit_slope(2.0) == pytest.approx(0.44, abs=0.005)  # 5

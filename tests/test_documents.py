"""README, documents and notebook: what they link to exists, what they show runs."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

import hynet.cli.evaluate
import hynet.cli.paper
from build_readme import public
from hynet.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]
README = (ROOT / "README.md").read_text()
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]


def links(text: str) -> list[str]:
    """Their targets, pictures among them."""
    return re.findall(r"\]\(([^()\s]+)\)", text)


def anchor(heading: str) -> str:
    """Of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page):
    for target in links(page.read_text()):
        if not re.match(r"[a-z]+:", target):
            name, _, place = target.partition("#")
            found = page.parent / name if name else page
            assert found.exists(), target
            headings = re.findall(r"^#+ (.*)", found.read_text(), re.MULTILINE) if place else []
            assert not place or place in map(anchor, headings), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_needs_what_only_we_have(page):
    assert not re.search(r"\.\./shared|data/eval|not kept", page.read_text())


def test_every_page_is_in_the_table_of_contents():
    listed = re.findall(r"^[a-z*-]+$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem == "index" or any(page.match(f"{name}.md") for name in listed), f"list {page.name} in index.md"


def test_the_package_page_shows_pictures_by_their_public_address():
    shown = public(README, REPOSITORY)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", shown)
    assert f"{REPOSITORY}/raw/main/docs/sacre-coeur.jpg" in pictures
    assert f"[Changelog]({REPOSITORY}/blob/main/CHANGELOG.md)" in shown
    assert all(target.startswith("https://") for target in links(shown))


PLACEHOLDERS = {"BENCHMARK", "NAME", "RECIPE", "COMMAND", "PART", "mine", "grid|losses|sosr|rivals"}


class Parsed(Exception):
    """Raised in place of the work of a command."""


def command_lines(page: Path) -> list[tuple[str, bool]]:
    """Commands in code blocks, which are whole, and those between backticks in the text, which may be parts."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^(?: {4}|\t)(.*)", text, re.MULTILINE)
    for block in re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        blocks += block.splitlines()
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    whole = [part.strip(" $") for line in lines for part in re.split(r" && | \|(?= )|; ", line)]
    inline = re.findall(r"`(hynet [a-z][^`]*)`", re.sub(r"^(?: {4}|```).*", "", text, flags=re.MULTILINE))
    found = [(line, True) for line in whole] + [(" ".join(line.split()), False) for line in inline]
    return [(line, complete) for line, complete in found if line.startswith("hynet ")]


@pytest.fixture
def parse_only(monkeypatch):
    """Commands that are parsed, but do nothing."""

    def parse_value(*args: Any, **options: Any) -> Any:
        really(*args, **options)
        raise Parsed

    really = hynet.cli.parse_value
    for module in (hynet.cli, hynet.cli.evaluate, hynet.cli.paper):
        monkeypatch.setattr(module, "parse_value", parse_value)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_is_accepted_with_its_options(page, parse_only, capsys):
    for line, complete in command_lines(page):
        words = [word for word in shlex.split(line, comments=True)[1:] if word not in ("...", "…")]
        if PLACEHOLDERS & {*words} or words[0] == "help":
            continue
        try:
            code = main(words)
        except (Parsed, SystemExit):  # asked for help
            continue
        sentence = capsys.readouterr().err
        part = not complete and re.match("hynet: (missing:|say )", sentence)
        assert code == 0 or part or "..." in line, f"{line}: {sentence}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_of_a_page_fits_the_page(page):
    lines = re.findall(r"^ {4}(hynet .*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert not [line for line in lines if len(line) > 88]


def test_the_notebook_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "examples" / "hynet.ipynb").read_text())["cells"]
    values: dict[str, Any] = {}
    shown = [run_cell("".join(cell["source"]), values) for cell in cells if cell["cell_type"] == "code"]
    assert len(values["found"].inliers) > 50
    assert values["rows"]["our own"]["matches"] > 0
    pictures = [each for each in shown if hasattr(each, "_repr_png_") or hasattr(each, "_repr_html_")]
    assert len(pictures) == 5  # the pair, the features, the matches, the patches, the table
    assert list(tmp_path.iterdir()) == []


def run_cell(source: str, values: dict[str, Any]) -> Any:
    """As a notebook runs it: what its last line says is shown."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), values)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), values)

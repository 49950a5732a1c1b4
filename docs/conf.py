"""The document site: `make docs`. Pages are Markdown; the API comes from the docstrings, without torch or a GPU."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import hynet

ROOT = Path(__file__).parents[1]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]

project = "hynet"
author = "The hynet contributors"
version = release = hynet.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.doctest", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "requirements.txt"]

html_theme = "furo"
html_title = f"hynet {release}"
html_theme_options = {"source_repository": URLS["Repository"], "source_branch": "main", "source_directory": "docs/"}

myst_heading_anchors = 3  # so that links to headings are checked as well
highlight_language = "bash"  # of indented blocks, which are commands

# Every reference to a name or page of ours must lead somewhere; those of other packages are not looked up.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!hynet\.).*")]

autodoc_mock_imports = ["torch", "pycolmap", "scipy", "threadpoolctl", "safetensors"]
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
default_role = "code"  # docstrings write names in single backquotes

doctest_global_setup = """
import hynet
from hynet.images.example import example
noon, evening = example().paths
"""


OPTION = re.compile(r"[a-z_]+(, [a-z_]+)*: ")  # "ratio: keep a match only if ...", as our docstrings explain arguments


def as_restructured_text(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text: arguments become a list, an indented block stays as it is, bars and asterisks too."""
    written: list[str] = []
    listed = "Args:" in lines  # by itself
    callable_ = what in ("function", "method", "class")
    block = arguments = False  # where we are
    for before, line in zip(["", *lines], lines, strict=False):
        indented = line.startswith("    ")
        explains = callable_ and not listed and OPTION.match(line)
        if explains and not arguments:
            written += ["", "Args:"]
        elif indented and not before.strip() and not arguments:
            written += ["::", ""]
            block = True
        arguments = arguments or line == "Args:" or bool(explains)
        block = block and (indented or not line)
        plain = line if block or "`" in line else re.sub(r"([|*])", r"\\\1", line)
        written.append(f"    {plain}" if arguments and not listed and (indented or explains) else plain)
    lines[:] = written


def setup(app: object) -> None:
    # Before napoleon, which turns "Args:" into a list
    app.connect("autodoc-process-docstring", as_restructured_text, priority=400)  # type: ignore[attr-defined]

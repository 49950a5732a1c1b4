"""Web pages in one file: no network, no CDN, light and dark, fit to print. Style and scripts lie beside this file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

from ..runtime.files import atomic_write

__all__ = ["Cell", "asset", "escape", "page", "table", "write"]


@dataclass(frozen=True)
class Cell:
    """One cell of a table: its HTML, and the key that its column is sorted by."""

    html: str
    key: float | str | None = None  # None: an empty place, sorted last
    kind: str = ""  # CSS classes


def asset(name: str) -> str:
    """The text of a style or script of this folder."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def page(title: str, body: str, *, scripts: Sequence[str] = (), kind: str = "") -> str:
    """A whole HTML document. `body` is HTML already; whoever makes it escapes what comes from outside."""
    inline = "".join(f"<script>\n{script}</script>\n" for script in scripts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{asset('page.css')}</style>\n</head>\n"
        f'<body class="{kind}">\n{body}\n{inline}</body>\n</html>\n'
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], row_kinds: Sequence[str] = ()) -> str:
    """A table whose columns sort when clicked (with `sort.js`); the first column names the rows."""
    kinds_of_columns = [cell.kind for cell in rows[0]] if rows else [""] * len(columns)
    head = "".join(
        f'<th scope="col"{_class("words" if "words" in kind else "")}><button>{escape(column)}</button></th>'
        for column, kind in zip(columns, kinds_of_columns, strict=True)
    )
    kinds = row_kinds or [""] * len(rows)
    body = "\n".join(
        f"<tr{_class(kind)}>{_first(row[0])}{''.join(map(_cell, row[1:]))}</tr>"
        for row, kind in zip(rows, kinds, strict=True)
    )
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def write(path: str | Path, text: str) -> None:
    """The page, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _first(cell: Cell) -> str:
    return f'<th scope="row"{_attributes(cell)}>{cell.html}</th>'


def _cell(cell: Cell) -> str:
    return f"<td{_attributes(cell)}>{cell.html}</td>"


def _attributes(cell: Cell) -> str:
    key = "" if cell.key is None else f' data-key="{escape(str(cell.key))}"'
    return key + _class(cell.kind)


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""

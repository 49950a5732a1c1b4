"""Results as people read them, in a terminal, a document or a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Table:
    """Results as people read them: one row a method, one column a number."""

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Mapping[str, Any]]  # row name -> column -> value; a missing cell prints as a dash
    source: str = ""  # the command or the paper's table that the numbers come from
    formats: Mapping[str, str] = field(default_factory=dict)  # column -> format spec, e.g. "fpr95": ".2f"

    def markdown(self, width: int | None = None) -> str:
        """A GitHub table under its title; at most `width` characters wide; a line below it names columns left out."""
        lines = self._lines()
        left_out: list[str] = []
        while width is not None and len(lines[0]) > 2 and _width(lines) > width:
            left_out.insert(0, lines[0][-1])
            lines = [line[:-1] for line in lines]
        if width is not None and _width(lines) > width:  # one column of long words
            room = max(8, len(lines[0][-1]), width - _width([line[:-1] for line in lines]) - 3)
            lines = [[*line[:-1], _shortened(line[-1], room)] for line in lines]
        widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
        drawn = [
            "| " + " | ".join(cell.ljust(wide) for cell, wide in zip(line, widths, strict=True)) + " |"
            for line in lines
        ]
        rule = "|" + "|".join("-" * (wide + 2) for wide in widths) + "|"
        head = [f"**{self.title}**" + (f" ({self.source})" if self.source else ""), ""]
        rest = f"Too wide for this terminal, but in --json and --out: {', '.join(left_out)}."
        return "\n".join([*head, drawn[0], rule, *drawn[1:], *(["", rest] if left_out else [])])

    def _repr_html_(self) -> str:
        """Show the table in a notebook."""
        from . import showing

        return showing.table(self.title, self._lines())

    def _lines(self) -> list[list[str]]:
        """Header and rows, as cells."""
        body = [[name, *(self._cell(row, column) for column in self.columns)] for name, row in self.rows.items()]
        return [["", *self.columns], *body]

    def beside(self, paper: Table) -> Table:
        """One table with the paper's rows above ours, each marked."""
        columns = [*self.columns, *(column for column in paper.columns if column not in self.columns)]
        rows = {f"{name} (paper)": row for name, row in paper.rows.items()} | dict(self.rows)
        return Table(self.title, columns, rows, self.source, {**paper.formats, **self.formats})

    def _cell(self, row: Mapping[str, Any], column: str) -> str:
        value = row.get(column)
        if value is None:
            return "-"
        spec = self.formats.get(column, ".2f" if isinstance(value, float) else "")
        return format(value, spec)


def _width(lines: Sequence[Sequence[str]]) -> int:
    """Width of the drawn table, in characters."""
    return sum(max(len(line[k]) for line in lines) + 3 for k in range(len(lines[0]))) + 1


def _shortened(cell: str, most: int) -> str:
    return cell if len(cell) <= most else f"{cell[: most - 1]}…"

"""Measure speed and memory as ratios against named peers, all in one run.

Example: hynet bench loss
"""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import tyro

from ..bench import BENCHES
from ..errors import MissingExtra, choose
from ..system.machine import processor
from ..types import Table
from . import Report, terminal_width

Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help=f"{', '.join(BENCHES)}, or all")]


def run(name: Name = "all") -> Report:
    """Run one bench, or all of them."""
    if name != "all":
        choose(BENCHES, name, "bench")
    tables: list[str] = []
    data: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    for bench in BENCHES if name == "all" else [name]:
        try:
            rows = importlib.import_module(f"hynet.bench.{bench}").measure()
        except MissingExtra as error:
            if name != "all":
                raise
            skipped[bench] = str(error)
            tables.append(f"{bench} was left out: {error}")
            continue
        peer = rows[0]
        measured = [{"name": row.name, "value": row.value, "unit": row.unit, "ratio": row.ratio(peer)} for row in rows]
        cells = {row["name"]: {"value": row["value"], "unit": row["unit"], "ratio": row["ratio"]} for row in measured}
        tables.append(Table(f"{bench}: {BENCHES[bench]}", ["value", "unit", "ratio"], cells).markdown(terminal_width()))
        data.append({"bench": bench, "rows": measured})
    machine = processor()
    if name == "all":
        named = [{**row, "name": f"{bench['bench']}: {row['name']}"} for bench in data for row in bench["rows"]]
        return Report(
            "\n\n".join([*tables, machine]), {"bench": "all", "rows": named, "skipped": skipped, "machine": machine}
        )
    return Report(f"{tables[0]}\n\n{machine}", data[0] | {"machine": machine})

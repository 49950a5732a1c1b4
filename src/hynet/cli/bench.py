"""Measure speed and memory as ratios against named peers, all in one run.

Example: hynet bench loss
"""

from __future__ import annotations

import importlib
from typing import Annotated

import tyro

from ..bench import BENCHES
from ..errors import choose
from ..types import Table
from . import Report


def run(name: Annotated[str, tyro.conf.Positional] = "all") -> Report:
    """Run one bench, or all of them.

    Args:
        name: which bench; `all` runs every one.
    """
    if name != "all":
        choose(BENCHES, name, "bench")
    tables, data = [], []
    for bench in BENCHES if name == "all" else [name]:
        rows = importlib.import_module(f"hynet.bench.{bench}").run()
        peer = rows[0]
        measured = [{"name": row.name, "value": row.value, "unit": row.unit, "ratio": row.ratio(peer)} for row in rows]
        cells = {row["name"]: {"value": row["value"], "unit": row["unit"], "ratio": row["ratio"]} for row in measured}
        tables.append(Table(f"{bench}: {BENCHES[bench]}", ["value", "unit", "ratio"], cells).markdown())
        data.append({"bench": bench, "rows": measured})
    return Report("\n\n".join(tables), data[0] if name != "all" else {"bench": "all", "benches": data})

"""Measures speed and memory as ratios against named peers, all in one run: `python -m bench [NAME] [--json]`."""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
from typing import Any

from hynet.errors import MissingExtra
from hynet.runtime.machine import processor
from hynet.types import Table

from . import BENCHES


def main() -> None:
    """Runs one bench, or all of them, and prints a table or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", nargs="?", default="all", choices=[*BENCHES, "all"], help="which bench; by default all")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    data: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    for bench in BENCHES if asked.name == "all" else [asked.name]:
        try:
            data.append({"bench": bench, "rows": measured(bench)})
        except MissingExtra as error:
            if asked.name != "all":
                sys.exit(f"bench: {error}")
            skipped[bench] = str(error)
    machine = processor()
    if asked.json:
        rows = [{**row, "name": f"{each['bench']}: {row['name']}"} for each in data for row in each["rows"]]
        whole = {"bench": "all", "rows": rows, "skipped": skipped} if asked.name == "all" else data[0]
        print(json.dumps(whole | {"machine": machine}))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for each in data:
        cells = {row["name"]: {key: row[key] for key in ("value", "unit", "ratio")} for row in each["rows"]}
        title = f"{each['bench']}: {BENCHES[each['bench']]}"
        print(Table(title, ["value", "unit", "ratio"], cells).markdown(width), end="\n\n")
    for bench, why in skipped.items():
        print(f"{bench} was left out: {why}")
    print(machine)


def measured(bench: str) -> list[dict[str, Any]]:
    """Rows of one bench, each with its ratio to the first row, the peer."""
    rows = importlib.import_module(f"bench.{bench}").measure()
    return [{"name": row.name, "value": row.value, "unit": row.unit, "ratio": row.ratio(rows[0])} for row in rows]


if __name__ == "__main__":
    main()

"""Every table of docs/performance.md: `hynet bench` on this machine, which must do nothing else meanwhile.

Usage: python studies/performance.py OUT PHOTOS WEIGHTS [--only start reconstruct-real] [--write docs/performance.md]

Each bench is a command of its own, whose JSON is kept in OUT; those that are there are not run again unless --only names
them. PHOTOS is a folder of overlapping photos for the benches whose name ends in -real, WEIGHTS one of other people's
weights (ALIKED, XFeat) for `hynet bench photo`. --write puts the tables between the marks of that page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from scale_tables import write_tables

from hynet.bench import BENCHES
from hynet.system.files import whole

REAL = "-real"  # at the end of a bench's name: on PHOTOS instead of rendered ones
NAMES = [*BENCHES, f"photo{REAL}", f"reconstruct{REAL}"]


def measured(name: str, photos: Path, weights: Path) -> dict[str, Any]:
    """What `hynet bench NAME --json` prints."""
    bench = name.removesuffix(REAL)
    given = {"HYNET_PHOTOS": str(photos)} if name.endswith(REAL) else {}
    given |= {"HYNET_WEIGHTS": str(weights)} if bench == "photo" else {}
    command = [sys.executable, "-m", "hynet", "bench", bench, "--json"]
    done = subprocess.run(command, env={**os.environ, **given}, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def table(found: dict[str, Any]) -> str:
    lines = ["| | | ratio |", "|---|---|---|"]
    for row in found["rows"]:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3g}"
        lines.append(f"| {row['name'].strip()} | {_number(row['value'])} {row['unit']} | {ratio} |")
    return "\n".join([*lines, "", f"{found['machine']}."])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--only", nargs="+", choices=NAMES)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    tables = {}
    for name in asked.only or NAMES:
        note = asked.out / f"{name}.json"
        if asked.only or not note.exists():
            print(f"hynet bench {name}", file=sys.stderr, flush=True)
            found = measured(name, asked.photos.absolute(), asked.weights.absolute())
            with whole(note) as temporary:
                temporary.write_text(json.dumps(found, indent=1))
        tables[name] = table(json.loads(note.read_text()))
    print("\n\n".join(f"{name}\n\n{text}" for name, text in tables.items()))
    if asked.write:
        write_tables(asked.write, tables)


if __name__ == "__main__":
    main()

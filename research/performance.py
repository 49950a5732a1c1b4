"""The tables of docs/performance.md: `python -m bench` on this machine, which must do nothing else meanwhile.

Usage: python research/performance.py OUT PHOTOS WEIGHTS [--only start reconstruct-real]     runs what is not there yet
       python research/performance.py OUT PHOTOS WEIGHTS --write docs/performance.md         writes the page's tables

Each bench is a command of its own, whose JSON is kept in OUT; --only runs some, again if need be. PHOTOS is a folder of
overlapping photos for the benches whose name ends in -real, WEIGHTS one of other people's weights (ALIKED, XFeat) for
`python -m bench photo`. --write puts the tables of OUT between the marks of that page that have their names.
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

from bench import BENCHES
from hynet.runtime.files import atomic_write

REAL = "-real"  # at the end of a bench's name: on PHOTOS instead of rendered ones
NAMES = [*BENCHES, f"photo{REAL}", f"reconstruct{REAL}"]
GIVEN = "HYNET_PHOTOS", "HYNET_WEIGHTS"


def measured(name: str, photos: Path, weights: Path) -> dict[str, Any]:
    """What `python -m bench NAME --json` prints."""
    bench = name.removesuffix(REAL)
    environment = {key: value for key, value in os.environ.items() if key not in GIVEN}
    environment |= {"HYNET_PHOTOS": str(photos)} if name.endswith(REAL) else {}
    environment |= {"HYNET_WEIGHTS": str(weights)} if bench == "photo" else {}
    command = [sys.executable, "-m", "bench", bench, "--json"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def table(found: dict[str, Any]) -> str:
    """A row for each thing measured; what is told of it besides ("hynet, light: mapping") has columns."""
    rows: dict[str, dict[str, str]] = {}
    for row in found["rows"]:
        name, _, what = row["name"].strip().partition(": ")
        value = f"{_number(row['value'])} {row['unit']}"
        rows.setdefault(name, {})[what] = value
        if not what and row["ratio"] is not None:
            rows[name]["ratio"] = f"{row['ratio']:.3g}"
    columns = [
        "",
        "ratio",
        *dict.fromkeys(what for told in rows.values() for what in told if what not in ("", "ratio")),
    ]
    lines = [f"| | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    lines += [f"| {name} | {' | '.join(told.get(what, '') for what in columns)} |" for name, told in rows.items()]
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
    if asked.write:
        marked = [name for name in NAMES if f"<!-- {name}: " in asked.write.read_text()]
        notes = {name: asked.out / f"{name}.json" for name in marked}
        write_tables(
            asked.write, {name: table(json.loads(note.read_text())) for name, note in notes.items() if note.exists()}
        )
        return
    for folder in (asked.photos, asked.weights):
        if not folder.is_dir():
            parser.error(f"no folder {folder}.")
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.only or NAMES:
        note = asked.out / f"{name}.json"
        if asked.only or not note.exists():
            print(f"bench {name}", file=sys.stderr, flush=True)
            found = measured(name, asked.photos.absolute(), asked.weights.absolute())
            with atomic_write(note) as temporary:
                temporary.write_text(json.dumps(found, indent=1))
            print(table(found), flush=True)


if __name__ == "__main__":
    main()

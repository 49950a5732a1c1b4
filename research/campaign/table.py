"""The results of the campaigns as tables, into docs/reliability.md between its marks.

python -m research.campaign.table research/campaign/fuzz.json research/campaign/faults.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hynet.types import Table

from .cases import CLASSES

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def main(files: list[str]) -> int:
    page = PAGE.read_text()
    for file in map(Path, files):
        mark = file.stem
        start, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        before, _, rest = page.partition(start)
        _, _, after = rest.partition(end)
        made = {"fuzz": fuzz, "faults": faults}[mark](json.loads(file.read_text()))
        page = f"{before}{start}\n{made}\n{end}{after}"
    PAGE.write_text(page)
    return 0


def fuzz(report: dict[str, Any]) -> str:
    rows = {
        name: {"cases": sum(row.get(kind, 0) for kind in CLASSES), **row} for name, row in report["readers"].items()
    }
    rows["all"] = {kind: sum(row.get(kind, 0) for row in rows.values()) for kind in ("cases", *CLASSES)}
    numbers = {name: {kind: row.get(kind, 0) for kind in ("cases", *CLASSES)} for name, row in rows.items()}
    source = f"`{report['command']}` at {report['commit']}, {report['minutes']} minutes"
    return Table("Mutated inputs", ["cases", *CLASSES], numbers, source).markdown()


def faults(report: dict[str, Any]) -> str:
    columns = list(dict.fromkeys(fault for row in report["commands"].values() for fault in row))
    noted = f"; {report['note']}" if "note" in report else ""
    source = f"`{report['command']}` at {report['commit']}{noted}"
    return Table("Faults: how many, and how many ended as they should", columns, report["commands"], source).markdown()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

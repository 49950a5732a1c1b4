"""What research/scale.py measured, as tables for docs/scale.md, and the plan on paper that follows from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scale_vectors import NEIGHBOURS

from hynet.runtime.files import atomic_write

# The plan of docs/scale.md: c7i.16xlarge in us-east-1, on demand, Linux
PLAN, MACHINES, VCPUS, DOLLARS = 10_000_000, 20, 64, 2.856
VCPU_SHARE = 0.6  # of a core here: two of them share one core there
PAIRS_A_PHOTO = 30  # with 50 neighbours, since many choose each other
BYTES_A_PAIR = 800  # 100 matches
SEARCH_EXPONENT = 1.5  # lists and what is looked through of them both grow with the square root


def exponent(counts: list[int], seconds: list[float]) -> float:
    """Of the power of the number that the time grows with."""
    return float(np.polyfit(np.log(counts), np.log(seconds), 1)[0])


def extraction_table(measured: Sequence[dict[str, float]], title: str) -> str:
    lines = [
        title,
        "",
        "| photos | workers | seconds | photos/s | MB of the command | MB of all processes | KB a photo on disk |",
        "|---|---|---|---|---|---|---|",
    ]
    for workers in dict.fromkeys(row["workers"] for row in measured):
        rows = [row for row in measured if row["workers"] == workers]
        lines += [
            f"| {row['photos']:,} | {workers} | {row['seconds']:.0f} | {row['photos'] / row['seconds']:.2f} | "
            f"{row['first']:.0f} | {row['all']:.0f} | {row['bytes'] / row['photos'] / 1e3:.0f} |"
            for row in rows
        ]
        if len(rows) > 1:
            power = exponent([row["photos"] for row in rows], [row["seconds"] for row in rows])
            lines.append(f"| exponent of the time | {workers} | {power:.2f} | | | | |")
    return "\n".join(lines)


def pairing_table(rows: Sequence[dict[str, float]]) -> str:
    lines = [
        f"| vectors | search | seconds | MB of the vectors | MB at the peak | recall of the {NEIGHBOURS} nearest |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        kind = "exact" if row["exact"] else "IVF-PQ"
        memory = f"{row['vectors']:.0f} | {row['peak']:.0f}"
        lines.append(f"| {row['count']:,} | {kind} | {row['seconds']:.0f} | {memory} | {row['recall']:.1%} |")
    if len(rows) > 1 and len({row["exact"] for row in rows}) == 1:  # exact search and IVF-PQ grow in different ways
        power = exponent([row["count"] for row in rows], [row["seconds"] for row in rows])
        lines.append(f"| exponent of the time | | {power:.2f} | | | |")
    return "\n".join(lines)


def plan_table(extract: dict[str, float], pairs: dict[str, float], matching: float) -> str:
    """Ten million photos on the cluster that docs/scale.md names, by what was measured here on one core.

    Workers extract and match each for itself, so that a vCPU is taken as one; the search is one process of as many
    threads as the machine has vCPUs, and taken to use all of them.
    """
    machine = VCPU_SHARE * VCPUS  # cores of ours
    search = pairs["seconds"] * pairs["threads"] * (PLAN / pairs["count"]) ** SEARCH_EXPONENT
    hours = {
        "extract": PLAN * extract["seconds"] * extract["workers"] / extract["photos"] / machine / MACHINES / 3600,
        "pairs, on one machine": search / machine / 3600,
        "match and verify": PLAN * PAIRS_A_PHOTO / matching / machine / MACHINES / 3600,
    }
    machines = {"pairs, on one machine": 1}
    disk = {
        "extract": PLAN * extract["bytes"] / extract["photos"] / 1e12,
        "pairs, on one machine": PLAN * 2048 / 1e12,
        "match and verify": PLAN * PAIRS_A_PHOTO * BYTES_A_PAIR / 1e12,
    }
    lines = ["| step | hours | dollars | TB on disk |", "|---|---|---|---|"]
    for step, spent in hours.items():
        dollars = spent * DOLLARS * machines.get(step, MACHINES)
        lines.append(f"| {step} | {spent:,.1f} | {dollars:,.0f} | {disk[step]:.2f} |")
    return "\n".join(lines)


def write_tables(page: Path, tables: dict[str, str]) -> None:
    """Each between the marks `<!-- NAME: ... -->` and `<!-- end -->` of a page."""
    text = page.read_text()
    for name, table in tables.items():
        marked = rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- end -->)"
        text, found = re.subn(marked, lambda marks, new=table: f"{marks[1]}{new}\n{marks[2]}", text, flags=re.DOTALL)
        assert found == 1, f"{page} has no marks for {name}"
    with atomic_write(page) as temporary:
        temporary.write_text(text)

"""Choose which photos to match: each with those that look most alike, by one vector per photo from its own descriptors.

Example: hynet pairs collection/ --neighbours 50 --out pairs.txt
         hynet pairs features.h5 --out pairs.txt --check 100          also says how many pairs it misses
         hynet match --pairs pairs.txt --extractor collection/ --out matches.h5
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from ..runtime.pool import open_pool
from ..sfm.collection_pairs import find_pairs, write_pairs
from . import Report
from .progress import announce_dashboard, bar

LISTED = 20  # photos


def run(
    features: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="COLLECTION")],
    *,
    out: Path,
    neighbours: int = 50,
    check: int = 0,
    exact: bool = False,
    jobs: int = 0,
    cluster: str = "local",
) -> Report:
    """Choose pairs.

    Args:
        features: A collection or a features file, as made by `hynet extract`.
        out: The file to write, two names per line, as in hloc.
        neighbours: Number of photos that each photo is paired with.
        check: Match all pairs of this many photos, and say how many of the verified pairs were chosen.
        exact: Compare every vector with every other; by default an index (extra faiss) finds the neighbours of more
            than 20,000 photos.
        jobs: Processes at once; 0 means one per core. With --cluster slurm, Slurm jobs.
        cluster: Where the collection is read: local, dask://HOST:PORT or slurm, as for `hynet extract`.
    """
    with open_pool(cluster, jobs) as workers, bar() as progress:
        announce_dashboard(workers.dashboard)
        found = find_pairs(
            features, neighbours, cluster=workers, check=check, exact=True if exact else None, progress=progress
        )
    write_pairs(out, found)
    duplicates = [[found.names[a], found.names[b]] for a, b in found.duplicates]
    alone = [found.names[k] for k in found.alone]
    lines = [f"{out} holds {len(found.pairs)} pairs of {len(found.names)} photos."]
    told = found.recall
    if told is not None:
        share = f", {told.found / told.verified:.1%}" if told.verified else ""
        lines += [
            f"Of {told.photos} photos matched exhaustively, {told.verified} pairs share a geometry; {told.found} of "
            f"them were chosen{share}."
        ]
    listed = (
        ("pairs that are nearly one photo", [" ".join(pair) for pair in duplicates]),
        ("photos that no other looks like", alone),
    )
    for what, rows in listed:
        more = [f"  and {len(rows) - LISTED} more"] if len(rows) > LISTED else []
        lines += [f"{len(rows)} {what}:", *(f"  {row}" for row in rows[:LISTED]), *more] if rows else []
    recall = None if told is None else {"photos": told.photos, "verified": told.verified, "found": told.found}
    data = {"out": str(out), "photos": len(found.names), "pairs": len(found.pairs), "recall": recall}
    return Report("\n".join(lines), {**data, "duplicates": duplicates, "alone": alone})

"""Extract features of photos into one HDF5 file, in the layout that hloc reads, or into a collection of such files.

Run it again to continue. New photos are added; photos that have changed, or whose masks have, are extracted again.

Example: hynet extract photos/ --out features.h5
         hynet extract photos/ --out collection/                                   a folder: for many photos
         hynet extract photos.parquet --out collection/ --cluster dask://10.0.0.5:8786
         hynet extract photos/ --out features.h5 --detector keynet --mask masks/
         hynet extract photos/ --out features.h5 --extractor aliked-n16.pth
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from ..errors import BadInput
from ..features.folder import WATCHDOG, Extracted, extract_all, extract_collection, is_begun
from ..features.settings import FeatureSettings
from ..runtime.machine import cores
from ..runtime.pool import open_pool
from . import Report, absence
from .progress import announce_dashboard, bar

LISTED = 20  # photos that could not be read
COMMON = ("extractor", "detector", "model", "max-keypoints", "mask", "precision", "jobs", "cluster")


def run(
    photos: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO_OR_DIR_OR_LIST...")],
    *,
    out: str,
    settings: tyro.conf.OmitArgPrefixes[FeatureSettings],
    jobs: int = 0,
    cluster: str = "local",
    watchdog: float = WATCHDOG,
    recheck: bool = True,
    overwrite: bool = False,
) -> Report:
    """Extract features.

    Args:
        photos: Photos, or folders of them. For a collection also glob patterns in quotes, and CSV or Parquet files with
            a column `path`; paths may be URLs (s3://, gs://, http:// and whatever else fsspec reads).
        out: The file to write, with one group per photo. A name that ends in a slash or has no suffix makes a
            collection: a folder of such files with an index, for any number of photos.
        jobs: Processes at once; 0 means one per core. With --cluster slurm, Slurm jobs.
        cluster: Where a collection is extracted: local (processes on this machine), dask://HOST:PORT (the workers of
            that scheduler), or slurm (jobs as described in Dask's jobqueue.yaml).
        watchdog: Seconds that a photo of a collection may take before it counts as hung and is quarantined.
        recheck: Also read the finished photos of a collection, extract again those that have changed, and retry those
            in quarantine; --no-recheck leaves them as they are, for when reading them all takes too long.
        overwrite: Replace what was made with other settings, instead of refusing.
    """
    if not photos:
        raise BadInput("no photos were given; name photos, or the folder that holds them.")
    if _is_folder(out):
        with open_pool(cluster, jobs) as workers, bar() as progress:
            announce_dashboard(workers.dashboard)
            collected = extract_collection(
                photos,
                out,
                settings,
                cluster=workers,
                watchdog=watchdog,
                recheck=recheck,
                overwrite=overwrite,
                progress=progress,
            )
        return _told(collected, out)
    if cluster != "local":
        raise BadInput(f"a cluster makes a collection, not one file; give --out a folder, such as {Path(out).stem}/.")
    with bar() as progress:
        done = extract_all(photos, out, settings, jobs=jobs or len(cores()), overwrite=overwrite, progress=progress)
    photos_told = "1 photo" if done.photos == 1 else f"{done.photos} photos"
    lines = [f"{out} holds the features of {photos_told}, {done.new} of them new."]
    if done.unreadable:
        lines += [f"{len(done.unreadable)} could not be read:", *(f"  {why}" for why in done.unreadable.values())]
    data = {"out": str(out), "photos": done.photos, "new": done.new, "unreadable": dict(done.unreadable)}
    return Report("\n".join(lines), data, absence(done.unreadable))


def _is_folder(out: str) -> bool:
    """Whether a collection is meant; a folder of other things, given without a slash, is a mistake."""
    path = Path(out)
    if path.exists():
        return out.endswith("/") or is_begun(path)
    return out.endswith("/") or not path.suffix


def _told(done: Extracted, out: str) -> Report:
    lines = [f"{out} holds the features of {done.photos} photos in {done.shards} shards, {done.new} of them new."]
    for wrong, said in ((done.unreadable, "could not be read"), (done.quarantined, "were quarantined")):
        if wrong:
            shown = [f"  {name}: {why}" for name, why in list(wrong.items())[:LISTED]]
            more = [f"  and {len(wrong) - LISTED} more: {out}/index.parquet lists them"] if len(wrong) > LISTED else []
            lines += [f"{len(wrong)} {said}:", *shown, *more]
    data: dict[str, Any] = {"out": out, "photos": done.photos, "new": done.new, "shards": done.shards}
    data |= {"unreadable": dict(done.unreadable), "quarantined": dict(done.quarantined)}
    return Report("\n".join(lines), data, absence(done.unreadable))

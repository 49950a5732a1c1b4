"""Make a patch set in PhotoTour's own format from folders of photos, one per scene; or draw a picture of such a set.

Example: hynet patches castle/ bridge/ --out set/
         hynet patches market/ --out set/                 adds a scene; finished scenes are kept
         hynet patches --show set/ --out sheet.png        corresponding patches, one point per row
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from ..datasets import ubc
from ..errors import BadInput
from ..images import drawing
from ..images.patches import SUPPORT_SIGMAS
from ..patchsets import make as patchsets
from . import Report
from .choices import workers_of
from .progress import bar

Folders = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[DIR ...]", help_behavior_hint="")]


def run(
    folders: Folders = (),
    *,
    out: Path,
    show: Path | None = None,
    hard_share: float = 1 / 3,
    support: float = SUPPORT_SIGMAS,
    max_keypoints: int = patchsets.PatchSettings.max_keypoints,
    elliptic: float = 0.0,
    jobs: int | None = None,
    mapper_threads: int = 1,
    cluster: str = "local",
    overwrite: bool = False,
) -> Report:
    """Make a patch set, or show one.

    Args:
        folders: Folders of photos; each is one scene.
        out: The folder of the set; with --show, the picture.
        show: A set to draw a contact sheet of, instead of making one.
        hard_share: Minimum share of corresponding pairs that SIFT matching missed; 1 for a test set.
        support: Patch width in detector sigmas.
        max_keypoints: Number of keypoints per photo, the strongest ones.
        elliptic: Share of the points that are cut as elliptic regions, as `hynet match` does, instead of round ones.
        jobs: Scenes made at once; by default one per core.
        mapper_threads: Mapping threads per scene; more than one is faster if there are few scenes, but the same photos
            then give a slightly different set.
        cluster: Where scenes are made, one per task: local (processes on this machine), dask://HOST:PORT or slurm, as
            for `hynet extract`.
        overwrite: Make every scene again if the set was made with other settings, instead of refusing.
    """
    if (show is None) == (not folders):
        raise BadInput("give folders of photos to make a set of, or --show SET/ to look at one.")
    if show is not None:
        with bar() as progress:
            return _sheet(show, out, progress)
    with workers_of(cluster, jobs or 0) as there, bar() as progress:
        settings = patchsets.PatchSettings(support=support, max_keypoints=max_keypoints, elliptic=elliptic)
        summary = patchsets.make(
            folders,
            out,
            settings=settings,
            hard_share=hard_share,
            jobs=jobs,
            mapper_threads=mapper_threads,
            cluster=there,
            overwrite=overwrite,
            progress=progress,
        )
    return Report(_text(summary, out), summary)


def _sheet(root: Path, out: Path, progress: Any) -> Report:
    patch_set = ubc.load(root, progress=progress)
    drawing.save(patchsets.sheet(patch_set, title=root.resolve().name, scenes=ubc.scene_names(root)), out)
    return Report(f"{out} shows corresponding patches of {root}, one point per row.", {"sheet": str(out)})


def _text(summary: dict[str, Any], out: Path) -> str:
    scenes = summary["scenes"]
    total = {key: sum(scene[key] for scene in scenes) for key in ("patches", "points", "correspondences")}
    hard = sum(scene["hard_share"] * scene["correspondences"] for scene in scenes) / max(total["correspondences"], 1)
    lines = [
        f"{out}: {total['patches']:,} patches of {total['points']:,} points from {len(scenes)} scenes; "
        f"{hard:.0%} of the corresponding pairs are hard (SIFT matching missed them)."
    ]
    lines += [f"skipped {scene['name']}: {scene['why']}" for scene in summary["skipped"]]
    lines += [f"left out: {why}" for why in summary["unreadable"]]
    return "\n".join(lines)

"""Build a 3-D model from a folder of photos: features, matches, verification, mapping. Run it again to continue, or
after adding photos. The model is in COLMAP's format, with its database, a point cloud and a table.

Example: hynet reconstruct photos/ --out model/
         hynet reconstruct photos/ --out model/ --features superpoint.h5 --pairs pairs.txt
         hynet reconstruct photos/ --out model/ --features superpoint.h5 --matches superpoint-lightglue.h5
         hynet reconstruct photos/ --out model/ --extractor aliked-n16.pth
         hynet reconstruct photos/ --out model/ --camera PINHOLE,1380,1382,760,503 --mapper global
         hynet reconstruct photos/ --out model/ --mapper global --cluster dask://10.0.0.5:8786
         hynet reconstruct photos/ --out model/ --undistort splat/       (then: ns-train splatfacto ... --data splat/)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..features.settings import FeatureSettings
from ..sfm.mapping import Reconstructed
from ..sfm.reconstruct import KEYPOINTS, reconstruct
from ..sfm.undistortion import need_apart
from ..sfm.undistortion import undistort as write_undistorted
from . import Report
from .choices import workers_of
from .progress import bar

SETTINGS = FeatureSettings(max_keypoints=KEYPOINTS)
COMMON = ("extractor", "detector", "model", "max-keypoints", "features", "matches", "mapper")


@dataclass(frozen=True)
class MappingSettings:
    """Options of the command that say how a model is mapped; the comments are its help."""

    # Photo by photo (incremental), or all photos at once (global), which is faster for thousands of photos.
    mapper: Literal["incremental", "global"] = "incremental"
    # Mapper threads; more than one is faster, but the same photos can then give a different model each time.
    mapper_threads: int = 1
    # Locate the keypoints of the model more exactly, by aligning the photos that see a point, and adjust it to them;
    # --no-refine leaves them where they were detected.
    refine: bool = True


MAPPING = MappingSettings()


def run(
    photos: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    *,
    out: Path,
    settings: tyro.conf.OmitArgPrefixes[FeatureSettings] = SETTINGS,
    features: Path | None = None,
    matches: Path | None = None,
    pairs: str = "auto",
    ratio: float | None = None,
    camera: str = "auto",
    mapping: tyro.conf.OmitArgPrefixes[MappingSettings] = MAPPING,
    jobs: int = 0,
    cluster: str = "local",
    undistort: Path | None = None,
    overwrite: bool = False,
) -> Report:
    """Reconstruct.

    Args:
        photos: The folder of the photos.
        out: The folder for the model.
        features: Features in hloc's layout from any program, in place of detector and model.
        matches: Matches between those features in hloc's layout from any program, such as LightGlue's, in place of
            ours.
        pairs: exhaustive, retrieval, sequence, or a file with two names per line; auto: exhaustive for up to 50 photos;
            for up to 200, each photo with its 15 most similar, then those that share a verified partner; retrieval
            beyond.
        ratio: Keep a match only if its distance is below this times that of the second-nearest; 1 keeps all. By default
            matches that are probably correct are kept, given their ratio and neighbours that moved alike.
        camera: auto takes focal lengths from EXIF; shared has one camera for all photos of the same size; or a known
            camera as COLMAP writes it, MODEL,NUMBER,NUMBER...
        jobs: Extraction processes and matching threads; 0 means one per core. With --cluster slurm, Slurm jobs.
        cluster: Where features are extracted and matched: local (this machine), dask://HOST:PORT or slurm, as for
            `hynet extract`.
        undistort: A folder for undistorted photos, their PINHOLE model and masks, as read by gsplat, nerfstudio and the
            code of 3D Gaussian splatting.
        overwrite: Replace what was made with other settings, instead of refusing.
    """
    if undistort is not None:
        need_apart(photos, undistort)  # before the long work
    with workers_of(cluster, jobs) as workers, bar() as progress:
        done = reconstruct(
            photos,
            out,
            settings=settings,
            features=features,
            matches=matches,
            pairs=pairs,
            ratio=ratio,
            camera=camera,
            **vars(mapping),
            jobs=jobs if workers is None else 0,
            cluster=workers,
            overwrite=overwrite,
            progress=progress,
        )
        if undistort is not None:
            write_undistorted(out, photos, undistort, progress=progress)
    return _report(done, out, undistort)


def _report(done: Reconstructed, out: Path, undistort: Path | None) -> Report:
    lines = [
        f"{done.registered} of {done.photos} photos registered, {done.points} points seen by {done.track_length:.2f} "
        f"photos each, {done.reprojection_error:.2f} px off on average.",
        f"The model is in {out}; `hynet view {out}` shows it"
        + (f", `hynet doctor {out}` says why photos are missing." if done.registered < done.photos else "."),
    ]
    if undistort is not None:
        lines.append(f"Its photos without distortion are in {undistort}.")
    if done.unreadable:
        lines += [f"{len(done.unreadable)} could not be read:", *(f"  {why}" for why in done.unreadable.values())]
    return Report("\n".join(lines), asdict(done))

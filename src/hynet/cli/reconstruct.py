"""A 3-D model from a folder of photos: features, matches, verification, mapping. Run it again to go on, or after adding
photos. The model is in COLMAP's format, with its database, a point cloud and a table.

Example: hynet reconstruct photos/ --out model/
         hynet reconstruct photos/ --out model/ --features superpoint.h5 --pairs pairs.txt
         hynet reconstruct photos/ --out model/ --features superpoint.h5 --matches superpoint-lightglue.h5
         hynet reconstruct photos/ --out model/ --extractor aliked-n16.pth
         hynet reconstruct photos/ --out model/ --camera PINHOLE,1380,1382,760,503 --mapper global
         hynet reconstruct photos/ --out model/ --mapper global --cluster dask://10.0.0.5:8786
         hynet reconstruct photos/ --out model/ --undistort splat/       (then: ns-train splatfacto ... --data splat/)
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..extractors.settings import Settings
from ..sfm.reconstruction import KEYPOINTS, reconstruct
from ..sfm.undistortion import need_apart
from ..sfm.undistortion import undistort as write_undistorted
from . import Report
from .choices import Detector, Device, Model, workers_of
from .progress import bar


def run(
    photos: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    *,
    out: Path,
    extractor: str | None = None,
    model: Model = "default",
    detector: Detector = "dog",
    max_keypoints: int = KEYPOINTS,
    orientation: Literal["auto", "upright", "gradient"] = "auto",
    shape: str = "none",
    features: Path | None = None,
    matches: Path | None = None,
    pairs: str = "auto",
    ratio: float | None = None,
    camera: str = "auto",
    mapper: Literal["incremental", "global"] = "incremental",
    mapper_threads: int = 1,
    jobs: int = 0,
    cluster: str = "local",
    undistort: Path | None = None,
    overwrite: bool = False,
    device: Device = None,
) -> Report:
    """Reconstruct.

    Args:
        photos: The folder that holds the photos.
        out: The folder for the model.
        extractor: What finds and describes keypoints at once, in place of detector and model: the path of the weights
            of ALIKED, R2D2 or XFeat, or a name such as opencv-sift.
        max_keypoints: The most keypoints per photo.
        orientation: Whether keypoints are turned to where it gets brighter (gradient) or not (upright); auto looks at
            some of the photos: upright, unless some were turned against others.
        shape: Elliptic regions, for surfaces seen from the side: affine-network, baumberg, none, or a network's path.
        features: Anyone's features in hloc's layout, instead of detector and model.
        matches: Anyone's matches between those features in hloc's layout, LightGlue's for one, instead of our own.
        pairs: exhaustive, retrieval, sequence, or a file with two names a line; auto is exhaustive for up to 50 photos,
            for up to 200 begins with the 15 most alike and goes on from verified pairs, and is retrieval beyond.
        ratio: Keep a match only if it is nearer than this times the runner-up; 1 keeps all. By default matches are kept
            that are probably right, by their ratio and by neighbours that moved alike.
        camera: auto takes focal lengths from EXIF, shared has one camera for all photos of a size; or a known camera as
            COLMAP writes it, MODEL,NUMBER,NUMBER...
        mapper: Photo by photo, or all at once, which is faster for thousands of photos.
        mapper_threads: Threads of the mapper; more than one are faster, but the same photos then give now this model,
            now another.
        jobs: Processes that extract and threads that match; 0 means one per core. With --cluster slurm, its jobs.
        cluster: Who extracts and matches: local (this machine), dask://HOST:PORT or slurm, as for `hynet extract`.
        undistort: A folder for photos without distortion, their PINHOLE model and masks, as gsplat, nerfstudio and the
            code of 3D Gaussian splatting read them.
        overwrite: Replace what was made with other settings, instead of refusing.
    """
    settings = Settings(
        detector, model, max_keypoints, orientation=orientation, shape=shape, extractor=extractor, device=device
    )
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
            mapper=mapper,
            mapper_threads=mapper_threads,
            jobs=jobs if workers is None else 0,
            cluster=workers,
            overwrite=overwrite,
            progress=progress,
        )
        if undistort is not None:
            write_undistorted(out, photos, undistort, progress=progress)
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

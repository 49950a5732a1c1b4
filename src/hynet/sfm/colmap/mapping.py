"""Verified matches -> cameras and points, by COLMAP's mappers."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ...errors import BadData, HynetError, MissingExtra, choose
from ...runtime.processes import EndedEarly, Worker, tell
from ...types import Progress, silent
from .package import SEED, NotReconstructed, pycolmap

ROBUST = 0.5  # pixels beyond which a match counts less and less
FARTHEST = 2.0  # pixels: an observation off by more is left out; docs/reconstruction.md has the table it was chosen by
NARROWEST = 1.5  # degrees between the rays to a point, COLMAP's own limit
LARGEST = "largest"


@dataclass(frozen=True)
class MappingTask:
    """Options of a mapper."""

    smallest: int = 2  # photos; fewer are no model
    known_cameras: bool = False  # leave them as they are
    two_view_tracks: bool = False  # look for points that only two photos see, too
    most_models: int = 10  # a bad start strands a small model, and another is begun; COLMAP would go on for 50
    adjusted: bool = False  # by `adjust`, at the end
    threads: int = 1  # with more, the same matches give now this model, now another


def map_photos(
    database: Path,
    mapper: str = "incremental",
    asked: MappingTask | None = None,
    *,
    photos: int = 0,
    progress: Progress = silent,
) -> Any:
    """Map the largest model: a pycolmap.Reconstruction for `adjust`, `write_model` and `as_arrays`.

    In a process of its own, which Ctrl-C can end: COLMAP does not listen to it.

    photos: how many there are, for the progress; only the incremental mapper tells how far it is.
    """
    choose(MAPPERS, mapper, "mapper")
    scratch = database.with_name(".mapping")  # COLMAP writes every model it tries
    shutil.rmtree(scratch, ignore_errors=True)  # of a run that was killed here
    scratch.mkdir()

    def registered(count: int) -> None:
        progress(min(count, photos), photos, "mapping")

    try:
        with Worker() as worker:
            worker.call(f"{__name__}:map_here", database, mapper, asked or MappingTask(), scratch, news=registered)
        return pycolmap().Reconstruction(scratch / LARGEST)
    except EndedEarly as error:
        raise EndedEarly(f"COLMAP could not map the photos: {error} Try fewer keypoints per photo.") from None
    except HynetError:
        raise
    except (ValueError, LookupError, RuntimeError) as error:  # COLMAP's own words
        raise BadData(f"COLMAP cannot use {database} ({error}); delete it and run the same command again.") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def map_here(database: Path, mapper: str, asked: MappingTask, scratch: Path) -> None:
    """Map the largest model into the folder LARGEST of `scratch`."""
    colmap = pycolmap()
    colmap.set_random_seed(SEED)
    models = MAPPERS[mapper](colmap, database, scratch, asked).values()
    largest = max(models, key=lambda model: (model.num_reg_images(), model.num_points3D()), default=None)
    if largest is not None and largest.num_reg_images() >= asked.smallest and asked.adjusted:
        adjust(largest, known_cameras=asked.known_cameras, threads=asked.threads)  # which may leave photos out
    if largest is None or largest.num_reg_images() < asked.smallest:
        raise NotReconstructed("the photos do not overlap enough to be reconstructed.")
    (scratch / LARGEST).mkdir()
    largest.write_binary(scratch / LARGEST)


def adjust(model: Any, *, known_cameras: bool = False, threads: int = 1) -> None:
    """Adjust all of a model once more, in place, with a loss that lets no poor match pull hard.

    The mapper's own adjustment takes every match at its word, and descriptors that match more also match places that
    the detector found less exactly. What does not fit afterwards, or lies behind a camera, is left out, as the mapper
    does after its own by a wider limit.
    """
    colmap = pycolmap()
    options, config = colmap.BundleAdjustmentOptions(), colmap.BundleAdjustmentConfig()
    options.print_summary = False
    options.refine_focal_length = options.refine_extra_params = not known_cameras
    ceres = getattr(options, "ceres", options)  # a level of its own since pycolmap 4
    ceres.loss_function_type, ceres.loss_function_scale = colmap.LossFunctionType.CAUCHY, ROBUST
    ceres.solver_options.max_num_iterations, ceres.solver_options.num_threads = 30, threads
    for number in model.reg_image_ids():
        config.add_image(number)
    config.fix_gauge(colmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    colmap.create_default_bundle_adjuster(options, config, model).solve()
    colmap.ObservationManager(model).filter_all_points3D(FARTHEST, NARROWEST)
    model.update_point_3d_errors()
    for number in [*model.reg_image_ids()]:  # a photo that sees no point is nowhere
        if model.images[number].num_points3D == 0:
            model.deregister_frame(model.images[number].frame_id)


def _incremental(colmap: ModuleType, database: Path, scratch: Path, asked: MappingTask) -> dict[int, Any]:
    options, refined = colmap.IncrementalPipelineOptions(), not asked.known_cameras
    options.min_model_size, options.max_num_models = asked.smallest, asked.most_models
    options.random_seed = SEED
    options.num_threads = asked.threads
    options.extract_colors = False
    options.triangulation.ignore_two_view_tracks = not asked.two_view_tracks
    options.ba_refine_focal_length = options.ba_refine_extra_params = refined
    options.mapper.abs_pose_refine_focal_length = options.mapper.abs_pose_refine_extra_params = refined
    registered = 0  # in all models so far

    def more(count: int) -> None:
        nonlocal registered
        registered += count
        tell(registered)

    return colmap.incremental_mapping(
        database,
        scratch,
        scratch,
        options,
        initial_image_pair_callback=lambda: more(2),
        next_image_callback=lambda: more(1),
    )


def _global(colmap: ModuleType, database: Path, scratch: Path, asked: MappingTask) -> dict[int, Any]:
    if not hasattr(colmap, "global_mapping"):
        raise MissingExtra(f"the global mapper is not in pycolmap {colmap.__version__}: pip install -U pycolmap")
    options, refined = colmap.GlobalPipelineOptions(), not asked.known_cameras
    options.min_model_size = asked.smallest
    options.random_seed = SEED
    options.num_threads = asked.threads
    options.mapper.retriangulation.ignore_two_view_tracks = not asked.two_view_tracks
    positioning, adjustment = options.mapper.global_positioning, options.mapper.bundle_adjustment
    if asked.two_view_tracks:
        options.mapper.track_min_num_views_per_track = 2
        positioning.min_num_view_per_track = adjustment.min_track_length = 2
    adjustment.refine_focal_length = adjustment.refine_extra_params = refined
    return colmap.global_mapping(database, scratch, scratch, options)


MAPPERS = {"incremental": _incremental, "global": _global}

"""The ETH benchmark's own pipeline: its files where they are given, COLMAP as it comes, and nothing of ours after it.

    SCENE/images/NAME
    SCENE/keypoints/NAME.bin    optional: the keypoints that all patch descriptors describe
    SCENE/image-pairs.txt       optional: the pairs that are matched, two names a line; otherwise all are
    SCENE/database.db           optional: the cameras; otherwise one per photo, its focal length from EXIF or guessed

Cameras are refined by the mapper, as COLMAP does by default. No model gets a further adjustment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ...errors import BadData
from ...features.addresses import name_photos
from ...features.hloc_file import read_h5
from ...matching.nearest import Nearest
from ...runtime.files import atomic_write
from ...runtime.locks import exclusive_lock
from ...runtime.machine import cores
from ...sfm import colmap
from ...sfm import pairs as pairing
from ...sfm.colmap import tables
from ...sfm.matches import match_all
from ...sfm.reconstruct import Reconstructed
from ...types import Keypoints, Progress, silent

# COLMAP's own limit of models; one thread, because more give now this model, now another.
MAPPING = colmap.MappingTask(most_models=50, threads=1)


@dataclass(frozen=True)
class Given:
    """Keypoints, pairs and cameras that a scene brings along."""

    keypoints: Mapping[Path, Path]  # photo -> file, of all photos or of none
    pairs: Path | None
    database: Path | None

    def files(self) -> list[Path]:
        single = [path for path in (self.pairs, self.database) if path is not None]
        return [*self.keypoints.values(), *single]

    def summary(self) -> str:
        """Phrase for the notes of a table."""
        keypoints = "the scene's own keypoints" if self.keypoints else "the detector's keypoints"
        pairs = "the listed pairs" if self.pairs else "all pairs"
        cameras = "the cameras of its database" if self.database else "a camera per photo by EXIF or guessed"
        return f"{keypoints}, {pairs}, {cameras}"


def given(images: Path) -> Given:
    """The benchmark's files beside a scene's folder of photos, which it calls images."""
    if images.name != "images":
        return Given({}, None, None)
    home = images.parent
    photos = name_photos(images)
    files = {photo: home / "keypoints" / f"{name}.bin" for name, photo in photos.items()}
    missing = [path for path in files.values() if not path.is_file()]
    if missing and len(missing) < len(files):
        raise BadData(f"{missing[0]} is missing; a scene has keypoints of all of its photos, or of none.")
    pairs, database = home / "image-pairs.txt", home / "database.db"
    return Given({} if missing else files, pairs if pairs.is_file() else None, database if database.is_file() else None)


def read_keypoints(path: Path) -> Keypoints:
    """N and 4 as int32, then N rows of x, y, scale, orientation as float32; the first pixel's centre is (0.5, 0.5)."""
    content = path.read_bytes()
    count, columns = np.frombuffer(content, "<i4", 2) if len(content) >= 8 else (0, 0)
    if columns != 4 or len(content) != 8 + 16 * count:
        raise BadData(f"{path} is not a keypoints file of the benchmark: N, 4 and N rows of four numbers.")
    x, y, scale, orientation = np.frombuffer(content, "<f4", offset=8).reshape(count, 4).T
    return Keypoints.from_circles(np.column_stack([x, y]) - 0.5, scale, orientation, np.ones(count))


def reconstruct(
    images: Path, out: Path, features: Path, scene: Given, ratio: float, progress: Progress = silent
) -> Reconstructed:
    """The largest model, in the folder `out`; from disk where it is there already."""
    photos = name_photos(images)
    out.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(out):
        table = out / "table.json"
        if table.exists():
            return Reconstructed(**json.loads(table.read_text(encoding="utf-8")))
        database = out / "database.db"
        with colmap.opened(database) as store:
            _add_photos(store, photos, features, scene.database)
            how = "exhaustive" if scene.pairs is None else str(scene.pairs)
            pairs = pairing.choose_pairs(how, store.names, lambda name: read_h5(features, name).descriptors)
            match_all(store, features, pairs, matcher=Nearest(ratio), threads=len(cores()), progress=progress)
        mapped = colmap.map_photos(database, asked=MAPPING)
        done = Reconstructed.of(colmap.as_arrays(mapped), colmap.read_funnel(database), out, len(photos))
        colmap.write_model(mapped, out)
        with atomic_write(table) as file:  # last: it vouches for the rest
            file.write_text(json.dumps(asdict(done)), encoding="utf-8")
        return done


def _add_photos(store: colmap.Store, photos: Mapping[str, Path], features: Path, database: Path | None) -> None:
    known = {}
    if database is not None:
        with tables.read_tables(database) as file:
            known = file.cameras()
        if missing := next((name for name in photos if name not in known), None):
            raise BadData(f"{database} has no camera of {missing}; it should know all photos of the scene.")
    if store.names:
        return  # added all at once, by a run that was killed later
    numbers: dict[int, int] = {}  # of a camera in the scene's database -> in ours
    with store.transaction():
        for name, photo in photos.items():
            seen = read_h5(features, name)
            if name not in known:
                number = store.add_camera(colmap.guess_camera(seen.image_size, photo))
            else:
                theirs, camera = known[name]
                number = numbers[theirs] if theirs in numbers else store.add_camera(camera)
                numbers[theirs] = number
            store.add_photo(name, number, seen.keypoints.frames)

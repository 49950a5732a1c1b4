"""Reconstructs every training scene, one after the other.

    python -m research.scenes hynet DATA OUT [SCENE...] [-- OPTIONS OF hynet reconstruct]
    python -m research.scenes sift DATA OUT [SCENE...] [--like MODELS BY HYNET]

DATA has a folder of photos a scene; OUT gets a folder of the same name with a COLMAP model, and features.h5 unless SIFT
made it. Without names: all, those of `apart()` first, then small before large. Stopped and run again it goes on;
several may run at once, each on its own scenes.
"""

from __future__ import annotations

import argparse
import fcntl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pycolmap

HERE = Path(__file__).parent
MATCHERS_TOO = ("imc25_et", "imc25_another_et", "bundler_et", "zju_theater_daynight")  # kept apart from matchers, too
OPTIONS = ("--model", "default", "--max-keypoints", "4096", "--orientation", "auto", "--jobs", "1")
CERTAIN = 50  # matches that agree on a geometry
LAST = 100  # photos: such a scene takes as long as all others of the kind, so it comes last


def apart() -> list[str]:
    """The scenes that matchers are chosen on and never trained on."""
    listed = next(HERE.parent.glob("*/scenes_for_choosing.txt")).read_text().splitlines()
    return [name for line in listed if (name := line.partition("#")[0].strip())] + list(MATCHERS_TOO)


def ordered(data: Path) -> list[str]:
    """All scenes of a folder."""
    size = {folder.name: len(list(folder.iterdir())) for folder in data.iterdir() if folder.is_dir()}
    first = set(apart())
    return sorted(size, key=lambda name: (size[name] >= LAST, name not in first, size[name], name))


def loop(data: Path, out: Path, names: list[str], make: Callable[[Path, Path], int]) -> None:
    """Make each scene that is not made yet; `make` returns an exit code."""
    (out / ".logs").mkdir(parents=True, exist_ok=True)
    for name in names or ordered(data):
        done = out / ".logs" / f"{name}.done"
        with _alone(out / ".logs" / f"{name}.lock") as mine:
            if not mine or done.exists():
                continue
            start = time.monotonic()
            code = make(data / name, out / name)
            if code in (0, 1):  # 1: the photos cannot be reconstructed, which no second run changes
                done.write_text(f"{name} {code} {time.monotonic() - start:.0f}\n")
            print(name, code, f"{time.monotonic() - start:.0f} s", flush=True)


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Whether nobody else holds the lock; a dead process holds none."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def by_hynet(options: list[str]) -> Callable[[Path, Path], int]:
    def make(photos: Path, out: Path) -> int:
        command = [sys.executable, "-m", "hynet", "reconstruct", str(photos), "--out", str(out), "--json", *options]
        logs = out.parent / ".logs" / out.name
        with logs.with_suffix(".json").open("w") as told, logs.with_suffix(".log").open("w") as log:
            return subprocess.run(command, stdout=told, stderr=log).returncode

    return make


def by_sift(like: Path | None = None) -> Callable[[Path, Path], int]:
    """COLMAP's own pipeline with its own settings: SIFT, exhaustive matching, the incremental mapper.

    The largest model, and in it the folders 1, 2, ... of smaller ones. Of large scenes only the pairs are matched that
    were verified for the model of the same name in `like`, if it is given.
    """

    def make(photos: Path, out: Path) -> int:
        pycolmap.set_random_seed(0)
        with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
            database = Path(scratch) / "database.db"
            extraction, matching = pycolmap.FeatureExtractionOptions(), pycolmap.FeatureMatchingOptions()
            mapping = pycolmap.IncrementalPipelineOptions()
            extraction.use_gpu = matching.use_gpu = False
            extraction.num_threads = matching.num_threads = mapping.num_threads = 1
            pycolmap.extract_features(database, photos, extraction_options=extraction)
            if like and len(list(photos.iterdir())) >= LAST:
                pairing = pycolmap.ImportedPairingOptions()
                pairing.match_list_path = Path(scratch) / "pairs.txt"
                pairing.match_list_path.write_text(verified(like / out.name / "database.db"))
                pycolmap.match_image_pairs(database, matching, pairing)
            else:
                pycolmap.match_exhaustive(database, matching)
            models = pycolmap.incremental_mapping(database, photos, Path(scratch), mapping)
            by_size = sorted(models.values(), key=lambda model: (-model.num_reg_images(), -model.num_points3D()))
            for number, model in enumerate(by_size):
                folder = out / str(number) if number else out
                folder.mkdir(exist_ok=True)
                model.write(folder)
        return 0 if by_size else 1

    return make


def verified(database: Path) -> str:
    """Two names a line: the pairs of photos in which geometry was found with some certainty."""
    opened = pycolmap.Database.open(database)
    names = {image.image_id: image.name for image in opened.read_all_images()}
    numbers, inliers = opened.read_two_view_geometry_num_inliers()
    opened.close()
    found = [
        pycolmap.pair_id_to_image_pair(number)
        for number, count in zip(numbers, inliers, strict=True)
        if count >= CERTAIN
    ]
    return "".join(f"{names[a]} {names[b]}\n" for a, b in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["hynet", "sift"])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("scenes", nargs="*")
    parser.add_argument("--like", type=Path, help="models by hynet: of large scenes SIFT matches their pairs only")
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    asked = parser.parse_args(given[:cut])
    for folder in (asked.data, *(asked.data / name for name in asked.scenes)):
        if not folder.is_dir():
            parser.error(f"no folder {folder}; DATA has a folder of photos a scene.")
    make = by_sift(asked.like) if asked.what == "sift" else by_hynet(given[cut + 1 :] or list(OPTIONS))
    loop(asked.data, asked.out, asked.scenes, make)


if __name__ == "__main__":
    main()

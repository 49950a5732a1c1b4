"""Photos of many places in one folder, reconstructed by retrieval: are places glued together that are not one?

Usage: python research/joined_scenes.py OUT SCENE_FOLDER... [--model default] [--keypoints 1024] [--pairs retrieval]
           [--mapper incremental] [--threads 1] [--jobs 0] [--most 10 20 1000] [--write docs/scale.md]

Links the photos of all scenes (--most: at most so many of each, one run after the other, for the exponents of the
times) into OUT/COUNT/photos/SCENE/, reconstructs that folder in OUT/COUNT/model, and says how many pairs of one scene
and of two were verified, how much memory the largest process took, and whose photos are in each of the models that the
mapper finds (`hynet reconstruct` keeps the largest). Scenes are glued where a model holds photos of two. Everything is
in OUT/joined.json, too. Run again, it goes on, and seconds are added up over the runs; other scenes or options need
another OUT.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from scale_tables import exponent, write_tables
from scale_vectors import most_memory
from scene_folders import photos_by_name, scene_of

from hynet.features.settings import FeatureSettings
from hynet.runtime.files import atomic_write
from hynet.sfm import colmap
from hynet.sfm.colmap import NotReconstructed
from hynet.sfm.colmap.mapping import MAPPERS, MappingTask
from hynet.sfm.reconstruct import reconstruct

VERIFIED = 15  # inliers
MODELS = 50  # that the mapper may begin, COLMAP's own number
EVERY = 30.0  # seconds between two lines of progress
LEAST_SECONDS = 2.0  # that a step takes: of shorter ones, an exponent would be chance


def link(photos: dict[str, Path], folder: Path) -> None:
    for name, photo in photos.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists():
            (folder / name).symlink_to(photo)


class Clock:
    """The seconds of each step, kept in a file from run to run, and told now and then."""

    def __init__(self, note: Path) -> None:
        self.note = note
        self.seconds: dict[str, float] = json.loads(note.read_text()) if note.exists() else {}
        self._last = self._told = time.monotonic()

    def __call__(self, done: int, total: int, what: str) -> None:
        step = "extracting" if "/" in what else what  # there it is a photo
        now = time.monotonic()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now
        if now - self._told > EVERY:
            self._told = now
            print(f"{step}: {done:,} of {total:,}, {self.seconds[step]:,.0f} s so far", file=sys.stderr, flush=True)
            self.save()

    def save(self) -> None:
        with atomic_write(self.note) as temporary:
            temporary.write_text(json.dumps(self.seconds))


def models_by_scene(out: Path, mapper: str, threads: int) -> list[dict[str, int]]:
    """Of each model that the mapper finds, the largest first, its photos by scene."""
    note = out / f"models-{mapper}.json"
    if not note.exists():
        scratch = out / ".models"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        task = MappingTask(most_models=MODELS, threads=threads)
        models = MAPPERS[mapper](colmap.pycolmap(), out / "model" / "database.db", scratch, task).values()
        named = [Counter(scene_of(model.images[number].name) for number in model.reg_image_ids()) for model in models]
        shutil.rmtree(scratch)
        with atomic_write(note) as temporary:
            temporary.write_text(json.dumps(sorted(named, key=lambda scenes: -sum(scenes.values()))))
    return json.loads(note.read_text())


def joined(out: Path, photos: dict[str, Path], asked: argparse.Namespace) -> dict[str, Any]:
    """What became of these photos, in the folder `out`."""
    link(photos, out / "photos")
    clock = Clock(out / "seconds.json")
    try:
        done = reconstruct(
            out / "photos",
            out / "model",
            settings=FeatureSettings(model=asked.model, max_keypoints=asked.keypoints),
            pairs=asked.pairs,
            mapper=asked.mapper,
            mapper_threads=asked.threads,
            jobs=asked.jobs,
            progress=clock,
        )
    except NotReconstructed as error:
        sys.exit(str(error))
    finally:
        clock.save()
    peak = most_memory()  # before the models below, which no user maps
    funnel = colmap.read_funnel(out / "model" / "database.db")
    verified = [pair for pair, inliers in funnel.inliers.items() if inliers >= VERIFIED]
    across = [pair for pair in verified if scene_of(pair[0]) != scene_of(pair[1])]
    models = models_by_scene(out, asked.mapper, asked.threads)
    return {
        "photos": len(photos),
        "scenes": len(set(map(scene_of, photos))),
        "pairs_matched": len(funnel.matches),
        "of_all_pairs": len(funnel.matches) / (len(photos) * (len(photos) - 1) // 2),
        "verified": len(verified),
        "verified_across_scenes": [[*pair, funnel.inliers[pair]] for pair in across],
        "largest": {"photos": done.registered, "points": done.points, "reprojection_error": done.reprojection_error},
        "models": models,
        "glued": sum(len(scenes) > 1 for scenes in models),
        "peak_mb": peak,  # of the largest process
        "seconds": {step: round(spent, 1) for step, spent in clock.seconds.items()},
    }


def table(rows: list[dict[str, Any]]) -> str:
    """What was found, for people."""
    columns = "photos | scenes | pairs matched | of all | verified | of two scenes | models | glued | MB at the peak"
    steps = list(dict.fromkeys(step for row in rows for step in row["seconds"]))
    lines = [f"| {columns} | {' s | '.join(steps)} s |", "|---" * (9 + len(steps)) + "|"]
    for row in rows:
        counts = [row["photos"], row["scenes"], row["pairs_matched"], f"{row['of_all_pairs']:.0%}", row["verified"]]
        counts += [len(row["verified_across_scenes"]), len(row["models"]), row["glued"], round(row["peak_mb"])]
        spent = [round(row["seconds"].get(step, 0)) for step in steps]
        lines.append(f"| {' | '.join(map(str, [*counts, *spent]))} |")
    if len(rows) > 1:
        photos = [row["photos"] for row in rows]
        times = [[row["seconds"].get(step, 0) for row in rows] for step in steps]
        powers = [f"{exponent(photos, each):.2f}" if min(each) >= LEAST_SECONDS else "" for each in times]
        lines.append(f"| exponent {'| ' * 8}| {' | '.join(powers)} |")
    return "\n".join([*lines, "", "Photos by scene in the models of the last row:", "", *_models(rows[-1])])


def _models(row: dict[str, Any]) -> list[str]:
    numbered = enumerate(row["models"], start=1)
    told = [f"| {k} | {', '.join(f'{scene} {count}' for scene, count in scenes.items())} |" for k, scenes in numbered]
    return ["| model | photos |", "|---|---|", *told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("scenes", type=Path, nargs="+")
    parser.add_argument("--model", default="default")
    parser.add_argument("--keypoints", type=int, default=1024)
    parser.add_argument("--pairs", default="retrieval")
    parser.add_argument("--mapper", default="incremental", choices=MAPPERS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--most", type=int, nargs="+", default=[None])
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    rows = []
    for most in asked.most:
        photos = photos_by_name(asked.scenes, most)
        rows.append(joined(asked.out / str(len(photos)), photos, asked))
        with atomic_write(asked.out / "joined.json") as temporary:
            temporary.write_text(json.dumps(rows, indent=1))
    text = table(rows)
    print(f"{text}\n\npairs of two scenes: {rows[-1]['verified_across_scenes'][:10]}")
    if asked.write:
        write_tables(asked.write, {"joined": text})


if __name__ == "__main__":
    main()

"""Photos of many places in one folder, reconstructed by retrieval: are places glued together that are not one?

Usage: python studies/joined_scenes.py OUT SCENE_FOLDER... [--model default] [--keypoints 1024] [--pairs retrieval]
           [--mapper incremental] [--threads 1] [--jobs 0] [--most PHOTOS_PER_SCENE] [--write docs/scale.md]

Links the photos of all scenes into OUT/photos/SCENE/, reconstructs that folder in OUT/model, and says how many pairs of
one scene and of two were verified, and whose photos are in each of the models that the mapper finds (`hynet
reconstruct` keeps the largest). Scenes are glued where a model holds photos of two. Everything is in OUT/joined.json,
too. Run again, it goes on; seconds are added up over the runs.
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

from retrieval import photos_by_name, scene_of
from scale_tables import write_tables

from hynet import colmap
from hynet.colmap import NotReconstructed
from hynet.colmap.mapping import MAPPERS, MappingTask
from hynet.extractors.settings import Settings
from hynet.sfm.reconstruction import reconstruct
from hynet.system.files import whole

VERIFIED = 15  # inliers
MODELS = 50  # that the mapper may begin, COLMAP's own number
EVERY = 30.0  # seconds between two lines of progress


def link(scenes: list[Path], folder: Path, most: int | None) -> int:
    """The photos of each scene, or so many of them; how many there are."""
    chosen = photos_by_name(scenes, most)
    for name, photo in chosen.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists():
            (folder / name).symlink_to(photo)
    return len(chosen)


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
        with whole(self.note) as temporary:
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
        with whole(note) as temporary:
            temporary.write_text(json.dumps(sorted(named, key=lambda scenes: -sum(scenes.values()))))
    return json.loads(note.read_text())


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
    parser.add_argument("--most", type=int)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    count = link(asked.scenes, asked.out / "photos", asked.most)
    clock = Clock(asked.out / "seconds.json")
    try:
        done = reconstruct(
            asked.out / "photos",
            asked.out / "model",
            settings=Settings(descriptor=asked.model, max_keypoints=asked.keypoints),
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
    funnel = colmap.read_funnel(asked.out / "model" / "database.db")
    verified = [pair for pair, inliers in funnel.inliers.items() if inliers >= VERIFIED]
    across = [pair for pair in verified if scene_of(pair[0]) != scene_of(pair[1])]
    models = models_by_scene(asked.out, asked.mapper, asked.threads)
    told: dict[str, Any] = {
        "photos": count,
        "scenes": len(asked.scenes),
        "pairs_matched": len(funnel.matches),
        "of_all_pairs": len(funnel.matches) / (count * (count - 1) // 2),
        "verified": len(verified),
        "verified_across_scenes": [[*pair, funnel.inliers[pair]] for pair in across],
        "largest": {"photos": done.registered, "points": done.points, "reprojection_error": done.reprojection_error},
        "models": models,
        "glued": sum(len(scenes) > 1 for scenes in models),
        "seconds": {step: round(spent) for step, spent in clock.seconds.items()},
    }
    with whole(asked.out / "joined.json") as temporary:
        temporary.write_text(json.dumps(told, indent=1))
    text = table(told)
    print(f"{text}\n\npairs of two scenes: {told['verified_across_scenes'][:10]}")
    if asked.write:
        write_tables(asked.write, {"joined": text})


def table(told: dict[str, Any]) -> str:
    """What was found, for people."""
    across = len(told["verified_across_scenes"])
    spent = ", ".join(f"{step} {seconds:,} s" for step, seconds in told["seconds"].items())
    lines = [
        f"{told['photos']} photos of {told['scenes']} scenes: {told['pairs_matched']:,} pairs matched "
        f"({told['of_all_pairs']:.0%} of all), {told['verified']:,} with {VERIFIED} inliers or more, {across} of them "
        f"of two scenes; {told['glued']} of {len(told['models'])} models hold photos of two scenes. {spent}.",
        "",
        "| model | photos by scene |",
        "|---|---|",
    ]
    for number, scenes in enumerate(told["models"], start=1):
        lines.append(f"| {number} | {', '.join(f'{scene} {photos}' for scene, photos in scenes.items())} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

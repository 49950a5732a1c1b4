"""Photos of many places in one folder, reconstructed by retrieval: are places glued together that are not one?

Usage: python studies/joined_scenes.py OUT SCENE_FOLDER... [--model default] [--keypoints 1024] [--pairs retrieval]
           [--mapper incremental] [--threads 1]

Links the photos of all scenes into OUT/photos/SCENE/, reconstructs that folder in OUT/model, and says how many pairs of
one scene and of two were verified, and whose photos are in the model, which is the largest of those that the mapper
found. Run again, it goes on.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

from hynet import colmap, images
from hynet.extractors.settings import Settings
from hynet.sfm.reconstruction import reconstruct

VERIFIED = 15  # inliers

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("out", type=Path)
parser.add_argument("scenes", type=Path, nargs="+")
parser.add_argument("--model", default="default")
parser.add_argument("--keypoints", type=int, default=1024)
parser.add_argument("--pairs", default="retrieval")
parser.add_argument("--mapper", default="incremental")
parser.add_argument("--threads", type=int, default=1)
asked = parser.parse_args()

for scene in asked.scenes:
    for photo in images.list_photos(scene):
        link = asked.out / "photos" / scene.resolve().name / photo.relative_to(scene)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(photo.resolve())

began, steps = time.monotonic(), Counter()
last = [began, ""]


def progress(done: int, total: int, what: str) -> None:
    """Adds up the seconds of each step."""
    step = what if what in ("matching", "mapping") else "extracting"
    now = time.monotonic()
    steps[step] += now - last[0]
    last[0] = now


settings = Settings(descriptor=asked.model, max_keypoints=asked.keypoints)
done = reconstruct(
    asked.out / "photos",
    asked.out / "model",
    settings=settings,
    pairs=asked.pairs,
    mapper=asked.mapper,
    mapper_threads=asked.threads,
    progress=progress,
)


def scene_of(name: str) -> str:
    return name.partition("/")[0]


funnel = colmap.read_funnel(asked.out / "model" / "database.db")
verified = [pair for pair, count in funnel.inliers.items() if count >= VERIFIED]
across = [pair for pair in verified if scene_of(pair[0]) != scene_of(pair[1])]
photos = Counter(scene_of(photo.name) for photo in colmap.read_model(asked.out / "model").photos)
seconds = {step: round(spent) for step, spent in steps.items()}
every = len(funnel.keypoints) * (len(funnel.keypoints) - 1) // 2
print(f"{len(funnel.keypoints)} photos of {len(asked.scenes)} scenes, {time.monotonic() - began:.0f} s: {seconds}")
print(f"{len(funnel.matches):,} pairs matched ({len(funnel.matches) / every:.0%} of all), {len(verified):,} verified")
print(f"{len(across)} verified pairs are of two scenes: {across[:10]}")
print(f"{done.registered} photos in the model, {done.points:,} points, by scene: {dict(photos)}")

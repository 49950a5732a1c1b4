"""The same photos give the same bytes, on one core and on two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import cv2
import pytest

from hynet.datasets import synthetic

pytest.importorskip("pycolmap")

PROGRAM = """
import sys
from hynet.cli import main

photos = sys.argv[1]
commands = [
    f"match {photos}/0.png {photos}/1.png --max-keypoints 300 --json",
    f"extract {photos} --out features.h5 --max-keypoints 300",
    f"reconstruct {photos} --out model --max-keypoints 500 --model rootsift",
    f"patches {photos} --out set --max-keypoints 500",
]
for command in commands:
    assert main(command.split()) == 0, command
"""


def results(folder: Path, photos: Path, cores: set[int]) -> dict[str, bytes]:
    """What the commands print and write, with as many cores and threads."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(photos)],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": str(len(cores))},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[0])
    del told["seconds"]
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return files | {"matches": json.dumps(told).encode()}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_match_extract_reconstruct_and_patches_give_the_same_bytes_on_one_core_and_on_two(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for k, photo in enumerate(synthetic.scene(seed=1, photos=4, size=(320, 240)).photos):
        cv2.imwrite(str(photos / f"{k}.png"), photo)
    first, second, *_ = sorted(os.sched_getaffinity(0))
    alone = results(tmp_path / "alone", photos, {first})
    both = results(tmp_path / "both", photos, {first, second})
    assert {"matches.png", "features.h5", "model/images.bin", "model/points.ply", "set/info.txt"} <= alone.keys()
    assert alone.keys() == both.keys()
    assert [name for name in alone if alone[name] != both[name]] == []

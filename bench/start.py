"""How long commands take from pressing return, each a process of its own: start-up decides how a command feels.

Two photos of 2 megapixels are the first of the folder in HYNET_PHOTOS, or rendered ones.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import Measurement, milliseconds
from bench.reconstruct import bench_photos
from hynet.errors import need

ROUNDS = 3
LONGEST_SIDE = 1632  # by 1224: 2 megapixels


def measure(
    *,
    peer: str = "kornia.feature",
    options: Sequence[str] = (),
    longest_side: int = LONGEST_SIDE,
    rounds: int = ROUNDS,
) -> list[Measurement]:
    """`options` are those of `hynet match`."""
    need(peer, "baselines", "the bench of start-up")
    with tempfile.TemporaryDirectory() as folder:
        picture = str(Path(folder) / "matches.png")
        match = ["-m", "hynet", "match", *options]
        pair = [str(photo) for photo in sorted(bench_photos(Path(folder) / "photos", 2, longest_side).iterdir())]
        commands = {
            f"import {peer}": ["-c", f"import {peer}"],
            "import torch": ["-c", "import torch"],
            "import hynet": ["-c", "import hynet"],
            "hynet --help": ["-m", "hynet", "--help"],
            "hynet match, the example pair": [*match, "--out", picture],
            "hynet match, with light": [*match, "--model", "light", "--out", picture],
            "hynet match, two photos of 2 megapixels": [*match, *pair, "--out", picture],
            "hynet match, the same with light": [*match, *pair, "--model", "light", "--out", picture],
        }
        times = milliseconds({name: _started(command) for name, command in commands.items()}, rounds, rounds > 1)
    return [Measurement(name, taken / 1e3, "s") for name, taken in times.items()]


def _started(arguments: list[str]) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

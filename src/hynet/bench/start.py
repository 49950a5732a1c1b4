"""How long commands take from pressing return, each a process of its own: start-up decides how a command feels."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..errors import need
from . import Row, milliseconds

ROUNDS = 3


def run() -> list[Row]:
    need("kornia", "train", "this bench")
    with tempfile.TemporaryDirectory() as folder:
        picture = str(Path(folder) / "matches.png")
        commands = {
            "import kornia.feature": ["-c", "import kornia.feature"],
            "import torch": ["-c", "import torch"],
            "import hynet": ["-c", "import hynet"],
            "hynet --help": ["-m", "hynet", "--help"],
            "hynet match, the example pair": ["-m", "hynet", "match", "--out", picture],
            "hynet match, with default-int8": ["-m", "hynet", "match", "--model", "default-int8", "--out", picture],
        }
        times = milliseconds({name: _started(command) for name, command in commands.items()}, ROUNDS)
    return [Row(name, taken / 1e3, "s") for name, taken in times.items()]


def _started(arguments: list[str]) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

"""Faults for every long command: killed, interrupted, out of room, twice at once. Afterwards a plain second run must
give what an undisturbed run gives.

    python -m research.campaign.faults --trials 3 --out research/campaign/faults.json
    python -m research.campaign.faults --only extract
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import h5py
import numpy as np

LONGEST = 600  # seconds that any run may take


@dataclass(frozen=True)
class Command:
    """A command on data in DATA, into OUT; `result` is what must come out, the same every time."""

    words: str
    result: Callable[[Path], dict[str, bytes]]
    again: str = ""  # what a second run needs to go on


def _features(out: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with h5py.File(out / "features.h5") as file:
        file.visititems(lambda name, item: found.update({name: item[()].tobytes()} if hasattr(item, "shape") else {}))
    return found


def _files(*patterns: str) -> Callable[[Path], dict[str, bytes]]:
    def read(out: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for pattern in patterns for path in out.glob(pattern)}

    return read


def _weights(out: Path) -> dict[str, bytes]:
    import torch

    state = torch.load(out / "last.pt", map_location="cpu", weights_only=True)["network"]
    return {name: tensor.numpy().tobytes() for name, tensor in state.items()}


def _numbers(out: Path) -> dict[str, bytes]:
    told = json.loads((out / "homography.json").read_text())
    return {key: json.dumps(told[key], sort_keys=True).encode() for key in ("rows", "details")}


COMMANDS = {
    "extract": Command("extract DATA/photos --out OUT/features.h5 --model rootsift --jobs 2", _features),
    "patches": Command("patches DATA/photos --out OUT --max-keypoints 800", _files("*.txt", "*.bmp", "scene.json")),
    "reconstruct": Command(
        "reconstruct DATA/photos --out OUT --model rootsift --max-keypoints 900",
        _files("*.bin", "points.ply", "table.md"),
    ),
    "evaluate": Command("evaluate homography --data DATA/sequences --model rootsift,sift --out OUT", _numbers),
    "train": Command(
        "train hynet-cpu --data DATA/set --out OUT --steps 12 --pairs-per-batch 32 --no-compiled "
        "--checkpoint-minutes 0.01",
        _weights,
        again="--resume",
    ),
}


def prepare(data: Path) -> None:
    """Rendered photos, sequences with their homographies and a patch set, all small."""
    from hynet.datasets import synthetic, ubc
    from hynet.types import PatchSet

    (data / "photos").mkdir(parents=True)
    for k, photo in enumerate(synthetic.scene(seed=1, photos=5, size=(400, 300)).photos):
        cv2.imwrite(str(data / "photos" / f"{k}.png"), photo)
    for k in range(4):
        folder = data / "sequences" / f"v_{k}"
        folder.mkdir(parents=True)
        first, second, H = synthetic.photo_pair(k, (320, 240))
        cv2.imwrite(str(folder / "1.png"), first)
        cv2.imwrite(str(folder / "2.png"), second)
        np.savetxt(folder / "H_1_2", H)
    made = synthetic.patch_set(points=120)
    large = np.stack([cv2.resize(patch, (64, 64)) for patch in made.patches])
    count = len(large)
    where = {"xy": np.zeros((count, 2)), "angle": np.zeros(count), "log2_scale": np.zeros(count)}
    ubc.write(data / "set", PatchSet(large, made.points, np.arange(count)), **where)


class Trial:
    """One command in a folder of its own, with a copy of the data."""

    def __init__(self, command: Command, data: Path, home: Path, dice: random.Random, seconds: float) -> None:
        self.command, self.dice, self.seconds = command, dice, seconds
        self.data, self.out = home / "data", home / "out"
        shutil.copytree(data, self.data)
        self.out.mkdir()

    def start(self, more: str = "", **options: Any) -> subprocess.Popen[str]:
        words = f"{self.command.words} {more}".replace("DATA", str(self.data)).replace("OUT", str(self.out)).split()
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, **options}
        return subprocess.Popen([sys.executable, "-m", "hynet", *words], start_new_session=True, **pipes)

    def end(self, process: subprocess.Popen[str], codes: tuple[int, ...]) -> None:
        """It ends as it may, with a sentence or nothing."""
        words = process.communicate(timeout=LONGEST)[1] or ""
        assert process.returncode in codes, f"exit code {process.returncode}: {words[-600:]}"
        assert "Traceback" not in words, words[-600:]
        assert process.returncode in (0, -signal.SIGKILL) or words.count("hynet: ") >= 1, words

    def moment(self) -> None:
        time.sleep(self.dice.uniform(0.1, self.seconds))

    def finish(self) -> dict[str, bytes]:
        """A plain second run, and what is there then."""
        begun = self.command.again if (self.out / "last.pt").exists() else ""
        self.end(self.start(begun), (0,))
        return self.command.result(self.out)


def killed(trial: Trial) -> None:
    process = trial.start()
    trial.moment()
    process.kill()
    trial.end(process, (0, -signal.SIGKILL))


def _signalled(number: signal.Signals) -> Callable[[Trial], None]:
    def fault(trial: Trial) -> None:
        process = trial.start()
        trial.moment()
        process.send_signal(number)
        # While Python itself starts, before it is ours, a signal ends it plainly.
        process.returncode = None
        words = process.communicate(timeout=LONGEST)[1]
        assert process.returncode in (0, 130, 143, -number), f"exit code {process.returncode}: {words[-600:]}"

    return fault


def full_disk(trial: Trial) -> None:
    """A file system of a few hundred kilobytes."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(trial.out)], capture_output=True)
    if mounted.returncode:
        raise NotHere
    try:
        trial.end(trial.start(), (0, 2))
    finally:
        subprocess.run(["umount", "-l", str(trial.out)], check=True)


def low_limits(trial: Trial) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    trial.end(trial.start(preexec_fn=limit), (0, 2))


def read_only(trial: Trial) -> None:
    if os.geteuid() == 0:  # whom no permission stops: a file system that is read-only does
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(trial.out)], capture_output=True
        ).returncode:
            raise NotHere
        try:
            trial.end(trial.start(), (2,))
        finally:
            subprocess.run(["umount", "-l", str(trial.out)], check=True)
        return
    trial.out.chmod(0o500)
    trial.end(trial.start(), (2,))
    trial.out.chmod(0o700)


def vanishing(trial: Trial) -> None:
    """A file of the data goes while it is used, and comes back."""
    files = sorted(path for path in trial.data.rglob("*") if path.suffix in (".png", ".bmp"))
    file = trial.dice.choice([path for path in files if path.parent.name in trial.command.words or "v_" in str(path)])
    process = trial.start()
    trial.moment()
    content = file.read_bytes()
    file.unlink()
    words = process.communicate(timeout=LONGEST)[1]
    assert process.returncode in (0, 2), words[-600:]
    assert "Traceback" not in words, words[-600:]
    file.write_bytes(content)
    if trial.command is COMMANDS["reconstruct"] and not (trial.out / "table.json").exists():
        return
    shutil.rmtree(trial.out)  # it was told, or made without the file: what it made is another result
    trial.out.mkdir()


def twice(trial: Trial) -> None:
    both = [trial.start(), trial.start()]
    for process in both:
        trial.end(process, (0, 2))
    assert 0 in [process.returncode for process in both]


def closed_stdout(trial: Trial) -> None:
    trial.end(trial.start(preexec_fn=lambda: os.close(1)), (0, 2))


def clock_back(trial: Trial) -> None:
    """A run in between, and files that are of last year afterwards."""
    killed(trial)
    for path in trial.data.rglob("*"):
        os.utime(path, (1e9, 1e9))


class NotHere(Exception):
    """This machine does not allow the fault."""


FAULTS = {
    "kill -9": killed,
    "SIGINT": _signalled(signal.SIGINT),
    "SIGTERM": _signalled(signal.SIGTERM),
    "full disk": full_disk,
    "low limits": low_limits,
    "read-only": read_only,
    "file vanishes": vanishing,
    "two at once": twice,
    "closed stdout": closed_stdout,
    "clock set back": clock_back,
}


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3, help="of each fault that comes at a random moment")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=list(COMMANDS))
    parser.add_argument("--fault", choices=list(FAULTS))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(args)
    table: dict[str, dict[str, str]] = {}
    failed = 0
    with tempfile.TemporaryDirectory() as home:
        data = Path(home) / "sound"
        os.environ.update({"XDG_CACHE_HOME": f"{home}/cache", "XDG_CONFIG_HOME": f"{home}/config"})
        prepare(data)
        for name in [asked.only] if asked.only else COMMANDS:
            started = time.monotonic()
            expected = Trial(COMMANDS[name], data, Path(home) / name, random.Random(0), 1).finish()
            seconds = time.monotonic() - started
            table[name] = {}
            for fault in [asked.fault] if asked.fault else FAULTS:
                random_moment = fault in ("kill -9", "SIGINT", "SIGTERM", "file vanishes")
                good = tried = 0
                for k in range(asked.trials if random_moment else 1):
                    place = Path(home) / f"{name}-{fault}-{k}".replace(" ", "-")
                    trial = Trial(COMMANDS[name], data, place, random.Random(f"{asked.seed}{place.name}"), seconds)
                    try:
                        FAULTS[fault](trial)
                        assert trial.finish() == expected, "the second run gives something else"
                        good += 1
                    except NotHere:
                        continue
                    except Exception as error:
                        print(f"{name}, {fault}, trial {k}: {type(error).__name__}: {error}", flush=True)
                    tried += 1
                    shutil.rmtree(place, ignore_errors=True)
                failed += tried - good
                table[name][fault] = f"{good} of {tried}" if tried else "-"
            print(name, table[name], flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    if asked.out:
        command = " ".join(["python -m research.campaign.faults", *sys.argv[1:]])
        asked.out.write_text(json.dumps({"command": command, "commit": commit, "commands": table}, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

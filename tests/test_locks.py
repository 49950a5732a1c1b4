"""One writer at a time, with real processes: the second is told, or waits, and nothing is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest

from hynet.cli import main
from hynet.errors import BadInput
from hynet.runtime import locks
from hynet.runtime.locks import exclusive_lock

AS_WINDOWS = """
import fcntl
from types import SimpleNamespace
from hynet.runtime import locks

def locking(file, mode, count):
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, 0, 1)
    except BlockingIOError:
        raise PermissionError from None

locks.fcntl = None
locks.msvcrt = SimpleNamespace(locking=locking, LK_NBLCK=2)
"""

HOLD = """
import sys, time
from hynet.runtime.locks import exclusive_lock

with exclusive_lock(sys.argv[1], wait=len(sys.argv) > 2):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder() -> Callable[[Path], subprocess.Popen[str]]:
    """Another process that holds the lock of a file or folder."""
    started = []

    def hold(target: Path, prelude: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", prelude + HOLD, str(target)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    random = np.random.default_rng(0)
    for k in range(4):
        grey = cv2.GaussianBlur(random.uniform(0, 255, (120, 160)), (0, 0), 1.5)
        cv2.imwrite(str(folder / f"{k}.png"), cv2.normalize(grey, None, 0, 255, cv2.NORM_MINMAX))
    return folder


@pytest.fixture(params=["", AS_WINDOWS], ids=["here", "as on Windows"])
def system(request, monkeypatch) -> str:
    """Code that makes a process lock by the functions of that system; it holds for this one, too."""
    monkeypatch.setattr(locks, "fcntl", locks.fcntl)
    monkeypatch.setattr(locks, "msvcrt", None, raising=False)
    exec(request.param, {})
    return request.param


def test_the_second_is_told_who_is_at_work(tmp_path, holder, system):
    other = holder(tmp_path / "file.h5", system)
    with pytest.raises(BadInput, match=rf"another run is at work in .*file\.h5 \(process {other.pid}\)"):
        exclusive_lock(tmp_path / "file.h5").__enter__()


@pytest.mark.parametrize("last", [signal.SIGKILL, signal.SIGTERM])
def test_a_lock_ends_with_its_process(tmp_path, holder, last, system):
    other = holder(tmp_path, system)
    os.kill(other.pid, last)
    other.wait()
    with exclusive_lock(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_who_waits_gets_its_turn(tmp_path, holder, system):
    other = holder(tmp_path, system)
    command = [sys.executable, "-c", system + HOLD, str(tmp_path), "wait"]
    waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    assert waiting.poll() is None
    other.kill()
    assert waiting.stdout.readline() == "held\n"
    waiting.kill()
    waiting.wait()


COMMANDS = {
    "extract": "extract {photos} --out {out}/features.h5",
    "patches": "patches {photos} --out {out}",
    "reconstruct": "reconstruct {photos} --out {out}",
    "tune": "tune {photos} --out {out}/mine.json",
    "evaluate": "evaluate homography --data {photos} --out {out}",
    "train keynet": "train keynet --data {photos} --out {out} --steps 1",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_leaves_alone_what_another_process_writes(command, photos, tmp_path, holder, capsys):
    out = tmp_path / "out"
    out.mkdir()
    targets = {"extract": out / "features.h5", "tune": out / "mine.json", "evaluate": out / "homography"}
    other = holder(targets.get(command, out))
    before = sorted(path.name for path in out.iterdir())
    assert main(COMMANDS[command].format(photos=photos, out=out).split()) == 2
    assert re.fullmatch(rf"hynet: another run is at work in \S+ \(process {other.pid}\); .*\n", capsys.readouterr().err)
    assert sorted(path.name for path in out.iterdir()) == before


def test_two_extractions_into_one_file_lose_nothing(photos, tmp_path):
    out = tmp_path / "features.h5"
    command = [sys.executable, "-m", "hynet", "extract", str(photos), "--out", str(out), "--jobs", "1"]
    command += ["--model", "rootsift", "--max-keypoints", "100", "--orientation", "upright"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL) for _ in range(2)]
    ended = [(process.communicate()[1], process.returncode) for process in both]
    for words, code in ended:
        assert code in (0, 2), words
        assert code == 0 or "another run is at work" in words
    assert 0 in [code for _, code in ended]
    with h5py.File(out) as file:
        assert len(file) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features.h5", "photos"]

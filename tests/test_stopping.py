"""Ctrl-C and SIGTERM end a command soon, say what is kept, leave nobody behind, and cost nothing."""

from __future__ import annotations

import os
import shutil
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

from conftest import with_environment
from hynet.cli import main
from hynet.cli.stopping import stopped
from hynet.datasets import synthetic
from hynet.patchsets import make
from hynet.runtime.long_runs import note_what_is_kept
from hynet.sfm import colmap

SECONDS = 10  # a limit on a busy machine; on an idle one it takes less than two


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scene") / "photos"
    folder.mkdir()
    for k, photo in enumerate(synthetic.scene(seed=1, photos=4, size=(400, 300)).photos):
        cv2.imwrite(str(folder / f"{k}.png"), photo)
    return folder


@pytest.fixture
def one_slow(photos, tmp_path) -> Path:
    """Small photos, and a last one that takes longer than a busy machine needs to notice that the first is done."""
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    cv2.imwrite(str(folder / "z.png"), np.random.default_rng(0).integers(0, 255, (1600, 1600), np.uint8))
    return folder


def stop(command: list[str], by: signal.Signals, once: Callable[[], bool]) -> subprocess.CompletedProcess[str]:
    """Run a command and send it a signal once something is true."""
    marker = {"HYNET_TEST": f"{os.getpid()}-{time.monotonic_ns()}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "hynet", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **marker},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where the tests run behind `&`
    )
    while not once():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.send_signal(by)
    out, err = process.communicate(timeout=SECONDS)
    deadline = time.monotonic() + SECONDS
    while left := with_environment(marker["HYNET_TEST"]):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.mark.parametrize(("by", "code", "jobs"), [(signal.SIGINT, 130, 2), (signal.SIGTERM, 143, 1)])
def test_extract_stops_soon_and_goes_on(one_slow, tmp_path, by, code, jobs):
    out = tmp_path / "features.h5"
    command = ["extract", str(one_slow), "--out", str(out), "--jobs", str(jobs), "--model", "rootsift"]
    command += ["--max-keypoints", "100", "--orientation", "upright"]
    ended = stop(command, by, lambda: any(tmp_path.glob("features.h5.parts/*.part.h5")))
    assert ended.returncode == code
    last = ended.stderr.splitlines(keepends=True)[-1]  # on a busy machine, progress was told before
    assert last.startswith("hynet: stopped; the features of ")
    assert last.endswith(" of 5 photos are kept; run the same command again to go on.\n")
    assert not out.exists()
    (one_slow / "z.png").unlink()
    assert main(command) == 0
    with h5py.File(out) as file:
        assert sorted(file) == [f"{k}.png" for k in range(4)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features.h5", "photos"]


@pytest.mark.parametrize("step", [".mapping", ".exact"])
def test_mapping_and_refining_can_be_stopped_and_a_second_run_is_the_undisturbed_one(step, photos, tmp_path):
    pytest.importorskip("pycolmap")
    models = tmp_path / "stopped", tmp_path / "undisturbed"
    commands = [
        ["reconstruct", str(photos), "--out", str(model), "--model", "rootsift", "--max-keypoints", "600"]
        for model in models
    ]
    ended = stop(commands[0], signal.SIGINT, lambda: (models[0] / step).exists())
    assert ended.returncode == 130
    kept = f"hynet: stopped; what is done is kept in {models[0]}; run the same command again to go on."
    assert ended.stderr.splitlines()[-1] == kept
    assert (models[0] / "table.json").exists() == (step == ".exact")  # a mapped model is kept
    assert not (models[0] / ".exact").exists()
    for command in commands:
        assert main(command) == 0
    for name in colmap.MODEL_FILES:
        assert (models[0] / name).read_bytes() == (models[1] / name).read_bytes()
    assert not (models[0] / ".lock").exists()


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("adapt photos/", "run the same command again"),
        ("train hynet", "add --resume to the same command"),
        ("train hynet --resume", "run the same command again"),
    ],
)
def test_a_run_says_what_is_kept_and_the_command_how_to_go_on(capsys, command, how):
    stop = KeyboardInterrupt()
    stop.add_note("2 steps are kept in work/run")
    with pytest.raises(KeyboardInterrupt), note_what_is_kept(Path("work")):
        raise stop
    assert stopped(stop, command.split(), at_once=False) == 130
    told = "hynet: stopped; 2 steps are kept in work/run; what is done is kept in work"
    assert capsys.readouterr().err == f"{told}; {how} to go on.\n"


def test_where_nothing_is_kept_there_is_nothing_to_go_on_with(capsys):
    stopped(KeyboardInterrupt(), ["match"], at_once=False)
    assert capsys.readouterr().err == "hynet: stopped.\n"


def test_patches_that_are_stopped_say_what_is_kept(tmp_path, capsys, monkeypatch):
    pytest.importorskip("pycolmap")

    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(make, "_make_parts", stop)
    (tmp_path / "castle").mkdir()
    assert main(["patches", str(tmp_path / "castle"), "--out", str(tmp_path / "set")]) == 130
    told = f"hynet: stopped; what is done is kept in {tmp_path}/set; run the same command again to go on.\n"
    assert capsys.readouterr().err == told


def test_sigterm_still_unwinds_after_pycolmap_is_imported():
    pytest.importorskip("pycolmap")
    code = (
        "import os, signal\n"
        "from hynet.sfm import colmap\n"
        "from hynet.cli.stopping import Terminated, listen_to_sigterm\n"
        "listen_to_sigterm()\n"
        "colmap.pycolmap()\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "except Terminated:\n"
        "    print('unwound')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("unwound\n", "")

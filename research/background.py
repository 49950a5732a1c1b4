"""What research.runs stands on: a queue of runs, a group of processes that works it off, and locks that tell who lives.

All processes of the runs are one group, led by the loop that `start` leaves behind. They hold the lock `group` as long
as one of them lives, so there is no process id that could be stale.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
PATIENCE = 20.0  # seconds for processes to stop or to end
LOOK = 10.0  # seconds between looks at a run


class CannotRun(Exception):
    """In words for the user."""


@dataclass(frozen=True)
class Run:
    """A line of the queue."""

    name: str
    command: str
    committed: str = ""


@dataclass(frozen=True)
class State:
    """Where everything is remembered."""

    folder: Path

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    @property
    def paused(self) -> Path:
        return self.folder / "paused"

    def log(self, run: Run) -> Path:
        return self.folder / f"{run.name}.log"

    def ended(self, run: Run) -> dict:
        """Exit code and hours so far; the code is None while the run has not ended."""
        file = self.folder / f"{run.name}.json"
        return json.loads(file.read_text()) if file.exists() else {"code": None, "hours": 0.0, "command": run.command}

    def remember(self, run: Run, code: int | None, hours: float) -> None:
        whole(self.folder / f"{run.name}.json", json.dumps({"code": code, "hours": hours, "command": run.command}))

    def done(self, run: Run) -> bool:
        return self.ended(run)["code"] == 0

    def group(self) -> int | None:
        """The group of processes; None if none of them lives."""
        with self.lock("group") as (file, free):
            return None if free else int(file.read() or 0) or None

    @contextmanager
    def lock(self, name: str, shared: bool = False) -> Iterator[tuple[IO[str], bool]]:
        """The open file, and whether the lock was free; shared, it is waited for. A dead process holds none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{name}.lock").open("a+") as file:
            file.seek(0)
            try:
                fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
                free = True
            except BlockingIOError:
                free = False
            yield file, free


def whole(file: Path, text: str) -> None:
    part = file.with_name(file.name + ".part")
    part.write_text(text)
    part.replace(file)


@dataclass(frozen=True)
class Queue:
    """What is to be run, of which commit."""

    file: Path
    commit: str
    runs: tuple[Run, ...]
    repository: str = str(HERE.parent)

    @staticmethod
    def of(file: Path) -> Queue:
        said = tomllib.loads(file.read_text())
        return Queue(file.resolve(), **said | {"runs": tuple(Run(**run) for run in said["runs"])})


def start(state: State, queue: Queue, data: Path) -> str:
    """Leave the loop behind, unless it runs."""
    if group := state.group():
        return f"runs already, as group {group}"
    if not (data / "train").is_dir():
        raise CannotRun(f"{data} has no folder train/; give the folder of the photos, which has train/ and eval/.")
    if all(state.done(run) for run in queue.runs):
        return "all runs are done"
    prepare(state.clone, queue)
    me = [sys.executable, "-m", "research.runs", "--queue", str(queue.file), "loop"]
    with (state.folder / "loop.log").open("a") as log:
        # a session of its own is a group of its own, which no closed terminal ends
        loop = subprocess.Popen(
            me,
            cwd=HERE.parent,
            env=environment(state, data),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    while not (group := state.group()):
        if loop.poll():
            raise CannotRun(f"the loop ended at once; {state.folder / 'loop.log'} says why.")
        if loop.returncode == 0:
            return "started, and has ended already"
        time.sleep(0.05)
    settle(state)
    return f"started as group {group}" + (", paused" if state.paused.exists() else "")


def prepare(clone: Path, queue: Queue) -> None:
    """The commit, checked out."""
    if clone.exists():
        subprocess.run(["git", "-C", clone, "fetch", "--quiet", "--all"], check=True)
    else:
        part = clone.with_name(clone.name + ".part")
        shutil.rmtree(part, ignore_errors=True)  # of one that was killed here
        part.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", queue.repository, part], check=True)
        part.rename(clone)
    subprocess.run(["git", "-C", clone, "checkout", "--quiet", queue.commit], check=True)


def environment(state: State, data: Path) -> dict[str, str]:
    paths = {
        "RUNS": str(state.folder),
        "DATA": str(data.resolve()),
        "OUT": str(state.folder / "out"),
        "PYTHONPATH": os.pathsep.join(map(str, (state.clone / "src", state.clone))),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
    return {"OMP_NUM_THREADS": "1", **os.environ, **paths}


def loop(state: State, queue: Queue) -> None:
    """Each run in its turn; one that fails does not hold up the others, and is tried again by the next `start`."""
    until = time.monotonic() + 2
    while True:
        with state.lock("group") as (file, free):
            if free:
                file.truncate(0)
                file.write(str(os.getpgid(0)))
                file.flush()
                (state.folder / "out").mkdir(exist_ok=True)
                for run in queue.runs:
                    if not state.done(run):
                        _one(state, run, file.fileno())
                return
        if time.monotonic() > until:  # not one who merely looked whether it is free
            raise CannotRun("another loop runs.")
        time.sleep(0.02)


def _one(state: State, run: Run, lock: int) -> None:
    """The processes of a run inherit the lock: it is held even where they outlive the loop."""
    hours = state.ended(run)["hours"]
    state.remember(run, None, hours)
    whole(state.folder / "current", run.name)
    command = ["nice", "-n", "19", "bash", "-ec", run.command]
    with state.log(run).open("a") as log:
        process = subprocess.Popen(command, cwd=state.clone, stdout=log, stderr=log, pass_fds=(lock,))
        code = None
        while code is None:
            begun = time.monotonic()
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(LOOK)
            hours += min(time.monotonic() - begun, 2 * LOOK) / 3600  # more: it was paused
            state.remember(run, code, hours)


def settle(state: State) -> None:
    """Stop or continue the group as it should be: paused by hand, or while a `quiet` lives."""
    if group := state.group():
        with state.lock("quiet") as (_, nobody):
            wanted = signal.SIGSTOP if state.paused.exists() or not nobody else signal.SIGCONT
        with suppress(ProcessLookupError):  # has just ended
            os.killpg(group, wanted)
        until = time.monotonic() + PATIENCE
        while wanted == signal.SIGSTOP and not stopped(group) and time.monotonic() < until:
            time.sleep(0.02)


def members(group: int) -> list[str]:
    """States of the processes of a group, as /proc has them."""
    states = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its = stat.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # has just ended
        if int(its) == group:
            states.append(state)
    return states


def stopped(group: int) -> bool:
    """Whether none of them computes: T is stopped, D will be before its next step, Z and X are dead."""
    return all(state in "TDZX" for state in members(group))


def pause(state: State) -> str:
    state.folder.mkdir(parents=True, exist_ok=True)
    state.paused.touch()
    settle(state)
    return "paused"


def go(state: State) -> str:
    state.paused.unlink(missing_ok=True)
    settle(state)
    return "goes on" if state.group() else "nothing runs: start it"


def quiet(state: State, command: list[str]) -> int:
    """The command's exit code. Several may be quiet at once: the last one lets the runs go on."""
    try:
        with state.lock("quiet", shared=True):
            settle(state)
            return subprocess.run(command).returncode
    finally:
        settle(state)


def stop(state: State) -> str:
    group = state.group()
    if not group:
        return "nothing runs"
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGCONT)
            os.killpg(group, sign)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if not state.group():
                return "stopped"
            time.sleep(0.05)
    raise CannotRun(f"group {group} does not end.")

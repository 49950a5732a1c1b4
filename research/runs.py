"""The long runs in the background: one at a time, each in its turn, giving way while anything is timed.

    python -m research.runs start DATA     run what queue.toml lists, or go on with it; DATA has train/ and eval/
    python -m research.runs list           what is done, what runs, what failed
    python -m research.runs pause          stop all of it where it stands; nothing is lost
    python -m research.runs go
    python -m research.runs quiet COMMAND  pause, run the command, go on: for whatever is timed
    python -m research.runs stop           end it; what is running saves what it has, `start` goes on
    python -m research.runs skip NAME      count it as done
    python -m research.runs write          runs.md: all that is needed to go on elsewhere

The state is in $RUNS (~/runs): the clone, and of each run its log, the hours it took and how it ended.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from .background import CannotRun, Queue, Run, State, go, loop, pause, quiet, settle, start, stop, stopped, whole

QUEUE = Path(__file__).parent / "queue.toml"


def skip(state: State, queue: Queue, name: str) -> str:
    """Count a run as done: one that another machine has done."""
    for run in queue.runs:
        if run.name == name:
            state.folder.mkdir(parents=True, exist_ok=True)
            state.remember(run, 0, state.ended(run)["hours"])
            return f"{name} counts as done"
    raise CannotRun(f"{queue.file.name} has no run {name}; it has {', '.join(run.name for run in queue.runs)}.")


def listed(state: State, queue: Queue) -> list[tuple[Run, str, float, str]]:
    """Run, how it stands, hours, last line of its log."""
    settle(state)
    group = state.group()
    current = (state.folder / "current").read_text() if group and (state.folder / "current").exists() else None
    rows = []
    for run in queue.runs:
        ended = state.ended(run)
        if run.name == current and ended["code"] is None:
            stands = "paused" if group and stopped(group) else "runs"
        elif ended["code"] is None:
            stands = "interrupted" if state.log(run).exists() else "waits"
        else:
            stands = "done" if ended["code"] == 0 else f"failed ({ended['code']})"
        rows.append((run, stands, ended["hours"], last_line(state.log(run))))
    return rows


def last_line(log: Path) -> str:
    if not log.exists():
        return ""
    lines = log.read_text(errors="replace").replace("\r", "\n").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[-100:]


def page(state: State, queue: Queue) -> str:
    lines = [
        "# The long runs",
        "",
        f"Written by `python -m research.runs write`, {time.strftime('%Y-%m-%d %H:%M')}. They run in this order, one",
        f"at a time, in a clone at {queue.commit[:12]}. To go on elsewhere: `python -m research.runs skip NAME` for",
        "what is done, put back what is committed, then `start DATA`. A run goes on from what it finds in $OUT.",
        "",
        "| run | stands | hours | last line of its log | committed |",
        "|---|---|---|---|---|",
    ]
    for run, stands, hours, line in listed(state, queue):
        lines.append(f"| {run.name} | {stands} | {hours:.1f} | {line.replace('|', '/')} | {run.committed} |")
    lines += ["", "The commands:", ""]
    for run in queue.runs:
        lines += [f"    # {run.name}", *(f"    {line}" for line in run.command.splitlines())]
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queue", type=Path, default=QUEUE)
    parser.add_argument("what", choices=["start", "list", "pause", "go", "quiet", "stop", "skip", "write", "loop"])
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    state = State(Path(os.environ.get("RUNS", "~/runs")).expanduser().resolve())
    if asked.what == "quiet":
        return quiet(state, asked.rest or parser.error("quiet needs a command."))
    if asked.what in ("start", "skip") and len(asked.rest) != 1:
        parser.error(
            f"{asked.what} needs {'the folder of the photos' if asked.what == 'start' else 'the name of a run'}."
        )
    if asked.what in ("pause", "go", "stop"):
        print({"pause": pause, "go": go, "stop": stop}[asked.what](state))
        return 0
    queue = Queue.of(asked.queue)
    if asked.what == "loop":
        loop(state, queue)
    elif asked.what == "start":
        print(start(state, queue, Path(asked.rest[0])))
    elif asked.what == "skip":
        print(skip(state, queue, asked.rest[0]))
    elif asked.what == "list":
        for run, stands, hours, line in listed(state, queue):
            print(f"{run.name:<16} {stands:<12} {hours:6.1f} h  {line}")
    else:
        whole(queue.file.with_name("runs.md"), page(state, queue))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CannotRun, OSError, tomllib.TOMLDecodeError, subprocess.CalledProcessError) as error:
        print(f"runs: {error}", file=sys.stderr)
        sys.exit(2)

"""Mutated inputs for everything that hynet reads, in long-lived processes with limits of time and memory.

python -m research.campaign.fuzz --cases 100000 --out research/campaign/fuzz.json
python -m research.campaign.fuzz --cases 200 --only EXIF
python -m research.campaign.fuzz --only EXIF --number 17        one case again, in this process
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from hynet.runtime.machine import cores
from hynet.runtime.processes import EndedEarly, Worker

from . import cases
from .readers import READERS

BLOCK = 50  # cases a call
CASES = "research.campaign.cases:run"
LIMIT = cases.MEMORY + (2 << 30)  # bytes of data: beyond what counts as too much, so that it is told apart from a crash


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(cores()))
    parser.add_argument("--only", choices=list(READERS))
    parser.add_argument("--number", type=int)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(args)
    if asked.number is not None:
        print(*cases.run(asked.only, asked.seed, asked.number, 1, os.devnull)[0])
        return 0
    report = campaign(asked.cases, asked.seed, asked.jobs, [asked.only] if asked.only else list(READERS))
    if asked.out:
        asked.out.write_text(json.dumps(report, indent=1) + "\n")
    bad = sum(sum(row.get(kind, 0) for kind in cases.BAD) for row in report["readers"].values())
    print(f"{report['cases']} cases, {bad} bad, {report['minutes']} minutes")
    return 1 if bad else 0


def campaign(count: int, seed: int, jobs: int, names: list[str]) -> dict[str, Any]:
    """What became of about so many cases, dealt out to the readers by their shares."""
    whole = sum(READERS[name].share for name in names)
    shares = {name: max(1, round(count * READERS[name].share / whole)) for name in names}
    started, memory = time.time(), "/dev/shm"
    home = tempfile.mkdtemp(prefix="hynet-campaign-", dir=memory if os.access(memory, os.W_OK) else None)
    quiet = {"XDG_CACHE_HOME": f"{home}/cache", "XDG_CONFIG_HOME": f"{home}/config", "OMP_NUM_THREADS": "1"}
    os.environ.update({"HYNET_CAMPAIGN": home, **quiet})
    try:
        with ExitStack() as stack:
            helpers: SimpleQueue[Worker] = SimpleQueue()
            for _ in range(jobs):
                helpers.put(stack.enter_context(Worker(memory=LIMIT)))

            def work(name: str) -> dict[str, Any]:
                helper = helpers.get()
                try:
                    return _reader(name, seed, shares[name], home, helper)
                finally:
                    helpers.put(helper)

            # The slow ones first: nobody waits for them at the end.
            order = sorted(names, key=lambda name: READERS[name].share)
            pool = stack.enter_context(ThreadPoolExecutor(jobs))
            rows = dict(zip(order, pool.map(work, order), strict=True))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return {
        "command": " ".join(["python -m research.campaign.fuzz", *sys.argv[1:]]),
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        ).stdout.strip(),
        "seed": seed,
        "cases": sum(shares[name] for name in names),
        "minutes": round((time.time() - started) / 60, 1),
        "readers": {name: rows[name] for name in names},
    }


def _reader(name: str, seed: int, count: int, home: str, helper: Worker) -> dict[str, Any]:
    """How often each class came, and the words of what must not be."""
    counts: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    descriptor, note = tempfile.mkstemp(dir=home)
    os.close(descriptor)
    number = 0
    while number < count:
        size = min(BLOCK, count - number)
        try:
            results = helper.call(CASES, name, seed, number, size, note)
            number += size
        except EndedEarly as error:
            # The cases before it in the block were sound, or would have been told; they are counted again.
            died = int(Path(note).read_text() or number)
            results = helper.call(CASES, name, seed, number, died - number, note) if died > number else []
            results.append((died, "hang" if "SIGALRM" in str(error) else "crash", str(error)))
            number = died + 1
        counts.update(kind for _, kind, _ in results)
        failures += [
            {"case": case, "class": kind, "words": words} for case, kind, words in results if kind in cases.BAD
        ]
        for case, kind, words in results:
            if kind in cases.BAD:
                print(f"{name} {case}: {kind}: {(words.strip().splitlines() or [''])[-1][:150]}", flush=True)
    return {**counts, "failures": failures[:20]}


if __name__ == "__main__":
    sys.exit(main())

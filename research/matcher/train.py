"""Trains the matcher on shards: a simple loop that stops at once and goes on as if it had not stopped.

    python -m research.matcher.train SHARDS RUN --steps 20000

RUN gets last.pt (weights, their average, the optimiser; every few minutes), log.jsonl, and weights.safetensors (the
average). With the same shards, a run that was stopped equals one that was not, bit by bit.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from .examples import UNKNOWN, Example, Pool
from .hynet_paths import atomic_write
from .network import Glue

PAIRS = 4  # a step
RATE, WARMUP = 1.5e-3, 50
FALL = 0.25  # share of the run, at its end, in which the rate falls to zero
STEEPEST = 1.0  # longest gradient
AVERAGE = 0.998
ROUND_WEIGHTS = (0.15, 0.25, 0.25, 1.0)
PER_PAIR = 1000.0  # edges: the loss is the sum over a pair's edges, over so many


@dataclass
class Progress:
    step: int = 0
    pairs: int = 0
    core_seconds: float = 0.0


def loss_of(logits: list[Tensor], example: Example) -> tuple[Tensor, dict[str, float]]:
    known = torch.from_numpy(np.flatnonzero(example.labels != UNKNOWN))
    right = torch.from_numpy(example.labels.astype(np.float32))[known]
    losses = [binary_cross_entropy_with_logits(each[known], right, reduction="sum") / PER_PAIR for each in logits]
    total = sum(weight * loss for weight, loss in zip(ROUND_WEIGHTS, losses, strict=True))
    start = torch.from_numpy(example.given.logits)[known]
    before = binary_cross_entropy_with_logits(start, right, reduction="sum") / PER_PAIR
    numbers = {"loss": losses[-1].item(), "first_round": losses[0].item(), "consensus": before.item()}
    return torch.as_tensor(total), {**numbers, "precision": _average_precision(logits[-1][known], right)}


def _average_precision(logits: Tensor, right: Tensor) -> float:
    """NaN where nothing is right."""
    ordered = right[torch.argsort(logits.detach(), descending=True)]
    above = torch.cumsum(ordered, 0) / torch.arange(1, len(ordered) + 1)
    return float((above * ordered).sum() / ordered.sum()) if ordered.sum() else float("nan")


class Run:
    """Network, average and optimiser, as last.pt holds them."""

    def __init__(self, folder: Path, steps: int, seed: int = 0) -> None:
        self.folder, self.steps, self.seed = folder, steps, seed
        torch.manual_seed(seed)
        self.network, self.average = Glue(), Glue()
        self.average.load_state_dict(self.network.state_dict())
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=RATE)
        self.progress = Progress()
        if (folder / "last.pt").exists():
            stored = torch.load(folder / "last.pt", weights_only=True)
            self.network.load_state_dict(stored["network"])
            self.average.load_state_dict(stored["average"])
            self.optimiser.load_state_dict(stored["optimiser"])
            self.progress = Progress(**stored["progress"])

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        parts: dict[str, Any] = {name: getattr(self, name).state_dict() for name in ("network", "average", "optimiser")}
        with atomic_write(self.folder / "last.pt") as temporary:
            torch.save({**parts, "progress": asdict(self.progress)}, temporary)
        with atomic_write(self.folder / "weights.safetensors") as temporary:
            about = {name: f"{value:.0f}" for name, value in asdict(self.progress).items()}
            save_file({name: value.contiguous() for name, value in self.average.state_dict().items()}, temporary, about)

    def step(self, pool: Pool) -> dict[str, float]:
        started = time.process_time()
        number, notes = self.progress.step, []
        left = (self.steps - number) / max(1.0, FALL * self.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = RATE * min(1.0, (number + 1) / WARMUP, left)
        self.optimiser.zero_grad()
        for place in range(PAIRS):
            example = pool.example((self.seed, number, place))
            loss, note = loss_of(self.network(example.given), example)
            (loss / PAIRS).backward()
            notes.append(note)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), STEEPEST)
        self.optimiser.step()
        self._average()
        self.progress.step += 1
        self.progress.pairs += PAIRS
        self.progress.core_seconds += time.process_time() - started
        return {name: float(np.nanmean([note[name] for note in notes] or [np.nan])) for name in notes[0]}

    @torch.no_grad()
    def _average(self) -> None:
        decay = min(AVERAGE, (1 + self.progress.step) / (10 + self.progress.step))
        for kept, now in zip(self.average.parameters(), self.network.parameters(), strict=True):
            kept.lerp_(now, 1 - decay)


def train(run: Run, pool: Pool, stopped: Callable[[], bool], *, minutes: float = 4.0, log_every: int = 25) -> None:
    """Go on to the last step, or until asked to stop, which is between two steps."""
    run.folder.mkdir(parents=True, exist_ok=True)
    saved, notes = time.monotonic(), []
    with (run.folder / "log.jsonl").open("a") as log:
        log.write(json.dumps({"from": run.progress.step, "shards": len(pool.names), **pool.counts()}) + "\n")
        while run.progress.step < run.steps and not stopped():
            notes.append(run.step(pool))
            if run.progress.step % log_every == 0:
                means = {name: round(float(np.nanmean([note[name] for note in notes])), 4) for name in notes[0]}
                log.write(json.dumps({**asdict(run.progress), **means}) + "\n")
                log.flush()
                notes = []
            if time.monotonic() - saved > 60 * minutes:
                run.save()
                saved = time.monotonic()
    run.save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not any(options.shards.glob("*.npz")):
        parser.error(f"no shards in {options.shards}; research.matcher.pairs makes them.")
    torch.set_num_threads(1)
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda signal_number, _: asked.append(signal_number))
    train(Run(options.run, options.steps, options.seed), Pool(options.shards), lambda: bool(asked))


if __name__ == "__main__":
    main()

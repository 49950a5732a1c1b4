"""One training step of 512 pairs: `hynet train`'s against one plainly written, two processes taking turns.

Two processes, because the settings of the memory allocator are a process's own. `python -m bench.train fast 512
compiled` is one of them: it takes a step for every line that it reads, and answers with the milliseconds of each stage.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from bench import Measurement
from hynet.errors import need

PAIRS = 512
ROUNDS = 5
FLOPS = 3 * 78.18e6  # a patch, forward and backward

Stages = dict[str, float]


def measure(*, count: int = PAIRS, rounds: int = ROUNDS, compiled: bool = True) -> list[Measurement]:
    need("torch", "train", "the bench of training")
    walkers = {name: _walker(name, count, compiled) for name in ("plain", "fast")}
    steps: dict[str, list[Stages]] = {name: [] for name in walkers}
    try:
        for _ in range(rounds):
            for name, walker in walkers.items():
                assert walker.stdin is not None
                assert walker.stdout is not None
                walker.stdin.write("step\n")
                walker.stdin.flush()
                steps[name].append(json.loads(walker.stdout.readline()))
    finally:
        for walker in walkers.values():
            walker.communicate()
    rates = {name: 2 * count / median(sum(step.values()) for step in taken) * 1e3 for name, taken in steps.items()}
    rows = [
        Measurement("written plainly", rates["plain"], "patches/s"),
        Measurement("hynet train", rates["fast"], "patches/s"),
    ]
    rows += [
        Measurement(f"  its {stage}", median(step[stage] for step in steps["fast"]), "ms") for stage in steps["fast"][0]
    ]
    share = 100 * FLOPS * rates["fast"] / _peak()
    return [*rows, Measurement("  of the peak (matrix product, one core at a time, times cores)", share, "%")]


def _walker(name: str, count: int, compiled: bool) -> subprocess.Popen[str]:
    """A process that takes steps, ready: its first ones, which compile and fill caches, are behind it."""
    command = [sys.executable, "-m", "bench.train", name, str(count), "compiled" if compiled else "eager"]
    walker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert walker.stdout is not None
    walker.stdout.readline()
    return walker


def _walk(name: str, count: int, compiled: bool) -> None:
    step = _plain(count) if name == "plain" else _fast(count, compiled)
    step()
    step()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(step()), flush=True)


def _plain(count: int) -> Callable[[], Stages]:
    """As the released code does it: patches one by one, two passes, whole matrices sorted."""
    import numpy as np
    import torch

    from hynet.features.descriptors import DESCRIPTORS
    from hynet.losses import hybrid, norm_difference
    from hynet.losses.mining import TOO_CLOSE, distance, paired, unit

    torch.manual_seed(0)
    network = DESCRIPTORS["hynet"]().train()
    optimiser = torch.optim.Adam(network.parameters(), 0.01)
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (2 * count, 32, 32), np.uint8)

    def step() -> Stages:
        clock = _Clock()
        sides = []
        for side in (data[:count], data[count:]):
            turned = []
            for patch in side:
                if rng.random() < 0.5:
                    patch = np.rot90(patch, int(rng.integers(1, 4)))
                if rng.random() < 0.5:
                    patch = np.flipud(patch)
                turned.append(torch.from_numpy(patch.copy())[None].float())
            sides.append(torch.stack(turned))
        clock.stage("data")
        raw_a, raw_p = network(sides[0]), network(sides[1])
        clock.stage("forward")
        a, p = unit(raw_a), unit(raw_p)
        nearest = []
        cross = distance(a @ p.T)
        for matrix in (distance(a @ a.T), distance(p @ p.T), cross, cross.T):
            matrix = matrix + 10 * torch.eye(count) + 10 * (matrix < TOO_CLOSE)
            nearest.append(matrix.sort(dim=1).values[:, 0])
        d_neg = torch.stack(nearest).min(0).values
        hinge = (1.2 + hybrid(paired(a, p), 2.0, 1.0) - hybrid(d_neg, 2.0, 1.0)).relu()
        total = hinge.mean() + 0.1 * norm_difference(raw_a, raw_p)
        clock.stage("loss")
        optimiser.zero_grad()
        total.backward()
        clock.stage("backward")
        optimiser.step()
        clock.stage("optimiser")
        return clock.stages

    return step


def _fast(count: int, compiled: bool) -> Callable[[], Stages]:
    """What `hynet train hynet` does, stage by stage."""
    import numpy as np
    import torch

    from hynet.runtime.machine import keep_memory_mapped
    from hynet.training import descriptor
    from hynet.training.configuration import TrainConfig
    from hynet.training.sampling import mix
    from hynet.types import PatchSet

    keep_memory_mapped()
    config = TrainConfig(pairs_per_batch=count, compiled=compiled)
    data = np.random.default_rng(0).integers(0, 256, (20 * count, 32, 32), np.uint8)
    state, loss = descriptor.start(config, "cpu"), descriptor.loss_function(config)
    model = descriptor.tiled(state.network, config, loss)
    mixture = mix([PatchSet(data, np.arange(len(data)) // 2)])
    batches = descriptor.batches(mixture, config, first=0, per_epoch=10, device="cpu")

    torch.set_num_threads(1)  # the workers of the network have the cores, as in `loop.run`

    def step() -> Stages:
        clock = _Clock()
        batch = next(batches)
        clock.stage("data")
        anchors, positives = model(batch.anchors, batch.positives)
        clock.stage("forward")
        total = loss(anchors[0], positives[0], negatives=batch.negatives).total
        clock.stage("loss")
        state.optimiser.zero_grad(set_to_none=True)
        total.backward()
        clock.stage("backward")
        state.optimiser.step()
        clock.stage("optimiser")
        return clock.stages

    return step


class _Clock:
    """Milliseconds since the stage before."""

    def __init__(self) -> None:
        self.stages: Stages = {}
        self._since = time.perf_counter()

    def stage(self, name: str) -> None:
        now = time.perf_counter()
        self.stages[name] = 1e3 * (now - self._since)
        self._since = now


def _peak() -> float:
    """FLOP/s of all cores, as a product of large matrices on one core shows it."""
    import torch

    cores = torch.get_num_threads()
    torch.set_num_threads(1)
    a, b = torch.rand(2, 1024, 1024)
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        a @ b
        seconds.append(time.perf_counter() - start)
    torch.set_num_threads(cores)
    return cores * 2 * 1024**3 / min(seconds)


if __name__ == "__main__":
    _walk(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "compiled")

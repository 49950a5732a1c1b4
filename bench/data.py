"""Batches of 512 pairs, sampled, read from a memory-mapped file of a million patches, and augmented."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from bench import Measurement, milliseconds
from hynet.errors import need

PATCHES = 1_000_000
PAIRS = 512
ROUNDS = 15


def measure(*, count: int = PATCHES, pairs_per_batch: int = PAIRS, rounds: int = ROUNDS) -> list[Measurement]:
    torch = need("torch", "train", "the bench of sampling")
    from hynet.training.augmentation import augment
    from hynet.training.sampling import mix, pairs
    from hynet.types import PatchSet

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        # A sparse file: a million patches that take no room, read as any others.
        patches = np.lib.format.open_memmap(
            str(Path(folder) / "patches.npy"), mode="w+", dtype=np.uint8, shape=(count, 32, 32)
        )
        patches[::1000] = rng.integers(0, 256, (len(patches[::1000]), 32, 32), np.uint8)
        data = mix([PatchSet(patches, np.sort(rng.integers(0, count // 5, count)))])
        start = time.perf_counter()
        batches = pairs(data, pairs_per_batch, seed=0, epoch=0)
        epoch = 1e3 * (time.perf_counter() - start)
        generator = torch.Generator().manual_seed(0)
        order = iter(np.tile(batches, (2, 1, 1)))

        def loop() -> object:
            """As usually written: read, turn and convert one patch after the other."""
            sides: tuple[list[object], list[object]] = ([], [])
            for pair in next(order):
                turn, flip = int(rng.integers(0, 4)), rng.random() < 0.5
                for row, side in zip(pair, sides, strict=True):
                    patch = np.rot90(patches[row], turn)
                    patch = np.flipud(patch) if flip else patch
                    side.append(torch.from_numpy(patch.copy())[None].float())
            return [torch.stack(side) for side in sides]

        def batched(strength: float = 0.0) -> object:
            more = dict.fromkeys(("jitter", "light", "blur", "noise", "jpeg"), strength)
            return augment(torch.from_numpy(data.patches(next(order))), generator, **more)  # type: ignore[arg-type]

        times = milliseconds(
            {
                "a loop over the batch": loop,
                "batched": batched,
                "batched, with jitter, light, blur, noise and JPEG": lambda: batched(1.0),
            },
            rounds,
        )
    rows = [Measurement(name, value, "ms") for name, value in times.items()]
    sampling = Measurement(f"  sampling an epoch of {len(batches)} batches, each", epoch / len(batches), "ms")
    return [*rows, sampling, Measurement(f"  batches from {count:,} patches", 1e3 / times["batched"], "batches/s")]

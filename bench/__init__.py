"""Speed and memory as ratios in one run. ADD A BENCH: a file in this folder and a row here.

The file has `measure(...) -> list[Measurement]`; its arguments are sizes, for tests to make them small.

Machines are shared and their clocks move: a number alone means little, so the first row is the peer, everything is
measured interleaved in the same process, and the median of several rounds counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

# bench -> what is compared
BENCHES = {
    "start": "whole commands from their start, against importing kornia",
    "describe": "512 patches, against kornia's HyNet with the same weights",
    "photo": "whole photos to features, against OpenCV's SIFT, BEBLID, kornia, pycolmap and what HYNET_WEIGHTS holds",
    "cut": "2,000 patches, against kornia's pyramid and a cv2.warpAffine loop",
    "shape": "affine shapes by a network, against describing the same keypoints",
    "match": "10,000 x 10,000 descriptors, mutual and ratio, against OpenCV's brute-force matcher",
    "reconstruct": "features, matches and verification of 24 photos, against pycolmap's own SIFT",
    "train": "a training step of 512 pairs, against one that is written plainly",
    "data": "sampling and augmenting batches, against a loop over the batch",
    "evaluate": "HPatches' verification, matching and retrieval, against code that takes one pair at a time",
    "loss": "mining and HyNet's loss for 512 pairs, against sorting whole distance matrices",
}


@dataclass(frozen=True)
class Measurement:
    """One measured thing; its ratio is above 1 where it beats the peer, be it a time or a rate."""

    name: str
    value: float
    unit: str  # "ms", "s" and "MB" count down, everything else counts up

    def ratio(self, peer: Measurement) -> float | None:
        if self.unit != peer.unit or not self.value or not peer.value:
            return None
        return peer.value / self.value if self.unit in ("ms", "s", "MB") else self.value / peer.value


def milliseconds(rivals: Mapping[str, Callable[[], object]], rounds: int = 7, warm_up: bool = True) -> dict[str, float]:
    """Median time of each."""
    return {name: median(times) for name, times in all_milliseconds(rivals, rounds, warm_up).items()}


def all_milliseconds(
    rivals: Mapping[str, Callable[[], object]], rounds: int, warm_up: bool = True
) -> dict[str, list[float]]:
    """Every time of each, taken in turns so that a slow moment of the machine hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for act in rivals.values() if warm_up else ():
        act()  # the first call pays for buffers and caches
    for _ in range(rounds):
        for name, act in rivals.items():
            start = time.perf_counter()
            act()
            times[name].append(1e3 * (time.perf_counter() - start))
    return times

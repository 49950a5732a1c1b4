"""What affine shapes cost: the network that ships for 1,024 keypoints, its own cut included, beside describing them."""

from __future__ import annotations

from bench import Measurement, milliseconds
from bench.cut import SIZE, photo
from hynet.features.descriptors.loading import load
from hynet.features.detectors.affine_network import AffineNetwork
from hynet.images.patches import cut

KEYPOINTS = 1024
ROUNDS = 7


def measure(*, count: int = KEYPOINTS, rounds: int = ROUNDS) -> list[Measurement]:
    image, keypoints = photo(count)
    describe, shape = load("default").describe, AffineNetwork()
    rivals = {
        "cutting and describing, default": lambda: describe(cut(image, keypoints, SIZE)),
        "affine shapes, their cut included": lambda: shape(image, keypoints),
    }
    times = milliseconds(rivals, rounds)
    describing, shapes = times.values()
    rows = [Measurement(name, taken, "ms") for name, taken in times.items()]
    return [*rows, Measurement("  shapes, of the time of describing", 100 * shapes / describing, "%")]

"""What affine shapes cost: the network for 1,024 keypoints, its own cut included, beside describing them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from ..descriptors.loading import load
from ..detectors.affine_network import AffineNetwork
from ..errors import need
from ..patches import cut
from . import Measurement, milliseconds
from .cut import SIZE, photo

KEYPOINTS = 1024
ROUNDS = 7


def measure(*, count: int = KEYPOINTS, rounds: int = ROUNDS) -> list[Measurement]:
    torch = need("torch", "train", "the bench of shapes")
    from ..detectors.affnet import AffNet
    from ..export.affine_network import export

    torch.manual_seed(0)
    image, keypoints = photo(count)
    describe = load("default").describe
    with TemporaryDirectory() as scratch:
        export(AffNet().eval(), Path(scratch) / "shape.onnx")  # its time does not depend on what it learnt
        shape = AffineNetwork(Path(scratch) / "shape.onnx")
        rivals = {
            "cutting and describing, default": lambda: describe(cut(image, keypoints, SIZE)),
            "affine shapes, their cut included": lambda: shape(image, keypoints),
        }
        times = milliseconds(rivals, rounds)
    describing, shapes = times.values()
    rows = [Measurement(name, taken, "ms") for name, taken in times.items()]
    return [*rows, Measurement("  shapes, of the time of describing", 100 * shapes / describing, "%")]

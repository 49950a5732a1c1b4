"""Describing 512 patches with one and the same weights: our engines against kornia's HyNet."""

from __future__ import annotations

import numpy as np

from ..descriptors.loading import load, models, network
from ..errors import need
from . import Measurement, milliseconds

PATCHES = 512
ROUNDS = 7
FLOPS = 78.18e6  # a patch: convolutions and the last product
SIDE = 1024  # of the matrices whose bare product shows what the machine can do


def measure(*, count: int = PATCHES, rounds: int = ROUNDS) -> list[Measurement]:
    torch = need("torch", "baselines", "the bench of describing")
    kornia = need("kornia.feature", "baselines", "the bench of describing")
    rng = np.random.default_rng(0)
    patches = rng.integers(0, 256, (count, 32, 32), np.uint8)
    a, b = torch.rand(2, SIDE, SIDE)
    plain = network(models()["default"].with_suffix(".safetensors")).eval()
    peer = kornia.HyNet(pretrained=False).eval()
    peer.load_state_dict(plain.state_dict())
    in_floats, in_integers = load("default"), load("default-int8")
    in_torch = load("default", engine="torch", device="cpu")

    @torch.inference_mode()
    def by_kornia() -> object:
        return peer(torch.from_numpy(patches)[:, None].float())

    @torch.inference_mode()
    def plainly() -> object:
        return torch.nn.functional.normalize(plain(torch.from_numpy(patches)[:, None].float()))

    rivals = {
        "kornia's HyNet": by_kornia,
        "torch, all patches at once": plainly,
        "hynet, engine torch": lambda: in_torch.describe(patches),
        "hynet, the default": lambda: in_floats.describe(patches),
        "hynet, default-int8": lambda: in_integers.describe(patches),
    }
    if not np.allclose(np.asarray(by_kornia()), in_floats.describe(patches), atol=1e-4):
        raise AssertionError("kornia and the default engine disagree: the rates would compare different things")
    times = milliseconds({**rivals, "product": lambda: a @ b}, rounds)
    product = 2 * SIDE**3 / times.pop("product")
    rows = [Measurement(name, 1e3 * count / taken, "patches/s") for name, taken in times.items()]
    share = 100 * FLOPS * count / times["hynet, the default"] / product
    return [*rows, Measurement("  the default's arithmetic, of a bare matrix product's", share, "%")]

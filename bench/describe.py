"""Describing 512 patches with one and the same weights: our engines against kornia's HyNet.

How near that is to what the machine can do is told by bare matrix products: of as many threads as the engine has, each
with matrices of its own as it has patches of its own, warmed up, the best of many against the engine's best.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from statistics import median

import numpy as np

from bench import Measurement, all_milliseconds
from hynet.errors import need
from hynet.features.descriptors.loading import load, models
from hynet.features.descriptors.onnx import OnnxEngine
from hynet.features.descriptors.weights import network

IN_FLOATS = "hynet, default-float"
PATCHES = 512
ROUNDS = 7
# A patch: convolutions and the last product. Products with the zeros around a patch, a twelfth of all, are not counted:
# a direct convolution leaves them out.
FLOPS = 71.67e6
SIDE, PRODUCTS = 1024, 8  # of the matrices, and how many products of them a thread makes at a time


def measure(*, count: int = PATCHES, rounds: int = ROUNDS) -> list[Measurement]:
    torch = need("torch", "baselines", "the bench of describing")
    kornia = need("kornia.feature", "baselines", "the bench of describing")
    rng = np.random.default_rng(0)
    patches = rng.integers(0, 256, (count, 32, 32), np.uint8)
    plain = network("default").eval()
    peer = kornia.HyNet(pretrained=False).eval()
    peer.load_state_dict(plain.state_dict())
    in_floats, in_integers, light = OnnxEngine(models()["default-float"]), load("default"), load("light")
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
        IN_FLOATS: lambda: in_floats.describe(patches),
        "hynet, default, 8-bit": lambda: in_integers.describe(patches),
        "hynet, light": lambda: light.describe(patches),
    }
    if not np.allclose(np.asarray(by_kornia()), in_floats.describe(patches), atol=1e-4):
        raise AssertionError("kornia and default-float disagree: the rates would compare different things")
    threads = in_floats.threads
    with ThreadPoolExecutor(threads, initializer=lambda: torch.set_num_threads(1)) as pool:
        pairs = torch.rand(threads, 2, SIDE, SIDE)

        def products() -> object:
            return list(pool.map(lambda pair: [torch.mm(*pair) for _ in range(PRODUCTS)], pairs))

        times = all_milliseconds({**rivals, "products": products}, rounds)
    product = threads * PRODUCTS * 2 * SIDE**3 / min(times.pop("products"))  # operations a millisecond
    rows = [Measurement(name, 1e3 * count / median(taken), "patches/s") for name, taken in times.items()]
    share = 100 * FLOPS * count / min(times[IN_FLOATS]) / product
    return [
        *rows,
        Measurement(f"  bare matrix products, {threads} threads, the best", product / 1e6, "GFLOP/s"),
        Measurement("  of which the network in floats reaches, at its best", share, "%"),
    ]

"""Training losses. ADD A LOSS: a function in a file of this folder and a row in LOSSES.

Every loss takes RAW anchors and positives (N, D), row i of both showing the same point, and any N >= 2; it
normalises for itself, since HyNet's regulariser needs the lengths. Totals are means over the batch: the released
code sums, which Adam hardly notices. Mining losses take `negatives`, a mask of the pairs that may serve as such. A
loss that takes `maps` is given the feature maps of networks that have them, one that takes `taught` the descriptors
of a teacher. Its other keyword arguments are its options (`options.py`).
Files are imported when they are first used: looking at the table needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..runtime.plugins import Part, with_plugins

if TYPE_CHECKING:
    from .distillation import distilled, same_neighbours
    from .paper import d_only, hynet, loss_a, loss_b, s_only
    from .rivals import AP_BINS, doap, hardnegc, hardnet, hardnet_four, l2net, sosnet, tfeat
    from .terms import (
        NEIGHBOURS,
        Loss,
        LossTerms,
        added_up,
        angular,
        hybrid,
        in_full_precision,
        norm_difference,
        one_threshold,
        second_order,
    )

__all__ = [
    "AP_BINS",
    "LOSSES",
    "NEIGHBOURS",
    "Loss",
    "LossTerms",
    "added_up",
    "angular",
    "d_only",
    "distilled",
    "doap",
    "hardnegc",
    "hardnet",
    "hardnet_four",
    "hybrid",
    "hynet",
    "in_full_precision",
    "l2net",
    "loss_a",
    "loss_b",
    "norm_difference",
    "one_threshold",
    "s_only",
    "same_neighbours",
    "second_order",
    "sosnet",
    "tfeat",
]

LOSSES: dict[str, Part[LossTerms]] = with_plugins(
    "losses",
    {
        "hynet": Part("hynet.losses.paper:hynet", "triplet on the hybrid similarity, plus R_L2 (Sec. 3)"),
        "s_only": Part("hynet.losses.paper:s_only", "HyNet's with the angular similarity s alone"),
        "d_only": Part("hynet.losses.paper:d_only", "HyNet's with the distance d alone"),
        "loss_a": Part("hynet.losses.paper:loss_a", "L_A: s for positives, d for negatives"),
        "loss_b": Part("hynet.losses.paper:loss_b", "L_B: a triplet on s plus one on d"),
        "hardnet": Part("hynet.losses.rivals:hardnet", "HardNet: triplet on d, hardest negative of the other side"),
        "hardnet_four": Part("hynet.losses.rivals:hardnet_four", "HardNet's with negatives mined as HyNet does"),
        "hardnegc": Part("hynet.losses.rivals:hardnegc", "AffNet's: HardNet's with the hardest negative held constant"),
        "sosnet": Part("hynet.losses.rivals:sosnet", "SOSNet: quadratic triplet on d, plus second-order similarity"),
        "tfeat": Part("hynet.losses.rivals:tfeat", "TFeat: random triplets with anchor swap, on raw distances"),
        "l2net": Part("hynet.losses.rivals:l2net", "L2-Net: relative distances, decorrelation, feature maps"),
        "doap": Part("hynet.losses.rivals:doap", "DOAP: average precision of finding the partner, by soft binning"),
        "distilled": Part("hynet.losses.distillation:distilled", "HyNet's, with the descriptors of a teacher to copy"),
    },
    Part["LossTerms"],
)


def __getattr__(name: str) -> Any:
    """`hynet.losses.hynet` and the others of __all__, imported when asked for."""
    if name in __all__:
        for file in ("distillation", "paper", "rivals", "terms"):
            module = importlib.import_module(f".{file}", __name__)
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Patches -> unit vectors. ADD A DESCRIPTOR: a file in this folder and a row in DESCRIPTORS.

`DESCRIPTORS["hynet"]()` makes an untrained network; `hynet.load` gives it weights. Files are imported when they are
first used: SIFT needs no torch, and neither does looking at the table.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import need

if TYPE_CHECKING:
    from .desdis import DesDis as DesDis
    from .hynet import HyNet as HyNet
    from .l2net import L2Net as L2Net
    from .tfeat import HardTFeat as HardTFeat
    from .tfeat import TFeat as TFeat


@dataclass(frozen=True)
class Row:
    """A descriptor by name: calling it makes one."""

    file: str  # in this folder
    name: str  # of the class
    about: str
    learnt: bool = True  # it is a torch network, and says nothing before it is given weights

    def __call__(self, **options: Any) -> Any:
        return self.made_by()(**options)

    def made_by(self) -> Any:
        """The class itself."""
        if self.learnt:
            need("torch", "train", f"{self.name} as a network")
        return getattr(importlib.import_module(f".{self.file}", __package__), self.name)


DESCRIPTORS = {
    "hynet": Row("hynet", "HyNet", "FRN and TLU on L2-Net's layout (Tian 2020)"),
    "l2net": Row("l2net", "L2Net", "the layout of L2-Net (Tian 2017), HardNet and SOSNet"),
    "tfeat": Row("tfeat", "TFeat", "two convolutions, one full layer (Balntas 2016)"),
    "hardtfeat": Row("tfeat", "HardTFeat", "TFeat's layout trained with HardNet's loss (Mishchuk 2017)"),
    "desdis": Row("desdis", "DesDis", "small networks taught by a large one (Liu 2024)"),
    "sift": Row("sift", "SIFT", "gradient histograms of the patch (Lowe 2004)", learnt=False),
    "rootsift": Row("sift", "RootSIFT", "SIFT under Hellinger's distance (Arandjelovic 2012)", learnt=False),
    "vgg": Row("opencv", "VGG", "learnt pooling regions and projection (Simonyan 2014)", learnt=False),
    "boostdesc": Row("opencv", "BoostDesc", "256 boosted bits, BinBoost (Trzcinski 2013)", learnt=False),
    "beblid": Row("opencv", "BEBLID", "512 boosted differences of boxes (Suarez 2020)", learnt=False),
    "teblid": Row("opencv", "TEBLID", "BEBLID learnt from triplets, 512 bits (Suarez 2021)", learnt=False),
    "daisy": Row("opencv", "DAISY", "gradients under Gaussians on rings (Tola 2010)", learnt=False),
    "mkd": Row(
        "mkd", "MKD", "kernels of gradients, whitened where its weights are given (Mukundan 2018)", learnt=False
    ),
}


def __getattr__(name: str) -> Any:
    """`hynet.descriptors.HyNet` and the other classes, imported when asked for."""
    for row in DESCRIPTORS.values():
        if row.name == name:
            return row.made_by()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Patches -> unit vectors. ADD A DESCRIPTOR or AN ENGINE: a file in this folder and a row in DESCRIPTORS or ENGINES.

`DESCRIPTORS["hynet"]()` makes an untrained network; `hynet.load` gives it weights, which each network's file recognises
by `recognise(weights)`. Files are imported when they are first used: SIFT needs no torch, and neither does looking at
the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import need
from ...runtime.plugins import Part, with_plugins
from ...types import Descriptor

if TYPE_CHECKING:
    from .desdis import DesDis as DesDis
    from .hynet import HyNet as HyNet
    from .l2net import L2Net as L2Net
    from .lightnet import LightNet as LightNet
    from .tfeat import HardTFeat as HardTFeat
    from .tfeat import TFeat as TFeat


@dataclass(frozen=True)
class DescriptorPart(Part[Any]):
    """A descriptor by name: calling it makes one."""

    learnt: bool | None = None  # a torch network, which needs weights; None: from a package, known once it is made

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.where.rpartition(":")[2]

    def imported(self) -> Any:
        if self.learnt:
            need("torch", "train", f"{self.name} as a network")
        return super().imported()


@dataclass(frozen=True)
class EnginePart(Part[Descriptor]):
    """Engine that runs networks in files: calling it with a path and a device opens the file."""

    suffixes: tuple[str, ...] = ()  # of the files that it opens; a package's engine has an attribute of that name

    def opens(self, path: Path) -> bool:
        return path.suffix in (self.suffixes or getattr(self.imported(), "suffixes", ()))


def _network(where: str, about: str) -> DescriptorPart:
    return DescriptorPart(f"hynet.descriptors.{where}", about, learnt=True)


def _handmade(where: str, about: str) -> DescriptorPart:
    return DescriptorPart(f"hynet.descriptors.{where}", about, learnt=False)


DESCRIPTORS: dict[str, DescriptorPart] = with_plugins(
    "descriptors",
    {
        "hynet": _network("hynet:HyNet", "FRN and TLU on L2-Net's layout (Tian 2020)"),
        "l2net": _network("l2net:L2Net", "the layout of L2-Net (Tian 2017), HardNet and SOSNet"),
        "tfeat": _network("tfeat:TFeat", "two convolutions, one full layer (Balntas 2016)"),
        "hardtfeat": _network("tfeat:HardTFeat", "TFeat's layout trained with HardNet's loss (Mishchuk 2017)"),
        "lightnet": _network("lightnet:LightNet", "a fifth of HyNet's arithmetic, for CPUs"),
        "desdis": _network("desdis:DesDis", "small networks taught by a large one (Liu 2024)"),
        "sift": _handmade("sift:SIFT", "gradient histograms of the patch (Lowe 2004)"),
        "rootsift": _handmade("sift:RootSIFT", "SIFT under Hellinger's distance (Arandjelovic 2012)"),
        "vgg": _handmade("opencv:VGG", "learnt pooling regions and projection (Simonyan 2014)"),
        "boostdesc": _handmade("opencv:BoostDesc", "256 boosted bits, BinBoost (Trzcinski 2013)"),
        "beblid": _handmade("opencv:BEBLID", "512 boosted differences of boxes (Suarez 2020)"),
        "teblid": _handmade("opencv:TEBLID", "BEBLID learnt from triplets, 512 bits (Suarez 2021)"),
        "daisy": _handmade("opencv:DAISY", "gradients under Gaussians on rings (Tola 2010)"),
        "mkd": _handmade("mkd:MKD", "kernels of gradients, whitened where its weights are given (Mukundan 2018)"),
    },
    DescriptorPart,
)

ENGINES: dict[str, EnginePart] = with_plugins(
    "engines",
    {
        "onnx": EnginePart("hynet.features.descriptors.onnx:open_onnx", "ONNX Runtime on the CPU", suffixes=(".onnx",)),
        "compressed": EnginePart(
            "hynet.features.descriptors.compressed:open_compressed", "what `hynet compress` wrote", suffixes=(".hynet",)
        ),
        "openvino": EnginePart(
            "hynet.features.descriptors.openvino:open_openvino",
            "OpenVINO, on the CPU or Intel's GPUs",
            suffixes=(".openvino",),
        ),
        "torch": EnginePart(
            "hynet.features.descriptors.weights:open_torch",
            "torch on the CPU or a GPU",
            suffixes=(".pt", ".pth", ".params", ".safetensors"),
        ),
    },
    EnginePart,
)


def __getattr__(name: str) -> Any:
    """`hynet.descriptors.HyNet` and the other classes, imported when asked for."""
    for row in DESCRIPTORS.values():
        if row.name == name and not row.package:
            return row.imported()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

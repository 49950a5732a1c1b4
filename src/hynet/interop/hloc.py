"""Our features in hloc (github.com/cvg/Hierarchical-Localization), as one more entry of its `confs`.

from hloc import extract_features, match_features
from hynet.interop.hloc import entry

conf = extract_features.confs["hynet"] = entry(max_keypoints=4096)
features = extract_features.main(conf, photos, outputs, as_half=False)
matches = match_features.main(match_features.confs["NN-ratio"], pairs, conf["output"], outputs)
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..errors import MissingExtra
from ..features.extractors.patchwise import Extractor
from ..features.settings import FeatureSettings
from ..runtime import fingerprints

NAME = "hynet"  # hloc looks for an extractor of this name in hloc.extractors


def entry(
    *, detector: str = "dog", model: str = "default", max_keypoints: int = 4096, upright: bool = True
) -> dict[str, Any]:
    """One of hloc's `confs`; hloc finds the extractor that it names once this has been called."""
    module = f"hloc.extractors.{NAME}"
    if module not in sys.modules:
        sys.modules[module] = _extractor_module(module)
    chosen = {"detector": detector, "model": model, "max_keypoints": max_keypoints, "upright": upright}
    called = [NAME, _called(detector), _called(model), f"n{max_keypoints}", *([] if upright else ["turned"])]
    return {
        "output": f"feats-{'-'.join(called)}",  # hloc takes what is in that file for done: other settings, another file
        "model": {"name": NAME, **chosen},
        "preprocessing": {"grayscale": True, "resize_max": FeatureSettings.longest},
    }


def _called(part: str) -> str:
    """A name as it is; of a file its name and content, since all runs write best.pt."""
    known = fingerprints.weights(Path(part)) if Path(part).is_file() else None
    return part if known is None else f"{Path(part).stem}-{known[:8]}"


def _extractor_module(name: str) -> ModuleType:
    """Make the module that hloc imports: it has one class, whose `__module__` names that module."""
    try:
        import torch
        from hloc.utils.base_model import BaseModel
    except ImportError:
        raise MissingExtra(
            "this needs hloc: pip install git+https://github.com/cvg/Hierarchical-Localization"
        ) from None

    class HyNet(BaseModel):
        required_inputs = ("image",)

        def _init(self, conf: dict[str, Any]) -> None:
            asked = FeatureSettings(detector=conf["detector"], model=conf["model"], longest=1 << 30)
            turned = "upright" if conf["upright"] else "gradient"
            self.extract = Extractor(asked, max_keypoints=conf["max_keypoints"], orientation=turned)

        def _forward(self, data: dict[str, Any]) -> dict[str, Any]:
            """(1, 1, H, W) from 0 to 1 -> lists of one, as hloc takes them apart."""
            grey = np.rint(255 * data["image"][0, 0].cpu().numpy()).clip(0, 255).astype(np.uint8)
            found = self.extract(grey)
            columns = {
                "keypoints": found.keypoints.xy,
                "scores": found.keypoints.scores,
                "descriptors": found.descriptors.T,
                "scales": found.keypoints.sigma,
                "angles": found.keypoints.angle,
            }
            return {key: [torch.from_numpy(np.array(column))] for key, column in columns.items()}

    HyNet.__module__ = name
    module = ModuleType(name)
    module.HyNet = HyNet  # type: ignore[attr-defined]
    return module

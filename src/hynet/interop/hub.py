"""A descriptor as a folder in the layout of huggingface_hub: config.json, model.safetensors and a card, README.md.

    save("run/best.pt", "my-hynet/", licence="apache-2.0")       # then: hf upload me/my-hynet my-hynet/
    descriptor = load("my-hynet/")                               # or load("me/my-hynet"), which downloads it

`hynet.load("my-hynet/")` and every command's --model take such a folder, too; only names of repositories need this.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ..errors import BadInput, DataNotFound, need
from ..features.descriptors import loading, weights
from ..features.descriptors.weights import HUB_CONFIG, HUB_WEIGHTS
from ..runtime.arrays import write_safetensors
from ..runtime.files import atomic_write, make_folder
from ..types import Descriptor

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def save(model: str | Path, folder: str | Path, *, licence: str = "", trained_on: str = "") -> Path:
    """Weights of any of our networks, by name or path, into a folder that can be uploaded as it is."""
    network = weights.network(model)
    described = loading.load(model)
    config = {
        "library_name": "hynet",
        "network": type(network).__name__,
        "dim": network.dim,
        "patch_size": network.patch_size,
        "support": described.support,
        "ratio": described.ratio,
        "trained_on": trained_on,
        "license": licence,
    }
    folder = make_folder(folder)
    write_safetensors(folder / HUB_WEIGHTS, network.state_dict())
    with atomic_write(folder / "README.md") as file:
        file.write_text(_card(folder.resolve().name, config), encoding="utf-8")
    with atomic_write(folder / HUB_CONFIG) as file:  # last: it vouches for the rest
        file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return folder


def load(name_or_folder: str | Path, *, revision: str | None = None, device: str | None = None) -> Descriptor:
    """Load a descriptor from a folder, or download it from a repository "owner/name" on huggingface.co."""
    if Path(name_or_folder).is_dir():
        return loading.load(name_or_folder, device=device)
    name = str(name_or_folder)
    if not REPOSITORY.fullmatch(name):
        raise DataNotFound(
            f"no folder {name}; give one that has {HUB_CONFIG}, or the name of a repository, owner/name."
        )
    hub = need("huggingface_hub", "hub", "downloading from huggingface.co")
    try:
        folder = hub.snapshot_download(name, revision=revision, allow_patterns=[HUB_CONFIG, HUB_WEIGHTS])
    except Exception as error:  # of the network, of the repository, of its permissions: one class each
        raise BadInput(
            f"{name} could not be downloaded ({type(error).__name__}); check the name and the network."
        ) from None
    return loading.load(folder, device=device)


def _card(name: str, config: dict[str, Any]) -> str:
    """Write the model card for a repository; huggingface.co sorts models by its head."""
    head = ["library_name: hynet", "tags:", "- local-features", "- image-matching", "- patch-descriptor"]
    if config["license"]:
        head.append(f"license: {json.dumps(config['license'])}")
    trained = f" Trained on {config['trained_on']}." if config["trained_on"] else ""
    return "\n".join(
        [
            "---",
            *head,
            "---",
            f"# {name}",
            "",
            f"A {config['network']} descriptor: {config['patch_size']} x {config['patch_size']} grey patches to "
            f"{config['dim']} numbers.{trained}",
            "",
            "    import hynet.interop.hub",
            "",
            f'    descriptor = hynet.interop.hub.load("OWNER/{name}")',
            f"    vectors = descriptor.describe(patches)  # (N, S, S) uint8 -> (N, {config['dim']}) unit rows",
            "",
        ]
    )

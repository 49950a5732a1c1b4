"""A name or a path -> a Descriptor, ready to describe. Nothing here downloads."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import BadInput, choose
from ...runtime.files import as_path
from ...runtime.plugins import importable
from ...types import Descriptor
from ..models import shipped
from . import DESCRIPTORS, ENGINES

if TYPE_CHECKING:
    from torch import nn

_LOG = logging.getLogger(__name__)


def load(
    name_or_path: str | Path, engine: str | None = None, *, device: str | None = None, network: nn.Module | None = None
) -> Descriptor:
    """A descriptor by name ("default", "rootsift"), or by the path of a checkpoint or of published weights.

    engine: what runs a network, one of ENGINES; None: ONNX Runtime if there is an .onnx file of it, else torch.
    device: where it runs ("cpu", "cuda:1"); None: torch takes the GPU if there is one, all else runs on the CPU.
    network: a network of your own, in none of our tables, whose weights are in the file; they are put into it.
    """
    name, path = str(name_or_path), as_path(name_or_path, "a descriptor's name or file")
    ours = models()
    if engine is not None:
        choose(ENGINES, engine, "engine")
    if network is not None:
        from .weights import open_own

        return open_own(path, network, device)
    row = DESCRIPTORS.get(name)
    if name in ours:  # names before paths: a folder called like one does not hide it
        path = ours[name]
    elif row is not None and not row.learnt:
        return _by_name(name, device)
    elif not name or not path.exists():
        if row is not None:
            raise BadInput(f"{name} needs weights: give the path of a checkpoint or of its published weights.")
        ready = [*ours, *(name for name, row in DESCRIPTORS.items() if not row.learnt)]
        raise BadInput(f"no model {name!r}: there is no such file, and the names are {', '.join(ready)}.")
    chosen = engine or _engine_for(path, device)
    _LOG.info("model %s: %s, by %s", name, path, chosen)
    return ENGINES[chosen](path, device)


def models() -> dict[str, Path]:
    """The descriptors that ship in the package: name -> file."""
    return shipped("descriptor")


def _by_name(name: str, device: str | None) -> Any:
    if device not in (None, "cpu"):
        raise BadInput(f"{name} runs on the CPU, not on the device {device!r}; leave the device out.")
    made = DESCRIPTORS[name]()
    if hasattr(made, "load_state_dict"):  # a network that a package brings
        raise BadInput(f"{name} needs weights: give the path of a checkpoint or of its published weights.")
    return made


def _engine_for(path: Path, device: str | None) -> str:
    """The first engine that opens such files; ours are asked first. Torch says what is wrong with all others."""
    if path.suffix == ".onnx" and path.is_file() and device not in (None, "cpu"):
        return "torch"  # of the weights beside it: our ONNX Runtime has the CPU alone
    if path.is_dir() and path.suffix != ".openvino":
        return "torch"
    return next((name for name, engine in importable(ENGINES) if engine.opens(path)), "torch")

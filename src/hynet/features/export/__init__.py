"""Trained networks -> files that run without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...errors import BadInput, HynetError, UnknownName, listed
from ...types import Array


class Disagreement(HynetError):
    """A file would not say what its network says; it was not written."""


def export_weights(model: str | Path, to: str | Path, about: Mapping[str, str]) -> tuple[str, float]:
    """Whatever network the weights are of, by name or path: what it is, and the difference in the check."""
    from . import affine_network, descriptors, keynet

    write: dict[str, Callable[[Any, str | Path, Mapping[str, str]], float]] = {
        "detector": keynet.export,
        "shape network": affine_network.export,
        "descriptor": descriptors.export,
    }
    kind, network = open_weights(model)
    return kind, write[kind](network, to, about)


def export_weights_int8(
    model: str | Path, to: str | Path, patches: Callable[[], Array], about: Mapping[str, str]
) -> tuple[str, str, float]:
    """Write a network in 8-bit integers, with ranges from patches (N, 32, 32), which are loaded after all checks.

    Returns the kind of network, the measure by which both were compared, and how well they agree.
    """
    from . import affine_network, descriptors

    kind, network = open_weights(model)
    if kind == "detector":
        raise BadInput("the detector Key.Net is not written in 8-bit integers; export it without --int8.")
    descriptors.check_suffix(to)
    if kind == "shape network":
        return kind, "difference", affine_network.export_int8(network, to, patches(), about)
    descriptors.check_int8(network, to)
    return kind, "cosine", descriptors.export_int8(network, to, patches(), about)


def open_weights(model: str | Path) -> tuple[str, Any]:
    """Open weights by name or path: the kind of network (detector, shape network or descriptor), and the network."""
    from ..descriptors.loading import models
    from ..descriptors.weights import from_state, network, read_state
    from ..detectors import affnet, keynet_network
    from ..models import shipped

    detectors, shapes = shipped("detector"), shipped("shape")
    if str(model) in detectors:
        return "detector", keynet_network.load(detectors[str(model)].with_suffix(".safetensors"))
    if str(model) in shapes:
        return "shape network", affnet.load(shapes[str(model)].with_suffix(".safetensors"))
    if str(model) in models():
        return "descriptor", network(model)
    if not Path(model).exists():
        names = listed([*models(), *detectors, *shapes])
        raise UnknownName(f"no network {str(model)!r}; choose {names}, or give the path of a checkpoint or of weights.")
    state = read_state(model)
    if affnet.recognised(state):
        return "shape network", affnet.from_state(state, str(model))
    if keynet_network.recognised(state):
        return "detector", keynet_network.load(model)
    return "descriptor", from_state(state, str(model))

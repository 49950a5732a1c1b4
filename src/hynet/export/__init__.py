"""Trained networks -> files that run without torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..errors import HynetError, UnknownName, listed


class Disagreement(HynetError):
    """A file would not say what its network says; it was not written."""


def export_weights(model: str | Path, to: str | Path, about: Mapping[str, str]) -> tuple[str, float]:
    """Whatever network the weights are of, by name or path: what it is, and the difference in the check."""
    from ..descriptors.loading import from_state, models, network, read_state
    from ..detectors import affnet, keynet_network
    from ..detectors.affine_network import SHIPPED
    from ..models import shipped
    from . import affine_network, descriptors, keynet

    detectors = shipped("detector")
    if str(model) in detectors:
        weights = detectors[str(model)].with_suffix(".safetensors")
        return "detector", keynet.export(keynet_network.load(weights), to, about)
    if str(model) in shipped("shape"):
        return "shape network", affine_network.export(affnet.load(SHIPPED.with_suffix(".safetensors")), to, about)
    if str(model) in models():
        return "descriptor", descriptors.export(network(model), to, about)
    if not Path(model).exists():
        names = listed([*models(), *detectors, *shipped("shape")])
        raise UnknownName(f"no network {str(model)!r}; choose {names}, or give the path of a checkpoint or of weights.")
    state = read_state(model)
    if affnet.recognised(state):
        return "shape network", affine_network.export(affnet.from_state(state, str(model)), to, about)
    if keynet_network.recognised(state):
        return "detector", keynet.export(keynet_network.load(model), to, about)
    return "descriptor", descriptors.export(from_state(state, str(model)), to, about)

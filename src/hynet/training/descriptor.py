"""What a run starts with, made from its settings: the network and its first weights, the optimiser, the loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import nn

from ..errors import BadInput, BadWeights, choose
from ..features.descriptors import DESCRIPTORS, weights
from ..features.descriptors.layers import Network, as_network, start_orthogonal
from ..losses import LOSSES, Loss
from ..losses.options import takes, with_options
from . import distributed
from .batches import seed_of
from .checkpoints import State
from .configuration import TrainConfig
from .tiling import Tiled, settled

PATCH_SIZE = 32  # pixels a side, that augmentation gives
OwnNetwork = nn.Module | Callable[[], nn.Module]  # in none of our tables


def start(config: TrainConfig, device: str, own: OwnNetwork | None = None) -> State[Network]:
    """A fresh network and its optimiser, the same in every process. A module of one's own has its weights already."""
    torch.manual_seed(seed_of(config.seed))
    made = own if own is None or isinstance(own, nn.Module) else own()
    network = network_of(config) if made is None else as_network(made)
    if network.patch_size != PATCH_SIZE:
        raise BadInput(f"training is for networks of {PATCH_SIZE} x {PATCH_SIZE} patches, not of {network.patch_size}.")
    if config.start == "orthogonal" and not isinstance(own, nn.Module):
        start_orthogonal(network, config.gain)
    if config.start_from and made is not None:
        weights.fill(made, config.start_from)
    elif config.start_from:
        found = weights.network(config.start_from)
        if [*found.state_dict()] != [*network.state_dict()]:
            raise BadWeights(
                f"{config.start_from} is a {type(found).__name__}, but the recipe trains another network; "
                "choose weights of the same network and --norm."
            )
        network.load_state_dict(found.state_dict())
    network.to(device).train()
    distributed.synchronise(network)
    return State(network, optimiser_of(config, network), config.average)


def has_gpu() -> bool:
    """Whether training runs on one by default."""
    return torch.cuda.is_available()


def optimiser_of(config: TrainConfig, network: nn.Module) -> torch.optim.Optimizer:
    weights = network.parameters()
    if config.optimiser == "adam":
        return torch.optim.Adam(weights, config.learning_rate, weight_decay=config.weight_decay, fused=True)
    return torch.optim.SGD(weights, config.learning_rate, config.momentum, config.dampening, config.weight_decay)


def network_of(config: TrainConfig) -> Network:
    """The untrained network; options that it does not have are left out."""
    networks = {name: row for name, row in DESCRIPTORS.items() if row.learnt is not False}
    row = choose(networks, config.network, "network")
    known = inspect.signature(row.imported()).parameters
    options = {"norm": config.norm, "dropout": config.dropout}
    return as_network(row(**{name: value for name, value in options.items() if name in known}))


def tiled(network: Network, config: TrainConfig, loss: Loss) -> Tiled:
    """The network, ready for fast steps, with its feature maps where the loss asks for them."""
    bfloat16 = settled(config.precision) == "bfloat16"
    with_maps = takes(loss, "maps") and hasattr(network, "with_maps")
    return Tiled(network, compiled=config.compiled, with_maps=with_maps, bfloat16=bfloat16)


def loss_function(config: TrainConfig, own: Loss | None = None) -> Loss:
    """The loss with the options that the config sets."""
    loss = own or choose(LOSSES, config.loss, "loss").imported()
    return with_options(loss, config.options_of_the_loss(), config.loss)

"""Tasks that train a descriptor: by a loss of pairs, and with a teacher besides."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..datasets import find_patches, test_pairs
from ..errors import BadInput, BadWeights, choose
from ..features.descriptors import DESCRIPTORS, loading, weights
from ..features.descriptors.layers import Network, as_network, start_orthogonal
from ..losses import LOSSES, Loss, LossTerms
from ..losses.options import takes, with_options
from ..runtime import fingerprints
from ..types import PatchPairs, PatchSet, Progress, silent
from . import distributed
from .batches import Batch, batches
from .checkpoints import State
from .configuration import LossConfig, PairsConfig, Precision, TrainConfig
from .sampling import batches_per_epoch, mix
from .tasks import Trained
from .tiling import Tiled, settled
from .validation import ValidationSets, described, validation_error

PATCH_SIZE = 32  # pixels a side, that augmentation gives
OwnNetwork = nn.Module | Callable[[], nn.Module]  # in none of our tables


class PairsTask:
    """The common part of tasks on pairs of patches: their data, and batches of it."""

    size = PATCH_SIZE  # pixels a side of the patches in a batch
    largest_gradient: float | None = None
    one_thread = False
    facts: Mapping[str, Any] = {}

    def __init__(
        self, config: PairsConfig, data: Mapping[str, PatchSet], validate: ValidationSets | None, device: str
    ) -> None:
        self.config, self.device = config, device
        self.validation_sets: ValidationSets = validate or {}
        self._mixture = mix(list(data.values()))
        self.per_epoch = batches_per_epoch(self._mixture, config.pairs_per_batch, config.pairs_per_epoch)
        self.patches_per_step = 2 * config.pairs_per_batch

    @classmethod
    def load(cls, config: PairsConfig, root: Path, progress: Progress) -> PatchSet:
        # Jitter looks at the full 64 pixels; everything else of a descriptor only ever sees 32.
        return find_patches(root).load(root, 64 if config.jitter else cls.size, progress)

    @classmethod
    def load_validation(cls, config: PairsConfig, root: Path) -> tuple[PatchSet, PatchPairs]:
        return find_patches(root).load(root, cls.size, silent), test_pairs(root)

    @staticmethod
    def fingerprint(data: PatchSet) -> dict[str, Any]:
        columns = (data.points, data.images, data.scenes, data.places, data.hard_pairs)
        content = fingerprints.arrays(data.patches, *columns)
        return {"patches": len(data), "points": len(np.unique(data.points)), "content": content}

    def batches(self, first: int) -> Iterator[Any]:
        return batches(
            self._mixture, self.config, first=first, per_epoch=self.per_epoch, device=self.device, size=self.size
        )

    def remarks(self, batch: Batch) -> Mapping[str, float]:
        """The number of certain negatives, which may be few."""
        return {"negatives": batch.negatives_per_pair} if self.config.certain else {}

    def finish(self, ended: Trained, out: Path) -> Trained:
        return ended


class Descriptor(PairsTask):
    """A network that describes patches.

    A network and a loss of one's own take the place of those that the settings name.
    """

    config: TrainConfig

    def __init__(
        self,
        config: TrainConfig,
        data: Mapping[str, PatchSet],
        validate: ValidationSets | None = None,
        device: str = "cpu",
        *,
        resumed: bool = False,
        network: OwnNetwork | None = None,
        loss: Loss | None = None,
    ) -> None:
        self._loss = loss_function(config, loss)  # what it does not take is told before data that do not fit
        super().__init__(config, data, validate, device)
        self.state = start(replace(config, start_from=None) if resumed else config, device, network)
        fast = tiled(self.state.network, config, self._loss)
        self._model, self.one_thread = distributed.distributed(fast), fast.cores is not None
        self.facts = {"dim": self.state.network.dim}

    def loss(self, batch: Batch, done: float) -> tuple[Tensor, Mapping[str, Tensor]]:
        terms = loss_of(self._model, batch, self._loss, self.config.precision)
        cosines = {"positive_similarity": terms.d_pos, "negative_similarity": terms.d_neg}  # of partners, and hardest
        similarities = {} if terms.raw else {name: (1 - d.square() / 2).mean() for name, d in cosines.items()}
        return terms.total, {**terms.terms, **similarities, "violated": terms.violated}

    def validate(self) -> dict[str, float]:
        describe = partial(described, self.state.averaged)
        return {name: validation_error(describe, *some) for name, some in self.validation_sets.items()}


class Distillation(Descriptor):
    """A descriptor that copies a teacher for the first part of the run: a model by name or path."""

    def __init__(self, config: TrainConfig, *values: Any, **options: Any) -> None:
        super().__init__(config, *values, **options)
        assert config.teacher is not None  # or the task would be another
        if not takes(self._loss, "taught"):
            raise BadInput(
                f"the loss {config.loss} has no use for a teacher; choose --loss distilled, or no --teacher."
            )
        self._teacher = loading.load(config.teacher, device=self.device)

    def loss(self, batch: Batch, done: float) -> tuple[Tensor, Mapping[str, Tensor]]:
        return super().loss(self._taught(batch) if done < self.config.distill_fraction else batch, done)

    def _taught(self, batch: Batch) -> Batch:
        """The batch with the teacher's unit descriptors of it. A teacher describes bytes, so patches are rounded."""
        patches = torch.cat([batch.anchors, batch.positives])[:, 0]  # (2n, 32, 32)
        rows = self._teacher.describe(patches.round().byte().cpu().numpy()).astype(np.float32, copy=False)
        anchors, positives = torch.from_numpy(rows).to(patches.device).chunk(2)
        return replace(batch, taught=(anchors, positives))


def loss_of(model: nn.Module, batch: Batch, loss: Loss, precision: Precision = "float32") -> LossTerms:
    """The loss of the whole batch, negatives taken from all processes; its gradients reach this process's share."""
    device = batch.anchors.device.type
    # On a CPU, Tiled rounds by itself.
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda" and settled(precision, device) == "bfloat16"):
        anchors, positives = model(batch.anchors, batch.positives)
    (raw_a, *maps_a), (raw_p, *maps_p) = map(distributed.gather, anchors), map(distributed.gather, positives)
    known: dict[str, Any] = {"negatives": batch.negatives} if takes(loss, "negatives") else {}
    if maps_a:
        known["maps"] = list(zip(maps_a, maps_p, strict=True))
    if batch.taught is not None:
        known["taught"] = tuple(map(distributed.gather, batch.taught))
    terms = loss(raw_a, raw_p, **known)
    if not isinstance(terms, LossTerms):
        raise BadInput(
            f"a loss returns hynet.losses.LossTerms, this one a {type(terms).__name__}; `added_up` makes it."
        )
    return terms


# --- the start of a run, from its settings ----------------------------------------------------------------------------


def start(config: TrainConfig, device: str, own: OwnNetwork | None = None) -> State[Network]:
    """A fresh network and its optimiser, the same in every process. A module of one's own has its weights already."""
    torch.manual_seed(config.seed_of())
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
                "choose weights of the same network."
            )
        network.load_state_dict(found.state_dict())
    network.to(device).train()
    distributed.synchronise(network)
    return State(network, optimiser_of(config, network), config.average)


def optimiser_of(config: PairsConfig, network: nn.Module) -> torch.optim.Optimizer:
    """Adam or SGD, as the settings say."""
    learnt = network.parameters()
    if config.optimiser == "adam":
        return torch.optim.Adam(learnt, config.learning_rate, weight_decay=config.weight_decay, fused=True)
    return torch.optim.SGD(learnt, config.learning_rate, config.momentum, config.dampening, config.weight_decay)


def network_of(config: TrainConfig) -> Network:
    """The untrained network; options that it does not have are left out."""
    networks = {name: row for name, row in DESCRIPTORS.items() if row.learnt is not False}
    row = choose(networks, config.network, "network")
    known = inspect.signature(row.imported()).parameters
    options = {"norm": config.norm, "dropout": config.dropout}
    return as_network(row(**{name: value for name, value in options.items() if name in known}))


def tiled(network: Network, config: LossConfig, loss: Loss) -> Tiled:
    """The network, ready for fast steps, with its feature maps where the loss asks for them."""
    bfloat16 = settled(config.precision) == "bfloat16"
    with_maps = takes(loss, "maps") and hasattr(network, "with_maps")
    return Tiled(network, compiled=config.compiled, with_maps=with_maps, bfloat16=bfloat16)


def loss_function(config: LossConfig, own: Loss | None = None) -> Loss:
    """The loss with the options that the config sets."""
    loss = own or choose(LOSSES, config.loss, "loss").imported()
    return with_options(loss, config.options_of_the_loss(), config.loss)

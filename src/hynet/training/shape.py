"""Train the network that gives keypoints affine shapes, as AffNet was (Mishkin et al., ECCV 2018).

Patches of pairs are warped at random. The network looks at each and answers a shape, the patch is sampled once more
through both, and a frozen descriptor's loss says how well it is found again. Only the network learns; in `joint.py`,
the descriptor learns with it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from ..errors import BadInput
from ..features.descriptors import weights
from ..features.descriptors.layers import Network
from ..features.detectors import affnet
from ..features.detectors.affine_network import REGION
from ..features.detectors.affnet import AffNet
from ..losses import LossTerms
from ..runtime.machine import keep_memory_mapped
from ..types import PatchSet, Progress, silent
from . import checkpoints
from .batches import Batch, batches, seed_of
from .checkpoints import BEST, LAST, State
from .configuration import learning_rate, progress
from .descriptor import PATCH_SIZE, optimiser_of
from .logbook import Watch, unwatched
from .loop import check_finite, step
from .run_folder import due, keep_best, previous, save, writing
from .sampling import batches_per_epoch, mix
from .shape_settings import ShapeConfig
from .shaping import errors, loss_of, quick, warps_of
from .stopping import interrupt, stop_signals
from .validation import ValidationSets

PATCH = 64  # pixels: of the patches as they are read, around the region that is looked at
FIRST_SHAPES = 1e-3  # standard deviation of the last layer's first weights: shapes start round, but for a little


@dataclass(frozen=True)
class TrainedShape:
    """How a run ended: FPR@95 in percent by set, of patches under the same random warps."""

    steps: int
    kept: int  # the step of the checkpoint
    checkpoint: Path  # the best on validation, or the last where nothing is validated
    validation: Mapping[str, float]  # by that checkpoint
    before: Mapping[str, float]  # by what the run started from
    round: Mapping[str, float]  # by that checkpoint, with round regions
    unwarped: Mapping[str, float]  # with round regions and no warps: what shapes may hope for


class Learning(Protocol):
    """What a run trains, and by which loss."""

    recipe: ClassVar[str]
    region: ClassVar[float]  # of a patch's width: what is described
    state: State[Any]

    def __init__(self, config: ShapeConfig) -> None: ...

    def loss(self, batch: Batch, warps: Tensor) -> LossTerms:
        """Of a batch whose 2N patches are warped."""

    def averaged(self) -> tuple[AffNet, Network]:
        """The networks that are validated: of shapes, and of what is in them."""


class ShapeLearning:
    """The network learns, by AffNet's loss; the descriptor does not."""

    recipe: ClassVar[str] = "shape"
    region: ClassVar[float] = REGION

    def __init__(self, config: ShapeConfig) -> None:
        self.state = start(config)
        self._descriptor = descriptor_of(config).eval().requires_grad_(False)  # it only hands gradients on
        self._network, self._describe = quick(self.state.network, config), quick(self._descriptor, config)

    def loss(self, batch: Batch, warps: Tensor) -> LossTerms:
        return loss_of(self._network, self._describe, batch, warps)

    def averaged(self) -> tuple[AffNet, Network]:
        return self.state.averaged, self._descriptor


def train(
    config: ShapeConfig,
    data: Mapping[str, PatchSet],
    out: str | Path,
    *,
    learns: type[Learning] = ShapeLearning,
    validate: ValidationSets | None = None,
    resume: bool = False,
    watch: Watch = unwatched,
    bar: Progress = silent,
) -> TrainedShape:
    """Train on the named sets of 64-pixel patches, into a run folder; `watch` is shown every line of the log."""
    keep_memory_mapped()
    out, validate = Path(out), validate or {}
    about = checkpoints.about(learns.recipe, config, data)
    checkpoint = previous(out, about, resume)
    learning = learns(config)
    state, region = learning.state, learning.region
    before = errors(config, *learning.averaged(), validate, region)
    if checkpoint:
        state.restore(checkpoint)
    mixture, now = mix(list(data.values())), state.position
    per_epoch = batches_per_epoch(mixture, config.pairs_per_batch, config.pairs_per_epoch)
    clock = saved = validated = time.perf_counter()

    with writing(out, about, now.step, watch) as log, stop_signals() as stopped:
        for batch in batches(mixture, config, first=now.step, per_epoch=per_epoch, device="cpu", size=PATCH):
            now.seconds += time.perf_counter() - clock
            clock, done = time.perf_counter(), progress(config, now.step, now.seconds, per_epoch)
            if stopped or done >= 1:
                break
            torch.manual_seed(seed_of(config.seed, now.step))  # for dropout
            warps = warps_of(config, now.step + 1, 2 * config.pairs_per_batch)
            terms = learning.loss(batch, warps)
            check_finite(terms, batch, now.step, out)
            step(state, terms.total, learning_rate(config, done))
            now.step += 1
            bar(round(1000 * done), 1000, f"step {now.step}, loss {float(terms.total.detach()):.3f}")
            if now.step % config.log_every == 0:
                log(_line(config, state, terms, done))
            if validate and due(config.validate_minutes, validated, now.step % per_epoch == 0):
                now.validation = errors(config, *learning.averaged(), validate, region)
                keep_best(state, out, about, log)
                validated = time.perf_counter()
            if due(config.checkpoint_minutes, saved):
                save(out / LAST, state.content(), about)
                saved = time.perf_counter()
        if validate and not stopped and now.validated_step != now.step:
            now.validation = errors(config, *learning.averaged(), validate, region)
            keep_best(state, out, about, log)
        save(out / LAST, state.content(), about)
    if stopped:
        interrupt(stopped, now.step, out)
    kept = out / (BEST if validate else LAST)
    best = checkpoints.read(kept)
    state.averaged.load_state_dict(best["network"])
    network, descriptor = learning.averaged()
    validation = errors(config, network, descriptor, validate, region)
    round_ones = errors(config, None, descriptor, validate, region)
    unwarped = errors(replace(config, tilt=1.0, turn=0.0), None, descriptor, validate, region)
    return TrainedShape(now.step, best["position"]["step"], kept, validation, before, round_ones, unwarped)


def start(config: ShapeConfig) -> State[AffNet]:
    """A network that answers nearly round shapes, or with the weights to go on from, and its optimiser."""
    torch.manual_seed(seed_of(config.seed))
    network = affnet.load(config.start_from) if config.start_from else _round()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # the layout oneDNN works in
    return State(network.train(), optimiser_of(config, network), config.average)


def _round() -> AffNet:
    network = AffNet()
    *_, last = (layer for layer in network.features if isinstance(layer, nn.Conv2d))
    nn.init.normal_(last.weight, std=FIRST_SHAPES)
    assert last.bias is not None
    nn.init.zeros_(last.bias)
    return network


def descriptor_of(config: ShapeConfig) -> Network:
    """The one that the config names, in torch."""
    network = weights.network(config.descriptor)
    if network.patch_size != PATCH_SIZE:
        raise BadInput(f"shapes are learnt with a descriptor of {PATCH_SIZE}-pixel patches, not {network.patch_size}.")
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _line(config: ShapeConfig, state: State[Any], terms: LossTerms, done: float) -> dict[str, float]:
    now = state.position
    return {
        "step": now.step,
        "minutes": round(now.seconds / 60, 3),
        "learning_rate": learning_rate(config, done),
        "loss": float(terms.total.detach()),
        "positive_distance": float(terms.d_pos.mean()),
        "negative_distance": float(terms.d_neg.mean()),
        "violated": float(terms.violated),
    }

"""Tasks that train the network of affine shapes, alone as AffNet (Mishkin et al., ECCV 2018) or with a descriptor.

Patches of pairs are warped at random. The network predicts a shape for each, the patch is sampled once more through
both, and a descriptor's loss measures how well it is found again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import BadInput
from ..features.descriptors import weights
from ..features.descriptors.layers import Network
from ..features.detectors import affnet
from ..features.detectors.affine_network import LOOKED_AT, REGION, SHIPPED
from ..features.detectors.affnet import AffNet
from ..features.extractors.patchwise import network_of_shape
from ..features.models import weights_for_torch
from ..losses import LossTerms, hardnegc
from ..runtime.arrays import write_safetensors
from ..types import Array, PatchSet
from . import card, checkpoints, distributed
from .batches import Batch
from .checkpoints import State
from .configuration import JointConfig, Precision, ShapeConfig
from .descriptor import PATCH_SIZE, PairsTask, loss_function, loss_of, optimiser_of, tiled
from .tasks import Trained
from .tiling import settled
from .validation import ValidationSets, evaluating, validation_error
from .warps import random_warps, sampled, shapes_of

FIRST_SHAPES = 1e-3  # standard deviation of the last layer's first weights: shapes start round, but for a little
AT_ONCE = 256  # patches that validation describes
VALIDATION = 0  # the number of its warps; those of steps are counted from 1

Work = Callable[[Tensor], Tensor]


class Shape(PairsTask):
    """A network for affine shapes, by AffNet's loss; the descriptor does not learn."""

    size = 64  # around the region that is looked at, so that there is something for a warp to bring in
    region = REGION  # of a patch's width: what is described
    config: ShapeConfig | JointConfig

    def __init__(
        self,
        config: ShapeConfig | JointConfig,
        data: Mapping[str, PatchSet],
        validate: ValidationSets | None = None,
        device: str = "cpu",
        *,
        resumed: bool = False,
    ) -> None:
        super().__init__(config, data, validate, device)
        self.state: State[Any] = self._start()
        self.before = self.validate()  # by the weights that a run starts from, when it is resumed too

    def _start(self) -> State[Any]:
        config = self.config
        assert isinstance(config, ShapeConfig)
        descriptor = descriptor_of(config.descriptor).to(self.device)
        self._descriptor = descriptor.eval().requires_grad_(False)  # it only hands gradients on
        state = start(config, self.device)
        self._predict = _quick(distributed.distributed(state.network), config.precision)
        self._describe = _quick(descriptor, config.precision)
        return state

    def batches(self, first: int) -> Iterator[tuple[Batch, Tensor]]:
        """Batches of pairs, with a warp for each of their patches, anchors first."""
        for number, batch in enumerate(super().batches(first), first):
            yield batch, self._warps(number + 1, 2 * len(batch.anchors), distributed.rank())

    def remarks(self, batch: Any) -> Mapping[str, float]:
        return super().remarks(batch[0])

    def loss(self, batch: tuple[Batch, Tensor], done: float) -> tuple[Tensor, Mapping[str, Tensor]]:
        terms = self.terms(*batch)
        distances = {"positive_distance": terms.d_pos.mean(), "negative_distance": terms.d_neg.mean()}
        return terms.total, {**distances, "violated": terms.violated}

    def terms(self, batch: Batch, warps: Tensor) -> LossTerms:
        """HardNegC of the descriptors of a batch whose 2N patches are warped."""
        patches = torch.cat([batch.anchors, batch.positives])
        raw = self._describe(sampled(patches, shaped(self._predict, patches, warps))).chunk(2)
        return hardnegc(*map(distributed.gather, raw), negatives=batch.negatives)

    def networks(self) -> tuple[AffNet, Network]:
        """The networks that are validated: of shapes, and of what is in them."""
        return self.state.averaged, self._descriptor

    def validate(self) -> dict[str, float]:
        return self.errors(*self.networks())

    def errors(self, network: AffNet | None, descriptor: Network, *, warp: bool = True) -> dict[str, float]:
        """FPR@95 in percent of every set under warps that are the same each time, in predicted shapes or round."""

        @torch.inference_mode()
        def describe(patches: Array) -> Array:
            rows = []
            warps = self._warps(VALIDATION, len(patches)) if warp else torch.eye(2).expand(len(patches), 2, 2)
            for some, their in zip(torch.from_numpy(patches).split(AT_ONCE), warps.split(AT_ONCE), strict=True):
                pixels = some[:, None].float().to(self.device)
                rows.append(descriptor(sampled(pixels, shaped(network, pixels, their.to(self.device)), self.region)))
            return nn.functional.normalize(torch.cat(rows)).cpu().numpy()

        with ExitStack() as stack:
            for each in (descriptor, network):
                if each is not None:
                    stack.enter_context(evaluating(each))
            return {name: validation_error(describe, *some) for name, some in self.validation_sets.items()}

    def finish(self, ended: Trained, out: Path) -> Trained:
        """Exports the best weights, and measures them with shapes, with round regions, and without warps."""
        self.state.averaged.load_state_dict(checkpoints.read(ended.checkpoint)["network"])
        network, descriptor = self.networks()
        found = {
            "validation": self.errors(network, descriptor),
            "before": self.before,
            "round": self.errors(None, descriptor),
            "unwarped": self.errors(None, descriptor, warp=False),
        }
        notes = [
            f"FPR@95 on {name} under warps: {error:.2f}% with shapes ({self.before[name]:.2f}% before training), "
            f"{found['round'][name]:.2f}% round, {found['unwarped'][name]:.2f}% round and without warps"
            for name, error in found["validation"].items()
        ]
        files = self.export(ended.checkpoint, out)
        named = {name: str(file) for name, file in files.items()}
        return replace(ended, files=list(files.values()), details=found | named, notes=notes)

    def export(self, checkpoint: Path, out: Path) -> dict[str, Path]:
        """Writes the weights for use without torch, and for torch, to go on from: kind -> file for use."""
        from ..features.export import affine_network

        network, file = affnet.load(checkpoint), out / "shape.onnx"
        write_safetensors(file.with_suffix(".safetensors"), network.state_dict(), recipe="shape")
        affine_network.export(network, file, {"support": f"{LOOKED_AT:.4g}"})
        return {"file": file}

    def _warps(self, number: int, count: int, rank: int = 0) -> Tensor:
        """The warps of a step, counted from 1, or of VALIDATION: (count, 2, 2), always the same."""
        generator = torch.Generator().manual_seed(self.config.seed_of(number, 2, rank))
        return random_warps(count, generator, self.config.tilt, self.config.turn).to(self.device)


class Joint(Shape):
    """A network for affine shapes and a descriptor, both by the descriptor's loss, from trained weights.

    Patches are used as `hynet match` uses them: the network looks at the middle of a warped patch, and all of it is
    described in the shape that it predicts. Every second pair is left round, as augmentation gave it, so that the
    descriptor still serves round regions.
    """

    region = 1.0

    def _start(self) -> State[Any]:
        config = self.config
        assert isinstance(config, JointConfig)
        shape, descriptor = affnet_of(config.shape), descriptor_of(config.descriptor)
        for part in descriptor.modules():
            if isinstance(part, nn.Dropout):
                part.p = config.dropout
        network = JointNetwork(shape.to(memory_format=torch.channels_last), descriptor)  # type: ignore[call-overload]
        network.to(self.device).train()
        distributed.synchronise(network)
        self._loss = loss_function(config)
        self._predict = _quick(distributed.distributed(shape), config.precision)
        self._model = distributed.distributed(tiled(descriptor, config, self._loss))
        return State(network, optimiser_of(config, network), config.average)

    def terms(self, batch: Batch, warps: Tensor) -> LossTerms:
        patches, pairs = torch.cat([batch.anchors, batch.positives]), len(batch.anchors)
        second = torch.arange(1, pairs, 2)  # of the pairs
        rows = torch.cat([second, pairs + second])
        frames = torch.eye(2, device=patches.device).repeat(len(patches), 1, 1)
        frames[rows] = shaped(self._predict, patches[rows], warps[rows])
        anchors, positives = sampled(patches, frames, self.region).chunk(2)
        described = replace(batch, anchors=anchors, positives=positives)
        return loss_of(self._model, described, self._loss, self.config.precision)

    def networks(self) -> tuple[AffNet, Network]:
        return self.state.averaged.joint_shape, self.state.averaged.joint_descriptor

    def export(self, checkpoint: Path, out: Path) -> dict[str, Path]:
        file = out / "descriptor.safetensors"
        card.share(out, file, checkpoint=checkpoint)
        return {"descriptor": file, "shape": super().export(checkpoint, out)["file"]}


class JointNetwork(nn.Module):
    """Both networks, as checkpoints of such a run hold them; readers of one of them know it by these names."""

    def __init__(self, shape: AffNet, descriptor: Network) -> None:
        super().__init__()
        self.joint_shape, self.joint_descriptor = shape, descriptor


def shaped(network: Work | None, patches: Tensor, warps: Tensor) -> Tensor:
    """The frames of warped patches (M, 1, S, S) with the shapes that the network predicts, or round. (M, 2, 2)."""
    return warps if network is None else warps @ shapes_of(network(sampled(patches, warps)))


def start(config: ShapeConfig, device: str = "cpu") -> State[AffNet]:
    """A network that predicts nearly round shapes, or with the weights to go on from, and its optimiser."""
    torch.manual_seed(config.seed_of())
    network = affnet.load(config.start_from) if config.start_from else _round()
    network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # the layout oneDNN works in
    distributed.synchronise(network)
    return State(network.train(), optimiser_of(config, network), config.average)


def _round() -> AffNet:
    network = AffNet()
    *_, last = (layer for layer in network.features if isinstance(layer, nn.Conv2d))
    nn.init.normal_(last.weight, std=FIRST_SHAPES)
    assert last.bias is not None
    nn.init.zeros_(last.bias)
    return network


def descriptor_of(name: str) -> Network:
    """The descriptor of that name or path, in torch."""
    network = weights.network(name)
    if network.patch_size != PATCH_SIZE:
        raise BadInput(f"shapes are learnt with a descriptor of {PATCH_SIZE}-pixel patches, not {network.patch_size}.")
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def affnet_of(shape: str) -> AffNet:
    """The network for affine shapes of that name or path, in torch."""
    path = network_of_shape(shape)
    if path is None:
        raise BadInput(f"{shape} learns nothing; start from affine-network, or from the path of its weights.")
    return affnet.load(weights_for_torch(SHIPPED) if path == SHIPPED else path)


def _quick(module: nn.Module, precision: Precision) -> Work:
    """The module in bfloat16, where that is asked for or fast; the computation around it keeps its precision."""

    def run(patches: Tensor) -> Tensor:
        device = patches.device.type
        with torch.autocast(device, torch.bfloat16, enabled=settled(precision, device) == "bfloat16"):
            return module(patches).float()

    return run

"""The task of training Key.Net on photos alone: a corner is good if it is found again in a warped, relit photo."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .. import images
from ..errors import BadInput
from ..features.detectors import keynet_network
from ..features.detectors.keynet_network import KeyNetwork
from ..features.export import keynet as keynet_export
from ..geometry.two_views import rotations
from ..runtime import fingerprints
from ..types import Array, Progress
from . import distributed
from .checkpoints import State
from .configuration import KeynetConfig
from .tasks import Trained

CROP = 128  # pixels a side
PAIRS = 2  # a step
WINDOWS = {8: 256, 16: 64, 24: 16, 32: 4, 40: 1}  # pixels a side -> weight in the loss, as in the paper
EDGE = 12  # pixels of a crop whose scores feel its border
BLAND = 8  # grey levels of standard deviation: a crop of sky teaches nothing
TRIES = 100  # crops, before we say that there is nothing else


class Keynet:
    """The detector Key.Net, from folders of photos."""

    per_epoch = 1
    largest_gradient = 1.0
    one_thread = False
    facts: Mapping[str, Any] = {}

    def __init__(
        self,
        config: KeynetConfig,
        data: Mapping[str, Sequence[Path]],
        validate: Mapping[str, Any] | None = None,
        device: str = "cpu",
        *,
        resumed: bool = False,
    ) -> None:
        self.config, self.device = config, device
        self.validation_sets: Mapping[str, Any] = validate or {}
        self._photos = [photo for photos in data.values() for photo in photos]
        self.patches_per_step = 2 * PAIRS * distributed.world()
        torch.manual_seed(config.seed)
        network = KeyNetwork()
        torch.nn.init.ones_(network.get_parameter("last_conv.0.bias"))  # else the last ReLU may start, and stay, dead
        network.to(device).train()
        distributed.synchronise(network)
        self.state = State(network, torch.optim.Adam(network.parameters(), config.learning_rate), config.average)
        self._model = distributed.distributed(network)
        self._losses: deque[Tensor] = deque(maxlen=100)

    @staticmethod
    def load(config: KeynetConfig, root: Path, progress: Progress) -> Sequence[Path]:
        return images.list_photos(root)

    @staticmethod
    def load_validation(config: KeynetConfig, root: Path) -> Any:
        raise BadInput("Key.Net is not validated while it trains; leave the validation sets out.")

    @staticmethod
    def fingerprint(data: Sequence[Path]) -> dict[str, Any]:
        return {"photos": len(data), "content": fingerprints.files(*data)}

    def batches(self, first: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        number = first
        while True:
            rng = np.random.default_rng([self.config.seed, number, distributed.rank()])
            first_views, second_views, moved = batch(self._photos, rng)
            yield first_views.to(self.device), second_views.to(self.device), moved.to(self.device)
            number += 1

    def remarks(self, batch: Any) -> Mapping[str, float]:
        return {}

    def loss(self, batch: tuple[Tensor, Tensor, Tensor], done: float) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Mean squared pixels from where one view puts its corners to where the other does."""
        total = pair_loss(self._model, *batch)
        self._losses.append(total.detach())
        return total, {}

    def validate(self) -> dict[str, float]:
        return {}

    def finish(self, ended: Trained, out: Path) -> Trained:
        """Exports the detector, and reports the mean loss of the last hundred steps of this session."""
        file = out / "keynet.onnx"
        keynet_export.export(keynet_network.load(ended.checkpoint), file)
        loss = float(np.mean([float(each) for each in self._losses])) if self._losses else None
        notes = [] if loss is None else [f"mean loss of the last steps: {loss:.3f} pixels squared"]
        return replace(ended, files=[file], notes=notes, details={"loss": loss, "checkpoint": str(file)})


# --- pairs of views whose geometry is known --------------------------------------------------------------------------


def batch(photos: Sequence[Path], rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """First and second views (PAIRS, 1, CROP, CROP) from 0 to 1, and second_from_first (PAIRS, 3, 3)."""
    views: list[tuple[Array, Array, Array]] = []
    for _ in range(TRIES):
        view = pair(images.read(photos[int(rng.integers(len(photos)))]), rng)
        if view[0].std() > BLAND:
            views.append(view)
        if len(views) == PAIRS:
            break
    else:
        raise BadInput(f"{TRIES} crops of the photos show next to nothing; train on photos with more to see.")
    first, second, homographies = (np.stack(column) for column in zip(*views, strict=True))
    grey = (torch.from_numpy(some.astype(np.float32))[:, None] / 255 for some in (first, second))
    return *grey, torch.from_numpy(homographies.astype(np.float32))  # type: ignore[return-value]


def pair(photo: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Two views (CROP, CROP) of one place of a photo, lit differently, and second_from_first."""
    photo, _ = images.shrink(photo, max(CROP, round(max(photo.shape) * rng.uniform(0.4, 1))))
    corner = rng.uniform(0, np.maximum(1, np.array(photo.shape[::-1]) - CROP))
    photo_from_first = np.array([[1, 0, corner[0]], [0, 1, corner[1]], [0, 0, 1]])
    angle, zoom = rng.uniform(-0.7, 0.7), 2 ** rng.uniform(-0.35, 0.35)
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], np.float32) * CROP / 2
    moved = square @ rotations(angle).T * zoom + rng.uniform(-0.12, 0.12, (4, 2)) * CROP
    centre = np.float32((CROP - 1) / 2)
    first_from_second = cv2.getPerspectiveTransform(square + centre, (moved + centre).astype(np.float32))
    first = _view(photo, photo_from_first)
    second = _view(photo, photo_from_first @ first_from_second)
    return _relit(first, rng), _relit(second, rng), np.linalg.inv(first_from_second)


def _view(photo: Array, photo_from_view: Array) -> Array:
    """(CROP, CROP) uint8: four samples a pixel, so that what becomes smaller does not alias."""
    view_from_fine = np.array([[0.5, 0, -0.25], [0, 0.5, -0.25], [0, 0, 1]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    size = (2 * CROP, 2 * CROP)
    fine = cv2.warpPerspective(
        photo, photo_from_view @ view_from_fine, size, flags=flags, borderMode=cv2.BORDER_REFLECT
    )
    return cv2.resize(fine, (CROP, CROP), interpolation=cv2.INTER_AREA)


def _relit(view: Array, rng: np.random.Generator) -> Array:
    light: Array = (view / 255.0) ** 2 ** rng.uniform(-0.7, 0.7) * rng.uniform(0.6, 1.2) + rng.uniform(-0.1, 0.1)
    if rng.random() < 0.3:
        light = cv2.GaussianBlur(light, (0, 0), rng.uniform(0.5, 1.2))
    return np.rint(255 * (light + rng.normal(0, rng.uniform(0, 0.03), view.shape))).clip(0, 255).astype(np.uint8)


# --- the loss --------------------------------------------------------------------------------------------------------


def pair_loss(network: torch.nn.Module, first: Tensor, second: Tensor, second_from_first: Tensor) -> Tensor:
    """Mean squared pixels from where one view puts its corners to where the other does, in both directions."""
    a, b = network(torch.cat([first, second])).chunk(2)
    return (index_proposal(a, b, second_from_first) + index_proposal(b, a, torch.linalg.inv(second_from_first))) / 2


def index_proposal(scores: Tensor, others: Tensor, other_from_this: Tensor) -> Tensor:
    """Over windows of all sizes: soft-argmax here against argmax there, weighted by both scores. (B, 1, H, W) each."""
    seen, valid = warped(others.detach(), other_from_this)
    total = scores.new_zeros(())
    for side, weight in WINDOWS.items():
        here, there, inside = (
            functional.unfold(maps, side, stride=side) for maps in (scores, seen, valid)
        )  # (B, side^2, L)
        rows, columns = torch.meshgrid(torch.arange(float(side)), torch.arange(float(side)), indexing="ij")
        places = torch.stack([columns, rows], -1).reshape(-1, 2).to(scores)  # (side^2, 2)
        soft = torch.einsum("bpl,pc->blc", here.softmax(1), places)
        highest, index = there.max(1)
        trust = (here.detach().amax(1) + highest) * inside.amin(
            1
        )  # (B, L); windows that the other view sees in part are out
        apart = (soft - places[index]).square().sum(-1)
        total = total + weight * (trust * apart).sum() / trust.sum().clamp(min=1e-6)
    return total / sum(WINDOWS.values())


def warped(scores: Tensor, other_from_this: Tensor) -> tuple[Tensor, Tensor]:
    """The other view's scores in this view's pixels, and where (1) they are known. (B, 1, H, W) each."""
    size = scores.shape[2]
    along = torch.arange(float(size))
    y, x = torch.meshgrid(along, along, indexing="ij")
    here = torch.stack([x, y, torch.ones_like(x)], -1).to(scores)  # (H, W, 3)
    there = torch.einsum("hwk,bjk->bhwj", here, other_from_this)
    there = there[..., :2] / there[..., 2:].clamp(min=1e-3)
    seen = functional.grid_sample(scores, (2 * there + 1) / size - 1, align_corners=False)
    inside = [((some >= EDGE) & (some <= size - 1 - EDGE)).all(-1) for some in (there, here[None, ..., :2])]
    return seen, (inside[0] & inside[1])[:, None].to(scores)

"""Train Key.Net on photos alone: a corner is good if it is found again after the photo is warped and relit."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .. import images
from ..errors import BadInput, BadWeights
from ..features.detectors.keynet_network import KeyNetwork
from ..geometry import rotations
from ..runtime import fingerprints
from ..types import Array, Progress, silent
from .checkpoints import save
from .loop import Diverged
from .stopping import interrupt, stop_signals

CROP = 128  # pixels a side
PAIRS = 2  # a step
LEARNING_RATE = 3e-3
WINDOWS = {8: 256, 16: 64, 24: 16, 32: 4, 40: 1}  # pixels a side -> weight in the loss, as in the paper
EDGE = 12  # pixels of a crop whose scores feel its border
BLAND = 8  # grey levels of standard deviation: a crop of sky teaches nothing
TRIES = 100  # crops, before we say that there is nothing else
SAVE_SECONDS = 60.0


@dataclass(frozen=True)
class TrainedKeynet:
    """How a run ended."""

    steps: int
    loss: float  # mean squared pixels between where a corner is and where the other view says, last hundred steps
    checkpoint: Path  # last.pt, for `keynet_network.load`


def train(
    photos: Sequence[Path],
    out: Path,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    resume: bool = False,
    progress: Progress = silent,
) -> TrainedKeynet:
    """Train for so many steps or minutes, into last.pt, from which a stopped run goes on."""
    if (steps is None) == (minutes is None) or (steps or minutes or 0) <= 0:
        raise BadInput(f"say how long to train Key.Net, either steps or minutes, got {steps} and {minutes}.")
    last = out / "last.pt"
    if last.exists() and not resume:
        raise BadInput(f"{out} already holds a run; resume it, or choose another folder.")
    torch.manual_seed(seed)
    network = KeyNetwork()
    torch.nn.init.ones_(network.get_parameter("last_conv.0.bias"))  # else the last ReLU may start, and stay, dead
    optimiser = torch.optim.Adam(network.parameters(), LEARNING_RATE)
    step, seconds = 0, 0.0
    losses = [math.nan]
    asked = {"steps": steps, "minutes": minutes, "photos": fingerprints.files(*photos)}
    if resume and last.exists():
        step, seconds, losses = _restore(last, network, optimiser, seed, asked)
    started = saved = time.monotonic()

    def elapsed() -> float:
        return seconds + time.monotonic() - started

    def checkpoint() -> None:
        position = {"step": step, "seconds": elapsed(), "losses": losses[-100:], "seed": seed, "asked": asked}
        save(last, {"network": network.state_dict(), "optimiser": optimiser.state_dict(), "position": position})

    network.train()
    with stop_signals() as stopped:
        while not stopped and (done := step / steps if steps else elapsed() / (60 * (minutes or 1))) < 1:
            for group in optimiser.param_groups:
                group["lr"] = LEARNING_RATE * max(0.02, 0.5 * (1 + math.cos(math.pi * done)))
            loss = pair_loss(network, *batch(photos, np.random.default_rng([seed, step])))
            if not torch.isfinite(loss):
                raise Diverged(f"the loss is {loss.item()} at step {step}; what {out} holds is kept; try another seed.")
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            step += 1
            losses.append(loss.item())
            progress(round(1000 * done), 1000, f"step {step}, loss {np.nanmean(losses[-100:]):.2f}")
            if time.monotonic() - saved > SAVE_SECONDS:
                checkpoint()
                saved = time.monotonic()
        checkpoint()
    if stopped:
        interrupt(stopped, step, out)
    return TrainedKeynet(step, float(np.nanmean(losses[-100:])), last)


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


def pair_loss(network: KeyNetwork, first: Tensor, second: Tensor, second_from_first: Tensor) -> Tensor:
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


def _restore(
    last: Path, network: KeyNetwork, optimiser: torch.optim.Optimizer, seed: int, asked: dict[str, Any]
) -> tuple[int, float, list[float]]:
    try:
        content: dict[str, Any] = torch.load(last, map_location="cpu", weights_only=True)
        network.load_state_dict(content["network"])
        optimiser.load_state_dict(content["optimiser"])
        position = content["position"]
        then = position["seed"]
    except Exception as error:  # torch fails in many ways on broken files
        raise BadWeights(f"{last} is no run of Key.Net ({type(error).__name__}); choose another folder.") from None
    if then != seed:
        raise BadInput(f"{last} was trained with seed {then}, not {seed}; use the same, or choose another folder.")
    if changed := [name for name, value in position.get("asked", asked).items() if value != asked[name]]:
        raise BadInput(
            f"{last} was trained with other {' and '.join(changed)}; use the same, or choose another folder."
        )
    return position["step"], position["seconds"], position["losses"]

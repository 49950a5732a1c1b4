"""Recipes of `hynet train` that train something other than a descriptor, with options of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .. import images
from ..detectors.affine_network import LOOKED_AT
from ..errors import need
from ..system.files import make_folder
from ..system.locks import alone
from ..training.run import check_apart, load_sets, load_validation
from ..training.shape_settings import SHAPE
from . import Report
from .progress import bar


def keynet(
    *,
    data: list[Path],
    out: Path,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    resume: bool = False,
) -> Report:
    """Train the Key.Net detector on photos alone: keypoints are where a photo and a warped copy of it agree.

    Example: hynet train keynet --data photos/ --out run/ --minutes 10

    Args:
        data: folders of photos.
        out: the run folder; `--detector` takes the keynet.onnx in it.
        minutes: training time; give this or steps.
        steps: number of training steps; give this or minutes.
        seed: random seed of the warps.
        resume: continue the run in that folder.
    """
    need("torch", "train", "training")
    from ..detectors import keynet_network
    from ..export import keynet as keynet_export
    from ..training.keynet import train as train_keynet

    photos = [photo for folder in data for photo in images.list_photos(folder)]
    with alone(make_folder(out)), bar() as progress:
        ended = train_keynet(photos, out, minutes=minutes, steps=steps, seed=seed, resume=resume, progress=progress)
        exported = out / "keynet.onnx"
        keynet_export.export(keynet_network.load(ended.checkpoint), exported)
    text = f"{ended.steps} steps, loss {ended.loss:.3f} -> {exported}"
    return Report(text, {"steps": ended.steps, "loss": ended.loss, "checkpoint": str(exported)})


def shape(
    *,
    data: list[Path],
    out: Path,
    validate: tuple[Path, ...] = (),
    minutes: float | None = None,
    steps: int | None = None,
    descriptor: str = SHAPE.descriptor,
    tilt: float = SHAPE.tilt,
    pairs_per_batch: int = SHAPE.pairs_per_batch,
    learning_rate: float = SHAPE.learning_rate,
    start_from: Path | None = None,
    validate_minutes: float = 10.0,
    seed: int = 0,
    resume: bool = False,
) -> Report:
    """Train a network for affine shapes on pairs of patches under random warps, so that a descriptor matches them.

    Example: hynet train shape --data set/ --validate other/ --out run/ --minutes 45

    Args:
        data: one or more patch sets to train on, mixed.
        out: the run folder; `--shape` takes the shape.onnx in it.
        validate: patch sets whose FPR@95 under warps chooses the best weights; it is reported for round regions too.
        minutes: training time; by default 45, if steps are not given either.
        steps: number of training steps, in place of minutes.
        descriptor: what describes the patches, by name or path; it is not trained.
        tilt: maximum elongation of a region by a warp, length over width.
        pairs_per_batch: pairs per batch, two patches each.
        learning_rate: peak learning rate.
        start_from: weights to start from, such as AffNet's; without them, shapes start round.
        validate_minutes: minutes between validations.
        seed: random seed of pairs, warps and initial weights.
        resume: continue the run in that folder, as if it had not stopped.
    """
    need("torch", "train", "training")
    from ..detectors import affnet
    from ..export import affine_network
    from ..training import shape as training

    given: dict[str, Any] = {"steps": steps, "minutes": minutes}
    lengths = given if any(length is not None for length in given.values()) else {}
    config = replace(
        SHAPE,
        descriptor=descriptor,
        tilt=tilt,
        pairs_per_batch=pairs_per_batch,
        learning_rate=learning_rate,
        start_from=None if start_from is None else str(start_from),
        validate_minutes=validate_minutes,
        seed=seed,
        **lengths,
    )
    check_apart(data, validate, "Validate on another set.")
    with bar() as progress:
        ended = training.train(
            config,
            load_sets(data, training.PATCH, progress),
            out,
            validate={str(root): load_validation(root, training.PATCH) for root in validate},
            resume=resume,
            watch=_tell,
            bar=progress,
        )
    exported = out / "shape.onnx"
    affine_network.export(affnet.load(ended.checkpoint), exported, {"support": f"{LOOKED_AT:.4g}"})
    found = [
        f"\nFPR@95 on {name} under warps: {error:.2f}% with shapes, {ended.round[name]:.2f}% round, "
        f"{ended.unwarped[name]:.2f}% without warps"
        for name, error in ended.validation.items()
    ]
    told = asdict(ended) | {"checkpoint": str(ended.checkpoint), "file": str(exported)}
    return Report(f"{ended.steps} steps -> {exported}{''.join(found)}", told)


def _tell(line: Mapping[str, Any]) -> None:
    """One line of the log for a person."""
    if "validation" in line:
        words = [f"FPR@95 {name} {error:.2f}%" for name, error in line["validation"].items()]
    else:
        words = [f"loss {line['loss']:.3f}", f"violated {line['violated']:.0%}"]
    print(f"step {line['step']}  {line['minutes']:.1f} min  " + "  ".join(words), file=sys.stderr, flush=True)


@dataclass(frozen=True)
class OtherRecipe:
    about: str
    network: str
    run: Callable[..., Report]


OTHER_RECIPES = {
    "keynet": OtherRecipe("the Key.Net detector, from photos alone", "keynet", keynet),
    "shape": OtherRecipe("affine shapes of keypoints, from patch sets", "affnet", shape),
}

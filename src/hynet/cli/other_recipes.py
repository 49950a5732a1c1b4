"""Recipes of `hynet train` that train something other than a descriptor, with options of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import images
from ..errors import need
from ..features.detectors.affine_network import LOOKED_AT
from ..runtime.arrays import write_safetensors
from ..runtime.files import make_folder
from ..runtime.locks import exclusive_lock
from ..training.configuration import check_learns
from ..training.shape_settings import JOINT, SHAPE, ShapeConfig
from ..training.train import check_apart, load_sets, load_validation
from . import Report
from .progress import bar

if TYPE_CHECKING:
    from ..training.shape import Learning, TrainedShape


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
    from ..features.detectors import keynet_network
    from ..features.export import keynet as keynet_export
    from ..training.keynet import train as train_keynet

    photos = [photo for folder in data for photo in images.list_photos(folder)]
    with exclusive_lock(make_folder(out)), bar() as progress:
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
    from ..training.shape import ShapeLearning

    config = replace(
        SHAPE,
        descriptor=descriptor,
        tilt=tilt,
        pairs_per_batch=pairs_per_batch,
        learning_rate=learning_rate,
        start_from=None if start_from is None else str(start_from),
        validate_minutes=validate_minutes,
        seed=seed,
        **_lengths(steps, minutes),
    )
    ended = _train(ShapeLearning, config, data, out, validate, resume)
    exported = out / "shape.onnx"
    _export_shapes(ended.checkpoint, exported)
    told = asdict(ended) | {"checkpoint": str(ended.checkpoint), "file": str(exported)}
    return Report(f"{_steps(ended)} -> {exported}{_errors(ended)}", told)


def joint(
    *,
    data: list[Path],
    out: Path,
    validate: tuple[Path, ...] = (),
    minutes: float | None = None,
    steps: int | None = None,
    descriptor: str = JOINT.descriptor,
    shape: str = JOINT.shape,
    tilt: float = JOINT.tilt,
    pairs_per_batch: int = JOINT.pairs_per_batch,
    learning_rate: float = JOINT.learning_rate,
    validate_minutes: float = 10.0,
    seed: int = 0,
    resume: bool = False,
) -> Report:
    """Train a network for affine shapes and a descriptor together, by the descriptor's loss, both from trained weights.

    Example: hynet train joint --data set/ --validate other/ --out run/ --minutes 45

    Args:
        data: one or more patch sets to train on, mixed.
        out: the run folder; `hynet match --model` takes the descriptor.safetensors in it, `--shape` the shape.onnx.
        validate: patch sets whose FPR@95 under warps chooses the best weights; it is reported for round regions too.
        minutes: training time; by default 45, if steps are not given either.
        steps: number of training steps, in place of minutes.
        descriptor: the descriptor to start from, by name or path.
        shape: the network for affine shapes to start from: the one that ships, or the path of a shape.safetensors.
        tilt: maximum elongation of a region by a warp, length over width.
        pairs_per_batch: pairs per batch, two patches each; every second pair is left round and is not warped.
        learning_rate: peak learning rate.
        validate_minutes: minutes between validations.
        seed: random seed of pairs and warps.
        resume: continue the run in that folder, as if it had not stopped.
    """
    need("torch", "train", "training")
    from ..training import card
    from ..training.joint import JointLearning

    config = replace(
        JOINT,
        descriptor=descriptor,
        shape=shape,
        tilt=tilt,
        pairs_per_batch=pairs_per_batch,
        learning_rate=learning_rate,
        validate_minutes=validate_minutes,
        seed=seed,
        **_lengths(steps, minutes),
    )
    ended = _train(JointLearning, config, data, out, validate, resume)
    weights, shapes = out / "descriptor.safetensors", out / "shape.onnx"
    card.share(out, weights, checkpoint=ended.checkpoint)
    _export_shapes(ended.checkpoint, shapes)
    told = asdict(ended) | {"checkpoint": str(ended.checkpoint), "descriptor": str(weights), "shape": str(shapes)}
    return Report(f"{_steps(ended)} -> {weights} and {shapes}{_errors(ended)}", told)


def _export_shapes(checkpoint: Path, file: Path) -> None:
    """For use without torch; and for torch, to go on from."""
    from ..features.detectors import affnet
    from ..features.export import affine_network

    network = affnet.load(checkpoint)
    write_safetensors(file.with_suffix(".safetensors"), network.state_dict(), recipe="shape")
    affine_network.export(network, file, {"support": f"{LOOKED_AT:.4g}"})


def _lengths(steps: int | None, minutes: float | None) -> dict[str, Any]:
    """The one that is given takes the place of the recipe's."""
    return {} if steps is None and minutes is None else {"steps": steps, "minutes": minutes}


def _train(
    learns: type[Learning], config: ShapeConfig, data: list[Path], out: Path, validate: tuple[Path, ...], resume: bool
) -> TrainedShape:
    from ..training import shape as training

    check_learns(config)
    check_apart(data, validate, "Validate on another set.")
    with bar() as progress:
        return training.train(
            config,
            load_sets(data, training.PATCH, progress),
            out,
            learns=learns,
            validate={str(root): load_validation(root, training.PATCH) for root in validate},
            resume=resume,
            watch=_tell,
            bar=progress,
        )


def _steps(ended: TrainedShape) -> str:
    best = "" if ended.kept == ended.steps else f", the best weights are of step {ended.kept}"
    return f"{ended.steps} steps{best}"


def _errors(ended: TrainedShape) -> str:
    return "".join(
        f"\nFPR@95 on {name} under warps: {error:.2f}% with shapes ({ended.before[name]:.2f}% before training), "
        f"{ended.round[name]:.2f}% round, {ended.unwarped[name]:.2f}% round and without warps"
        for name, error in ended.validation.items()
    )


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
    "joint": OtherRecipe("affine shapes and a descriptor together, both from trained weights", "affnet, hynet", joint),
}

"""Every figure of the paper, from what there is: code alone, a model, a patch set, or the folder of a study."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ... import datasets, images
from ...errors import BadInput, DataNotFound, need
from ...images import patches
from ...images.example import example
from ...runtime.files import atomic_write, make_folder
from ...types import Array, Progress, silent
from . import gradients, measured
from .style import Drawing, Missing, save, styled

READABLE = 1.0  # radians between the two descriptors of Fig. 1, or as near as there are
KEYPOINTS = 64  # among which they are looked for


@dataclass(frozen=True)
class Sources:
    """Models, data and study that figures are drawn from."""

    models: Sequence[str] = ("default",)
    data: Path | None = None  # a patch set
    study: Path | None = None  # where `hynet paper ablate` has written
    batches: int = 100
    progress: Progress = silent


def fig1(sources: Sources) -> Drawing:
    """Two real descriptors before normalisation: of two keypoints of the photo that ships."""
    from ...features.descriptors.weights import network
    from ...features.detectors import open_detector

    photo = images.read(example().paths[0])
    keypoints = open_detector("dog", max_keypoints=KEYPOINTS, upright=True)(photo)
    raw = network(_first_network(sources.models)).raw(patches.cut(photo, keypoints)).astype(np.float64)
    x, y = _readable(raw)
    return gradients.directions(x, y, f"{_first_network(sources.models)}, two keypoints of the photo that ships")


def fig2a(sources: Sources) -> Drawing:
    from ...features.descriptors.loading import load
    from ...training.angles import angles

    if sources.data is None:
        raise Missing("needs patches with known partners: `hynet paper figures --data SET` names a patch set")
    found = {}
    for model in sources.models:
        descriptor = load(model)
        size = 32 if descriptor.patch_size <= 32 else 64
        patch_set = datasets.find_patches(sources.data).load(sources.data, size, sources.progress)
        name = Path(model).parent.name if Path(model).suffix == ".pt" else Path(model).name
        found[model if name in found else name] = angles(
            descriptor, patch_set, sources.batches, progress=sources.progress
        )
    return measured.theta(found, sources.data.name)


def fig3(sources: Sources) -> Drawing:
    from ...features.descriptors.outline import outline
    from ...features.descriptors.weights import network

    name = _first_network(sources.models)
    module = network(name)
    return measured.network(outline(module), f"{type(module).__name__} ({Path(name).name})", module.patch_size)


FIGURES: dict[str, Callable[[Sources], Drawing]] = {
    "fig1": fig1,
    "fig2a": fig2a,
    "fig2b": lambda sources: gradients.magnitudes(),
    "fig3": fig3,
    "fig4": lambda sources: _of_a_study(sources, "rivals", measured.bars),
    "fig5a": lambda sources: _of_a_study(sources, "grid", measured.grid),
    "fig5b": lambda sources: gradients.hybrid_magnitudes(),
    "fig5c": lambda sources: _of_a_study(sources, "losses", measured.curves),
    "figA": lambda sources: _of_a_study(sources, "sosr", measured.bars),
}


def draw(out: Path, sources: Sources, command: str = "hynet paper figures") -> dict[str, Path | str]:
    """Figure -> its SVG, or the sentence why it is not there; out/figures.md has all captions."""
    need("matplotlib", "train", "drawing figures")
    need("torch", "train", "drawing figures")
    if sources.batches < 1:
        raise BadInput(f"--batches must be 1 or more; got {sources.batches}.")
    _check(sources)
    make_folder(out)
    found: dict[str, Path | str] = {}
    text = ["# The paper's figures", f"`{command}`"]
    for name, make in FIGURES.items():
        sources.progress(len(found), len(FIGURES), name)
        try:
            with styled():
                drawing = make(sources)
                found[name] = save(drawing, name, out, f"({command})")[0]
        except Missing as missing:
            found[name] = f"{name} {missing}."
            text.append(str(found[name]))
            continue
        text.append(f"![{name}]({name}.svg)\n\n**{name}.** {drawing.caption}")
    with atomic_write(out / "figures.md") as temporary:
        temporary.write_text("\n\n".join(text) + "\n", encoding="utf-8")
    return found


def _check(sources: Sources) -> None:
    """Raise where something that was named is missing, before anything is drawn."""
    from ...features.descriptors.loading import load

    if sources.data is not None:
        datasets.find_patches(sources.data).load(sources.data, 32, sources.progress)
    if sources.study is not None and not sources.study.is_dir():
        raise DataNotFound(f"no folder {sources.study}; --study takes the folder of `hynet paper ablate --out`.")
    for model in sources.models:
        load(model)


def _of_a_study(sources: Sources, study: str, make: Callable[[Mapping[str, Any], str], Drawing]) -> Drawing:
    """Draw a figure from the file of a study."""
    how = f"`hynet paper ablate {study} ... --out STUDY`, then `hynet paper figures --study STUDY`"
    if sources.study is None:
        raise Missing(f"needs a study: {how}")
    path = sources.study / f"{study}.json"
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Missing(f"needs a study that {sources.study} does not hold: {how}") from None
    except (ValueError, RecursionError):
        raise Missing(f"cannot be drawn, since {path} is no whole JSON; run the study again") from None
    try:
        details = result["details"]
        seeds = "one seed" if details["seeds"] == 1 else f"{details['seeds']} seeds"
        budget = f"{details['steps']:,} steps of {details['pairs_per_batch']} pairs, {seeds}"
        return make(result, f"{budget} ({result['command']})")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Missing(
            f"cannot be drawn, since {path} is not as `hynet paper ablate` writes it; run the study again"
        ) from None


def _first_network(models: Sequence[str]) -> str:
    """The first that is a network; `default` where none is."""
    from ...features.descriptors import DESCRIPTORS

    return next((name for name in models if name not in DESCRIPTORS), "default")


def _readable(raw: Array) -> tuple[Array, Array]:
    """The first descriptor, and the other whose angle to it is the easiest to look at. (N, D) -> (D,), (D,)."""
    cosines = raw[1:] @ raw[0] / (np.linalg.norm(raw[1:], axis=1) * np.linalg.norm(raw[0]))
    nearest = np.argmin(np.abs(np.arccos(np.clip(cosines, -1, 1)) - READABLE))
    return raw[0], raw[1 + nearest]

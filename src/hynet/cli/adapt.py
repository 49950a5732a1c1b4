"""Fine-tune a model on your own photos, and keep the result only if it is better.

A quarter of the photos is held out. Patches are cut from both parts (through a SIFT reconstruction), the model is
trained on the rest for the given minutes, and compared with the original model on the held-out part. It is written only
if its FPR@95 is lower and the 95% interval of the difference excludes zero. Run the same command again to continue
after an interruption.

Example: hynet adapt photos/ --minutes 20 --out mine.safetensors
         hynet match a.jpg b.jpg --model mine.safetensors
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro

from ..errors import BadInput, need
from ..patchsets import make as patchsets
from ..patchsets.kept_apart import in_two, link
from ..runtime.files import make_folder
from ..runtime.locks import exclusive_lock
from ..runtime.long_runs import note_what_is_kept
from ..training.adapting import adapt, check_model
from ..training.card import share
from . import Report
from .progress import bar, tell


def run(
    photos: Annotated[Path, tyro.conf.Positional],
    *,
    minutes: float,
    out: Path,
    model: str = "default",
    seed: int = 0,
    compiled: bool = True,
) -> Report:
    """Adapt a model.

    Args:
        photos: A folder of overlapping photos; at least 12, better hundreds.
        minutes: Training time; cutting the patches comes first and takes extra time.
        out: The weights to write, .safetensors, only if they are better. Unfinished work is kept beside it, in a folder
            of the same name with the suffix .adapting.
        model: Model to start from: a name, or a path to weights.
        seed: Random seed of the training.
        compiled: Compile the network if there is a C++ compiler: the same mathematics, about twice as fast.
    """
    need("torch", "train", "training")
    if out.suffix != ".safetensors":
        raise BadInput(f"adapted weights are .safetensors, got {out}.")
    if not minutes > 0:
        raise BadInput(f"the minutes of training must be above 0, got {minutes:g}.")
    check_model(model)
    work = out.with_suffix(".adapting")
    parts = dict(zip(("learn", "kept-apart"), in_two(photos, work), strict=True))
    with exclusive_lock(make_folder(work)), bar() as progress:
        for name, own in parts.items():
            link(own, work / name)
            tell(f"cutting patches of {len(own)} photos to {'learn from' if name == 'learn' else 'measure on'}")
            patchsets.make([work / name], work / f"{name}-patches", progress=progress)
        learn, kept_apart = (work / f"{name}-patches" for name in parts)

        def show(line: Mapping[str, Any]) -> None:
            progress(round(60 * line.get("minutes", 0)), round(60 * minutes), "training, seconds")

        with note_what_is_kept(work):
            found = adapt(
                learn, kept_apart, work / "run", minutes=minutes, model=model, seed=seed, compiled=compiled, watch=show
            )
        if found.details["better"]:
            share(work / "run", out)
    shutil.rmtree(work)
    kept = str(out) if found.details["better"] else None
    end = "Not better beyond the interval, so nothing was written; more photos or minutes may help."
    if kept:
        end = f"It is better: {out}"
    return Report("\n".join([*found.notes, end]), {**found.details, "steps": found.steps, "model": kept})

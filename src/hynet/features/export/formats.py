"""Any network -> ONNX, torch.export's pt2 or OpenVINO; run there on real input before the file is kept.

ADD A FORMAT: a function that writes to a path and says what the file says of the example, and a row in FORMATS.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ...errors import BadInput, choose, need
from ...images.example import example
from ...images.patches import cut
from ...runtime.files import atomic_write
from ...runtime.onnx_runtime import session
from ...types import Array
from ..detectors.dog import DoG
from . import Disagreement

EXAMPLES = 33  # patches: no batch size that anything is tuned to


@dataclass(frozen=True)
class Exportable:
    """A network as a function of one array, with what it is checked by."""

    pipeline: nn.Module
    example: Array
    names: tuple[str, str]  # of what goes in and what comes out
    free: tuple[str, ...]  # names of the first axes, whose sizes are free
    multiple: int  # what free sizes are multiples of
    onnx: Callable[[Mapping[str, str]], Any]  # the model, with what is to be known about it
    difference: Callable[[Array, Array], float]  # of what a file says from what the network says
    standard: Callable[[Mapping[str, str]], Any] | None = None  # where `onnx` has operations of ONNX Runtime's own


def real_patches(side: int) -> Array:
    """(EXAMPLES, side, side) uint8 around keypoints of the example photo."""
    photo = example().photos[0]
    return cut(photo, DoG(max_keypoints=EXAMPLES, upright=True)(photo), side)


def write(network: Exportable, path: str | Path, about: Mapping[str, str], agree: float) -> float:
    """In the format that the path's ending names; returns the difference, which is below `agree`."""
    save = choose(FORMATS, Path(path).suffix, "format")
    with torch.inference_mode():
        expected = network.pipeline.eval()(torch.from_numpy(network.example)).numpy()
    with _folder(path) if Path(path).suffix in FOLDERS else atomic_write(path) as temporary:
        difference = network.difference(save(network, temporary, about), expected)
        if not difference < agree:
            raise Disagreement(f"{path} would differ from the network by {difference:.2g}; it was not written.")
    return difference


def _onnx(network: Exportable, path: Path, about: Mapping[str, str]) -> Array:
    need("onnx", "train", "writing ONNX").save(network.onnx(about), path)
    return session(path, threads=1).run([network.names[1]], {network.names[0]: network.example})[0]


def _pt2(network: Exportable, path: Path, about: Mapping[str, str]) -> Array:
    sizes = {
        axis: network.multiple * torch.export.Dim(name, min=1)
        if network.multiple > 1
        else torch.export.Dim(name, min=1)
        for axis, name in enumerate(network.free)
    }
    given = torch.from_numpy(network.example)
    program = torch.export.export(network.pipeline, (given,), dynamic_shapes=(sizes,))
    torch.export.save(program, path, extra_files={"about.json": json.dumps(dict(about))})
    return torch.export.load(path).module()(given).detach().numpy()


def _openvino(network: Exportable, path: Path, about: Mapping[str, str]) -> Array:
    """A folder with model.xml and model.bin. Read from ONNX by the core, not by its converter, which has telemetry."""
    openvino = need("openvino", "openvino", "writing OpenVINO")
    source = path / "model.onnx"
    need("onnx", "train", "writing ONNX").save((network.standard or network.onnx)({}), source)
    model = openvino.Core().read_model(source)
    for key, value in about.items():
        model.set_rt_info(value, ["hynet", key])
    openvino.save_model(model, path / "model.xml", compress_to_fp16=False)
    source.unlink()
    return openvino.Core().compile_model(path / "model.xml", "CPU")(network.example)[0]


FORMATS = {".onnx": _onnx, ".pt2": _pt2, ".openvino": _openvino}
FOLDERS = (".openvino",)


def by_torch(pipeline: nn.Module, patches: Array, names: tuple[str, str], about: Mapping[str, str]) -> Any:
    """The ONNX model that torch makes of a network, for any number of patches."""
    need("onnxscript", "train", "writing ONNX")
    with warnings.catch_warnings(), _quiet("torch.onnx"):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            pipeline,
            (torch.from_numpy(patches),),
            input_names=[names[0]],
            output_names=[names[1]],
            dynamic_shapes={names[0]: {0: "N"}},
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    for key, value in about.items():
        model.metadata_props.add(key=key, value=value)
    return model


def largest_difference(said: Array, expected: Array) -> float:
    return float(np.abs(said - expected).max())


@contextmanager
def _folder(path: str | Path) -> Iterator[Path]:
    """A temporary folder that replaces `path` when the block ends well, as `atomic_write` does for files."""
    path = Path(path)
    if path.exists() and not (path.is_dir() and {each.name for each in path.iterdir()} <= {"model.xml", "model.bin"}):
        raise BadInput(f"{path} is something else than a model in OpenVINO's format; choose another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.stem}-", dir=path.parent))
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}; choose another place.") from None
    try:
        yield temporary
        shutil.rmtree(path, ignore_errors=True)
        temporary.chmod(0o755)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Exporters log at length what is no news to a user."""
    level = logging.getLogger(logger).level
    logging.getLogger(logger).setLevel(logging.ERROR)
    try:
        yield
    finally:
        logging.getLogger(logger).setLevel(level)

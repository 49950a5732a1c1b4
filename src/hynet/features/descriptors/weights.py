"""A file of weights -> the descriptor that recognises them. Each descriptor's own file knows its keys."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import BadInput, BadWeights, HynetError, listed, need
from ...runtime.plugins import BrokenPlugin
from ...types import Descriptor
from ..models import shipped, weights_for_torch
from . import DESCRIPTORS, DescriptorPart
from .onnx import OnnxEngine

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .layers import Network

State = Mapping[str, "Tensor"]

JOINT_SHAPE = "joint_shape."  # begins the keys of a shape network that was trained with a descriptor
HUB_CONFIG, HUB_WEIGHTS = "config.json", "model.safetensors"  # a folder of these, as huggingface_hub names them


def open_torch(path: Path, device: str | None = None) -> Descriptor:
    """The engine: a network in torch, from its weights, from those beside an .onnx file, or from a hub's folder."""
    if (path / HUB_CONFIG).is_file() and (path / HUB_WEIGHTS).is_file():
        return _from_hub(path, device)
    if path.suffix != ".onnx":
        found = recognised(_unwrapped(_content(path)), str(path))
        return _placed(found, device) if hasattr(found, "load_state_dict") else found
    beside = weights_for_torch(path)
    if not beside.exists():
        raise BadInput(f"there are no weights for torch beside {path}; use the engine onnx.")
    described = _placed(network(beside), device)
    exported = OnnxEngine(path)
    described.support, described.ratio = exported.support, exported.ratio
    return described


def _from_hub(folder: Path, device: str | None) -> Descriptor:
    try:
        config = json.loads((folder / HUB_CONFIG).read_text(encoding="utf-8"))
        support, ratio = (None if config.get(key) is None else float(config[key]) for key in ("support", "ratio"))
    except (OSError, ValueError, TypeError, AttributeError):
        raise BadWeights(f"{folder / HUB_CONFIG} is not a valid config; save or download the model again.") from None
    described = _placed(network(folder / HUB_WEIGHTS), device)
    described.support, described.ratio = support, ratio
    return described


def open_own(path: Path, own: nn.Module, device: str | None = None) -> Descriptor:
    """Weights of a network that is in none of our tables, put into that network."""
    need("torch", "train", "a network in torch")
    from .layers import as_network

    if isinstance(own, type):
        raise BadInput(f"network must be a module, not the class {own.__name__}; give {own.__name__}().")
    fill(own, path)
    return _placed(as_network(own), device)


def fill(own: nn.Module, path: str | Path) -> None:
    """Put the weights in this file, or that ship under this name, into a network that is in none of our tables."""
    content = _innermost(_content(_file(path)))
    _check_state(content, str(path))
    # A network with a layer called "module" has keys that look like DataParallel's.
    state = content if content.keys() == own.state_dict().keys() else _unwrapped(content)
    try:
        own.load_state_dict(state)
    except RuntimeError:  # torch's, whose message lists every key
        raise BadWeights(
            f"{path} does not hold the weights of this {type(own).__name__}: its keys or sizes differ."
        ) from None


def network(path: str | Path) -> Network:
    """The torch network whose weights are in this file, or ship under this name, recognised by their names."""
    if not Path(path).suffix and not _file(path).exists():
        ours = listed(shipped("descriptor"))
        raise BadWeights(f"no weights for torch ship under the name {path}; choose {ours}, or the path of weights.")
    return from_state(read_state(_file(path)), str(path))


def read_state(path: str | Path) -> State:
    """The state dict in a .safetensors file, one of our checkpoints, or a published .pth or .params file."""
    state = _unwrapped(_content(Path(path)))
    _check_state(state, str(path))
    return state


def read_shape_state(path: str | Path) -> Any:
    """Read weights for a detector or shape network, also of a run that trained it together with a descriptor."""
    content = _innermost(_content(Path(path)))
    if not isinstance(content, Mapping):
        return content
    joint = {key.removeprefix(JOINT_SHAPE): value for key, value in content.items() if str(key).startswith(JOINT_SHAPE)}
    return joint or content


def state_or_nothing(path: str | Path) -> State:
    """The state dict in a file, empty where there is none: so that others can be asked whether it is theirs."""
    try:
        return read_state(path)
    except BadWeights:
        return {}


def from_state(state: State, source: str = "these weights") -> Network:
    """The network that a state dict belongs to, with its weights in it."""
    found = recognised(state, source)
    if not hasattr(found, "load_state_dict"):
        raise BadWeights(f"{source} is of {type(found).__name__}, which is not a torch network.")
    return found


def recognised(weights: Any, source: str) -> Any:
    """The descriptor that these weights belong to, with its weights in it."""
    broken = []
    for row in DESCRIPTORS.values():
        try:
            found = _asked(row, weights)
        except (RuntimeError, TypeError):  # torch's, whose message lists every key; a layer that is one number
            raise BadWeights(
                f"{source} looks like {row.name}, but its layers are not all there, or not of its size."
            ) from None
        except BrokenPlugin as error:
            broken.append(f" {error}")
            continue
        if found is not None:
            state = found.state_dict() if hasattr(found, "state_dict") else {}
            if not all(bool(weight.isfinite().all()) for weight in state.values()):
                raise BadWeights(f"{source} holds weights that are NaN or infinite; train or download it again.")
            return found
    _check_state(weights, source)
    networks = [name for name, row in DESCRIPTORS.items() if row.learnt is not False]
    raise BadWeights(
        f"{source} holds weights of none of {listed(networks)}; its first key is {next(iter(weights), 'missing')!r}. "
        f"A network of your own is given with its weights: hynet.load(path, network=...).{''.join(broken)}"
    )


def _asked(row: DescriptorPart, weights: Any) -> Any:
    """Ask a descriptor for the network of these weights; None where they are another's."""
    if not isinstance(weights, Mapping):
        return None
    kind = row.imported()
    if not row.package:
        return kind.recognise(weights) if hasattr(kind, "recognise") else None
    try:
        found = kind.recognise(weights) if hasattr(kind, "recognise") else _fitting(kind, weights)
    except (HynetError, RuntimeError):
        raise
    except Exception as error:  # whatever it runs into is its own
        raise BrokenPlugin(
            f"{row.where} of the package {row.package} fails on weights ({type(error).__name__}: {error})."
        ) from None
    if not hasattr(found, "load_state_dict"):
        return found
    from .layers import as_network

    return as_network(found)


def _fitting(kind: Any, weights: Mapping[str, Any]) -> Any:
    """A package need not say how its weights are recognised: those that fit exactly are its."""
    try:
        made = kind()
    except RuntimeError as error:
        raise BrokenPlugin(f"{kind.__name__} cannot be made ({error}).") from None
    if not hasattr(made, "load_state_dict") or _shapes(made.state_dict()) != _shapes(weights):
        return None
    made.load_state_dict(weights)
    return made


def _shapes(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: getattr(value, "shape", None) for key, value in state.items()}


def _placed(network: Any, device: str | None) -> Any:
    """On the device, ready to describe."""
    torch = need("torch", "train", "a network in torch")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return network.eval().to(device)
    except (RuntimeError, AssertionError):  # a name that torch does not know, or a device that is not there
        raise BadInput(
            f"torch cannot use the device {device!r} here; choose cpu, or cuda where there is one."
        ) from None


def _file(name_or_path: str | Path) -> Path:
    """Path of the weights for torch; names that ship come before paths."""
    ours = shipped("descriptor").get(str(name_or_path))
    return Path(name_or_path) if ours is None else weights_for_torch(ours)


def _content(path: Path) -> Any:
    """Read a weights file, with whatever its state dict is wrapped in."""
    torch = need("torch", "train", "loading weights")
    if path.is_dir():
        raise BadWeights(f"{path} is a folder; give a weights file in it, such as best.pt.")
    if path.suffix == ".safetensors":
        read = need("safetensors.torch", "train", "reading .safetensors").load_file
    else:
        read = partial(torch.load, map_location="cpu", weights_only=True)
    try:
        return read(path)
    except OSError as error:
        raise BadWeights(f"cannot read {path}: {error.strerror or error}.") from None
    except Exception as error:  # each format fails in its own way, on arbitrary bytes in many
        raise BadWeights(
            f"{path} is not a weights file ({type(error).__name__}); give .pt, .pth, .params or .safetensors."
        ) from None


def _unwrapped(content: Any) -> Any:
    """Weights are wrapped in many ways: our checkpoints, HardNet's, DataParallel's prefix."""
    inner = _innermost(content)
    if not isinstance(inner, Mapping):
        return inner
    return {_bare(key): value for key, value in inner.items() if not str(key).startswith(JOINT_SHAPE)}


def _innermost(content: Any) -> Any:
    for key in ("network", "state_dict", "model_state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    return content


def _bare(key: Any) -> Any:
    """Below our own wrappers, layers.Adapted and training's Joint, all names are the network's, even "module"."""
    wrappers = r"^(joint_descriptor\.)?(adapted_module\.|((module|_orig_mod)\.)+)?"
    return re.sub(wrappers, "", key) if isinstance(key, str) else key


def _check_state(content: Any, source: str) -> None:
    if not isinstance(content, Mapping) or not all(
        isinstance(key, str) and hasattr(value, "shape") for key, value in content.items()
    ):
        raise BadWeights(f"{source} holds no state dict; save `network.state_dict()` in it.")

"""A name or a path -> a Descriptor, ready to describe. Nothing here downloads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..errors import BadInput, BadWeights, need
from ..models import shipped
from ..types import Descriptor
from . import DESCRIPTORS
from .onnx import OnnxEngine, tell

if TYPE_CHECKING:
    from torch import Tensor

    from .layers import Network

State = Mapping[str, "Tensor"]
Engine = Literal["onnx", "torch"]
ENGINES: tuple[str, ...] = get_args(Engine)

MKD_TRAINED_ON = "liberty"  # of the three whitenings in MKD's published file, as most published networks


def load(name_or_path: str | Path, engine: Engine | None = None, *, device: str | None = None) -> Descriptor:
    """A descriptor by name ("default", "rootsift"), or by the path of a checkpoint or of published weights.

    engine: what runs a network; None: ONNX Runtime if there is an .onnx file of it, else torch.
    device: where torch runs it ("cpu", "cuda:1"); None: on the GPU if there is one.
    """
    name, path = str(name_or_path), Path(name_or_path)
    ours = models()
    ready = [*ours, *(name for name, row in DESCRIPTORS.items() if not row.learnt)]
    if engine not in (None, *ENGINES):
        raise BadInput(f"no engine {engine!r}; choose {' or '.join(ENGINES)}.")
    if name in ours:  # names before paths: a folder called like one does not hide it
        path = ours[name]
    elif name in ready:
        return DESCRIPTORS[name]()
    elif not name or not path.exists():
        if name in DESCRIPTORS:
            raise BadInput(f"{name} needs weights: give the path of a checkpoint or of its published weights.")
        raise BadInput(f"no model {name!r}: there is no such file, and the names are {', '.join(ready)}.")
    if path.suffix != ".onnx" or not path.is_file():
        if engine == "onnx":
            raise BadInput(
                f"{path} is for torch; `hynet export --model {path} --to m.onnx` writes it for ONNX Runtime."
            )
        content = _content(path)
        if isinstance(content, Mapping) and MKD_TRAINED_ON in content:
            return DESCRIPTORS["mkd"](whitening=content[MKD_TRAINED_ON])
        return _placed(from_state(_unwrapped(content, path), str(path)), device)
    if engine != "torch":
        return OnnxEngine(path)
    weights = path.with_suffix(".safetensors")
    if not weights.exists():
        raise BadInput(f"there are no weights for torch beside {path}; use the engine onnx.")
    described = _placed(network(weights), device)
    tell(described, OnnxEngine(path).about)
    return described


def _placed(network: Network, device: str | None) -> Network:
    """On the device, ready to describe."""
    torch = need("torch", "train", "a network in torch")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return network.eval().to(device)
    except (RuntimeError, AssertionError):  # a name that torch does not know, or a device that is not there
        raise BadInput(
            f"torch cannot use the device {device!r} here; choose cpu, or cuda where there is one."
        ) from None


def models() -> dict[str, Path]:
    """The descriptors that ship in the package: name -> file."""
    return shipped("descriptor")


def network(path: str | Path) -> Network:
    """The torch network whose weights are in this file, or ship under this name, recognised by their names."""
    if (ours := models().get(str(path))) is not None:
        path = ours.with_suffix(".safetensors")
    return from_state(read_state(path), str(path))


def read_state(path: str | Path) -> State:
    """The state dict in a .safetensors file, one of our checkpoints, or a published .pth or .params file."""
    return _unwrapped(_content(Path(path)), Path(path))


def state_or_nothing(path: str | Path) -> State:
    """The same, but empty where the file holds no state dict: so that others can be asked whether it is theirs."""
    try:
        return read_state(path)
    except BadWeights:
        return {}


def _content(path: Path) -> Any:
    """What a weights file holds, still wrapped."""
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


def from_state(state: State, source: str = "these weights") -> Network:
    """The network that a state dict belongs to, with its weights in it."""
    for recognise in (_hynet, _l2net, _sosnet, _tfeat, _hardtfeat):
        found = recognise(state)
        if found is None:
            continue
        net, renamed = found
        try:
            net.load_state_dict(renamed)
        except RuntimeError:
            raise BadWeights(
                f"{source} looks like {type(net).__name__}, but its layers are not all there, or not of its size."
            ) from None
        return net
    raise BadWeights(
        f"{source} holds none of HyNet, HardNet, SOSNet, TFeat or HardTFeat; "
        f"its first key is {next(iter(state), 'missing')!r}."
    )


def _unwrapped(content: Any, path: Path) -> State:
    """Weights are wrapped in many ways: our checkpoints, HardNet's, DataParallel's prefix."""
    for key in ("network", "state_dict", "model_state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(
        isinstance(key, str) and hasattr(value, "shape") for key, value in content.items()
    ):
        raise BadWeights(f"{path} holds no state dict; save `network.state_dict()` in it.")
    return {re.sub(r"^((module|_orig_mod)\.)+", "", key): value for key, value in content.items()}


# --- each knows its own keys, and returns the network with the weights under the names it uses ----------------------

Found = tuple["Network", State] | None


def _hynet(state: State) -> Found:
    if "layer1.2.weight" not in state or "layer7.1.weight" not in state:
        return None
    if "layer1.4.tau" in state:
        norm = "frn"
    elif "layer1.3.running_mean" in state:
        norm = "bn-affine" if "layer1.3.weight" in state else "bn"
    else:
        norm = "in"
    return DESCRIPTORS["hynet"](norm=norm), state


def _l2net(state: State) -> Found:
    if "features.19.weight" not in state:
        return None
    return DESCRIPTORS["l2net"](), {key: value for key, value in state.items() if key.startswith("features.")}


def _sosnet(state: State) -> Found:
    """Its standardisation is layer 0, so that every other layer is one further than HardNet's."""
    if "layers.20.weight" not in state:
        return None
    renamed = {}
    for key, value in state.items():
        if piece := re.fullmatch(r"layers\.(\d+)\.(\w+)", key):
            renamed[f"features.{int(piece[1]) - 1}.{piece[2]}"] = value
    return DESCRIPTORS["l2net"](unbiased=False), renamed


def _tfeat(state: State) -> Found:
    return (DESCRIPTORS["tfeat"](), state) if "descr.0.weight" in state else None


def _hardtfeat(state: State) -> Found:
    if "classifier.1.weight" not in state:
        return None
    return DESCRIPTORS["hardtfeat"](), {key: value for key, value in state.items() if not key.startswith("SIFT.")}

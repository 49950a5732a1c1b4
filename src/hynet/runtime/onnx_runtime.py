"""Networks in ONNX Runtime, opened with our options and without its telemetry, here only."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import BadWeights


def session(path: str | Path, threads: int) -> Any:
    """Open the network in an .onnx file, to run on that many threads."""
    onnxruntime = _runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads that spin while they wait are slower than sleeping ones where a core is shared.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # its warnings are about its own optimisations
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # it raises its own kind for each way in which a file can be broken
        raise BadWeights(
            f"{path} is not a network in ONNX ({type(error).__name__}); "
            "`hynet export` writes descriptors, `hynet train` detectors and shapes (keynet, shape)."
        ) from None


def run(network: Any, outputs: Sequence[str], inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """Run a session. Some broken files open, and fail only here."""
    try:
        return network.run(outputs, inputs)
    except Exception as error:  # again its own kinds
        raise BadWeights(
            f"running the network failed ({type(error).__name__}); its file is broken, so export or download it again."
        ) from None


@cache  # so that it warns once
def _runtime() -> Any:
    """Import ONNX Runtime; `import hynet` has already switched its telemetry off, unless it came first."""
    import onnxruntime

    disabled = os.environ.get("ORT_DISABLE_TELEMETRY")
    if disabled != "0":  # which is a user's own choice
        onnxruntime.disable_telemetry_events()  # all there is on Windows, where the variable is not read
    if disabled is None:
        warnings.warn(
            "onnxruntime was imported before hynet, which has now switched its telemetry off, but what it collected "
            "until then may be stored and sent; ORT_DISABLE_TELEMETRY=1 in the environment prevents that.",
            stacklevel=2,
        )
    return onnxruntime

"""The one place that opens ONNX Runtime, with our options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import BadWeights


def session(path: str | Path, threads: int) -> Any:
    """The network in an .onnx file, ready to run on that many threads."""
    import onnxruntime

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
            "`hynet export` writes descriptors, `hynet train keynet` a detector."
        ) from None

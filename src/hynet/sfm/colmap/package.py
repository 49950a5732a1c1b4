"""The package pycolmap itself, its version, and constants for all its uses."""

from __future__ import annotations

import importlib.util
import signal
import threading
from types import ModuleType

from ...errors import HynetError, MissingExtra, need

SEED = 1
HALF = 0.5  # of a pixel: to COLMAP the corner of the first one is (0, 0), to us its centre


class NotReconstructed(HynetError, ValueError):
    """The photos do not form one scene; the sentence says how far it got."""


def installed() -> bool:
    """True if pycolmap is installed."""
    return importlib.util.find_spec("pycolmap") is not None


def pycolmap() -> ModuleType:
    """Import the package, quiet, or raise the sentence that says how to get it."""
    colmap = need("pycolmap", "sfm", "reconstruction")
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # which the import of pycolmap takes away, to print a stack trace
    if not hasattr(colmap, "FeatureExtractionOptions"):  # came with 3.13
        raise MissingExtra(f"pycolmap {colmap.__version__} is too old: pip install -U 'hynet-features[sfm]'")
    colmap.logging.minloglevel = colmap.logging.Level.FATAL.value  # the library never prints
    return colmap

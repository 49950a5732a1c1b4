"""What the machine gives us: processors, and where a user's caches and settings lie."""

from __future__ import annotations

import os
from pathlib import Path


def cores() -> list[int]:
    """The processors this process may use, which in a container are fewer than there are."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def cache_folder() -> Path:
    """What can be made again; users move it by XDG_CACHE_HOME."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hynet"


def settings_folder() -> Path:
    """What a user has chosen; users move it by XDG_CONFIG_HOME."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "hynet"

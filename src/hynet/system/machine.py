"""What the machine gives us: processors, memory, and where a user's caches and settings lie."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import BadInput

_most_cores: int | None = None  # where this process has been told to leave the others to its neighbours


def cores() -> list[int]:
    """The processors this process may use, which in a container are fewer than there are."""
    found = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    return found[:_most_cores]


def use_cores(count: int) -> None:
    """Let this process compute with so many threads: every engine asks `cores`, and OpenCV is told."""
    import cv2

    global _most_cores
    _most_cores = count
    cv2.setNumThreads(count)


def few_threads(count: int) -> dict[str, str]:
    """The environment of a process that starts: NumPy's matrix product reads these, once."""
    return dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(count))


def memory() -> int:
    """Bytes that this machine, or the container, has."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else [8 << 30]
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        limit = "max"
    return min([*found, *([int(limit)] if limit.isdigit() else [])])


def keep_memory_mapped() -> None:
    """Let glibc keep big buffers, for all threads alike: else each step of training faults in 300,000 pages."""
    import ctypes  # here, since few commands need it and all start with this module

    trim, top_pad, mmap, arenas = -1, -2, -3, -8  # glibc's numbers for M_TRIM_THRESHOLD and so on
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not glibc: nothing to set
        return
    for parameter, value in ((mmap, 1 << 30), (trim, (1 << 31) - 1), (top_pad, 1 << 29), (arenas, 1)):
        mallopt(parameter, value)


def cache_folder() -> Path:
    """What can be made again; users move it by XDG_CACHE_HOME."""
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "hynet"


def settings_folder() -> Path:
    """What a user has chosen; users move it by XDG_CONFIG_HOME."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or _home() / ".config") / "hynet"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise BadInput("nobody knows your home folder; set HOME, or XDG_CACHE_HOME and XDG_CONFIG_HOME.") from None

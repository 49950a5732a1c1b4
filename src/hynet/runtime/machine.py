"""The machine: its processors and memory, and the folders of a user's caches and settings."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..errors import BadInput

_most_cores: int | None = None  # of a process that leaves the others to its neighbours
# Instructions -> what Linux calls them: any of these
INSTRUCTIONS = {
    "AVX2": {"avx2"},
    "AVX-512": {"avx512f"},
    "VNNI": {"avx512_vnni", "avx_vnni"},
    "BF16": {"avx512_bf16", "amx_bf16", "bf16"},
}


def cores() -> list[int]:
    """List the processors this process may use, which in a container are fewer than there are."""
    found = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    return found[:_most_cores]


def use_cores(count: int) -> None:
    """Let this process compute with so many threads: engines ask `cores`; OpenCV is set here."""
    import cv2

    global _most_cores
    _most_cores = count
    cv2.setNumThreads(count)


def few_threads(count: int) -> dict[str, str]:
    """The environment of a process that starts: NumPy's matrix product reads these, once."""
    return dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(count))


def memory() -> int:
    """Bytes of memory of this machine, or of the container."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else [8 << 30]
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8").strip()
    except OSError:
        limit = "max"
    return min([*found, *([int(limit)] if limit.isdigit() else [])])


def processor() -> str:
    """Describe the processor: name, cores we may use, and which of the instructions that decide our speed it has."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return f"{platform.processor() or platform.machine()}, {len(cores())} cores"
    fields = dict(reversed([line.partition(":")[::2] for line in lines]))  # of the first core
    known = {name.strip(): value.strip() for name, value in fields.items()}
    flags = set(known.get("flags", known.get("Features", "")).split())
    has = {name: not flags.isdisjoint(any_of) for name, any_of in INSTRUCTIONS.items()}
    there, missing = ([name for name, found in has.items() if found is wanted] for wanted in (True, False))
    words = [f"with {', '.join(there)}"] * bool(there) + [f"without {', '.join(missing)}"] * bool(missing)
    return f"{known.get('model name', platform.machine())}, {len(cores())} cores, {', '.join(words)}"


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
    """Folder of what can be made again, ~/.cache/hynet on Linux; users move it by XDG_CACHE_HOME."""
    import platformdirs  # here, as ctypes above

    return _of_user(platformdirs.user_cache_path)


def settings_folder() -> Path:
    """Folder of what a user has chosen, ~/.config/hynet on Linux; users move it by XDG_CONFIG_HOME."""
    import platformdirs

    return _of_user(platformdirs.user_config_path)


def _of_user(find: Callable[..., Path]) -> Path:
    with suppress(RuntimeError):  # nobody knows the home folder; older versions return "~"
        path = find("hynet", appauthor=False)
        if path.is_absolute():
            return path
    raise BadInput("nobody knows your home folder; set HOME, or XDG_CACHE_HOME and XDG_CONFIG_HOME.")

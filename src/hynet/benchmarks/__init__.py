"""One file per table of the paper. ADD A BENCHMARK: a file in this folder and a row in BENCHMARKS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BENCHMARKS: dict[str, Callable[..., Any]] = {}

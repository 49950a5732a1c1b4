"""One file per table of the paper. ADD A BENCHMARK: a file in this folder and a row in BENCHMARKS.

`BENCHMARKS["ubc"](["default", "sift"], "liberty/")` gives an Evaluation. `evaluate.py`
says what a file must have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from ..runtime.plugins import BrokenPlugin, Part, with_plugins
from ..types import Progress, silent

if TYPE_CHECKING:
    from .contestants import Model
    from .results import Evaluation


@dataclass(frozen=True)
class Benchmark(Part["Evaluation"]):
    """A benchmark by name: calling it runs it. Its file is imported when it is first used."""

    def __call__(
        self, models: Sequence[Model], data: str | Path, *, progress: Progress = silent, **options: Any
    ) -> Evaluation:
        """Run it; `options` are the fields of its options."""
        evaluate, kind = self.function(), self.options()
        with self.blamed():
            return evaluate(models, Path(data), kind(**options), progress)

    def function(self) -> Callable[..., Evaluation]:
        """Import its `evaluate(models, data, options, progress)`."""
        return self.imported()

    def options(self) -> type:
        """The dataclass that its function takes as `options`; `hynet evaluate NAME` has an option for each field."""
        try:
            return get_type_hints(self.function())["options"]
        except (KeyError, NameError) as error:
            raise BrokenPlugin(
                f"the benchmark {self.where} must take `options`, annotated with a dataclass that can be found at run "
                f"time ({type(error).__name__}: {error})."
            ) from None


def _ours(file: str, about: str) -> Benchmark:
    return Benchmark(f"hynet.benchmarks.{file}:evaluate", about)


BENCHMARKS: dict[str, Benchmark] = with_plugins(
    "benchmarks",
    {
        "ubc": _ours("ubc", "pairs of patches, PhotoTour's FPR@95 (Table 1)"),
        "hpatches": _ours("hpatches.evaluate", "verification, matching and retrieval of patches (Fig. 4)"),
        "homography": _ours("homography", "matching end to end on image sequences with H_1_k"),
        "eth": _ours("eth.evaluate", "models of whole scenes from matches, the ETH benchmark (Table 2)"),
        "localization": _ours("localization", "poses of new photos in a reconstruction of others"),
        "imc": _ours("imc.evaluate", "relative poses of photos, the Image Matching Challenge's tasks (appendix)"),
    },
    Benchmark,
)

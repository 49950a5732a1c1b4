"""What is asked of a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import BadInput, choose
from .plans import ALPHAS, MARGINS, PLANS, RANKINGS, Plan, grid
from .runs import Budget


@dataclass(frozen=True)
class Ablation:
    """What to run, on what, and where to."""

    study: str
    data: Sequence[Path]  # patch sets to train on, mixed
    validate: Path  # the patch set for FPR@95 and the choice of margins
    test: Path  # patch stacks of HPatches, or image sequences to cut such stacks from
    out: Path
    budget: Budget
    pairs: int | None = None  # of `validate`, to measure FPR@95 on; None: 100,000, or as many as it lists
    own_settings: bool = False
    alphas: Sequence[float] | None = None  # of the grid, like the next; None: the usual four
    margins: Sequence[float] | None = None
    jobs: int | None = None

    def __post_init__(self) -> None:
        if not self.data:
            raise BadInput("--data needs one or more patch sets to train on.")
        for name in ("jobs", "pairs"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise BadInput(f"--{name} must be 1 or more; got {count}.")
        for name in ("alphas", "margins"):
            values = getattr(self, name)
            if values is not None and (not values or len(set(values)) < len(values)):
                raise BadInput(
                    f"--{name} needs one or more numbers, each once; got {', '.join(map(str, values)) or 'none'}."
                )

    def plan(self) -> Plan:
        if self.study != "grid" and (self.alphas is not None or self.margins is not None):
            raise BadInput("--alphas and --margins are for grid; components searches its margins itself.")
        if self.own_settings and self.study not in RANKINGS:
            raise BadInput("--own-settings is for rivals and sosr: elsewhere every row is HyNet but for one thing.")
        if self.own_settings:
            return RANKINGS[self.study](own_settings=True)
        if self.study == "grid":
            return grid(self.alphas or ALPHAS, self.margins or MARGINS["hynet"])
        return choose(PLANS, self.study, "study")()

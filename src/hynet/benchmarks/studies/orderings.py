"""One sentence for each ordering of the paper: does it show here?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .plans import Ordering, Plan, cell_name
from .scoring import Scores

LOWER_IS_BETTER = ("fpr95",)
NAMES = {"fpr95": "FPR@95", "matching": "mAP of matching"}


@dataclass(frozen=True)
class Verdict:
    """What became of one ordering."""

    better: str
    worse: str
    column: str
    verdict: str  # shows, reversed, open, missing
    sentence: str


def judged(plan: Plan, scores: Scores) -> list[Verdict]:
    """Every ordering that the paper states."""
    return [_judge(ordering, scores, _by_paper(plan, ordering)) for ordering in plan.orderings]


def _judge(ordering: Ordering, scores: Scores, by_paper: str) -> Verdict:
    better, worse, column = ordering.better, ordering.worse, ordering.column
    named = (better, worse, column)
    claim = f"{better} better than {worse}{by_paper}"
    found = scores.compared(better, worse, column)
    if found is None:
        return Verdict(*named, "missing", f"{claim}: not measured, because one of the two has no result.")
    sign = -1 if column in LOWER_IS_BETTER else 1
    low, high = found.interval
    measured = f"{found.difference:+.2f} [{low:+.2f}, {high:+.2f}] in {NAMES[column]}"
    here, there = scores.rows[better].values[column], scores.rows[worse].values[column]
    trained = [values for values in (here, there) if len(values) > 1]
    apart = sign * (here[:, None] - there[None])  # every seed of one against every seed of the other
    seeds_agree = bool((apart > 0).all() or (apart < 0).all())
    verdict = "open"
    if low * high > 0 and seeds_agree:
        verdict = "shows" if sign * found.difference > 0 else "reversed"
    told = {
        "shows": "shows here",
        "reversed": "is reversed here",
        "open": "cannot be told here" if low * high <= 0 else "cannot be told here, since seeds disagree",
    }[verdict]
    seeds = "" if trained else "; one seed, so that chance in training is not known"
    return Verdict(*named, verdict, f"{claim}: {told} ({measured}{seeds}).")


def best_cell(plan: Plan, scores: Scores) -> list[str]:
    """Of a grid: where the best cell lies, and whether the paper's is surely worse."""
    if not plan.alphas:
        return []
    cells = [row.name for row in plan.rows if row.name in scores.rows]
    if not cells:
        return ["No cell of the grid has a result."]
    best = max(cells, key=lambda name: scores.rows[name].mean("matching"))
    value = scores.rows[best].mean("matching")
    papers = cell_name(2.0, 1.2)
    if papers not in cells:
        return [f"Best cell: {best} (matching {value:.2f}); the paper's best, {papers}, is not in this grid."]
    if best == papers:
        return [f"Best cell: {best} (matching {value:.2f}), which is the paper's best: it shows here."]
    found = scores.compared(best, papers, "matching")
    assert found is not None
    surely = "surely better" if found.interval[0] > 0 else "not surely better"
    told = f"{found.difference:+.2f} [{found.interval[0]:+.2f}, {found.interval[1]:+.2f}]"
    return [f"Best cell: {best} (matching {value:.2f}), {surely} than the paper's best, {papers} ({told})."]


def summed_up(verdicts: Sequence[Verdict]) -> str:
    """All of them in one sentence."""
    counts = {kind: int(np.sum([each.verdict == kind for each in verdicts])) for kind in ("shows", "reversed")}
    rest = len(verdicts) - sum(counts.values())
    total = len(verdicts)
    return (
        f"Of the paper's {total} orderings {counts['shows']} show here, {counts['reversed']} are reversed, "
        f"and {rest} cannot be told."
    )


def _by_paper(plan: Plan, ordering: Ordering) -> str:
    """The paper's two numbers, in brackets."""
    numbers = [plan.paper.get(name, {}).get(ordering.column) for name in (ordering.better, ordering.worse)]
    return "" if None in numbers else f" (paper: {numbers[0]:.2f} and {numbers[1]:.2f})"

"""One sentence for each ordering of the paper: does it hold here?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    repeated = len(here) > 1 or len(there) > 1
    apart = sign * (here[:, None] - there[None])  # every seed of one against every seed of the other
    seeds_agree = bool((apart > 0).all() or (apart < 0).all())
    verdict = "open"
    if low * high > 0 and seeds_agree:
        verdict = "shows" if sign * found.difference > 0 else "reversed"
    told = {
        "shows": "holds here",
        "reversed": "is reversed here",
        "open": "is inconclusive here" if low * high <= 0 else "is inconclusive here: seeds disagree",
    }[verdict]
    seeds = "" if repeated else "; one seed, so the variation between runs is not known"
    return Verdict(*named, verdict, f"{claim}: {told} ({measured}{seeds}).")


def best_cell(plan: Plan, scores: Scores) -> list[str]:
    """Of a grid: where the best cell lies, and how far the paper's is behind."""
    if not plan.alphas:
        return []
    cells = [row.name for row in plan.rows if row.name in scores.rows]
    if not cells:
        return ["No cell of the grid has a result."]
    best = max(cells, key=lambda name: scores.rows[name].mean("matching"))
    told = f"Best cell: {best} (matching {scores.rows[best].mean('matching'):.2f})"
    papers = cell_name(2.0, 1.2)
    if papers not in cells:
        return [f"{told}; the paper's best, {papers}, is not in this grid."]
    if best == papers:
        others = [scores.compared(papers, name, "matching") for name in cells if name != papers]
        surely = sum(each is not None and each.interval[0] > 0 for each in others)
        return [f"{told}, which is the paper's best; better than {surely} of {len(others)} others beyond the interval."]
    found = scores.compared(best, papers, "matching")
    assert found is not None
    low, high = found.interval
    return [
        f"{told}, ahead of the paper's best, {papers}, by {found.difference:.2f} [{low:+.2f}, {high:+.2f}]; chosen "
        f"among {len(cells)} cells on the same samples, so some of the lead is chance."
    ]


def summed_up(verdicts: Sequence[Verdict]) -> str:
    """All of them in one sentence."""
    one = {"shows": "holds", "reversed": "is reversed", "open": "is inconclusive", "missing": "was not measured"}
    several = {"shows": "hold", "reversed": "are reversed", "open": "are inconclusive", "missing": "were not measured"}
    parts = []
    for verdict in one:
        if some := [each for each in verdicts if each.verdict == verdict]:
            parts.append(f"{len(some)} {(one if len(some) == 1 else several)[verdict]} ({_listed(some)})")
    return f"Of the paper's {len(verdicts)} orderings {'; '.join(parts)}."


def _listed(verdicts: Sequence[Verdict]) -> str:
    """`HyNet before SOSNet, HardNet in FPR@95; ...`: rows that one of them is before stand together."""
    worse: dict[tuple[str, str], list[str]] = {}
    for each in verdicts:
        worse.setdefault((each.better, each.column), []).append(each.worse)
    return "; ".join(f"{name} before {', '.join(rows)} in {NAMES[column]}" for (name, column), rows in worse.items())


def _by_paper(plan: Plan, ordering: Ordering) -> str:
    """The paper's two numbers, in brackets."""
    numbers = [plan.paper.get(name, {}).get(ordering.column) for name in (ordering.better, ordering.worse)]
    return "" if None in numbers else f" (paper: {numbers[0]:.2f} and {numbers[1]:.2f})"

"""Scores of HPatches' tasks -> the headline numbers, every variant by name, intervals and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...geometry import metrics
from ...types import Array, Progress, silent
from ..results import Bars, Comparison, Curves
from .scores import NOISES, POOLS, SHOWN, Described, Verified, matching, retrieval, verification
from .tasks import Tasks

ROUNDS = 1000  # of the bootstrap over sequences
TASKS = ("verification", "matching", "retrieval")
LEVELS = {"e": "easy", "h": "hard", "t": "tough"}
COLUMNS = (*TASKS, *(f"matching_{level}" for level in LEVELS.values()), "verification_auc", "retrieval_full")
AREAS = {"corrected": "fair", "compatible": "listed"}


@dataclass(frozen=True)
class Scores:
    """Scores of one descriptor, in every way of scoring; fractions."""

    verification: Mapping[tuple[str, str], Verified]  # (noise, intra or inter)
    matching: Mapping[str, Array]  # (S, 3, 5) by sequence, noise, image
    retrieval: Mapping[str, Array]  # (Q, 3, 7) by query, noise, pool; Q is 0 where there is nobody to retrieve from
    query_sequences: Array  # (Q,)


def scored(described: Described, tasks: Tasks, progress: Progress = silent) -> Scores:
    """All three tasks."""
    if not can_retrieve(tasks):
        tasks = replace(tasks, queries=tasks.queries[:0], distractors=tasks.distractors[:0])
    return Scores(
        verification(described, tasks, metrics.draws(len(described), ROUNDS), progress),
        matching(described, progress),
        retrieval(described, tasks, progress),
        tasks.queries[:, 0],
    )


def can_retrieve(tasks: Tasks) -> bool:
    """Distractors come from other sequences than the query, so there must be such."""
    return len(tasks.queries) > 0 and len(np.unique(tasks.distractors[:, 0])) > 1


def row(scores: Scores, area: str) -> dict[str, float | None]:
    """The columns of the table, in percent.

    verification: imbalanced AP, mean over easy, hard, tough and intra, inter. matching: mean over sequences, levels and
    images. retrieval: mean over the seven pools and the levels, as the figure in the style of the paper's is drawn.
    """
    matched, retrieved = scores.matching[area], scores.retrieval[area]
    samples = {
        "verification": np.array([each.ap[area] for each in scores.verification.values()]),
        "matching": matched,
        "retrieval": retrieved,
        **{f"matching_{level}": matched[:, n] for n, level in enumerate(LEVELS.values())},
        "verification_auc": np.array([each.auc[area] for each in scores.verification.values()]),
        "retrieval_full": retrieved[..., -1],
    }
    return {column: 100 * float(samples[column].mean()) if samples[column].size else None for column in COLUMNS}


def redrawn(scores: Scores, area: str) -> dict[str, Array]:
    """Column -> (rounds,) its values in percent when sequences are resampled, the same for every descriptor."""
    matched = scores.matching[area].mean(-1)  # (S, 3)
    weights = metrics.draws(len(matched), ROUNDS)
    queries = np.bincount(scores.query_sequences, minlength=len(matched))
    asked = np.maximum(weights @ queries, 1)

    def per_query(values: Array) -> Array:
        return weights @ np.bincount(scores.query_sequences, values, len(matched)) / asked

    verified = scores.verification.values()
    values = {
        "verification": np.mean([each.ap[area] + each.redrawn["ap"] for each in verified], axis=0),
        "verification_auc": np.mean([each.auc[area] + each.redrawn["auc"] for each in verified], axis=0),
        "matching": weights @ matched.mean(1) / len(matched),
        **{f"matching_{level}": weights @ matched[:, n] / len(matched) for n, level in enumerate(LEVELS.values())},
    }
    if len(scores.query_sequences):
        values["retrieval"] = per_query(scores.retrieval[area].mean((1, 2)))
        values["retrieval_full"] = per_query(scores.retrieval[area][..., -1].mean(1))
    return {column: 100 * value for column, value in values.items()}


def comparisons(
    drawn: Mapping[str, Mapping[str, Array]], rows: Mapping[str, Mapping[str, float | None]]
) -> list[Comparison]:
    """The first method against each of the others, on the same draws."""
    first, *others = rows
    found = []
    for other in others:
        for task in TASKS:
            here, there = rows[first][task], rows[other][task]
            if here is not None and there is not None:
                interval = metrics.interval(drawn[first][task] - drawn[other][task])
                found.append(Comparison(task, first, other, here - there, interval))
    return found


def pictures(scores: Mapping[str, Scores], area: str, sequences: Sequence[str]) -> dict[str, Bars | Curves]:
    """Bars as in the paper's Fig. 4, verification's ROC and PR curves, retrieval over the size of the pool."""
    kinds = _kinds(sequences)
    rows = {method: row(own, area) for method, own in scores.items()}
    values = {task: {method: own[task] for method, own in rows.items()} for task in TASKS}
    panels = {task: {m: value for m, value in own.items() if value is not None} for task, own in values.items()}
    marks: dict[str, dict[str, dict[str, float]]] = {task: {} for task in TASKS}
    for method, own in scores.items():
        marks["verification"][method] = {
            f"{LEVELS[noise]} {kind}": 100 * each.ap[area] for (noise, kind), each in own.verification.items()
        }
        marks["matching"][method] = {
            f"{level} {kind}".strip(): 100 * float(own.matching[area][some, n].mean())
            for n, level in enumerate(LEVELS.values())
            for kind, some in kinds.items()
        }
        if method in panels["retrieval"]:
            levels = 100 * own.retrieval[area].mean((0, 2))
            marks["retrieval"][method] = dict(zip(LEVELS.values(), levels.tolist(), strict=True))
    roc, pr = (
        {method: _line(*own.verification[SHOWN].curves[kind]) for method, own in scores.items()}
        for kind in ("roc", "pr")
    )
    sizes = np.array(POOLS) / 100  # _line makes percentages
    pools = {method: _line(sizes, scores[method].retrieval[area].mean((0, 1))) for method in panels["retrieval"]}
    accepted = "non-matches accepted, %", "matches accepted, %"
    found: dict[str, Bars | Curves] = {
        "bars": Bars("HPatches", {task: panel for task, panel in panels.items() if panel}, marks),
        "roc": Curves("Verification, hard, intra, balanced", *accepted, roc, log_x=True),
        "pr": Curves("Verification, hard, intra, imbalanced", "recall, %", "precision, %", pr),
    }
    if pools:
        found["pools"] = Curves("Retrieval", "patches in the pool", "mAP, %", pools, log_x=True)
    return found


def details(scores: Scores, sequences: Sequence[str]) -> dict[str, Any]:
    """Every number behind a row, in percent: listed is compatible, fair corrected, step the area as MATLAB's."""
    kinds = _kinds(sequences)
    found: dict[str, Any] = {}
    for area in ("listed", "fair", "step"):
        matched, retrieved = 100 * scores.matching[area], 100 * scores.retrieval[area]
        of_kind = {kind: float(matched[rows].mean()) for kind, rows in kinds.items() if kind}
        found[area] = {
            "verification_ap": {
                f"{noise}_{kind}": 100 * each.ap[area] for (noise, kind), each in scores.verification.items()
            },
            "verification_auc": {
                f"{noise}_{kind}": 100 * each.auc[area]
                for (noise, kind), each in scores.verification.items()
                if area in each.auc
            },
            "matching": {
                name: dict(zip(NOISES, matched[s].mean(-1).tolist(), strict=True)) for s, name in enumerate(sequences)
            },
            "matching_by_kind": of_kind | ({"mean": float(np.mean(list(of_kind.values())))} if of_kind else {}),
            "retrieval_by_pool": {
                noise: dict(zip(map(str, POOLS), retrieved[:, n].mean(0).tolist(), strict=True))
                for n, noise in enumerate(NOISES)
                if len(retrieved)
            },
        }
    success = 100 * scores.matching["success"].mean((0, 2))
    return found | {"matching_success": dict(zip(NOISES, success.tolist(), strict=True))}


def _kinds(sequences: Sequence[str]) -> dict[str, list[int]]:
    """illum and view -> their sequences, where the names tell them apart; else all under no name."""
    kinds = {
        kind: [s for s, name in enumerate(sequences) if name.startswith(start)]
        for kind, start in (("illum", "i_"), ("view", "v_"))
    }
    return (
        kinds
        if sum(map(len, kinds.values())) == len(sequences) and all(kinds.values())
        else {"": [*range(len(sequences))]}
    )


def _line(x: Array, y: Array) -> dict[str, list[float]]:
    return {"x": (100 * x).tolist(), "y": (100 * y).tolist()}

"""The paper's numbers where ours are of other data: in a sentence, never in the same table or on the same axis."""

from __future__ import annotations

from ...types import Table


def note(paper: Table, measured_on: str) -> str:
    """Its rows in one sentence, which says what they were measured on."""
    rows = (
        f"{name} "
        + ", ".join(f"{row[column]:{',' if isinstance(row[column], int) else '.2f'}}" for column in paper.columns)
        for name, row in paper.rows.items()
    )
    return f"{paper.title} ({', '.join(paper.columns)}), on {measured_on}, so not comparable: {'; '.join(rows)}."

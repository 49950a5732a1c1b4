"""What the paper's appendix reports for the challenge's three validation scenes."""

from __future__ import annotations

from collections.abc import Sequence

from ...datasets.scenes import Scene
from ...types import Table
from ..harness import papers

COLUMNS = ("stereo", "multiview", "average")  # of both tasks
ROWS = {
    "Key.Net + HardNet": (63.40, 74.41, 68.91),
    "Key.Net + SOSNet": (63.41, 74.51, 68.96),
    "Key.Net + HyNet": (64.07, 74.84, 69.46),
}
SCENES, PHOTOS = ("reichstag", "sacre_coeur", "st_peters_square"), 100  # of each scene


def is_papers(found: Sequence[Scene]) -> bool:
    """Whether these are the challenge's whole validation scenes."""
    sizes = {scene.name.rpartition("/")[2]: len(scene.views) for scene in found}
    return sizes == dict.fromkeys(SCENES, PHOTOS)


def table(task: str) -> Table:
    """Its rows under the names of our columns."""
    ours = {"maa10": "average", "stereo": "stereo", "multiview": "multiview"} if task == "both" else {"maa10": task}
    rows = {
        name: {column: dict(zip(COLUMNS, values, strict=True))[theirs] for column, theirs in ours.items()}
        for name, values in ROWS.items()
    }
    return Table("The paper's appendix", list(ours), rows)


def note(paper: Table) -> str:
    return papers.note(paper, f"{PHOTOS} photos each of {', '.join(SCENES)}")

"""Options shared by many commands; their help lists what there is to choose from, including plug-ins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import tyro

from ..features.descriptors import DESCRIPTORS
from ..features.descriptors.loading import models
from ..features.detectors import DETECTORS
from ..runtime.pool import Pool, open_pool
from .progress import announce_dashboard

Model = Annotated[str, tyro.conf.arg(help="What describes keypoints: a name, or the path of your own weights.")]
Detector = Annotated[str, tyro.conf.arg(help="What finds keypoints: a name, or the path of your own Key.Net.")]
Device = Annotated[
    str | None,
    tyro.conf.arg(help="Where the model runs: cpu, cuda, cuda:1, mps. By default a GPU if torch runs it and has one."),
]


def listed_choices(option: str) -> str:
    """Names that an option takes, those of plug-ins among them; empty for options without names."""
    if option == "--detector":
        return ", ".join(DETECTORS)
    if option == "--model":
        return ", ".join([*models(), *(name for name, row in DESCRIPTORS.items() if not row.learnt)])
    return ""


@contextmanager
def workers_of(cluster: str, jobs: int) -> Iterator[Pool | None]:
    """Whom --cluster names; None for this machine, where a command has ways of its own."""
    if cluster == "local":
        yield None
        return
    with open_pool(cluster, jobs) as workers:
        announce_dashboard(workers.dashboard)
        yield workers

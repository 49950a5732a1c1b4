"""Files on disk -> patches, pairs and scenes. ADD A DATA SET: a file in this folder and a row in DATASETS.

A row names a module with `recognise(root)`, whether a folder has its layout, and `load(root, ...)`. `hynet train` and
`hynet evaluate ubc` take every data set that has the functions of `ubc.py`: `load(root, size, progress) -> PatchSet`,
`test_pairs(root, count) -> PatchPairs`, `pairs_available(root)`, the counts it can be asked for, or none where it makes
as many as wanted, and `fingerprint(root)`, which changes with any patch or point. `hynet.datasets.ubc` and its siblings
are imported when they are first named.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import BadInput, DataNotFound, listed
from ..runtime.plugins import Part, importable, with_plugins
from ..types import PatchPairs

PAIRS = 100_000  # that the field tests on; PhotoTour's longer lists are for training


@dataclass(frozen=True)
class DatasetPart(Part[Any]):
    """A data set by name: calling it loads one."""

    def __call__(self, *values: Any, **options: Any) -> Any:
        load = self.imported().load
        with self.blamed():
            return load(*values, **options)

    def recognises(self, root: Path) -> bool:
        known = getattr(self.imported(), "recognise", None)
        return known is not None and known(root)


DATASETS: dict[str, DatasetPart] = with_plugins(
    "datasets",
    {
        "ubc": DatasetPart("hynet.datasets.ubc", "PhotoTour's patch sets, and those that `hynet patches` makes"),
        "hpatches": DatasetPart("hynet.datasets.hpatches", "stacks of corresponding patches, 16 a sequence"),
        "scenes": DatasetPart("hynet.datasets.scenes", "photos with cameras, as the Challenge's and Strecha's"),
        "sequences": DatasetPart("hynet.datasets.sequences", "photos with homographies, as Oxford's and HPatches'"),
        "synthetic": DatasetPart("hynet.datasets.synthetic", "patches of made-up textures, for tests"),
    },
    DatasetPart,
)

OTHERS = ("downloads", "example", "hpatches_cutting", "ubc_decoding")  # modules of this folder that are not data sets


def load(root: str | Path, **options: Any) -> Any:
    """Load a folder, whichever data set has its layout; options are that data set's."""
    return find(root).load(Path(root), **options)


def find(root: str | Path) -> Any:
    """The module of the data set whose layout the folder has."""
    row = _recognised(Path(root))
    if row is None:
        raise DataNotFound(f"{root} has the layout of no data set known here: {listed(list(DATASETS))}.")
    return row.imported()


def find_patches(root: str | Path) -> Any:
    """Return the module of a set of patches, which can be trained and tested on."""
    row = _recognised(Path(root)) or DATASETS["ubc"]  # which says what is missing in the folder
    found = row.imported()
    if not hasattr(found, "test_pairs"):
        name = next(name for name, each in DATASETS.items() if each is row)
        raise BadInput(f"{root} is a folder of {name}, not a set of patches; `hynet patches` makes one from photos.")
    return found


def test_pairs(root: str | Path, count: int | None = None) -> PatchPairs:
    """The pairs that a set of patches is tested on; by default 100,000 where it has them, else the most it has.

    A set that lists no counts is asked for 100,000: it makes them, or says what is missing.
    """
    kind = find_patches(root)
    if count is None:
        there = kind.pairs_available(root)
        count = PAIRS if PAIRS in there or not there else max(there)
    return kind.test_pairs(root, count)


def holds_patches(root: str | Path) -> bool:
    """Whether a folder is such a set."""
    row = _recognised(Path(root))
    return row is not None and hasattr(row.imported(), "test_pairs")


def _recognised(root: Path) -> DatasetPart | None:
    return next((row for _, row in importable(DATASETS) if row.recognises(root)), None)


def __getattr__(name: str) -> ModuleType:
    if name in OTHERS or (name in DATASETS and not DATASETS[name].package):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

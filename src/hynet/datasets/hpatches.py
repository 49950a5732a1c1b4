"""HPatches: stacks of corresponding patches, as the patch release has them; `hpatches_cutting.py` makes such stacks.

    root/SEQUENCE/ref.png, e1.png ... e5.png, h1.png ... h5.png, t1.png ... t5.png     65 wide, 65 N tall

Patch k of every stack shows the same place; easy, hard and tough say how wrong a detector's region was.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import BadData, DataNotFound, choose
from ..images import read
from ..types import Array

SIDE = 65  # pixels a side of a patch
COLUMNS = ("ref", *(f"{noise}{k}" for noise in "eht" for k in range(1, 6)))
# The sequences that each split of the benchmark tests on; it trains on the others.
_TESTS = {
    "a": """
        i_ajuntament i_autannes i_bologna i_books i_bridger i_brooklyn i_fog i_fruits i_kurhaus i_lionnight
        i_nijmegen i_porta i_resort i_salon i_santuario i_table i_tools i_troulos i_whitebuilding i_zion v_abstract
        v_azzola v_bees v_birdwoman v_busstop v_coffeehouse v_courses v_eastsouth v_feast v_fest v_man v_pomegranate
        v_soldiers v_strand v_tabletop v_talent v_underground v_woman v_yard v_yuri""",
    "b": """
        i_autannes i_bridger i_castle i_chestnuts i_dome i_duda i_fog i_fruits i_greenhouse i_kions i_kurhaus
        i_lionday i_melon i_partyfood i_pencils i_porta i_resort i_school i_ski i_village v_adam v_apprentices
        v_astronautis v_bees v_bip v_birdwoman v_charing v_churchill v_colors v_feast v_graffiti v_laptop v_london
        v_posters v_sunseason v_there v_underground v_war v_woman v_yard""",
    "c": """
        i_bologna i_boutique i_castle i_crownnight i_dc i_fog i_kions i_leuven i_londonbridge i_melon i_nijmegen
        i_parking i_partyfood i_pool i_ski i_smurf i_steps i_table i_tools i_troulos v_adam v_artisans v_azzola
        v_bees v_blueprint v_busstop v_coffeehouse v_dirtywall v_feast v_gardens v_graffiti v_machines v_man
        v_maskedman v_pomegranate v_talent v_tempera v_war v_weapons v_wounded""",
}


def recognise(root: Path) -> bool:
    """Whether a folder has this layout."""
    return any(root.glob("*/ref.png"))


def sequences(root: str | Path) -> list[str]:
    """Names of the folders that hold patch stacks."""
    names = sorted(path.parent.name for path in Path(root).glob("*/ref.png"))
    if not names:
        raise DataNotFound(
            f"no SEQUENCE/ref.png in {root}; unpack the HPatches patch release there, or `hpatches_cutting.cut` one."
        )
    return names


def splits(root: str | Path) -> dict[str, list[str]]:
    """The splits whose test sequences are all there: full, illum, view from the names, a, b, c as published."""
    names = sequences(root)
    official = {split: sorted(tests.split()) for split, tests in _TESTS.items()}
    found = {
        "full": names,
        "illum": [name for name in names if name.startswith("i_")],
        "view": [name for name in names if name.startswith("v_")],
        **{split: tests for split, tests in official.items() if set(tests) <= set(names)},
    }
    return {split: tests for split, tests in found.items() if tests}


def split(root: str | Path, name: str) -> list[str]:
    """The test sequences of one split, or a sentence that says which are missing."""
    there = splits(root)
    if name in _TESTS and name not in there:
        missing = sorted(set(_TESTS[name].split()) - set(there["full"]))
        raise DataNotFound(
            f"split {name} tests on 40 sequences, of which {len(missing)} are not in {root} "
            f"({', '.join(missing[:3])} ...); choose {' or '.join(there)}."
        )
    return choose(there, name, "split")


def load(root: str | Path, sequence: str) -> dict[str, Array]:
    """The 16 stacks of one sequence: ref, e1 ... t5, each (N, 65, 65) uint8."""
    folder = Path(root) / sequence
    missing = [name for name in COLUMNS if not (folder / f"{name}.png").exists()]
    if missing:
        raise DataNotFound(f"no {', '.join(missing)} (.png) in {folder}; a sequence has 16 stacks, so unpack it again.")
    stacks = {name: _stack(folder / f"{name}.png") for name in COLUMNS}
    for name, stack in stacks.items():
        if len(stack) != len(stacks["ref"]):
            raise BadData(f"{folder / name}.png holds {len(stack)} patches, but ref.png {len(stacks['ref'])}.")
    return stacks


def _stack(path: Path) -> Array:
    stack = read(path)
    height, width = stack.shape
    if width != SIDE or height % SIDE:
        raise BadData(f"{path} is {width} x {height} pixels; a stack is {SIDE} wide and a multiple of {SIDE} tall.")
    return stack.reshape(-1, SIDE, SIDE)

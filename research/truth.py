"""The pairs that a matcher is judged on: those of the choosing scenes on whose pose two models agree, and strangers.

    python -m research.truth OURS SIFT      folders that research.scenes made, by hynet and by sift

Writes beside this file:
    choosing_pairs.csv     pairs whose pose in our model is that of COLMAP's SIFT model: truth that is not ours alone
    hard_pairs.csv         of these the pairs with few common points and parallax
    different_places.csv   pairs that have nothing in common
    truth.md               how many there are, and how many were dropped
A pose is the rotation (a quaternion) and direction of translation from a's camera to b's; cameras are in cameras.csv.
"""

from __future__ import annotations

import argparse
import csv
import zlib
from collections import Counter
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pycolmap

from .geometry import Array, Pair, Scene, between, load, pairs, relative, turn
from .scenes import apart

HERE = Path(__file__).parent
LEAST = 10  # common points of a pair that is asked for
ROTATION, DIRECTION = 1.0, 2.0  # degrees that the two models may differ by
BOUNDS = ((15, 60), (10, 100))  # common points of a hard pair; the second if the first gives too few
PARALLAX = 4.0  # degrees at least, median
ENOUGH, SCENES, MOST = 300, 10, 60  # hard pairs, scenes they come from, pairs of one scene
TWICE = "bundler_et"  # the photos of imc25_et, turned: counted once, and no different place
FIGURES = {"imc25_et", "imc25_another_et"}  # two that look alike
STRANGERS = 12  # pairs of two scenes; of scenes that look alike all


@dataclass(frozen=True)
class Known:
    """A pair with its pose, and by how much the other model differs."""

    scene: str
    pair: Pair
    R: Array
    direction: Array
    rotation_off: float  # degrees
    direction_off: float


def compared(ours: Scene, others: list[Scene]) -> tuple[list[Known], int]:
    """The pairs whose photos are together in one of the other models, and the number of those that are in none."""
    found, missing = [], 0
    for pair in pairs(ours, LEAST):
        other = next((model for model in others if pair.a in model.photos and pair.b in model.photos), None)
        if other is None:
            missing += 1
            continue
        R, t = relative(ours.photos[pair.a], ours.photos[pair.b])
        other_R, other_t = relative(other.photos[pair.a], other.photos[pair.b])
        direction = t / np.linalg.norm(t)
        found.append(Known(ours.name, pair, R, direction, turn(R.T @ other_R), between(direction, other_t)))
    return found, missing


def every_model(folder: Path) -> list[Scene]:
    """The largest model of a folder and the smaller ones in it."""
    return [
        load(file.parent) for file in sorted(folder.glob("**/images.bin"), key=lambda file: (len(file.parts), file))
    ]


def agrees(known: Known) -> bool:
    return known.rotation_off < ROTATION and known.direction_off < DIRECTION


def hard(agreed: list[Known], least: int, most: int) -> list[Known]:
    """Few common points, some parallax; of each scene a fixed draw of at most MOST, in order.

    Within the narrow bounds first: what they allow is in the draw by the wide ones, too.
    """
    drawn = []
    for scene in sorted({known.scene for known in agreed} - {TWICE}):
        fit = [known for known in agreed if known.scene == scene and known.pair.angle > PARALLAX]
        fit = [known for known in fit if least <= known.pair.shared <= most]
        order = drawing(scene).permutation(len(fit))
        taken = sorted(order, key=lambda k: not BOUNDS[0][0] <= fit[k].pair.shared <= BOUNDS[0][1])[:MOST]
        drawn += [fit[k] for k in sorted(taken)]
    return drawn


def drawing(name: str) -> np.random.Generator:
    """Draws that depend on nothing but a name, so that another scene changes none of them."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def strangers(photos: dict[str, list[str]]) -> list[tuple[str, str, str, str, str]]:
    """Scene, photo, scene, photo, and what they have in common if they look alike: figures, facades."""
    rows = []
    for one, two in combinations(sorted(set(photos) - {TWICE}), 2):
        every = list(product(photos[one], photos[two]))
        alike = "figures" if {one, two} == FIGURES else "facades" if one[:5] == two[:5] == "tmbud" else ""
        some = range(len(every)) if alike else sorted(drawing(f"{one} {two}").permutation(len(every))[:STRANGERS])
        rows += [(one, every[k][0], two, every[k][1], alike) for k in some]
    return rows


HEAD = [
    *("scene", "a", "b", "shared", "angle", "qw", "qx", "qy", "qz", "tx", "ty", "tz"),
    *("rotation_off", "direction_off"),
]


def line(known: Known) -> list:
    x, y, z, w = pycolmap.Rotation3d(known.R).quat
    pose = [f"{value:.7f}" for value in (w, x, y, z, *known.direction)]
    off = [f"{known.rotation_off:.2f}", f"{known.direction_off:.2f}"]
    return [known.scene, known.pair.a, known.pair.b, known.pair.shared, f"{known.pair.angle:.1f}", *pose, *off]


def write(file: Path, head: list[str], rows: list) -> None:
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)


def make(ours: Path, sift: Path, out: Path) -> None:
    """All files, of the scenes that are there."""
    counts, agreed, photos = {}, [], {}
    for name in sorted(apart()):
        if not (ours / name / "images.bin").exists():
            continue
        scene = load(ours / name)
        photos[name] = list(scene.photos)
        found, missing = compared(scene, every_model(sift / name))
        kept = [known for known in found if agrees(known)]
        agreed += kept
        counts[name] = (len(found) + missing, missing, len(found) - len(kept), len(kept))
    tries = [hard(agreed, *bounds) for bounds in BOUNDS]
    chosen = 0 if len(tries[0]) >= ENOUGH and len({known.scene for known in tries[0]}) >= SCENES else 1
    different = strangers(photos)
    write(out / "choosing_pairs.csv", HEAD, [line(known) for known in agreed])
    write(out / "hard_pairs.csv", HEAD, [line(known) for known in tries[chosen]])
    write(out / "different_places.csv", ["scene_a", "a", "scene_b", "b", "alike"], different)
    (out / "truth.md").write_text(page(counts, tries, chosen, Counter(alike for *_, alike in different)))


def page(counts: dict, tries: list[list[Known]], chosen: int, different: Counter) -> str:
    lines = [
        "# Pairs to judge a matcher on",
        "",
        "Written by `python -m research.truth`.",
        "",
        f"Kept are pairs sharing at least {LEAST} triangulated points of our model whose pose is that of COLMAP's own",
        f"SIFT model within {ROTATION:g}° of rotation and {DIRECTION:g}° of direction. {TWICE} has the photos of",
        "imc25_et, turned; it is in no other list.",
        "",
        "| scene | pairs | not in one model of SIFT | disagree | kept | hard |",
        "|---|---|---|---|---|---|",
    ]
    of_scene = Counter(known.scene for known in tries[chosen])
    for name, row in counts.items():
        lines.append(f"| {name} | " + " | ".join(f"{value:,}" for value in row) + f" | {of_scene[name]} |")
    total = [sum(column) for column in zip(*counts.values(), strict=True)]
    lines += [
        "| all | " + " | ".join(f"{value:,}" for value in total) + f" | {len(tries[chosen])} |",
        "",
        "Hard pairs:",
    ]
    for (least, most), drawn in zip(BOUNDS, tries, strict=True):
        scenes = len({known.scene for known in drawn})
        used = "used" if drawn is tries[chosen] else "not used"
        lines.append(f"- {least} to {most} common points: {len(drawn)} pairs of {scenes} scenes, {used}")
    lines += [
        "",
        f"all with a median angle over {PARALLAX:g}° and at most {MOST} of a scene.",
        "",
        f"Different places: {different.total():,} pairs; {different['figures']} of two figures that look alike,",
        f"{different['facades']} of facades of one town, {different['']:,} others.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=Path)
    parser.add_argument("sift", type=Path)
    asked = parser.parse_args()
    for folder in (asked.ours, asked.sift):
        if not any((folder / name / "images.bin").exists() for name in apart()):
            parser.error(f"{folder} has no model of a choosing scene; research.scenes makes them.")
    make(asked.ours, asked.sift, HERE)

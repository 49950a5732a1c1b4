"""Every table of docs/results.md, from photos and published weights.

Usage: python research/results.py PATH/TO/data/eval PATH/TO/weights OUT                  runs what is not there yet
       python research/results.py PATH/TO/data/eval PATH/TO/weights OUT --only imc eth   runs these, again if need be
       python research/results.py PATH/TO/data/eval PATH/TO/weights OUT --page docs/results.md    writes the page
       python research/results.py PATH/TO/data/eval PATH/TO/weights OUT --readme README.md        fills its table

OUT gets links `data` and `weights`, in which the commands run as the page shows them, and a folder per table. What is
described is cached, so a run that was killed goes on. `data` only reports: nothing is chosen by these numbers.
Milliseconds come from research/milliseconds.py, to be run on a quiet machine; its file is OUT/milliseconds.json.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rivals import BASELINES, OPENCV, OURS, PATCH_NETWORKS, POSES, WHOLE, weights

from hynet.evaluation.results import shown
from hynet.runtime.files import atomic_write
from hynet.types import Table

PATCHES = ",".join([*OURS, *BASELINES, *OPENCV, "boostdesc", "daisy", *weights(PATCH_NETWORKS)])
FEW = ",".join(["default-float", "keynet+default-float", "rootsift", *weights(["hardtfeat.pth", "DesDis-32.pth"])])
# The rows of README.md's table: what each is called there, and what it needs beyond `pip install hynet-features`.
FEW_TO_CHOOSE_FROM = {
    "default": ("hynet `default`", ""),
    "default-float": ("hynet `default-float`", ""),
    "light": ("hynet `light`", ""),
    "commercial": ("hynet `commercial`", ""),
    "opencv-rootsift": ("SIFT (OpenCV's, RootSIFT)", ""),
    "rootsift": ("RootSIFT, on our keypoints", ""),
    "weights/hardtfeat.pth": ("HardTFeat, on our keypoints", "its weights, torch"),
    "weights/DesDis-32.pth": ("DesDis-32, on our keypoints", "its weights, torch"),
    "weights/xfeat_n4m.onnx": ("XFeat", "its weights"),
    "weights/xfeat_n4m.onnx+weights/lighterglue_L3.onnx": ("XFeat + LighterGlue", "their weights"),
    "weights/aliked-n16.pth": ("ALIKED-N16", "its weights, torch, kornia"),
}
VALIDATION = "patches data/photos/* --out val --hard-share 1 --max-keypoints 8000"


@dataclass(frozen=True)
class Study:
    """One table of the page."""

    heading: str
    about: str
    command: str  # of `hynet`, run in OUT
    file: str  # that the command writes, without its ending


STUDIES = {
    "ubc": Study(
        "Patches: FPR@95",
        f"Patches that `hynet {VALIDATION}` cuts from 14 scenes, and the pairs that SIFT's matching missed. `default` "
        "was chosen with the help of such patches of 12 of these scenes, so these numbers are not a test of it.",
        f"evaluate ubc --model {PATCHES} --data val --against rootsift",
        "ubc",
    ),
    "hpatches": Study(
        "Patches: verification, matching, retrieval",
        "Cut from ten image sequences (eight of Oxford's affine set, HPatches' v_churchill and v_wormhole) by the "
        "recipe of the HPatches release ([Benchmarks](benchmarks.md)).",
        f"evaluate hpatches --model {PATCHES} --data data/homography",
        "hpatches",
    ),
    "homography": Study(
        "Photos of planes",
        "The same ten sequences, end to end, as `hynet match --geometry homography` does it.",
        f"evaluate homography --model {','.join(WHOLE)} --data data/homography",
        "homography",
    ),
    "imc": Study(
        "Poses of two photos, the Image Matching Challenge",
        "Ten photos of its scene sacre_coeur and nine of st_peters_square: a small part of its validation scenes. By "
        "today's weights, refined, with elliptic regions and fitted as `hynet match` does.",
        f"evaluate imc --seeds 5 --model {','.join(POSES)} --data data/imc",
        "imc",
    ),
    "multiview": Study(
        "Poses of many photos, the Image Matching Challenge",
        "The same photos, in bags that are reconstructed.",
        f"evaluate imc --task multiview --bags 10 --model {','.join(POSES)} --data data/imc",
        "imc-multiview",
    ),
    "strecha": Study(
        "Poses, two small scenes with surveyed cameras",
        "Strecha's fountain-P11 and Herz-Jesus-P8 at half size.",
        f"evaluate imc --model {','.join(POSES)} --data data/strecha",
        "imc",
    ),
    "eth": Study(
        "Reconstructions, the ETH benchmark's own protocol",
        "The same two scenes at half size, so with fewer points than at full size.",
        f"evaluate eth --model {FEW} --data data/strecha",
        "eth",
    ),
    "eth-ours": Study(
        "Reconstructions, our protocol",
        "The same, with the true camera and one robust adjustment at the end.",
        f"evaluate eth --protocol ours --model {FEW} --data data/strecha",
        "eth",
    ),
}

HEAD = """# Results

Made by `python research/results.py DATA WEIGHTS OUT --page docs/results.md`; every table is what the commands under it
printed, in a folder where `data` holds real photos that were never trained on (ten planar sequences, 14 scenes for
patches, 19 photos of two scenes of the challenge, 19 of Strecha's) and `weights` the published weights of others
(TFeat, HardTFeat, DesDis, MKD, ALIKED, XFeat, LighterGlue). Nothing is chosen by these numbers. `random` and
`constant` know nothing: a protocol that likes them is broken. The paper's numbers stand in a table only where the data
is the paper's, else in a note under it. The command under a table says which rows were run.

"Which to choose", "Photos of planes" and "Poses of two photos" are of today's weights and of what `hynet match` does.
The other tables are older: their `default` and `default-float` are the weights that shipped first, regions are round,
matches where they were detected, and models as the mapper left them. Of `default` and `commercial` the
[cards](cards.md) have today's figures on patches.

What is missing: the real PhotoTour and HPatches releases, the challenge's whole scenes and the ETH benchmark's photos
at full size are not on this machine. `hynet evaluate` reads all of them.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=[*STUDIES], default=[])
    parser.add_argument("--page", type=Path)
    parser.add_argument("--readme", type=Path)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, target in (("data", asked.data), ("weights", asked.weights)):
        if not (asked.out / name).exists():
            (asked.out / name).symlink_to(target.resolve())
    if asked.page is not None:
        with atomic_write(asked.page) as file:
            file.write_text(page(asked.out))
    if asked.readme is not None:
        filled = with_choice(asked.readme.read_text(), asked.out)
        with atomic_write(asked.readme) as file:
            file.write_text(filled)
    if asked.page is not None or asked.readme is not None:
        return
    for name, study in STUDIES.items():
        if name in asked.only or (not asked.only and not (asked.out / name / f"{study.file}.json").exists()):
            if name == "ubc" and not (asked.out / "val" / "info.txt").exists():
                hynet(asked.out, VALIDATION)
            hynet(asked.out, f"{study.command} --out {name}")


def hynet(folder: Path, command: str) -> None:
    print(f"hynet {command}", flush=True)
    words = [word for part in shlex.split(command) for word in (_matching(folder, part) if "*" in part else [part])]
    subprocess.run([sys.executable, "-m", "hynet", *words], cwd=folder, check=True)


def _matching(folder: Path, pattern: str) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))


def page(out: Path) -> str:
    """What is there, in the order of STUDIES, the choice of a method first."""
    parts = [HEAD.rstrip()]
    parts += [part for part in [choice(out)] if part]
    for name, study in STUDIES.items():
        written = out / name / f"{study.file}.md"
        if written.exists():
            table, _, _ = written.read_text().partition("\n\n![")  # the pictures stay where they were drawn
            parts.append(f"## {study.heading}\n{study.about}\n\n{table.strip()}")
    return "\n\n".join(parts) + "\n"


def choice(out: Path) -> str:
    """Accuracy and time of each whole method in one table, once both were measured."""
    cells = compared(out)
    if not cells:
        return ""
    names = shown(WHOLE)
    rows = {names[method]: row for method, row in cells.items()}
    columns = list(next(iter(rows.values())))
    timed = "ms per photo" in columns
    title = "Accuracy in %, and milliseconds on one core" if timed else "Accuracy in %"
    table = Table(title, columns, rows, formats=dict.fromkeys(columns, ".1f"))
    note = (
        "Accuracies are columns of the tables below. Times: `python research/milliseconds.py data/imc weights "
        "milliseconds.json`, 2,048 keypoints per photo; a photo is read, its keypoints found and described; XFeat's "
        "time includes the selection of its keypoints."
    )
    if not timed:
        note = "Accuracies are columns of the tables below; [Performance](performance.md) has times."
    return f"## Which to choose\n{table.markdown()}\n\n{note}"


def compared(out: Path) -> dict[str, dict[str, float | None]]:
    """Method -> column -> number, None where it is not measured; empty where a benchmark has not been run.

    A column that nothing was measured for is left out.
    """
    files = {name: out / name / f"{STUDIES[name].file}.json" for name in ("imc", "multiview", "homography")}
    if not (files["imc"].exists() and files["homography"].exists()):
        return {}
    rows = {name: json.loads(path.read_text())["rows"] if path.exists() else {} for name, path in files.items()}
    clock = out / "milliseconds.json"
    times = json.loads(clock.read_text())["rows"] if clock.exists() else {}
    cells = {}
    for method in [method for method in WHOLE if any(method in own for own in rows.values())]:
        planes, time = rows["homography"].get(method, {}), times.get(method, {})
        cells[method] = {
            "stereo": rows["imc"].get(method, {}).get("maa10"),
            "multiview": rows["multiview"].get(method, {}).get("maa10"),
            "planes mma3": planes.get("mma3"),
            "planes auc5": planes.get("auc5"),
            "ms per photo": time.get("extract"),
            "ms per pair": time.get("match"),
        }
    measured = {column for row in cells.values() for column, value in row.items() if value is not None}
    return {method: {column: row[column] for column in row if column in measured} for method, row in cells.items()}


def with_choice(readme: str, out: Path) -> str:
    """README.md with its table of a few well-known methods filled in."""
    cells = compared(out)
    if not cells:
        sys.exit(f"{out} has no results of imc and homography yet; run this without --readme first.")
    columns = list(next(iter(cells.values())))
    lines = [f"| | {' | '.join(columns)} | needs |", "|---" * (len(columns) + 2) + "|"]
    for method, (name, needs) in ((method, told) for method, told in FEW_TO_CHOOSE_FROM.items() if method in cells):
        numbers = ["-" if value is None else f"{value:.1f}" for value in cells[method].values()]
        lines.append(f"| {name} | {' | '.join(numbers)} | {needs} |")
    before, rest = readme.split("<!-- choice -->")
    _, after = rest.split("<!-- /choice -->")
    return "\n".join([f"{before}<!-- choice -->", *lines, f"<!-- /choice -->{after}"])


if __name__ == "__main__":
    main()

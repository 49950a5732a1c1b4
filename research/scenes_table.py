"""Counts what the reconstructions hold: a page, and the tables from which the next session can go on without them.

    python -m research.scenes_table DATA OUT

Writes scenes.md, scenes.csv, cameras.csv and pairs.csv beside this file, from what research.scenes made in OUT.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pycolmap

from .geometry import Pair, Scene, load, pairs
from .scenes import apart, ordered

HERE = Path(__file__).parent
SPLIT = 0.25  # share of photos: with more of them unregistered a scene counts as split, even if they form no model


def models(folder: Path) -> list[int]:
    """Registered photos of each model that COLMAP's mapper finds in the matches of a scene, the largest first.

    `hynet reconstruct` keeps the largest only. Remembered in a file, since mapping takes as long as it took.
    """
    known = folder / "models.json"
    if not known.exists():
        pycolmap.set_random_seed(0)
        pycolmap.logging.minloglevel = pycolmap.logging.Level.WARNING.value
        options = pycolmap.IncrementalPipelineOptions()
        options.extract_colors, options.min_model_size, options.max_num_models = False, 3, 10
        options.num_threads = 1
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            shutil.copy(folder / "database.db", scratch)
            found = pycolmap.incremental_mapping(Path(scratch) / "database.db", scratch, scratch, options)
        known.write_text(json.dumps(sorted((model.num_reg_images() for model in found.values()), reverse=True)))
    return json.loads(known.read_text())


def describe(data: Path, out: Path, name: str) -> tuple[dict, Scene | None, list[Pair]]:
    """A row of the table, the scene and its pairs."""
    photos = len([file for file in (data / name).iterdir() if file.is_file()])
    kind = "choosing" if name in apart() else "training"
    row = {"scene": name, "for": kind, "photos": photos, "registered": 0, "models": 0, "points": 0, "orientation": ""}
    if not (out / name / "images.bin").exists():
        return row | counts([]), None, []
    scene = load(out / name)
    found = pairs(scene)
    left = photos - len(scene.photos)
    row |= {
        "registered": len(scene.photos),
        "models": len(models(out / name)) if left >= 3 else 1,
        "points": len(scene.xyz),
        "orientation": orientation(out / name / "features.h5"),
    }
    return row | counts(found), scene, found


def orientation(features: Path) -> str:
    with h5py.File(features) as file:
        return json.loads(file.attrs["settings"])["orientation"]


def counts(found: list[Pair]) -> dict:
    """Pairs that share 15 points, by share of the common points and by angle; and those that share fewer."""
    share = np.array([pair.share for pair in found if pair.shared >= 15])
    angle = np.array([pair.angle for pair in found if pair.shared >= 15])
    return {
        "pairs": len(share),
        "share under 10%": int((share < 0.1).sum()),
        "10 to 30%": int(((share >= 0.1) & (share < 0.3)).sum()),
        "over 30%": int((share >= 0.3).sum()),
        "angle under 4": int((angle < 4).sum()),
        "4 to 15": int(((angle >= 4) & (angle < 15)).sum()),
        "15 to 30": int(((angle >= 15) & (angle < 30)).sum()),
        "over 30": int((angle >= 30).sum()),
        "fewer points": len(found) - len(share),
    }


def is_split(row: dict) -> bool:
    return row["models"] != 1 or row["registered"] < (1 - SPLIT) * row["photos"]


def table(data: Path, out: Path) -> None:
    rows, cameras, all_pairs = [], [], []
    for name in sorted(ordered(data)):
        if (out / ".logs" / f"{name}.done").exists():
            row, scene, found = describe(data, out, name)
            rows.append(row)
            if scene:
                cameras += camera_rows(scene)
                number = {photo: k for k, photo in enumerate(scene.photos)}
                all_pairs += [[name, number[p.a], number[p.b], p.shared, f"{p.angle:.1f}"] for p in found]
    write(HERE / "scenes.csv", list(rows[0]), [list(row.values()) for row in rows])
    write(HERE / "cameras.csv", CAMERA, cameras)
    write(HERE / "pairs.csv", ["scene", "a", "b", "shared", "angle"], all_pairs)
    (HERE / "scenes.md").write_text(page(rows, len(ordered(data))))


CAMERA = ["scene", "photo", "model", "width", "height", "parameters", "qw", "qx", "qy", "qz", "tx", "ty", "tz"]


def camera_rows(scene: Scene) -> list[list]:
    rows = []
    for photo in scene.photos.values():
        camera = photo.camera
        parameters = " ".join(f"{value:.8g}" for value in camera.params)
        x, y, z, w = pycolmap.Rotation3d(photo.R).quat
        pose = [f"{value:.8g}" for value in (w, x, y, z, *photo.t)]
        rows.append([scene.name, photo.name, camera.model.name, camera.width, camera.height, parameters, *pose])
    return rows


def write(file: Path, head: list[str], rows: list[list]) -> None:
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)


def page(rows: list[dict], asked: int) -> str:
    split = [row for row in rows if is_split(row)]
    total = {key: sum(row[key] for row in rows) for key in rows[0] if isinstance(rows[0][key], int)}
    lines = [
        "# Reconstructed scenes",
        "",
        "Written by `python -m research.scenes_table`. Each scene is in scenes.csv, its cameras in cameras.csv,",
        "its pairs in pairs.csv, where a and b count the scene's photos in cameras.csv from 0.",
        "",
        f"{len(rows)} of {asked} scenes: {total['registered']:,} of {total['photos']:,} photos registered,",
        f"{total['points']:,} points; {total['pairs']:,} pairs share 15 points, {total['fewer points']:,} fewer.",
        "",
        "| pairs that share 15 points or more | training | choosing |",
        "|---|---|---|",
    ]
    for key in ("pairs", *list(counts([]))[1:-1]):
        sums = [sum(row[key] for row in rows if row["for"] == kind) for kind in ("training", "choosing")]
        lines.append(f"| {key}{'°' if key[-1].isdigit() else ''} | {sums[0]:,} | {sums[1]:,} |")
    lines += [
        "",
        "Shares are of the points of the photo that sees fewer; angles are medians between the two rays to a point.",
        "",
        f"## Scenes that split: {len(split)}",
        f"More than one model, or more than {SPLIT:.0%} of the photos in none.",
        "",
        "| scene | for | photos | registered | models | points | pairs |",
        "|---|---|---|---|---|---|---|",
        *(
            "| " + " | ".join(str(row[key]) for key in list(row)[:6]) + f" | {row['pairs']} |"
            for row in sorted(split, key=lambda row: row["registered"] / row["photos"])
        ),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    if not asked.data.is_dir() or not any(asked.out.glob(".logs/*.done")):
        parser.error(f"{asked.data} has no scenes, or {asked.out} none that research.scenes made.")
    table(asked.data, asked.out)

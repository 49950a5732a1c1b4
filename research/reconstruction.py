"""Our reconstructions beside those of pycolmap's own SIFT, from as many keypoints: the table in docs/reconstruction.md.

Usage: python research/reconstruction.py OUT FOLDER... [--model default] [--keypoints 2048] [--rendered]

Each folder is a scene, its photos in it or in its folder images; --rendered adds the scene of `python -m bench
reconstruct`. COLMAP counts places: one with two orientations gives two keypoints, so it delivers some 40% more than
asked for. So there are two rows of ours: with the number asked for, and with as many as COLMAP delivered. Run again, it
goes on; then it prints the table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import cv2
import numpy as np

from bench.reconstruct import LONGEST_SIDE, PHOTOS
from hynet.datasets import synthetic
from hynet.features.settings import FeatureSettings
from hynet.runtime.files import atomic_write
from hynet.sfm import colmap
from hynet.sfm.colmap import NotReconstructed
from hynet.sfm.colmap.programs import extract_sift, match_sift
from hynet.sfm.mapping import Reconstructed
from hynet.sfm.reconstruct import reconstruct

COLUMNS = ("registered", "points", "observations", "track_length", "reprojection_error")


def by_colmap(photos: Path, out: Path, keypoints: int) -> Reconstructed:
    """As COLMAP's own commands do it, no adjustment of ours."""
    database = out / "database.db"
    database.unlink(missing_ok=True)
    with colmap.opened(database):
        pass  # made empty
    extract_sift(database, photos, keypoints)
    match_sift(database)
    model = colmap.as_arrays(colmap.map_photos(database))
    funnel = colmap.read_funnel(database)
    return Reconstructed.of(model, funnel, out, len(funnel.keypoints))


def rows(photos: Path, out: Path, model: str, keypoints: int) -> Iterator[tuple[str, dict]]:
    """Name, and what was reconstructed by it; empty: nothing."""
    sift = remembered(out / f"sift-{keypoints}", lambda folder: by_colmap(photos, folder, keypoints))
    delivered = int(np.mean(list(colmap.read_funnel(out / f"sift-{keypoints}" / "database.db").keypoints.values())))
    yield f"pycolmap's SIFT, {keypoints:,} asked for: {delivered:,}", sift
    for count in (keypoints, delivered):
        settings = FeatureSettings(model=model, max_keypoints=count)
        ours = remembered(
            out / f"{model}-{count}", lambda folder, s=settings: reconstruct(photos, folder / "model", settings=s)
        )
        yield f"{model}, {count:,}", ours


def remembered(folder: Path, make) -> dict:
    file = folder / "counts.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            made = asdict(make(folder))
        except NotReconstructed:
            made = {}
        with atomic_write(file) as temporary:
            temporary.write_text(json.dumps(made))
    return json.loads(file.read_text())


def render(folder: Path) -> Path:
    if not folder.exists():
        views = synthetic.scene(seed=1, photos=PHOTOS, size=(LONGEST_SIDE, LONGEST_SIDE * 3 // 4)).photos
        half = folder.with_name(folder.name + ".part")
        half.mkdir(parents=True, exist_ok=True)
        for number, view in enumerate(views):
            cv2.imwrite(str(half / f"{number:02}.jpg"), view, [cv2.IMWRITE_JPEG_QUALITY, 95])
        half.rename(folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--model", default="default")
    parser.add_argument("--keypoints", type=int, default=2048)
    parser.add_argument("--rendered", action="store_true")
    asked = parser.parse_args()
    scenes = {folder.name: folder / "images" if (folder / "images").is_dir() else folder for folder in asked.folders}
    if asked.rendered:
        scenes["rendered"] = render(asked.out / "photos")
    print("| scene | keypoints a photo | registered | points | observations | track length | error, px |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for scene, photos in scenes.items():
        for name, made in rows(photos, asked.out / scene, asked.model, asked.keypoints):
            shown = ["{:,}", "{:,}", "{:,}", "{:.2f}", "{:.2f}"]
            cells = [form.format(made[key]) for form, key in zip(shown, COLUMNS, strict=True)] if made else ["none"] * 5
            print(f"| {scene} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

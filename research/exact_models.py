"""What aligning the photos of every point brings to a model: reprojection errors, and cameras beside the truth.

Usage: python research/exact_models.py OUT FOLDER... [--model light]

A folder of photos is reconstructed twice from the same matches, with and without `refine`. Where it holds cameras in
Strecha's or the challenge's layout (`hynet evaluate imc`), the cameras of both models are compared with them: median
and largest angle in degrees, and median distance in thousandths of the extent of the cameras.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import hynet
from hynet.datasets import scenes
from hynet.errors import DataNotFound
from hynet.features.settings import FeatureSettings
from hynet.sfm import colmap
from hynet.sfm.camera_errors import camera_errors, centres
from hynet.sfm.colmap.reading import read_model
from hynet.sfm.reconstruct import KEYPOINTS
from hynet.types import Array


def true_poses(folder: Path) -> dict[str, Array]:
    """File name -> cam_from_world (3, 4), of the photos whose camera is known."""
    try:
        (scene,) = scenes.load(folder)
    except DataNotFound:
        return {}
    poses = {view.photo.name: view.cam_from_world for view in scene.views.values()}
    return {name: np.column_stack([pose.rotation, pose.translation]) for name, pose in poses.items()}


def beside_the_truth(model: colmap.Model, truth: dict[str, Array]) -> str:
    known = [photo for photo in model.photos if Path(photo.name).name in truth]
    if len(known) < 3:
        return " | ".join(["-"] * 3)
    true = np.stack([truth[Path(photo.name).name] for photo in known])
    degrees, apart = camera_errors(np.stack([photo.cam_from_world for photo in known]), true)
    extent = np.linalg.norm(np.ptp(centres(true), axis=0))
    return f"{np.median(degrees):.4f} | {degrees.max():.4f} | {1000 * np.median(apart) / extent:.3f}"


def main(out: Path, folders: list[Path], model: str) -> None:
    print("| scene | refined | photos | points | track length | error, px | degrees, median | largest | distance |")
    print("|---|---|---|---|---|---|---|---|---|")
    settings = FeatureSettings(model=model, max_keypoints=KEYPOINTS)
    for folder in folders:
        for refine in (False, True):
            made = hynet.reconstruct(folder, out / folder.name, settings=settings, refine=refine)
            told = f"{made.registered} of {made.photos} | {made.points} | {made.track_length:.2f}"
            compared = beside_the_truth(read_model(made.model), true_poses(folder))
            refined = "yes" if refine else "no"
            print(f"| {folder.name} | {refined} | {told} | {made.reprojection_error:.3f} | {compared} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--model", default="light")
    main(**vars(parser.parse_args()))

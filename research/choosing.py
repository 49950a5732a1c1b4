"""The scenes set aside for choosing -> pairs of photos with known geometry, in the challenge's layout.

Usage: python research/choosing.py PATH/TO/data/train OUT
       hynet evaluate imc --data OUT/stereo --model default,rootsift

Each scene of scenes_for_choosing.txt is reconstructed by our own features, undistorted, and written as
OUT/stereo/SCENE/{images,ground_truth,keys-th-0.1.npy}. The cameras are as good as structure from motion makes them:
fine for choosing between settings, not a published truth. Scenes that join too few photos are left out and named.
"""

from __future__ import annotations

import argparse
import shutil
from itertools import combinations
from pathlib import Path

import h5py
import numpy as np

import hynet
from hynet.features.settings import FeatureSettings
from hynet.sfm import colmap
from hynet.sfm.colmap.reading import read_model

SCENES = Path(__file__).with_name("scenes_for_choosing.txt")
KEYPOINTS = 4096
LEAST_PHOTOS = 6
COVISIBLE = 0.1  # of the points of the photo that sees fewer, as the challenge's list keys-th-0.1
MOST_PHOTOS = 16  # of a scene: many pairs of few photos, since describing photos is what a comparison waits for
MOST_PAIRS = 48  # of a scene, so that no scene outweighs the others
FOCALS = (0.4, 5.0)  # of the longer side: outside, self-calibration went astray


def scenes() -> list[str]:
    lines = (line.partition("#")[0].strip() for line in SCENES.read_text().splitlines())
    return [line for line in lines if line]


def write_scene(photos: Path, model: Path, out: Path) -> int:
    """One scene in the challenge's layout; the number of its pairs, 0 where it cannot be used."""
    work = out.with_name(f".{out.name}-undistorted")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    colmap.pycolmap().undistort_images(work, model, photos)
    found = read_model(work / "sparse")
    sound = [photo for photo in found.photos if FOCALS[0] < photo.camera.K[0, 0] / max(photo.camera.size) < FOCALS[1]]
    random = np.random.default_rng(0)
    sound = [sound[k] for k in sorted(random.permutation(len(sound))[:MOST_PHOTOS])]
    seen = {photo.name: set(photo.points[photo.points >= 0].tolist()) for photo in sound}
    shared = {
        (a, b): len(seen[a] & seen[b]) / max(1, min(len(seen[a]), len(seen[b]))) for a, b in combinations(seen, 2)
    }
    pairs = sorted(pair for pair, share in shared.items() if share >= COVISIBLE)
    if len(sound) < LEAST_PHOTOS or not pairs:
        shutil.rmtree(work)
        return 0
    chosen = sorted(random.choice(len(pairs), min(MOST_PAIRS, len(pairs)), replace=False).tolist())
    stems = {photo.name: Path(photo.name).stem.replace("-", "_") for photo in sound}
    truth = out / "ground_truth"
    truth.mkdir(parents=True)
    (out / "images").mkdir()
    for photo in sound:
        shutil.copy(work / "images" / photo.name, out / "images" / f"{stems[photo.name]}{Path(photo.name).suffix}")
        with h5py.File(truth / f"calibration_{stems[photo.name]}.h5", "w") as file:
            file["K"] = photo.camera.K
            file["R"] = photo.cam_from_world[:, :3]
            file["T"] = photo.cam_from_world[:, 3]
    np.save(out / "keys-th-0.1.npy", [f"{stems[pairs[k][0]]}-{stems[pairs[k][1]]}" for k in chosen])
    shutil.rmtree(work)
    return len(chosen)


def main(train: Path, out: Path) -> None:
    for name in scenes():
        scene = out / "stereo" / name
        if scene.exists():
            continue
        settings = FeatureSettings(model="default", max_keypoints=KEYPOINTS)
        try:
            made = hynet.reconstruct(train / name, out / "models" / name, settings=settings)
            pairs = write_scene(train / name, out / "models" / name, scene)
        except hynet.HynetError as error:
            print(f"{name}: left out, {error}", flush=True)
            continue
        print(f"{name}: {made.registered} of {made.photos} photos, {pairs} pairs", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("out", type=Path)
    main(**vars(parser.parse_args()))

"""Records what the commands give on small data as hashes, to compare before and after a change of the code.

    python -m research.record --out before.json      (before)
    python -m research.record --check before.json    (after; exit code 1 where anything differs)

Only the command line and `hynet.datasets` are used, so that the record survives a restructuring; timings, paths and
versions are left out. The last bits of floating-point numbers depend on the processor and on versions of libraries:
compare on one machine, in one environment.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cv2
import h5py
import numpy as np

from hynet.datasets import synthetic, ubc
from hynet.types import PatchPairs

VARYING = {"seconds", "picture", "model_path", "checkpoint", "patches_per_second", "out", "data"}
Record = dict[str, Any]


def hynet(*arguments: object) -> Record:
    """The JSON object that a command prints."""
    command = [sys.executable, "-m", "hynet", *map(str, arguments), "--json"]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command[2:])}: {ended.stderr.strip().splitlines()[-1]}")
    return json.loads(ended.stdout.strip().splitlines()[-1])


def digest(value: Any) -> str:
    """Sixteen characters that differ if an array, a text or a value of JSON differs."""
    if isinstance(value, np.ndarray):
        content = f"{value.dtype} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes()
    else:
        content = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def digests(prefix: str, values: Mapping[str, Any]) -> Record:
    """Hashes by name; whole numbers and short texts stay readable."""
    plain = {name: value for name, value in values.items() if name not in VARYING}
    return {
        f"{prefix}.{name}": value if isinstance(value, int | str | None) else digest(value)
        for name, value in plain.items()
    }


def file_digests(prefix: str, path: Path) -> Record:
    """Hashes of the datasets of an HDF5 file."""
    found: Record = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[f"{prefix}.{name}"] = digest(item[()] if item.dtype.hasobject else np.asarray(item))

    with h5py.File(path) as file:
        file.visititems(note)
    return found


def match(folder: Path) -> Record:
    """The example pair with what ships, and a made pair with other options."""
    example = hynet("match", "--out", folder / "example.png")
    first, second, _ = synthetic.photo_pair(3, (400, 300))
    a, b = save(folder / "a.png", first), save(folder / "b.png", second)
    options = ("--model", "light", "--max-keypoints", 500, "--geometry", "homography", "--orientation", "gradient")
    plane = hynet("match", a, b, *options, "--out", folder / "plane.png")
    rooted = hynet("match", a, b, "--model", "rootsift", "--ratio", 0.85, "--out", folder / "rooted.png")
    pictures = {name: cv2.imread(str(folder / f"{name}.png")) for name in ("example", "plane", "rooted")}
    record = digests("match.example", example) | digests("match.plane", plane) | digests("match.rooted", rooted)
    return record | digests("match.picture", pictures)


def extract(folder: Path) -> Record:
    """Features of three photos, and the matches of all their pairs."""
    photos = folder / "photos"
    for k in range(3):
        save(photos / f"{k}.png", synthetic.texture((320, 240), seed=k))
    hynet("extract", photos, "--max-keypoints", 300, "--out", folder / "default.h5")
    hynet("extract", photos, "--max-keypoints", 300, "--model", "rootsift", "--out", folder / "rootsift.h5")
    (folder / "pairs.txt").write_text("0.png 1.png\n0.png 2.png\n", encoding="utf-8")
    hynet("match", photos, "--pairs", folder / "pairs.txt", "--model", "rootsift", "--out", folder / "matches.h5")
    record = file_digests("extract.default", folder / "default.h5")
    record |= file_digests("extract.rootsift", folder / "rootsift.h5")
    return record | file_digests("match.pairs", folder / "matches.h5")


def reconstruct(folder: Path) -> Record:
    """A made scene of five photos; the counts and the features, as the mapper's last bits vary with its threads."""
    scene = synthetic.scene(seed=1, photos=5, size=(400, 300))
    for k, photo in enumerate(scene.photos):
        save(folder / "scene" / f"{k}.png", photo)
    given = ("--model", "rootsift", "--max-keypoints", 900)
    told = hynet("reconstruct", folder / "scene", *given, "--out", folder / "model")
    rounded = {name: round(value, 1) for name, value in told.items() if isinstance(value, float)}
    counts = {name: told[name] for name in ("registered", "photos", "points")}
    return digests("reconstruct", counts | rounded) | file_digests(
        "reconstruct.features", folder / "model" / "features.h5"
    )


def train(folder: Path) -> Record:
    """Twenty steps of two recipes: the weights, the log's losses and the validation."""
    import torch

    record: Record = {}
    sets = patch_set(folder / "train", 120, seed=1), patch_set(folder / "other", 60, seed=2)
    for recipe in ("hynet-cpu", "tfeat"):
        run = folder / f"run-{recipe}"
        length = ("--steps", 20, "--pairs-per-batch", 16, "--no-compiled", "--device", "cpu")
        told = hynet("train", recipe, "--data", sets[0], "--validate", sets[1], *length, "--out", run)
        content = torch.load(told["checkpoint"], weights_only=True)
        for kind in told.keys() & {"validation", "last_validation"}:  # by the path of a set
            told[kind] = {Path(name).name: error for name, error in told[kind].items()}
        weights = {name: value.numpy() for name, value in content["network"].items()}
        record |= digests(f"train.{recipe}.network", weights) | digests(f"train.{recipe}", told)
        record[f"train.{recipe}.keys"] = digest(sorted(content))
    return record


def evaluate(folder: Path) -> Record:
    """Tables of two benchmarks on tiny data."""
    pairs = patch_set(folder / "liberty", 80, seed=5)
    record = digests("evaluate.ubc", hynet("evaluate", "ubc", "--model", "default,rootsift", "--data", pairs))
    planes = folder / "planes"
    for seed, name in enumerate(("graf", "wall")):
        first, second, homography = synthetic.photo_pair(seed, (320, 240))
        save(planes / name / "1.png", first)
        save(planes / name / "2.png", second)
        np.savetxt(planes / name / "H_1_2", homography)
    given = ("--model", "rootsift,opencv-sift", "--data", planes, "--max-keypoints", 200)
    return record | digests("evaluate.homography", hynet("evaluate", "homography", *given))


def save(path: Path, picture: Any) -> Path:
    """Write a photo, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), picture)
    return path


def patch_set(root: Path, points: int, seed: int) -> Path:
    """Write a set in PhotoTour's format, half of whose pairs match."""
    made = synthetic.patch_set(points, 4, seed=seed)
    first = np.arange(0, len(made), 4)
    second = np.concatenate([first + 1, np.roll(first, 1) + 2])
    first = np.concatenate([first, first])
    pairs = PatchPairs(first, second, made.points[first] == made.points[second])
    nothing = np.zeros(len(made))
    ubc.write(root, made, xy=np.zeros((len(made), 2)), angle=nothing, log2_scale=nothing, pairs=[pairs])
    return root


STEPS: dict[str, Callable[[Path], Record]] = {
    "match": match,
    "extract": extract,
    "reconstruct": reconstruct,
    "train": train,
    "evaluate": evaluate,
}


def recorded(only: list[str]) -> Record:
    """Hashes of all steps, made in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {
            "OMP_NUM_THREADS": "1",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        record: Record = {}
        for step in only or STEPS:
            (folder / step).mkdir()
            record |= STEPS[step](folder / step)
    return record


def main() -> int:
    """Write a record, or compare with one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", type=Path)
    parser.add_argument("--only", nargs="*", choices=STEPS, default=[])
    asked = parser.parse_args()
    now = recorded(asked.only)
    if asked.out:
        asked.out.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{len(now)} values -> {asked.out}")
    if not asked.check:
        return 0
    before = json.loads(asked.check.read_text(encoding="utf-8"))
    before = {name: value for name, value in before.items() if name.split(".")[0] in {key.split(".")[0] for key in now}}
    lost = sorted(before.keys() - now.keys())
    changed = [name for name in sorted(before.keys() & now.keys()) if before[name] != now[name]]
    for name in lost:
        print(f"gone: {name}")
    for name in changed:
        print(f"differs: {name}: {before[name]} before, {now[name]} now")
    same = len(before) - len(lost) - len(changed)
    print(f"{same} of {len(before)} values are the same; {len(now.keys() - before.keys())} are new")
    return 1 if lost or changed else 0


if __name__ == "__main__":
    raise SystemExit(main())

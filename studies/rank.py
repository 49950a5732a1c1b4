"""How much a keypoint's looks say about whether it will be matched: a score learnt from real pairs, on other scenes.

Usage: python studies/rank.py PATH/TO/data/train OUT

Up to eight photos of each scene that is not set aside for choosing, 8,192 keypoints each, are matched pair by pair and
verified. A keypoint is asked for in each pair that has inliers near it, and right in those where it is one itself; OUT
holds this by scene, so that a second run goes on. Then small networks learn, photo by photo, to put right keypoints
before others, from what a detector has at hand and from the patch; every fifth scene is kept apart. Printed is the mean
area under the ROC curve over the photos of those: 0.5 is chance.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
import torch
from choosing import scenes
from scipy.spatial import cKDTree
from torch import Tensor, nn
from torch.nn import functional

import hynet
from hynet import images
from hynet.detectors.dog import DoG
from hynet.extractors.patchwise import Extractor
from hynet.matchers.nearest import match
from hynet.patches import cut
from hynet.types import Array, Features

KEYPOINTS, PHOTOS, FEWEST = 8192, 8, 40  # per photo, per scene, inliers of a pair
GRID, REACH = 64, 5  # cells along a side, and how many of them around an inlier count as seen by both photos
SIDE = 16  # pixels of a patch
NEIGHBOURS = 32
STEPS, EACH, RATE = 1500, 256, 0.003  # steps, keypoints of both kinds a photo, learning rate
PLAIN = ("sigma", "contrast")
ATTRIBUTES = (*PLAIN, "stronger", "crowded", "spread", "centre", "corner", "peak", "brightness")


@dataclass(frozen=True)
class Seen:
    """The keypoints of one photo."""

    patches: Array  # (N, SIDE, SIDE) uint8
    attributes: Array  # (N, len(ATTRIBUTES)) float32
    right: Array  # (N,) share of the pairs in which it was asked for


# --- what was matched ---


def gather(scene: Path, out: Path) -> None:
    """Into OUT/SCENE.npz: the keypoints of its photos, in how many pairs each was asked for and right."""
    photos = images.list_photos(scene)
    some = np.sort(np.random.default_rng(0).permutation(len(photos))[:PHOTOS])
    extract = Extractor(DoG(KEYPOINTS, upright=True, spread=False), "light", KEYPOINTS, upright=True)
    features = [extract(photos[k]) for k in some]
    asked = [np.zeros(len(each.keypoints)) for each in features]
    right = [np.zeros(len(each.keypoints)) for each in features]
    for pair in combinations(range(len(features)), 2):
        a, b = (features[k] for k in pair)
        inliers = hynet.verify(a, b, match(a, b, ratio=0.9), geometry="fundamental").matches
        if len(inliers) >= FEWEST:
            for k, rows in zip(pair, inliers.indices.T, strict=True):
                right[k][rows] += 1
                asked[k] += _seen_by_both(features[k], rows)
    parts = {}
    for k, photo in enumerate(some):
        patches = cut(images.read(photos[photo]), features[k].keypoints, SIDE)
        parts |= {
            f"{k}.patches": patches,
            f"{k}.attributes": _attributes(features[k], patches),
            f"{k}.asked": asked[k],
            f"{k}.right": right[k],
        }
    np.savez(out / f"{scene.name}.npz", **parts)


def _seen_by_both(features: Features, rows: Array) -> Array:
    """(N,) bool: near an inlier."""
    column, row = (features.keypoints.xy / features.image_size * GRID).astype(int).clip(0, GRID - 1).T
    cells = np.zeros((GRID, GRID), np.uint8)
    cells[row[rows], column[rows]] = 1
    return cv2.dilate(cells, np.ones((REACH, REACH), np.uint8))[row, column] > 0


def _attributes(features: Features, patches: Array) -> Array:
    """Logarithms, but for the brightness: columns as in ATTRIBUTES."""
    keypoints, pixels = features.keypoints, patches.astype(np.float32)
    worth = keypoints.scores * np.sqrt(keypoints.sigma)  # what the detector goes by
    apart, neighbours = cKDTree(keypoints.xy).query(keypoints.xy, NEIGHBOURS + 1)
    stronger = worth[neighbours] > worth[:, None]
    nearest = np.where(stronger.any(1), apart[np.arange(len(worth)), stronger.argmax(1)], apart[:, -1])
    spread, centre = pixels.std((1, 2)), pixels[:, 6:10, 6:10].std((1, 2))
    dy, dx = np.gradient(pixels[:, 4:12, 4:12], axis=(1, 2))
    xx, xy, yy = ((one * other).mean((1, 2)) for one, other in ((dx, dx), (dx, dy), (dy, dy)))
    corner = (xx * yy - xy**2).clip(1e-6) / (xx + yy + 1e-3) ** 2
    columns = [
        keypoints.sigma,
        keypoints.scores,
        nearest / keypoints.sigma + 0.1,
        apart[:, NEIGHBOURS // 2] / keypoints.sigma + 0.1,
        spread + 1,
        centre + 1,
        corner + 1e-3,
        255 * keypoints.scores / (spread + 1),
        np.exp2(pixels.mean((1, 2)) / 64),
    ]
    return np.log2(np.stack(columns, 1)).astype(np.float32)


def photos_of(file: Path) -> Iterator[Seen]:
    """Those with enough keypoints of both kinds."""
    with np.load(file) as held:
        for k in range(len(held.files) // 4):
            asked = held[f"{k}.asked"]
            rows = asked > 0
            right = held[f"{k}.right"][rows] / asked[rows]
            if FEWEST < right.sum() < rows.sum() - FEWEST:
                yield Seen(held[f"{k}.patches"][rows], held[f"{k}.attributes"][rows], right)


# --- what can be learnt ---


class Network(nn.Module):
    """Attributes, and the patch where it is asked for -> a score."""

    def __init__(self, columns: Sequence[int], sees: bool, mean: Array, deviation: Array) -> None:
        super().__init__()
        self.columns, self.sees = list(columns), sees
        self.mean, self.deviation = torch.tensor(mean), torch.tensor(deviation)
        look = [nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten()]
        self.look = nn.Sequential(*look)
        size = len(self.columns) + (32 * (SIDE // 4) ** 2 if sees else 0)
        self.score = nn.Sequential(nn.Linear(size, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, patches: Tensor, attributes: Tensor) -> Tensor:
        x = ((attributes - self.mean) / self.deviation)[:, self.columns]
        if self.sees:
            pixels = patches[:, None].float()
            mean, deviation = pixels.mean((1, 2, 3), keepdim=True), pixels.std((1, 2, 3), keepdim=True)
            x = torch.cat([x, self.look((pixels - mean) / (deviation + 1))], 1)
        return self.score(x)[:, 0]


def learnt(photos: Sequence[Seen], columns: Sequence[int], sees: bool) -> Network:
    """Right keypoints of a photo before others of the same photo."""
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    every = np.concatenate([photo.attributes for photo in photos])
    network = Network(columns, sees, every.mean(0), every.std(0))
    optimiser = torch.optim.AdamW(network.parameters(), RATE)
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1, 0.01, STEPS)
    for _ in range(STEPS):
        photo = photos[random.integers(len(photos))]
        right, wrong = (
            random.choice(len(odds), EACH, p=odds / odds.sum()) for odds in (photo.right, 1 - photo.right)
        )
        rows = np.r_[right, wrong]
        scores = network(torch.tensor(photo.patches[rows]), torch.tensor(photo.attributes[rows]))
        loss = functional.softplus(scores[EACH:] - scores[:EACH]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        falling.step()
    return network.eval()


@torch.inference_mode()
def area(network: Network, photos: Sequence[Seen]) -> float:
    scores = [network(torch.tensor(photo.patches), torch.tensor(photo.attributes)).numpy() for photo in photos]
    return float(np.mean([_area(own, photo.right > 0) for own, photo in zip(scores, photos, strict=True)]))


def _area(scores: Array, right: Array) -> float:
    place = np.argsort(np.argsort(scores))
    pairs = right.sum() * (~right).sum()
    return float((place[right].sum() - right.sum() * (right.sum() - 1) / 2) / pairs)


def main(train: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    aside = set(scenes())
    for scene in sorted(each for each in train.iterdir() if each.is_dir() and each.name not in aside):
        if not (out / f"{scene.name}.npz").exists():
            gather(scene, out)
            print(scene.name, file=sys.stderr, flush=True)
    by_scene = [found for file in sorted(out.glob("*.npz")) if (found := list(photos_of(file)))]
    kept = [photo for scene in by_scene[::5] for photo in scene]
    used = [photo for k, scene in enumerate(by_scene) if k % 5 for photo in scene]
    counted = sum(len(photo.right) for photo in used)
    print(f"{len(by_scene)} scenes, {counted:,} keypoints learnt from, {len(kept)} photos kept apart\n")
    print("| score | area under the curve |\n|---|---|")
    today = np.mean([_area(photo.attributes @ _worth(), photo.right > 0) for photo in kept])
    print(f"| contrast x sqrt(sigma), as the detector has it | {today:.3f} |", flush=True)
    everything = range(len(ATTRIBUTES))
    for name, columns, sees in (
        (" and ".join(PLAIN), range(len(PLAIN)), False),
        ("all attributes", everything, False),
        (f"{' and '.join(PLAIN)}, and the patch", range(len(PLAIN)), True),
        ("all attributes, and the patch", everything, True),
    ):
        print(f"| {name} | {area(learnt(used, columns, sees), kept):.3f} |", flush=True)


def _worth() -> Array:
    return np.array([{"sigma": 0.5, "contrast": 1.0}.get(name, 0.0) for name in ATTRIBUTES], np.float32)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

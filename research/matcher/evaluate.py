"""Poses of listed pairs by nearest neighbours, by `consensus` and by the matcher: same features, same estimator.

    python -m research.matcher.evaluate LIST.csv SCENES DATA CACHE --weights RUN/weights.safetensors

LIST.csv has the columns scene, a, b (names of photos); their true poses are those of SCENES. CACHE keeps features, and
errors of what does not change. Thresholds move with what a matcher was trained on, so each method has several and is
shown at its best; the intervals are of the difference to the best of `consensus`.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import poselib
import torch
from safetensors.torch import load_file

from .. import geometry
from . import describing, real_pairs, shards
from .describing import strongest_rows
from .examples import points
from .hynet_paths import Array, Pose, auc_credits, pose_error
from .network import Candidates, Glue, judged, prepare

# Of PoseLib: pixels, and iterations as glue-factory has them; the package's 100,000 take seconds a pair.
ESTIMATOR = {"max_epipolar_error": 1.0, "max_iterations": 10_000, "success_prob": 0.9999, "seed": 0}
FAILED = 180.0  # degrees
DEGREES = (5, 10, 20)
CONSENSUS, GLUE = (0.1, 0.2, 0.3), (0.02, 0.05, 0.1)  # probabilities of matches that are kept
ROUNDS = 2000


@dataclass(frozen=True)
class Listed:
    scene: str
    a: str
    b: str


@dataclass(frozen=True)
class Asked:
    """A listed pair with its features and its true pose."""

    seen: tuple[shards.Seen, shards.Seen]
    pose: Pose


def read_list(path: Path) -> list[Listed]:
    with path.open() as file:
        return [Listed(row["scene"], row["a"], row["b"]) for row in csv.DictReader(file)]


def asked(listed: Sequence[Listed], reconstructed: Path, data: Path, cache: Path, model: str) -> list[Asked]:
    """Features as they were reconstructed from, described by one model; kept in the cache, a file a scene."""
    extractors = describing.extractors([model])
    found: dict[tuple[str, str], shards.Seen] = {}
    poses: dict[str, geometry.Scene] = {}
    for name in dict.fromkeys(each.scene for each in listed):
        scene = poses[name] = geometry.load(reconstructed / name)
        wanted = sorted({photo for each in listed if each.scene == name for photo in (each.a, each.b)})
        file = cache / f"{model}-{name}.npz"
        kept = list(shards.load(file).photos) if file.exists() else []
        have = {seen.source.partition("/")[2] for seen in kept}
        with h5py.File(reconstructed / name / "features.h5") as features:
            for photo in set(wanted) - have:
                upright = not np.array(features[photo]["angles"]).any()
                kept.append(
                    real_pairs.photo(scene, features[photo], data / name / photo, extractors, upright, only=True)
                )
        if set(wanted) - have:
            shards.save(file, shards.Shard(kept, []))
        found |= {(name, seen.source.partition("/")[2]): seen for seen in kept}
    pairs = []
    for each in listed:
        first, second = (poses[each.scene].photos[photo] for photo in (each.a, each.b))
        seen = found[each.scene, each.a], found[each.scene, each.b]
        pairs.append(Asked(seen, Pose(*geometry.relative(first, second))))
    return pairs


def error(pair: Asked, rows: tuple[Array, Array]) -> float:
    """Degrees between the true pose and that of the matches of these rows."""
    a, b = pair.seen
    if len(rows[0]) < 5:
        return FAILED
    cameras = [
        {"model": "SIMPLE_PINHOLE", "width": 0, "height": 0, "params": [seen.focal, 0.0, 0.0]} for seen in (a, b)
    ]
    places = [seen.focal * seen.rays[which].astype(np.float64) for seen, which in zip((a, b), rows, strict=True)]
    found, info = poselib.estimate_relative_pose(*places, *cameras, ESTIMATOR, {})
    length = np.linalg.norm(found.t)
    if not any(info["inliers"]) or not length > 0:
        return FAILED
    return pose_error(Pose(found.R, found.t / length), pair.pose)


def errors(pairs: Sequence[Asked], model: str, count: int, network: Glue | None, least: Sequence[float]) -> Array:
    """(pairs, thresholds) degrees. Without a network by `consensus`; a probability of 0 keeps all nearest ones."""
    found = np.full((len(pairs), len(least)), FAILED)
    for row, pair in enumerate(pairs):
        given, kept = candidates(pair, model, count)
        matches, logits = judged(network, given)
        if network is None:
            mutual = given.edges.mutual
            matches, logits = np.column_stack([given.edges.i, given.edges.j])[mutual], given.logits[mutual]
        probability = 1 / (1 + np.exp(-logits))
        for column, limit in enumerate(least):
            chosen = matches[probability >= limit]
            found[row, column] = error(pair, (kept[0][chosen[:, 0]], kept[1][chosen[:, 1]]))
    return found


def candidates(pair: Asked, model: str, count: int) -> tuple[Candidates, list[Array]]:
    kept = [strongest_rows(seen.xy, seen.sigma, seen.scores, count, seen.size[::-1]) for seen in pair.seen]
    vectors = [shards.decode(seen.codes[model][rows]) for seen, rows in zip(pair.seen, kept, strict=True)]
    places = [points(seen, rows) for seen, rows in zip(pair.seen, kept, strict=True)]
    return prepare(*vectors, *places), kept


def remembered(file: Path, make: Callable[[], Array]) -> Array:
    if not file.exists():
        np.save(file, make())
    return np.load(file)


def _credits(found: Array, degrees: float) -> Array:
    """Of (pairs, thresholds), as many: each pair's share of the AUC."""
    return auc_credits(found.ravel(), degrees).reshape(found.shape)


def best(found: Array) -> Array:
    """(pairs,) errors at the threshold of the highest AUC at 10 degrees."""
    return found[:, int(_credits(found, 10).mean(0).argmax())]


def interval(gain: Array, scenes: Sequence[str]) -> list[float]:
    """The mean of (pairs,) and its 95% interval: pairs drawn with replacement within their scenes."""
    random, names = np.random.default_rng(0), np.array(scenes)
    groups = [np.flatnonzero(names == name) for name in np.unique(names)]
    drawn = [np.concatenate([random.choice(group, len(group)) for group in groups]) for _ in range(ROUNDS)]
    low, high = np.percentile([gain[rows].mean() for rows in drawn], [2.5, 97.5])
    return [round(float(each), 2) for each in (gain.mean(), low, high)]


def gain(found: Array, base: Array) -> Array:
    """(pairs,) points of AUC at 10 degrees."""
    return 100 * (auc_credits(found, 10) - auc_credits(base, 10))


def table(listed: Sequence[Listed], rows: dict[str, Array]) -> dict[str, object]:
    """AUCs in points; rows: errors (pairs, thresholds) by method, `consensus` among them."""
    scenes = [each.scene for each in listed]
    result: dict[str, object] = {}
    for name, found in rows.items():
        chosen = best(found)
        aucs = [round(100 * float(auc_credits(chosen, limit).mean()), 2) for limit in DEGREES]
        result[name] = {
            "auc": aucs,
            "against consensus at 10": interval(gain(chosen, best(rows["consensus"])), scenes),
            "by threshold": [round(100 * float(each), 2) for each in _credits(found, 10).mean(0)],
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("list", "scenes", "data", "cache"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--models", nargs="+", default=["light"])
    parser.add_argument("--counts", nargs="+", type=int, default=[1024, 2048, 4096])
    parser.add_argument("--every", type=int, default=1, help="only every so many of the listed pairs")
    parser.add_argument("--nearest", action="store_true", help="all mutual nearest neighbours, too")
    parser.add_argument("--out", type=Path, help="errors of the matcher, a file a model and count")
    options = parser.parse_args()
    for path in (options.list, options.scenes, options.data, *filter(None, [options.weights])):
        if not path.exists():
            parser.error(f"no {path}.")
    torch.set_num_threads(1)
    options.cache.mkdir(parents=True, exist_ok=True)
    listed = read_list(options.list)[:: options.every]
    network = None
    if options.weights is not None:
        network = Glue()
        network.load_state_dict(load_file(options.weights))
    gains: list[Array] = []
    for model in options.models:
        pairs = asked(listed, options.scenes, options.data, options.cache, model)
        for count in options.counts:
            kept = options.cache / f"errors-{options.list.stem}-{options.every}-{model}-{count}.npy"
            rows = {"consensus": remembered(kept, lambda p=pairs, m=model, c=count: errors(p, m, c, None, CONSENSUS))}
            if options.nearest:  # hundreds of wrong matches, which take the estimator long
                kept = kept.with_stem(kept.stem + "-nearest")
                rows["nearest"] = remembered(kept, lambda p=pairs, m=model, c=count: errors(p, m, c, None, [0.0]))
            if network is not None:
                rows["glue"] = errors(pairs, model, count, network, GLUE)
                gains.append(gain(best(rows["glue"]), best(rows["consensus"])))
                if options.out is not None:
                    options.out.mkdir(parents=True, exist_ok=True)
                    np.save(options.out / f"{model}-{count}.npy", rows["glue"])
            for name, told in table(listed, rows).items():
                print(json.dumps({"model": model, "count": count, "pairs": len(listed), "method": name, **told}))
    if len(gains) > 1:
        overall = interval(np.mean(gains, 0), [each.scene for each in listed])
        print(json.dumps({"mean gain at 10 over all rows": overall}))


if __name__ == "__main__":
    main()

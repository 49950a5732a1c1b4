"""How extraction and pairing grow with the number of photos: the tables of docs/scale.md.

Usage: python studies/scale.py OUT PHOTO_FOLDER... [--photos 100 1000 10000] [--workers 1 2] [--model light]
           [--vectors 100000 1000000] [--write docs/scale.md]

Photos of 640 pixels are made from real ones by crops and warps; `hynet extract` makes collections of so many, by so
many workers, and the resident memory of all its processes is looked at twice a second. Vectors of 512 numbers are made
by perturbing those of the largest collection, and their 50 neighbours found; recall is of the true neighbours of 1,000
of them. Run again, it goes on. --write puts the tables between the marks of that page.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np

from hynet import images
from hynet.sfm import neighbours
from hynet.sfm.collection_pairs import count_inliers
from hynet.sfm.photo_vectors import vectors_of
from hynet.system.cluster import open_cluster

SIDE, KEYPOINTS = 640, 512
NEIGHBOURS, QUERIES = 50, 1000
# The plan of docs/scale.md: c7i.16xlarge in us-east-1, on demand, Linux
PLAN, MACHINES, VCPUS, DOLLARS = 10_000_000, 20, 64, 2.856
VCPU_SHARE = 0.6  # of a core here: two of them share one core there
PAIRS_A_PHOTO = 30  # with 50 neighbours, since many choose each other
BYTES_A_PAIR = 800  # 100 matches
SEARCH_EXPONENT = 1.5  # lists and what is looked through of them both grow with the square root
MARKS = "<!-- {}: python studies/scale.py -->", "<!-- end -->"


def make_photos(folder: Path, sources: list[Path], count: int) -> None:
    """Each a crop of a real photo under a mild homography; the same number gives the same photo."""
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(count):
        path = folder / f"{k:06}.jpg"
        if path.exists():
            continue
        rng = np.random.default_rng(k)
        photo = images.read(sources[k % len(sources)])
        height, width = photo.shape
        size = rng.uniform(0.6, 0.95) * np.array([width, height])
        corner = rng.uniform(0, 1, 2) * (np.array([width, height]) - size)
        square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        there = (corner + square * size + rng.uniform(-0.03, 0.03, (4, 2)) * size).astype(np.float32)
        target = np.rint(size * SIDE / size.max()).astype(int)
        H = cv2.getPerspectiveTransform(there, (square * target).astype(np.float32))
        cv2.imwrite(
            str(path), cv2.warpPerspective(photo, H, [int(side) for side in target]), [cv2.IMWRITE_JPEG_QUALITY, 90]
        )


def measured(command: list[str]) -> dict[str, float]:
    """Seconds, and the largest resident memory in MB: of the first process, and of all."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    first = everything = 0.0
    while process.poll() is None:
        sizes = dict(resident(process.pid))
        first, everything = max(first, sizes.get(process.pid, 0)), max(everything, sum(sizes.values()))
        time.sleep(0.5)
    assert process.returncode == 0, command
    return {"seconds": time.monotonic() - began, "first": first, "all": everything}


def resident(parent: int) -> list[tuple[int, float]]:
    """A process and its descendants, each with its resident memory in MB."""
    found = []
    try:
        pages = int(Path(f"/proc/{parent}/statm").read_text().split()[1])
        found.append((parent, pages * os.sysconf("SC_PAGE_SIZE") / 1e6))
        for thread in Path(f"/proc/{parent}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found += resident(int(child))
    except OSError:  # it has just ended
        pass
    return found


def extraction(out: Path, model: str, count: int, workers: int) -> dict[str, float]:
    note = out / f"extract-{model}-{count}-{workers}.json"
    if not note.exists():
        listed = out / f"{count}.csv"
        listed.write_text("path,name\n" + "".join(f"photos/{k:06}.jpg,{k:06}.jpg\n" for k in range(count)))
        options = f"--model {model} --max-keypoints {KEYPOINTS} --longest {SIDE} --orientation upright --jobs {workers}"
        folder = out / f"collection-{count}-{workers}"
        command = [sys.executable, "-m", "hynet", "extract", str(listed), "--out", f"{folder}/", *options.split()]
        found = measured(command)
        found["bytes"] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        note.write_text(json.dumps(found))
    return json.loads(note.read_text())


def pairing(out: Path, count: int, known: Path) -> dict[str, float]:
    """In a process of its own, whose memory is that of this number of vectors."""
    note = out / f"pairs-{count}.json"
    if not note.exists():
        subprocess.run([sys.executable, __file__, "--one", str(count), str(known), str(note)], check=True)
    return json.loads(note.read_text())


def one_pairing(count: int, known: Path, note: Path) -> None:
    rng = np.random.default_rng(0)
    real = np.load(known)
    vectors = np.empty((count, real.shape[1]), np.float32)
    for start in range(0, count, 10_000):
        some = real[rng.integers(len(real), size=min(10_000, count - start))]
        noise = rng.normal(size=some.shape) / np.sqrt(some.shape[1]) * rng.uniform(0.2, 1, (len(some), 1))
        vectors[start : start + len(some)] = some + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    found, _ = neighbours.nearest(vectors, NEIGHBOURS)
    seconds = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    queries = rng.choice(count, QUERIES, replace=False)
    similar = vectors[queries] @ vectors.T
    similar[np.arange(QUERIES), queries] = -np.inf
    true = np.argpartition(-similar, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    recall = np.mean([len(set(a) & set(b)) / NEIGHBOURS for a, b in zip(true, found[queries], strict=True)])
    told = {"seconds": seconds, "vectors": vectors.nbytes / 1e6, "before": before / 1e3, "peak": peak / 1e3}
    note.write_text(json.dumps({**told, "recall": float(recall), "exact": count <= neighbours.EXACT}))


def exponent(counts: list[int], seconds: list[float]) -> float:
    """Of the power of the number that the time grows with."""
    return float(np.polyfit(np.log(counts), np.log(seconds), 1)[0])


def extraction_table(out: Path, model: str, counts: list[int], workers: list[int]) -> str:
    lines = [
        f"{model}, {KEYPOINTS} keypoints, photos of {SIDE} pixels.",
        "",
        "| photos | workers | seconds | photos/s | MB of the command | MB of all processes | KB a photo on disk |",
        "|---|---|---|---|---|---|---|",
    ]
    for jobs in workers:
        rows = [extraction(out, model, count, jobs) for count in counts]
        for count, row in zip(counts, rows, strict=True):
            lines.append(
                f"| {count:,} | {jobs} | {row['seconds']:.0f} | {count / row['seconds']:.2f} | {row['first']:.0f} | "
                f"{row['all']:.0f} | {row['bytes'] / count / 1e3:.0f} |"
            )
        if len(counts) > 1:
            power = exponent(counts, [row["seconds"] for row in rows])
            lines.append(f"| exponent of the time | {jobs} | {power:.2f} | | | | |")
    return "\n".join(lines)


def pairing_table(out: Path, known: Path, counts: list[int]) -> str:
    lines = [
        f"| vectors | search | seconds | MB of the vectors | MB at the peak | recall of the {NEIGHBOURS} nearest |",
        "|---|---|---|---|---|---|",
    ]
    rows = [pairing(out, count, known) for count in counts]
    for count, row in zip(counts, rows, strict=True):
        kind = "exact" if row["exact"] else "IVF-PQ"
        memory = f"{row['vectors']:.0f} | {row['peak']:.0f}"
        lines.append(f"| {count:,} | {kind} | {row['seconds']:.0f} | {memory} | {row['recall']:.1%} |")
    if len(counts) > 1:
        lines.append(f"| exponent of the time | | {exponent(counts, [row['seconds'] for row in rows]):.2f} | | | |")
    return "\n".join(lines)


def matching_rate(out: Path, folder: Path) -> float:
    """Pairs a second that one process matches and verifies, of photos that look alike."""
    note = out / "matching.json"
    if not note.exists():
        with open_cluster("local", 1) as cluster:
            names, vectors = vectors_of(folder, cluster)
        rows, _ = neighbours.nearest(vectors[:100], 5)
        pairs = [(names[row], names[other], row, other) for row, others in enumerate(rows) for other in others]
        count_inliers(folder, pairs[:5])  # what is loaded once
        began = time.monotonic()
        count_inliers(folder, pairs)
        note.write_text(json.dumps(len(pairs) / (time.monotonic() - began)))
    return json.loads(note.read_text())


def plan_table(extract: dict[str, float], photos: int, pairs: dict[str, float], vectors: int, matching: float) -> str:
    """Ten million photos on the cluster that docs/scale.md names, by what was measured here on one core."""
    share = VCPU_SHARE * MACHINES * VCPUS
    hours = {
        "extract": PLAN * extract["seconds"] / photos / share / 3600,
        "pairs, on one machine": pairs["seconds"] * (PLAN / vectors) ** SEARCH_EXPONENT / VCPU_SHARE / 16 / 3600,
        "match and verify": PLAN * PAIRS_A_PHOTO / matching / share / 3600,
    }
    machines = {"pairs, on one machine": 1}
    disk = {
        "extract": PLAN * extract["bytes"] / photos / 1e12,
        "pairs, on one machine": PLAN * 2048 / 1e12,
        "match and verify": PLAN * PAIRS_A_PHOTO * BYTES_A_PAIR / 1e12,
    }
    lines = ["| step | hours | dollars | TB on disk |", "|---|---|---|---|"]
    for step, spent in hours.items():
        dollars = spent * DOLLARS * machines.get(step, MACHINES)
        lines.append(f"| {step} | {spent:,.1f} | {dollars:,.0f} | {disk[step]:.2f} |")
    return "\n".join(lines)


def write(page: Path, tables: dict[str, str]) -> None:
    text = page.read_text()
    for name, table in tables.items():
        before, mark, rest = text.partition(MARKS[0].format(name))
        _, end, after = rest.partition(MARKS[1])
        text = f"{before}{mark}\n{table}\n{end}{after}"
    page.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("sources", type=Path, nargs="+")
    parser.add_argument("--photos", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--vectors", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--model", default="light")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    sources = [photo for folder in asked.sources for photo in images.list_photos(folder)]
    make_photos(asked.out / "photos", sources, max(asked.photos))
    tables = {"rates": extraction_table(asked.out, asked.model, asked.photos, asked.workers)}
    if asked.vectors:
        known = asked.out / "vectors.npy"
        if not known.exists():
            with open_cluster("local", asked.workers[-1]) as cluster:
                folder = asked.out / f"collection-{max(asked.photos)}-{asked.workers[-1]}"
                np.save(known, vectors_of(folder, cluster)[1])
        tables["pairs"] = pairing_table(asked.out, known, asked.vectors)
        folder = asked.out / f"collection-{max(asked.photos)}-{asked.workers[-1]}"
        tables["plan"] = plan_table(
            extraction(asked.out, asked.model, max(asked.photos), asked.workers[0]),
            max(asked.photos) * asked.workers[0],
            pairing(asked.out, max(asked.vectors), known),
            max(asked.vectors),
            matching_rate(asked.out, folder),
        )
    print("\n\n".join(tables.values()))
    if asked.write:
        write(asked.write, tables)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one_pairing(int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        main()

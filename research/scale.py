"""How extraction and pairing grow with the number of photos: the tables of docs/scale.md.

Usage: python research/scale.py OUT PHOTO_FOLDER... [--photos 100 1000 10000] [--workers 1 2] [--model light]
           [--vectors 100000 1000000] [--write docs/scale.md]

Photos of 640 pixels are made from real ones by crops and warps; `hynet extract` makes collections of so many, by so
many workers, and the resident memory of all its processes is looked at twice a second. Vectors of 512 numbers are made
by perturbing those of the largest collection, and their 50 neighbours found (research/scale_vectors.py). Run again, it
goes on with what was not measured to its end; other photo folders need another OUT. All of it is in OUT/scale.json,
too; --write puts the tables between the marks of that page.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from scale_tables import extraction_table, pairing_table, plan_table, write_tables

from hynet import images
from hynet.runtime.files import atomic_write
from hynet.runtime.machine import processor
from hynet.runtime.pool import open_pool
from hynet.sfm import retrieval as neighbours
from hynet.sfm.collection_pairs import count_inliers, vectors_of

SIDE, KEYPOINTS = 640, 512


def make_photos(folder: Path, sources: list[Path], count: int) -> None:
    """Each a crop of a real photo under a mild homography; the same number gives the same photo."""
    folder.mkdir(parents=True, exist_ok=True)
    for first, source in enumerate(sources[:count]):  # each is read once
        missing = [k for k in range(first, count, len(sources)) if not (folder / f"{k:06}.jpg").exists()]
        if not missing:
            continue
        say(f"{len(missing)} photos from {source.name}, {first + 1} of {len(sources)}")
        photo = images.shrink(images.read(source), 2 * SIDE)[0]
        for k in missing:
            with atomic_write(folder / f"{k:06}.jpg") as temporary:
                cv2.imwrite(str(temporary), warped(photo, k), [cv2.IMWRITE_JPEG_QUALITY, 90])


def warped(photo: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    height, width = photo.shape
    size = rng.uniform(0.6, 0.95) * np.array([width, height])
    corner = rng.uniform(0, 1, 2) * (np.array([width, height]) - size)
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    there = (corner + square * size + rng.uniform(-0.03, 0.03, (4, 2)) * size).astype(np.float32)
    target = np.rint(size * SIDE / size.max()).astype(int)
    H = cv2.getPerspectiveTransform(there, (square * target).astype(np.float32))
    return cv2.warpPerspective(photo, H, [int(side) for side in target])


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def measured_once(note: Path, measure: Callable[[], Any]) -> Any:
    """What `measure()` found, now or in an earlier run."""
    if not note.exists():
        say(f"measuring {note.stem}")
        found = measure()
        with atomic_write(note) as temporary:
            temporary.write_text(json.dumps(found))
    return json.loads(note.read_text())


def measured(command: list[str]) -> dict[str, float]:
    """Seconds, those of the processors, and the largest resident memory in MB: of the first process, and of all."""
    began, before = time.monotonic(), processor_seconds()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    first = everything = 0.0
    while process.poll() is None:
        sizes = dict(resident(process.pid))
        first, everything = max(first, sizes.get(process.pid, 0)), max(everything, sum(sizes.values()))
        time.sleep(0.5)
    assert process.returncode == 0, command
    spent = {"seconds": time.monotonic() - began, "processor_seconds": processor_seconds() - before}
    return {**spent, "first": first, "all": everything}


def processor_seconds() -> float:
    """Of the programs that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
    listed, folder = out / f"{count}.csv", collection(out, model, count, workers)
    options = f"--model {model} --max-keypoints {KEYPOINTS} --longest {SIDE} --orientation upright --jobs {workers}"
    command = [sys.executable, "-m", "hynet", "extract", str(listed), "--out", f"{folder}/", *options.split()]

    def measure() -> dict[str, float]:
        shutil.rmtree(folder, ignore_errors=True)  # half of it would take half the time
        listed.write_text("path,name\n" + "".join(f"photos/{k:06}.jpg,{k:06}.jpg\n" for k in range(count)))
        found = measured(command)
        return {**found, "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())}

    return measured_once(out / f"extract-{model}-{count}-{workers}.json", measure)


def collection(out: Path, model: str, count: int, workers: int) -> Path:
    return out / f"collection-{model}-{count}-{workers}"


def are_same(first: Path, second: Path) -> bool:
    """Whether two collections are the same bytes."""
    names = [
        {path.relative_to(each) for path in each.rglob("*.h5")} | {Path("index.parquet")} for each in (first, second)
    ]
    return names[0] == names[1] and all(
        (first / name).read_bytes() == (second / name).read_bytes() for name in names[0]
    )


def pairing(out: Path, count: int, known: Path) -> dict[str, float]:
    """Neighbours of so many vectors, found by research/scale_vectors.py."""
    program = Path(__file__).with_name("scale_vectors.py")

    def measure() -> dict[str, float]:
        command = [sys.executable, str(program), str(count), str(known)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    return measured_once(out / f"pairs-{known.stem}-{count}.json", measure)


def matching_rate(out: Path, folder: Path) -> float:
    """Pairs a second that one process matches and verifies, of photos that look alike."""

    def measure() -> float:
        with open_pool("local", 1) as cluster:
            names, vectors = vectors_of(folder, cluster)
        rows, _ = neighbours.most_similar(vectors[:100], 5)
        pairs = [(names[row], names[other], row, other) for row, others in enumerate(rows) for other in others]
        count_inliers(folder, pairs[:5])  # what is loaded once
        began = time.monotonic()
        count_inliers(folder, pairs)
        return len(pairs) / (time.monotonic() - began)

    return measured_once(out / f"matching-{folder.name}.json", measure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("sources", type=Path, nargs="+")
    parser.add_argument("--photos", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--vectors", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--model", default="light")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    out, model, most = asked.out, asked.model, max(asked.photos)
    sources = [photo for folder in asked.sources for photo in images.list_photos(folder)]
    make_photos(out / "photos", sources, most)
    told: dict[str, Any] = {"processor": processor(), "model": model}
    told["extraction"] = [
        {"photos": count, "workers": workers, **extraction(out, model, count, workers)}
        for workers in asked.workers
        for count in asked.photos
    ]
    largest = [collection(out, model, most, workers) for workers in asked.workers]
    told["same_bytes"] = all(are_same(largest[0], each) for each in largest)
    tables = {
        "rates": extraction_table(told["extraction"], f"{model}, {KEYPOINTS} keypoints, photos of {SIDE} pixels.")
    }
    if asked.vectors:
        known = out / f"vectors-{model}-{most}.npy"
        if not known.exists():
            with open_pool("local", asked.workers[-1]) as cluster, atomic_write(known) as temporary:
                np.save(temporary, vectors_of(largest[-1], cluster)[1])
        told["pairs"] = [{"count": count, **pairing(out, count, known)} for count in asked.vectors]
        told["matched_pairs_per_second"] = matching_rate(out, largest[-1])
        extracted = next(row for row in told["extraction"] if row["photos"] == most)
        tables["pairs"] = pairing_table(told["pairs"])
        tables["plan"] = plan_table(extracted, told["pairs"][-1], told["matched_pairs_per_second"])
    with atomic_write(out / "scale.json") as temporary:
        temporary.write_text(json.dumps({**told, "tables": tables}, indent=1))
    same = "the same" if told["same_bytes"] else "NOT THE SAME"
    print("\n\n".join([*tables.values(), f"The collections of {asked.workers} workers are {same} bytes."]))
    if asked.write:
        write_tables(asked.write, tables)


if __name__ == "__main__":
    main()

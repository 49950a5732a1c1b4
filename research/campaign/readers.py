"""Everything that hynet reads: a sound example of each, how it is made wrong, and who reads it.

A case is right if it is read and all its numbers are finite, or refused by a HynetError. ADD A READER: a class here
and a row in READERS.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import h5py
import numpy as np
from PIL import Image

from . import mutations
from .mutations import Rng


@dataclass(frozen=True)
class Reader:
    """make: sound files into a folder; spoilt: patterns of those that are made wrong; read: the folder."""

    make: Callable[[Path], None]
    spoilt: str
    mutate: Callable[[bytes, Rng], bytes]
    read: Callable[[Path], Any]
    share: float = 1.0  # of all cases; what takes long gets few


def _photo(size: tuple[int, int] = (64, 48), seed: int = 0) -> np.ndarray:
    noise = cv2.GaussianBlur(np.random.default_rng(seed).uniform(0, 255, (size[1], size[0], 3)), (0, 0), 2)
    return cv2.normalize(noise, None, 0, 255, cv2.NORM_MINMAX).astype(np.uint8)


def _bytes(image: Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


# --- photos ---


def _photos(folder: Path) -> None:
    colour, grey = Image.fromarray(_photo()), Image.fromarray(_photo()[:, :, 0])
    for form in ("JPEG", "PNG", "TIFF", "WEBP", "BMP", "GIF", "PPM"):
        for name, image in (("colour", colour), ("grey", grey)):
            (folder / f"{name}.{form.lower()}").write_bytes(_bytes(image, form))
    deep = Image.fromarray(_photo()[:, :, 0].astype(np.uint16) * 257)
    (folder / "deep.png").write_bytes(_bytes(deep, "PNG"))


def _read_photos(folder: Path) -> Any:
    from hynet import images

    return [images.read(path) for path in folder.iterdir()] + [images.read_colour(path) for path in folder.iterdir()]


def _exif_photo(folder: Path) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"
    exif.get_ifd(0x8769)[0xA405] = 40
    exif.get_ifd(0x8769)[0x920A] = 5.5
    (folder / "exif.jpg").write_bytes(_bytes(Image.fromarray(_photo()), "JPEG", exif=exif))


def _in_exif(content: bytes, rng: Rng) -> bytes:
    """Wrong in the EXIF alone."""
    start = content.index(b"Exif")
    end = start + struct.unpack(">H", content[start - 2 : start])[0] - 2
    return content[:start] + mutations.binary(content[start:end], rng)[: end - start].ljust(end - start) + content[end:]


def _read_exif(folder: Path) -> Any:
    from hynet import images
    from hynet.sfm import colmap

    path = folder / "exif.jpg"
    return images.read(path), colmap.guess_camera((64, 48), path).params


def _masked(folder: Path) -> None:
    (folder / "photo.png").write_bytes(_bytes(Image.fromarray(_photo()), "PNG"))
    (folder / "mask.png").write_bytes(_bytes(Image.fromarray(np.full((48, 64), 255, np.uint8)), "PNG"))


def _read_masked(folder: Path) -> Any:
    import hynet

    found = hynet.Extractor(model="rootsift", max_keypoints=50)(folder / "photo.png", folder / "mask.png")
    return found.descriptors, found.keypoints.frames


# --- features ---


def _features(folder: Path) -> None:
    random = np.random.default_rng(0)
    with h5py.File(folder / "features.h5", "w") as file:
        file.attrs["ratio"] = 0.8
        for name in ("a.jpg", "b/c.jpg"):
            file[f"{name}/keypoints"] = random.uniform(0, 60, (20, 2)).astype("f4")
            file[f"{name}/descriptors"] = random.normal(size=(16, 20)).astype("f4")
            for key in ("scores", "scales", "angles"):
                file[f"{name}/{key}"] = np.ones(20, "f4")
            file[f"{name}/image_size"] = np.array([64, 48])


def _read_features(folder: Path) -> Any:
    from hynet.features.hloc_file import h5_names, read_h5

    found = [read_h5(folder / "features.h5", name) for name in h5_names(folder / "features.h5")]
    return [(each.descriptors, each.keypoints.frames, each.image_size, each.ratio) for each in found]


def _saved(folder: Path) -> None:
    import hynet

    random = np.random.default_rng(0)
    points = hynet.Keypoints.from_circles(random.uniform(0, 60, (20, 2)), np.ones(20), np.zeros(20), np.ones(20))
    hynet.Features(points, random.normal(size=(20, 8)).astype("f4"), (64, 48), 0.8).save(folder / "features.npz")
    hynet.Matches(random.integers(0, 20, (9, 2)), np.ones(9, "f4")).save(folder / "matches.npz")


def _read_saved(folder: Path) -> Any:
    import hynet

    found, matches = hynet.Features.load(folder / "features.npz"), hynet.Matches.load(folder / "matches.npz")
    return found.descriptors, found.keypoints.frames, found.image_size, found.ratio, matches.indices


def _structure(content: bytes, rng: Rng) -> bytes:
    """Columns of other shapes and types, links, groups in place of columns."""
    memory = io.BytesIO(content)
    with h5py.File(memory, "r+") as file:
        for _ in range(int(rng.integers(1, 4))):
            group = file[("a.jpg", "b/c.jpg")[int(rng.integers(2))]]
            key = ("keypoints", "descriptors", "scores", "scales", "angles", "image_size")[int(rng.integers(6))]
            if key in group:
                del group[key]
            shape = tuple(int(rng.choice([0, 1, 2, 3, 16, 20, 21])) for _ in range(int(rng.integers(0, 4))))
            match int(rng.integers(7)):
                case 0:
                    group[key] = rng.choice([np.nan, np.inf, 1.0, -1.0, 1e38], shape)
                case 1:
                    group[key] = np.zeros(shape, rng.choice(["S5", "bool", "i1", "u8", "c8", "f2"]))
                case 2:
                    group[key] = h5py.SoftLink("/a.jpg")
                case 3:
                    group[key] = h5py.ExternalLink("/etc/passwd", "/")
                case 4:
                    group.create_group(key)
                case 5:
                    group.create_dataset(key, (10**9, 2), "f8", chunks=(10, 2))
                case 6:
                    file.attrs["ratio"] = rng.choice([np.nan, -1.0, 2.0])
    return memory.getvalue()


# --- data sets ---


def _phototour(folder: Path) -> None:
    from hynet.datasets import ubc
    from hynet.types import PatchPairs, PatchSet

    random = np.random.default_rng(0)
    points = np.repeat(np.arange(20), 2)
    patches = random.integers(0, 255, (40, 64, 64), dtype=np.uint8)
    pairs = PatchPairs(np.arange(0, 20), np.arange(1, 21), points[:20] == points[1:21])
    where = {"xy": random.uniform(0, 99, (40, 2)), "angle": np.zeros(40), "log2_scale": np.zeros(40)}
    ubc.write(folder, PatchSet(patches, points, np.zeros(40, np.int64)), **where, pairs=[pairs])
    scenes = [{"name": "a", "first_patch": 0, "patches": 40}]
    (folder / "scene.json").write_text(json.dumps({"scenes": scenes}))
    np.savez(
        folder / "correspondences.npz", first=np.array([0, 2]), second=np.array([1, 3]), hard=np.array([True, False])
    )


def _any_kind(content: bytes, rng: Rng) -> bytes:
    """By what the file sample_all like."""
    if content[:1] in (b"{", b"["):
        return mutations.json_text(content, rng)
    return (mutations.binary if b"\0" in content[:200] else mutations.text)(content, rng)


def _read_phototour(folder: Path) -> Any:
    from hynet.datasets import ubc

    found, pairs = ubc.load(folder, 32), ubc.test_pairs(folder, 20)
    return np.asarray(found.patches), found.points, found.places, found.hard_pairs, pairs.first


def _hpatches(folder: Path) -> None:
    from hynet.datasets.hpatches import COLUMNS

    (folder / "i_x").mkdir()
    for name in COLUMNS:
        Image.fromarray(_photo((65, 130))[:, :, 0]).save(folder / "i_x" / f"{name}.png")


def _read_hpatches(folder: Path) -> Any:
    from hynet.datasets import hpatches

    return list(hpatches.load(folder, hpatches.sequences(folder)[0]).values())


def _homographies(folder: Path) -> None:
    (folder / "H_1_2").write_text("1.1 0.02 3\n-0.01 0.9 5\n1e-4 2e-4 1\n")


def _read_homographies(folder: Path) -> Any:
    from hynet.datasets import sequences

    return sequences.homography(folder / "H_1_2")


def _scenes(folder: Path) -> None:
    (folder / "s").mkdir()
    rows = ["100 0 32", "0 100 24", "0 0 1", "0 0 0", "1 0 0", "0 1 0", "0 0 1", "0 0 1", "64 48"]
    for name in ("a", "b"):
        (folder / "s" / f"{name}.png").write_bytes(_bytes(Image.fromarray(_photo()), "PNG"))
        (folder / "s" / f"{name}.png.camera").write_text("\n".join(rows) + "\n")


def _challenge(folder: Path) -> None:
    home = folder / "set_1"
    (home / "calibration").mkdir(parents=True)
    (home / "images").mkdir()
    for name in ("a", "b"):
        (home / "images" / f"{name}.png").write_bytes(_bytes(Image.fromarray(_photo()), "PNG"))
        with h5py.File(home / "calibration" / f"calibration_{name}.h5", "w") as file:
            file["K"], file["R"], file["T"] = np.diag([100.0, 100, 1]), np.eye(3), np.ones(3)
    np.save(home / "new-vis-pairs-keys.npy", np.array(["a-b"]))


def _read_scenes(folder: Path) -> Any:
    from hynet.datasets import scenes

    views = [view for scene in scenes.load(folder) for view in scene.views.values()]
    return [(view.K, view.cam_from_world.rotation, view.cam_from_world.translation) for view in views]


# --- COLMAP ---


def _colmap_model(folder: Path) -> Any:
    import pycolmap

    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig, options.num_points3D = 1, 1, 4, 30
    return pycolmap.synthesize_dataset(options)


def _model_binary(folder: Path) -> None:
    _colmap_model(folder).write_binary(folder)


def _model_text(folder: Path) -> None:
    _colmap_model(folder).write_text(folder)


def _read_model(folder: Path) -> Any:
    from hynet.pages import view
    from hynet.sfm.colmap.reading import read_model

    model = read_model(folder)
    view.page(model, "x")
    return model.xyz, model.errors, [(photo.xy, photo.cam_from_world) for photo in model.photos]


def _database(folder: Path) -> None:
    from hynet.sfm import colmap

    frames = np.zeros((10, 2, 3), np.float32) + np.eye(2, 3, dtype=np.float32)
    with colmap.opened(folder / "database.db") as store:
        camera = store.add_camera(colmap.guess_camera((64, 48)))
        for name in ("a.jpg", "b.jpg", "c.jpg"):
            store.add_photo(name, camera, frames)
        matches = np.column_stack([np.arange(9), np.arange(9)])
        first, second = store.verifiable("a.jpg"), store.verifiable("b.jpg")
        store.add_pair("a.jpg", "b.jpg", matches, colmap.verify_pair(first, second, matches))
    with contextlib.closing(sqlite3.connect(folder / "database.db")) as file:
        file.execute("PRAGMA journal_mode=DELETE")


def _rows(content: bytes, rng: Rng) -> bytes:
    """Rows missing, numbers and blobs wrong; at times bytes."""
    if rng.random() < 0.3:
        return mutations.binary(content, rng)
    with contextlib.closing(sqlite3.connect(":memory:")) as file:
        file.deserialize(content)
        file.execute("PRAGMA foreign_keys=OFF")
        for _ in range(int(rng.integers(1, 3))):
            table = ("images", "keypoints", "matches", "two_view_geometries", "cameras")[int(rng.integers(5))]
            columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
            if not columns:
                continue  # dropped just now
            column = columns[int(rng.integers(len(columns)))]
            with contextlib.suppress(sqlite3.Error):
                match int(rng.integers(4)):
                    case 0:
                        file.execute(f"DELETE FROM {table}")
                    case 1:
                        value = (None, -1, 2**40, b"\xff" * 7, "x", 1.5)[int(rng.integers(6))]
                        file.execute(f"UPDATE {table} SET {column} = ?", (value,))
                    case 2:
                        file.execute(f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")
                    case 3:
                        file.execute(f"DROP TABLE {table}")
        file.commit()
        return file.serialize()


def _read_database(folder: Path) -> Any:
    from hynet.pages.doctor.examination import examine
    from hynet.sfm import colmap

    examine(folder).data()
    return [*colmap.read_funnel(folder / "database.db").keypoints.values()]


# --- small files of ours ---


def _calibration(folder: Path) -> None:
    row = {"support": 24.0, "ratio": 0.85, "thresholds": {"fundamental": 1.0}}
    (folder / "m.onnx.calibration.json").write_text(json.dumps({"dog": row}))
    (folder / "m.onnx").touch()


def _read_calibration(folder: Path) -> Any:
    from hynet.features.calibrated import saved

    found = saved(folder / "m.onnx", "dog")
    return found.support, found.ratio, list(found.thresholds.values())


def _pairs(folder: Path) -> None:
    (folder / "pairs.txt").write_text("# pairs\na.jpg b.jpg\nb.jpg c.jpg\n\na.jpg c.jpg\n")


def _read_pairs(folder: Path) -> Any:
    from hynet.sfm.pairs import choose_pairs

    return len(choose_pairs(str(folder / "pairs.txt"), ["a.jpg", "b.jpg", "c.jpg"], lambda name: np.zeros((0, 8))))


def _notes(folder: Path) -> None:
    told = {"photos": "/x", "features": "features.h5", "settings": {"ratio": 0.8, "camera": "auto"}}
    (folder / "photos.json").write_text(
        json.dumps({**told, "unreadable": {"z.jpg": "why"}, "contents": {"a.jpg": "0a"}})
    )
    _database(folder)


def _read_notes(folder: Path) -> Any:
    from hynet.pages.doctor.examination import examine

    return len(examine(folder).text())


def _checkpoint(folder: Path) -> None:
    import torch

    import hynet
    from hynet.descriptors import DESCRIPTORS

    torch.manual_seed(0)
    torch.save({"network": DESCRIPTORS["tfeat"]().state_dict()}, folder / "model.pt")
    assert hynet.load(folder / "model.pt")


def _safetensors(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from hynet.descriptors import DESCRIPTORS

    torch.manual_seed(0)
    save_file(DESCRIPTORS["tfeat"]().state_dict(), folder / "model.safetensors")


def _onnx(folder: Path) -> None:
    from hynet.features.models import FOLDER

    shutil.copy(FOLDER / "default.onnx", folder / "model.onnx")


def _read_weights(folder: Path) -> Any:
    import hynet

    (path,) = folder.iterdir()
    return hynet.load(path).describe(np.random.default_rng(0).integers(0, 255, (4, 32, 32), dtype=np.uint8))


def _archives(folder: Path) -> None:
    with zipfile.ZipFile(folder / "set.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in ("info.txt", "a/b.txt"):
            zipped.writestr(name, "0 0\n" * 50)
    with tarfile.open(folder / "set.tar.gz", "w:gz") as tarred:
        tarred.add(folder / "set.zip", "inner/set.zip")


def _read_archives(folder: Path) -> Any:
    from hynet.datasets import downloads

    for path in sorted(folder.glob("set.*")):
        downloads._extract(path, folder / "out")
    outside = [path for path in folder.iterdir() if path.name not in ("set.zip", "set.tar.gz", "out")]
    assert not outside, outside


def _log(folder: Path) -> None:
    lines = [{"step": k, "minutes": k / 10, "loss": 1.0, "violated": 0.1} for k in range(5)]
    lines += [{"step": 5, "minutes": 0.5, "validation": {"set": 3.2}}]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _read_log(folder: Path) -> Any:
    from hynet.training.logbook import read

    return len(read(folder))


def _results(folder: Path) -> None:
    row = {"fpr95": 1.5}
    told = {"benchmark": "ubc", "title": "t", "columns": ["fpr95"], "rows": {"default": row}, "command": "hynet x"}
    told |= {"intervals": {"default": {"fpr95": [1.0, 2.0]}}, "data": "liberty", "versions": {"numpy": "2"}}
    (folder / "ubc.json").write_text(json.dumps(told))


def _read_results(folder: Path) -> Any:
    from hynet.pages.report.page import page

    made = page([folder])
    assert "<script>alert" not in made.html
    return len(made.html)


def _part(folder: Path) -> None:
    from hynet.features.folder import FeatureSettings, extract_all
    from hynet.features.rotation_check import SAMPLING

    (folder / "photos").mkdir()
    for k in range(2):
        (folder / "photos" / f"{k}.png").write_bytes(_bytes(Image.fromarray(_photo(seed=k)), "PNG"))

    def cut_off(count: int, total: int, what: str) -> None:
        if what != SAMPLING:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        extract_all(folder / "photos", folder / "f.h5", FeatureSettings(model="rootsift"), progress=cut_off)


def _read_part(folder: Path) -> Any:
    from hynet.features.folder import FeatureSettings, extract_all

    assert extract_all(folder / "photos", folder / "f.h5", FeatureSettings(model="rootsift")).photos == 2
    return _read_features_of(folder / "f.h5")


def _read_features_of(path: Path) -> Any:
    from hynet.features.hloc_file import h5_names, read_h5

    return [read_h5(path, name).descriptors for name in h5_names(path)]


# --- the command line ---

COMMANDS = """
match photos/0.png photos/1.png --out m.png --model rootsift --max-keypoints 50 --geometry homography --threshold 2
extract photos --out f.h5 --model rootsift --max-keypoints 50 --jobs 1 --longest 64
evaluate homography --data photos --model rootsift --out results
patches photos --out set --hard-share 0.3 --support 12
reconstruct photos --out model --model rootsift --ratio 0.8 --camera auto --pairs exhaustive
train hynet-cpu --data photos --out run --steps 2 --learning-rate 0.1
report results --out report.html
view model --out view.html
doctor model
calibrate --pairs photos --model rootsift --out c.json
export --model default --to m.onnx
plot run --out c.png
data list
"""


def _commands(folder: Path) -> None:
    (folder / "command").write_text(COMMANDS)
    (folder / "photos").mkdir()
    for k in range(2):
        (folder / "photos" / f"{k}.png").write_bytes(_bytes(Image.fromarray(_photo(seed=k)), "PNG"))


def _one_command(content: bytes, rng: Rng) -> bytes:
    lines = content.decode().strip().splitlines()
    words = lines[int(rng.integers(len(lines)))].split()
    for _ in range(int(rng.integers(1, 3))):
        at = int(rng.integers(1, len(words)))
        match int(rng.integers(4)):
            case 0 | 1:
                words[at] = mutations.WORDS[int(rng.integers(len(mutations.WORDS)))].replace("\0", "0")
            case 2:
                words[at : at + 1] = []
                words = words if len(words) > 1 else [*words, "--x"]
            case 3:
                words.insert(at, words[int(rng.integers(1, len(words)))])
    return "\n".join(words).encode()


def _read_command(folder: Path) -> Any:
    from hynet.cli import main

    args = (folder / "command").read_text().split("\n")
    said, complained = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        code = main(args)
    assert code in (0, 2), code
    assert code == 0 or complained.getvalue().startswith("hynet: "), complained.getvalue()
    assert "Traceback" not in complained.getvalue()


READERS = {
    "photos": Reader(_photos, "*", mutations.binary, _read_photos, 20),
    "EXIF": Reader(_exif_photo, "*", _in_exif, _read_exif, 8),
    "masks": Reader(_masked, "mask.png", mutations.binary, _read_masked, 4),
    "HDF5 features, bytes": Reader(_features, "*.h5", mutations.binary, _read_features, 12),
    "HDF5 features, structure": Reader(_features, "*.h5", _structure, _read_features, 8),
    "saved features and matches": Reader(_saved, "*.npz", mutations.binary, _read_saved, 6),
    "PhotoTour sets": Reader(_phototour, "*.*", _any_kind, _read_phototour, 2),
    "HPatches stacks": Reader(_hpatches, "i_x/*", mutations.binary, _read_hpatches, 4),
    "homographies": Reader(_homographies, "*", mutations.text, _read_homographies, 10),
    "cameras, .camera": Reader(_scenes, "s/*.camera", mutations.text, _read_scenes, 6),
    "cameras, challenge": Reader(_challenge, "set_1/calibration/*", mutations.binary, _read_scenes, 4),
    "lists of pairs, challenge": Reader(_challenge, "set_1/*.npy", mutations.binary, _read_scenes, 3),
    "COLMAP models, binary": Reader(_model_binary, "*.bin", mutations.binary, _read_model, 10),
    "COLMAP models, text": Reader(_model_text, "*.txt", mutations.text, _read_model, 6),
    "COLMAP databases": Reader(_database, "*.db", _rows, _read_database, 6),
    "calibrations": Reader(_calibration, "*.json", mutations.json_text, _read_calibration, 8),
    "pair lists": Reader(_pairs, "*.txt", mutations.text, _read_pairs, 8),
    "photos.json": Reader(_notes, "photos.json", mutations.json_text, _read_notes, 4),
    "parts of a cut-off run": Reader(_part, "f.h5.parts/*", _any_kind, _read_part, 0.5),
    "archives": Reader(_archives, "set.*", mutations.binary, _read_archives, 6),
    "checkpoints": Reader(_checkpoint, "*.pt", mutations.binary, _read_weights, 1.5),
    "safetensors": Reader(_safetensors, "*", mutations.binary, _read_weights, 1.5),
    "ONNX": Reader(_onnx, "*", mutations.binary, _read_weights, 0.5),
    "run logs": Reader(_log, "*.jsonl", mutations.text, _read_log, 6),
    "results for report": Reader(_results, "*.json", mutations.json_text, _read_results, 8),
    "command-line options": Reader(_commands, "command", _one_command, _read_command, 1),
}

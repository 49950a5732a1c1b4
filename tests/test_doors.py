"""What comes in is checked once, at the door: each thing that once got through, and the sentence it gets now."""

from __future__ import annotations

import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest
from PIL import Image

import hynet
from hynet import images, metrics
from hynet.cli import main
from hynet.datasets import downloads, sequences
from hynet.errors import BadData, BadInput, BadWeights, HynetError, UnreadableImage
from hynet.features import calibrated
from hynet.features.folder import extract_all
from hynet.features.hloc_file import h5_names, read_h5
from hynet.features.settings import FeatureSettings
from hynet.features.shards import part_of
from hynet.geometry import estimators
from hynet.matching.nearest import match
from hynet.matching.verification import verify
from hynet.runtime.arrays import read_npz
from hynet.runtime.files import atomic_write
from hynet.runtime.machine import cache_folder, settings_folder
from hynet.types import Features, Keypoints, Matches

ROOTSIFT = FeatureSettings(model="rootsift", max_keypoints=50)


def keypoints(count: int = 8) -> Keypoints:
    xy = np.random.default_rng(0).uniform(0, 100, (count, 2))
    return Keypoints.from_circles(xy, np.ones(count), np.zeros(count), np.ones(count))


def features_file(path: Path, **columns) -> Path:
    """A file in hloc's layout, some of its columns replaced."""
    usual = {"keypoints": np.zeros((5, 2)), "descriptors": np.ones((8, 5)), "image_size": np.array([64, 48])}
    with h5py.File(path, "w") as file:
        for key, column in {**usual, **columns}.items():
            file[f"a.jpg/{key}"] = column
    return path


def photo_file(path: Path, seed: int = 0) -> Path:
    grey = cv2.GaussianBlur(np.random.default_rng(seed).uniform(0, 255, (96, 128)), (0, 0), 1.5)
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(cv2.normalize(grey, None, 0, 255, cv2.NORM_MINMAX).astype(np.uint8)).save(path)
    return path


# --- features files ---


@pytest.mark.parametrize("link", [h5py.ExternalLink("secret.h5", "/numbers"), h5py.SoftLink("/elsewhere")])
def test_a_features_file_cannot_lead_to_other_files(tmp_path, link):
    with h5py.File(tmp_path / "secret.h5", "w") as secret:
        secret["numbers"] = np.zeros((5, 2))
    path = features_file(tmp_path / "theirs.h5")
    with h5py.File(path, "a") as file:
        del file["a.jpg/keypoints"]
        file["a.jpg/keypoints"] = link
    with pytest.raises(BadData, match="not followed"):
        read_h5(path, "a.jpg")


def test_a_features_file_cannot_store_its_numbers_in_other_files(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"password" * 20)
    path = features_file(tmp_path / "theirs.h5")
    with h5py.File(path, "a") as file:
        del file["a.jpg/keypoints"]
        file["a.jpg"].create_dataset("keypoints", (5, 2), "f8", external=[(str(secret), 0, 80)])
    with pytest.raises(BadData, match="another file"):
        read_h5(path, "a.jpg")
    with h5py.File(path, "a") as file:
        del file["a.jpg/keypoints"]
        layout = h5py.VirtualLayout((5, 2), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (5, 2))
        file["a.jpg"].create_virtual_dataset("keypoints", layout)
    with pytest.raises(BadData, match="another file"):
        read_h5(path, "a.jpg")


@pytest.mark.parametrize(
    "columns",
    [
        {"keypoints": np.full((5, 2), np.nan)},
        {"keypoints": np.zeros((5, 2), "S3")},
        {"keypoints": np.zeros((4, 2))},
        {"descriptors": np.full((8, 5), np.inf)},
        {"descriptors": np.ones((5, 8))},
        {"scales": np.ones(3)},
        {"angles": np.full(5, np.nan)},
        {"image_size": np.array([640, 480, 3])},
        {"image_size": np.array([0, -5])},
        {"image_size": np.array([np.nan, 1])},
    ],
    ids=lambda columns: "-".join(f"{key}{np.shape(value)}" for key, value in columns.items()),
)
def test_columns_that_do_not_fit_are_refused(tmp_path, columns):
    with pytest.raises(BadData, match=r"theirs\.h5"):
        read_h5(features_file(tmp_path / "theirs.h5", **columns), "a.jpg")


def test_a_column_that_would_not_fit_into_memory_is_refused(tmp_path):
    path = features_file(tmp_path / "theirs.h5")
    with h5py.File(path, "a") as file:
        del file["a.jpg/keypoints"]
        file["a.jpg"].create_dataset("keypoints", (10**10, 2), "f8", chunks=(1000, 2))
    with pytest.raises(BadData, match="wrong shape"):
        read_h5(path, "a.jpg")


# --- numbers that are not numbers ---


def test_names_of_photos_that_are_not_utf8_are_told(tmp_path):
    path = features_file(tmp_path / "theirs.h5")
    with h5py.File(path, "a") as file:
        file[b"\xff.jpg/keypoints"] = np.zeros((5, 2))
    with pytest.raises(BadData, match=r"theirs\.h5 names photos in other letters than UTF-8"):
        h5_names(path)


def test_a_file_whose_notes_are_of_other_types_is_not_believed(tmp_path):
    photo, out = photo_file(tmp_path / "photos" / "a.png"), tmp_path / "features.h5"
    extract_all(photo, out, ROOTSIFT)
    with h5py.File(out, "a") as file:
        file["a.png"].attrs["fingerprint"] = np.arange(3)
    assert extract_all(photo, out, ROOTSIFT).new == 1
    with h5py.File(out, "a") as file:
        file.attrs["settings"] = np.arange(3)
    with pytest.raises(BadInput, match="or is damaged"):
        extract_all(photo, out, ROOTSIFT)


def test_descriptors_and_keypoints_that_are_not_finite_are_refused():
    descriptors = np.ones((8, 4), np.float32)
    descriptors[3] = np.nan
    with pytest.raises(BadInput, match="NaN or infinite"):
        Features(keypoints(), descriptors, (100, 100))
    with pytest.raises(BadInput, match="NaN or infinite"):
        Keypoints(np.full((2, 2, 3), np.inf), np.ones(2))


@pytest.mark.parametrize("row", ['{"support": NaN}', '{"support": -12}', '{"support": 1e308}', '{"ratio": 2}', "[]"])
def test_a_calibration_that_makes_no_sense_is_refused(tmp_path, monkeypatch, row):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = calibrated.places("default")[0]
    path.parent.mkdir(parents=True)
    path.write_text(f'{{"dog": {row}}}')
    with pytest.raises(BadData, match="not a valid calibration"):
        calibrated.saved("default", "dog")


@pytest.mark.parametrize("corner", ["nan", "inf", "0"])
def test_a_homography_that_is_none_is_refused(tmp_path, corner):
    (tmp_path / "H_1_2").write_text(f"1 0 0\n0 1 0\n0 {1 if corner == '0' else 0} {corner}\n")
    with pytest.raises(BadData, match="3 x 3"):
        sequences.homography(tmp_path / "H_1_2")


def test_an_interval_of_unequal_arrays_is_refused():
    with pytest.raises(BadInput, match="needs a group"):
        metrics.bootstrap(np.ones(5), np.ones(4))


def test_fifty_matches_at_one_point_are_no_geometry():
    first = Features(keypoints(), np.ones((8, 4), np.float32), (100, 100))
    matches = Matches(np.zeros((50, 2), np.int64), np.zeros(50, np.float32))
    for kind in ("essential", "fundamental", "homography"):
        assert verify(first, first, matches, kind).model is None


def test_weights_that_are_not_finite_are_refused(tmp_path):
    torch = pytest.importorskip("torch")
    network = hynet.load("default", "torch")
    next(iter(network.parameters())).data[0] = torch.nan
    torch.save(network.state_dict(), tmp_path / "broken.pt")
    with pytest.raises(BadWeights, match="NaN"):
        hynet.load(tmp_path / "broken.pt")


# --- wrong types ---


def test_arrays_where_features_are_meant_get_a_hint():
    with pytest.raises(BadInput, match=r"hynet\.Extractor"):
        match(np.ones((5, 128)), np.ones((5, 128)))
    with pytest.raises(BadInput, match="Keypoints"):
        Features(np.ones((5, 2)), np.ones((5, 128)), (10, 10))
    with pytest.raises(BadInput, match="from_circles"):
        Keypoints((cv2.KeyPoint(1, 2, 3), cv2.KeyPoint(1, 2, 3)), np.ones(2))
    with pytest.raises(BadInput, match=r"hynet\.Features"):
        hynet.draw("a.jpg", "b.jpg", None)


def test_what_is_no_array_path_or_number_gets_a_sentence(tmp_path):
    for patches in ([[1, 2], [3, 4]], Image.new("L", (32, 32)), None):
        with pytest.raises(BadInput, match="patches must be a NumPy array"):
            hynet.load("rootsift").describe(patches)
    with pytest.raises(BadInput, match="must be a path, got NoneType"):
        hynet.load(None)
    with pytest.raises(BadInput, match="max_keypoints must be a whole number, got '9'"):
        hynet.Extractor(max_keypoints="9")
    with pytest.raises(BadInput, match="the detector must be a name"):
        hynet.Extractor(detector=3)
    with pytest.raises(BadInput, match="a photo, or a folder of photos, must be a path, got int"):
        hynet.extract_all(3, tmp_path / "f.h5")
    with pytest.raises(BadInput, match="a recipe is a name or a TrainConfig, got NoneType"):
        hynet.train(None, tmp_path, tmp_path)
    for data, out in ((None, tmp_path), (tmp_path, None)):
        with pytest.raises(BadInput, match="must be a path, got NoneType"):
            hynet.train("hynet", data, out)


def test_what_reconstruct_cannot_use_gets_a_sentence(tmp_path):
    pytest.importorskip("pycolmap")
    for k in range(2):
        photo_file(tmp_path / "photos" / f"{k}.png", seed=k)
    with pytest.raises(BadInput, match="the folder of the photos must be a path, got NoneType"):
        hynet.reconstruct(None, tmp_path / "out")
    with pytest.raises(BadInput, match="settings must be FeatureSettings, got dict"):
        hynet.reconstruct(tmp_path / "photos", tmp_path / "out", settings={"model": "x"})
    with pytest.raises(BadInput, match="the ratio must be above 0"):
        hynet.reconstruct(tmp_path / "photos", tmp_path / "out", ratio="0.8")
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_not_there_is_not_replaced_by_another():
    for model in ("default", "rootsift"):
        with pytest.raises(BadInput, match="cuda"):
            hynet.load(model, device="cuda")


# --- places ---


def test_a_link_stays_and_a_device_is_not_replaced(tmp_path):
    (tmp_path / "real.txt").write_text("before")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    with atomic_write(tmp_path / "link.txt") as temporary:
        temporary.write_text("after")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "after"
    os.mkfifo(tmp_path / "pipe")
    for device in (Path(os.devnull), tmp_path / "pipe"):
        with pytest.raises(BadInput, match="device"), atomic_write(device):
            pass
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(BadInput, match="cannot write"), atomic_write(tmp_path / "round"):
        pass


def test_what_is_written_is_on_the_disk_before_it_is_renamed(tmp_path, monkeypatch):
    order = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: order.append("fsync") or fsync(file))
    monkeypatch.setattr(os, "replace", lambda *paths: order.append("replace") or replace(*paths))
    with atomic_write(tmp_path / "a.txt") as temporary:
        temporary.write_text("a")
    assert order == ["fsync", "replace"]


def test_a_pipe_is_no_photo_and_linked_folders_are_followed(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(UnreadableImage, match="pipe"):
        images.read(tmp_path / "pipe.jpg")
    photo_file(tmp_path / "elsewhere" / "a.png")
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "round").symlink_to(folder)
    assert images.list_photos(folder) == [folder / "linked" / "a.png"]


def test_a_picture_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(images.reading, "BOMB_BYTES", 1_000_000)
    Image.new("RGBA", (2000, 2000)).save(tmp_path / "bomb.png")
    with pytest.raises(UnreadableImage, match="unpack"):
        images.read(tmp_path / "bomb.png")


# --- extraction ---


def test_an_empty_part_and_a_name_that_is_not_utf8_stop_nobody(tmp_path):
    photo_file(tmp_path / "photos" / "a.png")
    photo_file(tmp_path / "photos" / "b.png", seed=1)
    os.rename(tmp_path / "photos" / "b.png", os.fsencode(tmp_path / "photos") + b"/\xff.png")
    out = tmp_path / "features.h5"

    def cut_off(done: int, total: int, what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract_all(tmp_path / "photos", out, ROOTSIFT, progress=cut_off)
    part_of(tmp_path / "features.h5.parts", "a.png").write_bytes(b"")
    done = extract_all(tmp_path / "photos", out, ROOTSIFT)
    assert h5_names(out) == ["a.png"]
    assert list(done.unreadable.values()) == [f"{tmp_path}/photos/\\udcff.png has a name that is not UTF-8; rename it."]


def test_parts_of_photos_that_were_not_asked_for_wait_for_who_asks(tmp_path):
    for k in range(2):
        photo_file(tmp_path / "photos" / f"{k}.png", seed=k)
    out = tmp_path / "features.h5"

    def cut_off(done: int, total: int, what: str) -> None:
        if what == "0.png":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract_all(tmp_path / "photos", out, ROOTSIFT, progress=cut_off)
    assert part_of(tmp_path / "features.h5.parts", "0.png").exists()
    extract_all(tmp_path / "photos" / "1.png", out, ROOTSIFT)
    assert h5_names(out) == ["1.png"]
    assert extract_all(tmp_path / "photos", out, ROOTSIFT).new == 1
    assert h5_names(out) == ["0.png", "1.png"]
    assert not (tmp_path / "features.h5.parts").exists()


@pytest.mark.parametrize("content", [b"", b'{"detector": "do', b"[1]", b"7", b"\xb4\xe4", b'{"orientation": {"a": 1}}'])
def test_parts_with_damaged_settings_are_named_and_kept(tmp_path, content):
    parts = tmp_path / "features.h5.parts"
    parts.mkdir()
    (parts / "settings.json").write_bytes(content)
    part_of(parts, "a.png").write_bytes(b"hours of work")
    with pytest.raises(BadInput, match=r"features\.h5\.parts was .*--overwrite"):
        extract_all(photo_file(tmp_path / "photos" / "a.png"), tmp_path / "features.h5", ROOTSIFT)
    assert part_of(parts, "a.png").read_bytes() == b"hours of work"


def spoil_zip(path: Path, at: int, value: int) -> None:
    """Into the headers of all files in a zip; the offset is that of the local ones, two less than in the directory."""
    content = bytearray(path.read_bytes())
    for mark, more in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        start = content.find(mark)
        while start >= 0:
            content[start + at + more] = value
            start = content.find(mark, start + 1)
    path.write_bytes(content)


@pytest.mark.parametrize(("at", "value"), [(8, 77), (6, 1)])
def test_an_archive_of_arrays_in_an_unknown_compression_or_locked_is_broken(tmp_path, at, value):
    np.savez(tmp_path / "a.npz", numbers=np.arange(3))
    assert read_npz(tmp_path / "a.npz")["numbers"].tolist() == [0, 1, 2]
    spoil_zip(tmp_path / "a.npz", at, value)
    with pytest.raises(ValueError, match=r"compression|encrypted"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("out", ["", ".", "photos", "/"])
def test_a_folder_is_no_features_file(tmp_path, monkeypatch, capsys, out):
    monkeypatch.chdir(tmp_path)
    photo_file(tmp_path / "photos" / "a.png")
    assert main(["extract", "photos", "--out", out, "--model", "rootsift"]) == 2
    assert "is a folder; give the name of a file in it, such as" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.png", "photos"]


# --- archives ---


def test_bombs_and_encrypted_archives_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "SMALL", 1000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("info.txt", bytes(10_000_000))
    with pytest.raises(BadData, match="unpacks to more"):
        downloads._extract(tmp_path / "bomb.zip", tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "locked.zip", "w") as zipped:
        zipped.writestr("info.txt", b"0 0\n")
    locked = bytearray((tmp_path / "locked.zip").read_bytes())
    for start in (locked.find(b"PK\x03\x04") + 6, locked.find(b"PK\x01\x02") + 8):
        locked[start] |= 1  # the flag that says a password is needed
    (tmp_path / "locked.zip").write_bytes(locked)
    with pytest.raises(BadData, match="encrypted"):
        downloads._extract(tmp_path / "locked.zip", tmp_path / "out")
    assert not (tmp_path / "out" / "info.txt").exists()


# --- COLMAP's models ---


@pytest.mark.parametrize("name", ["cameras", "images", "points3D", "frames", "rigs"])
@pytest.mark.parametrize("how", ["cut", "count", "nan"])
def test_a_broken_model_is_told_before_colmap_believes_it(tmp_path, name, how):
    pytest.importorskip("hynet.sfm.colmap")
    from hynet.sfm.colmap.reading import read_model

    pycolmap = pytest.importorskip("pycolmap")
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig, options.num_points3D = 1, 1, 4, 30
    pycolmap.synthesize_dataset(options).write_binary(tmp_path)
    assert len(read_model(tmp_path).photos) == 4
    path = tmp_path / f"{name}.bin"
    content = path.read_bytes()
    if how == "cut":
        content = content[:-5]
    elif how == "count":
        content = struct.pack("<Q", 2**60) + content[8:]
    else:
        content = content[:8] + b"\xff" * (len(content) - 8)
    path.write_bytes(content)
    with pytest.raises(BadData, match=rf"{name}\.bin"):
        read_model(tmp_path)


@pytest.mark.parametrize("number", ["1e300", "7"])
def test_a_camera_that_is_not_turned_but_stretched_is_refused(tmp_path, number):
    pytest.importorskip("hynet.sfm.colmap")
    from hynet.sfm.colmap.reading import read_model

    pycolmap = pytest.importorskip("pycolmap")
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig, options.num_points3D = 1, 1, 4, 30
    pycolmap.synthesize_dataset(options).write_text(tmp_path)
    assert len(read_model(tmp_path).photos) == 4
    lines = (tmp_path / "frames.txt").read_text().splitlines()
    words = lines[-1].split()
    words[3] = number  # of its quaternion: frame, rig, then w x y z
    (tmp_path / "frames.txt").write_text("\n".join([*lines[:-1], " ".join(words)]) + "\n")
    with pytest.raises(BadData, match="cannot be"):
        read_model(tmp_path)


@pytest.mark.parametrize(
    "camera", ["PINHOLE,nan,1,1,1", "PINHOLE,inf,1,1,1", "PINHOLE,-1,1,1,1", "SIMPLE_PINHOLE,x,1,1"]
)
def test_a_camera_that_is_none_is_refused(camera):
    pytest.importorskip("pycolmap")
    with pytest.raises(BadInput, match="camera"):
        hynet.sfm.colmap.parse_camera(camera, (10, 10))


# --- the machine ---


def run(code: str, **options) -> subprocess.CompletedProcess[str]:
    program = f"import sys; from hynet.cli import main; sys.exit(main({code}))"
    return subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, timeout=120, **options)


def test_a_full_device_gets_one_sentence():
    with open("/dev/full", "w") as full:
        ended = run("['--help']", stdout=full)
    assert ended.returncode == 2
    assert ended.stderr == (
        "hynet: the system refused: No space left on device; mend that and run the same command again.\n"
    )


def test_a_limit_on_the_size_of_files_gets_one_sentence(tmp_path):
    photo_file(tmp_path / "photos" / "a.png")
    ended = run(
        f"['extract', {str(tmp_path / 'photos')!r}, '--out', {str(tmp_path / 'f.h5')!r}, '--model', 'rootsift']",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("hynet: cannot write ")
    assert ended.stderr.count("\n") == 1


def test_a_limit_on_open_files_gets_one_sentence(tmp_path):
    for k in range(2):
        photo_file(tmp_path / "photos" / f"{k}.png", seed=k)
    ended = run(
        f"['extract', {str(tmp_path / 'photos')!r}, '--out', {str(tmp_path / 'f.h5')!r}, '--jobs', '2']",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10)),
    )
    assert ended.returncode == 2, ended.stderr
    assert re.fullmatch(r"hynet: .*Too many open files.*\n", ended.stderr)


def test_several_processes_need_no_shared_memory(tmp_path):
    command = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none /dev/shm && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("needs to mount a folder")
    code = (
        "from hynet.runtime.pool import in_processes\n"
        "print(dict(in_processes('operator:add', {'a': (1, 2), 'b': (3, 4)}, 2)) == {'a': 3, 'b': 7})"
    )
    ended = subprocess.run([*command, sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout == "True\n", ended


def test_without_a_home_one_is_asked_for(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as where neither HOME nor the user is known
    monkeypatch.delenv("XDG_CONFIG_HOME")
    for folder in (cache_folder, settings_folder):
        with pytest.raises(HynetError, match="set HOME"):
            folder()


def test_points_that_lie_apart_are_still_a_geometry():
    random = np.random.default_rng(0)
    first = random.uniform(0, 500, (60, 2))
    assert estimators.homography(first, first * 1.2 + 3, 2.0)[1].all()

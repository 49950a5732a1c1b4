"""Photo to Features, and many photos to one file that survives being killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest

from conftest import exchange
from hynet import descriptors
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadData, BadInput, UnknownName
from hynet.features.addresses import name_photos
from hynet.features.extractors.patchwise import Extractor
from hynet.features.folder import extract_all
from hynet.features.hloc_file import columns, h5_names, read_h5
from hynet.features.rotation_check import SAMPLING
from hynet.features.settings import FeatureSettings
from hynet.features.shards import PART
from hynet.types import Keypoints

ROOTSIFT = FeatureSettings(model="rootsift", max_keypoints=60)


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    return synthetic.photo_pair(5, (320, 240))[0]


def write_photos(folder: Path, names: list[str], size=(160, 120)) -> Path:
    for seed, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / name), synthetic.photo_pair(seed, size)[0])
    return folder


def test_features_are_unit_vectors_at_keypoints(photo):
    found = Extractor(model="rootsift", max_keypoints=100)(photo)
    assert len(found) == 100
    assert found.image_size == (320, 240)
    assert np.linalg.norm(found.descriptors, axis=1) == pytest.approx(1, abs=1e-4)


def test_a_shrunken_search_still_speaks_in_pixels_of_the_original():
    rows, columns_ = np.indices((400, 500))
    blob = np.rint(30 + 200 * np.exp(-((columns_ - 310.4) ** 2 + (rows - 155.7) ** 2) / (2 * 12**2)))
    found = Extractor(model="rootsift", orientation="upright", longest=200)(blob.astype(np.uint8))
    nearest = np.linalg.norm(found.keypoints.xy - [310.4, 155.7], axis=1).argmin()
    assert found.keypoints.xy[nearest] == pytest.approx([310.4, 155.7], abs=0.25)
    assert found.keypoints.sigma[nearest] * 2 ** (1 / 6) == pytest.approx(12, rel=0.05)
    assert found.image_size == (500, 400)


@pytest.mark.parametrize("image", [np.zeros((1, 1)), np.zeros((200, 300)), np.full((40, 2), 255)])
def test_a_photo_without_anything_to_see_has_no_features(image):
    found = Extractor(model="rootsift")(image.astype(np.uint8))
    assert found.descriptors.shape == (0, 128)


def test_any_detector_can_be_plugged_in(photo):
    def centre(image: np.ndarray) -> Keypoints:
        return Keypoints.from_circles([[image.shape[1] / 2, image.shape[0] / 2]], [3.0], [0.0], [1.0])

    assert Extractor(detector=centre, model="rootsift")(photo).keypoints.xy.tolist() == [[160, 120]]
    with pytest.raises(UnknownName, match="dog"):
        Extractor(detector="dig", model="rootsift")


def test_a_file_opens_as_hloc_opens_it(tmp_path):
    photos = write_photos(tmp_path / "photos", ["a.png", "night/b.jpg"])
    extract_all(photos, tmp_path / "features.h5", ROOTSIFT)
    with h5py.File(tmp_path / "features.h5", "r") as file:
        names: set[str] = set()
        file.visititems(
            lambda _, item: names.add(item.parent.name.strip("/")) if isinstance(item, h5py.Dataset) else None
        )
        assert names == {"a.png", "night/b.jpg"}
        group = file["night/b.jpg"]
        keypoints = group["keypoints"].__array__()
        assert keypoints.dtype == np.float32
        assert keypoints.shape == (60, 2)
        assert group["descriptors"].__array__().shape == (128, 60)
        assert group["image_size"].__array__().tolist() == [160, 120]
        assert {len(group[key]) for key in ("scores", "scales", "angles")} == {60}


def test_what_is_written_is_what_is_read(tmp_path):
    photos = write_photos(tmp_path / "photos", ["a.png"])
    extract_all(photos, tmp_path / "features.h5", ROOTSIFT)
    assert h5_names(tmp_path / "features.h5") == ["a.png"]
    read, made = read_h5(tmp_path / "features.h5", "a.png"), ROOTSIFT.open_extractor()(photos / "a.png")
    assert read.keypoints.frames == pytest.approx(made.keypoints.frames, abs=1e-4)
    assert np.array_equal(read.descriptors, made.descriptors)
    assert read.image_size == made.image_size


def test_features_of_others_need_no_scales(tmp_path, photo):
    full = columns(Extractor(model="rootsift", max_keypoints=10)(photo))
    with h5py.File(tmp_path / "theirs.h5", "w") as file:
        for key in ("keypoints", "descriptors"):
            file[f"a.jpg/{key}"] = full[key].astype(np.float16)
    read = read_h5(tmp_path / "theirs.h5", "a.jpg")
    assert read.keypoints.sigma == pytest.approx(1)
    assert read.descriptors.dtype == np.float32
    assert (read.keypoints.xy < read.image_size).all()
    with pytest.raises(BadData, match=r"b\.jpg"):
        read_h5(tmp_path / "theirs.h5", "b.jpg")
    with h5py.File(tmp_path / "theirs.h5", "w") as file:
        file["a.jpg/keypoints"], file["a.jpg/descriptors"] = np.ones(4), np.ones((8, 4))
    with pytest.raises(BadData, match="wrong shape"):
        read_h5(tmp_path / "theirs.h5", "a.jpg")


def test_a_second_run_adds_only_what_is_new(tmp_path):
    photos = write_photos(tmp_path / "photos", ["a.png", "b.png"])
    assert extract_all(photos, tmp_path / "f.h5", ROOTSIFT).new == 2
    before = read_h5(tmp_path / "f.h5", "a.png")
    os.utime(photos / "a.png")  # touched, but the same
    (photos / "b.png").unlink()
    write_photos(photos, ["c.png"])
    told: list[str] = []
    result = extract_all(
        [photos, photos / "b.png"], tmp_path / "f.h5", ROOTSIFT, progress=lambda done, total, what: told.append(what)
    )
    assert (result.photos, result.new, dict(result.unreadable), told) == (3, 1, {}, ["c.png"])
    assert np.array_equal(read_h5(tmp_path / "f.h5", "a.png").descriptors, before.descriptors)
    assert extract_all(photos, tmp_path / "f.h5", ROOTSIFT).new == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.h5", "photos"]


@pytest.mark.parametrize("killed", [False, True])
def test_a_replaced_photo_is_noticed_whatever_its_size_and_time(tmp_path, killed):
    photos, out = write_photos(tmp_path / "photos", ["a.bmp", "b.bmp"]), tmp_path / "f.h5"

    def die(done: int, total: int, what: str) -> None:
        if killed and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) if killed else nullcontext():
        extract_all(photos, out, ROOTSIFT, progress=die)
    exchange(photos / "a.bmp", (photos / "b.bmp").read_bytes())
    result = extract_all(photos, out, ROOTSIFT)
    assert (result.photos, result.new) == (2, 2 if killed else 1)
    a, b = (read_h5(out, name).descriptors for name in ("a.bmp", "b.bmp"))
    assert np.array_equal(a, b)
    exchange(photos / "a.bmp", b"no photo at all")
    result = extract_all(photos, out, ROOTSIFT)
    assert (result.photos, result.new, list(result.unreadable)) == (1, 0, ["a.bmp"])
    assert h5_names(out) == ["b.bmp"]  # what was seen of another picture is not kept under this name


def test_a_replaced_or_added_mask_is_noticed(tmp_path):
    photos, masks, out = write_photos(tmp_path / "photos", ["a.png", "b.png"]), tmp_path / "masks", tmp_path / "f.h5"
    settings = replace(ROOTSIFT, mask=str(masks))
    left, right = np.zeros((120, 160), np.uint8), np.zeros((120, 160), np.uint8)
    left[:, :80], right[:, 80:] = 255, 255
    masks.mkdir()
    cv2.imwrite(str(masks / "a.png.png"), left, [cv2.IMWRITE_PNG_COMPRESSION, 0])
    assert extract_all(photos, out, settings).new == 2
    assert (read_h5(out, "a.png").keypoints.xy[:, 0] < 81).all()
    exchange(masks / "a.png.png", cv2.imencode(".png", right, [cv2.IMWRITE_PNG_COMPRESSION, 0])[1].tobytes())
    assert extract_all(photos, out, settings).new == 1
    assert (read_h5(out, "a.png").keypoints.xy[:, 0] > 79).all()
    cv2.imwrite(str(masks / "b.png.png"), left)
    assert extract_all(photos, out, settings).new == 1
    assert (read_h5(out, "b.png").keypoints.xy[:, 0] < 81).all()


def test_a_file_made_before_fingerprints_opens_and_is_extracted_again_once(tmp_path):
    photos, out = write_photos(tmp_path / "photos", ["a.png"]), tmp_path / "f.h5"
    extract_all(photos, out, ROOTSIFT)
    with h5py.File(out, "a") as file:
        del file["a.png"].attrs["fingerprint"]
    assert len(read_h5(out, "a.png"))
    assert [extract_all(photos, out, ROOTSIFT).new for _ in range(2)] == [1, 0]


def test_features_of_two_kinds_are_not_mixed(tmp_path):
    photos = write_photos(tmp_path / "photos", ["a.png"])
    extract_all(photos, tmp_path / "f.h5", ROOTSIFT)
    with pytest.raises(BadInput, match=r"other settings \(model was rootsift, now sift"):
        extract_all(photos, tmp_path / "f.h5", FeatureSettings(model="sift"))
    h5py.File(tmp_path / "other.h5", "w").close()
    with pytest.raises(BadInput, match="not made by `hynet extract`"):
        extract_all(photos, tmp_path / "other.h5", ROOTSIFT)
    (tmp_path / "text.h5").write_text("not HDF5")
    with pytest.raises(BadData, match="not a features file"):
        extract_all(photos, tmp_path / "text.h5", ROOTSIFT)


def test_a_model_that_was_trained_on_is_another_model(tmp_path):
    torch = pytest.importorskip("torch")
    photos = write_photos(tmp_path / "photos", ["a.png"])
    learnt = FeatureSettings(model=str(tmp_path / "net.pt"), max_keypoints=5)
    torch.save(descriptors.TFeat().state_dict(), tmp_path / "net.pt")
    assert extract_all(photos, tmp_path / "f.h5", learnt).new == 1
    assert extract_all(photos, tmp_path / "f.h5", learnt).new == 0
    torch.save(descriptors.TFeat().state_dict(), tmp_path / "net.pt")
    with pytest.raises(BadInput, match=r"other settings \(weights was"):
        extract_all(photos, tmp_path / "f.h5", learnt)


def test_photos_that_are_not_there_are_told_by_the_exit_code_and_the_others_done(tmp_path, capsys):
    photos, out = write_photos(tmp_path / "photos", ["a.png"]), tmp_path / "f.h5"
    wrong = [str(tmp_path / name) for name in ("b.png", "c.png")]
    options = ["--out", str(out), "--model", "rootsift", "--max-keypoints", "5", "--jobs", "1"]
    assert main(["extract", str(photos), *wrong, *options]) == 2
    sentence = "b.png and 1 more are not there; correct the path and run the same command again: the others are kept."
    assert capsys.readouterr().err.splitlines()[-1] == f"hynet: {sentence}"
    assert h5_names(out) == ["a.png"]


def test_unreadable_photos_are_listed_and_the_others_done_by_several_processes(tmp_path):
    photos = write_photos(tmp_path / "photos", [f"{k}.png" for k in range(4)])
    (photos / "broken.png").write_bytes((photos / "0.png").read_bytes()[:500])
    (photos / "empty.jpg").touch()
    steps: list[tuple[int, str]] = []
    result = extract_all(
        photos, tmp_path / "f.h5", ROOTSIFT, jobs=2, progress=lambda done, total, what: steps.append((done, what))
    )
    seen = [done for done, what in steps if what != SAMPLING]
    assert list(result.unreadable) == ["broken.png", "empty.jpg"]
    assert "empty" in result.unreadable["empty.jpg"]
    assert seen == [1, 2, 3, 4, 5, 6]
    extract_all(photos, tmp_path / "alone.h5", ROOTSIFT)
    for name in h5_names(tmp_path / "f.h5"):
        together, alone = read_h5(tmp_path / "f.h5", name), read_h5(tmp_path / "alone.h5", name)
        assert np.array_equal(together.descriptors, alone.descriptors)


def test_a_killed_run_loses_nothing_leaves_nobody_behind_and_is_taken_up(tmp_path):
    photos = write_photos(tmp_path / "photos", [f"{k:02}.png" for k in range(40)])
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\n"
        "from hynet.features.folder import extract_all\n"
        "from hynet.features.settings import FeatureSettings\n"
        "if __name__ == '__main__':\n"
        "    extract_all(sys.argv[1], sys.argv[2], FeatureSettings(model='rootsift', max_keypoints=60), jobs=2)\n"
    )
    # The workers hold the other end of this pipe, so that it closes when the last of them is gone.
    run = subprocess.Popen([sys.executable, script, photos, tmp_path / "f.h5"], stderr=subprocess.PIPE)
    parts = tmp_path / "f.h5.parts"
    deadline = time.monotonic() + 60
    while len(list(parts.glob(f"*{PART}"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    run.kill()
    run.communicate(timeout=30)
    finished = list(parts.glob(f"*{PART}"))
    assert 3 <= len(finished) < 40
    done_again: list[str] = []
    result = extract_all(
        photos, tmp_path / "f.h5", ROOTSIFT, progress=lambda done, total, what: done_again.append(what)
    )
    assert result.photos == 40
    assert len(done_again) == 40 - len(finished)


def test_when_nothing_can_be_read_that_is_an_error(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").touch()
    with pytest.raises(BadInput, match="empty"):
        extract_all(tmp_path / "photos", tmp_path / "f.h5", ROOTSIFT)
    with pytest.raises(BadInput, match="no photo"):
        extract_all(tmp_path / "absent", tmp_path / "f.h5", ROOTSIFT)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_photos_are_named_below_their_folder(tmp_path):
    photos = write_photos(tmp_path, ["x/a.png", "x/sub/b.png", "y/a.png"])
    assert list(name_photos(photos / "x")) == ["a.png", "sub/b.png"]
    assert list(name_photos([photos / "x", photos / "x" / "a.png"])) == ["a.png", "sub/b.png"]
    with pytest.raises(BadInput, match=r"two photos are named a\.png"):
        name_photos([photos / "x", photos / "y"])

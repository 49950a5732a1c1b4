"""Photos without distortion, read back by the rules of 3DGS, gsplat and nerfstudio."""

from __future__ import annotations

import struct
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadInput, DataNotFound
from hynet.sfm import colmap
from hynet.sfm.undistortion import undistort

pytest.importorskip("pycolmap")

BEND = 0.15


@pytest.fixture(scope="module")
def truth() -> synthetic.SyntheticScene:
    return synthetic.scene(seed=1, photos=3, size=(400, 300))


@pytest.fixture(scope="module")
def splat(truth, tmp_path_factory) -> Path:
    """The photos seen through a lens, one of them lying on its side as EXIF says; reconstructed and straightened."""
    home = tmp_path_factory.mktemp("splat")
    (home / "photos" / "a").mkdir(parents=True)
    focal, width, height = truth.K[0, 0], 400, 300
    lens = colmap.parse_camera(f"SIMPLE_RADIAL,{focal},{width / 2},{height / 2},{BEND}", (width, height))
    pinhole = colmap.parse_camera(colmap.pinhole_text(truth.K), (width, height))
    grid = np.column_stack([each.ravel() for each in np.meshgrid(np.arange(width), np.arange(height))])
    x, y = pinhole.pixels(lens.rays(grid)).astype(np.float32).T.reshape(2, height, width)
    for k, photo in enumerate(truth.photos):
        seen = Image.fromarray(cv2.remap(photo, x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT))
        if k == 1:
            exif = Image.Exif()
            exif[0x0112] = 6  # to be turned right
            seen.transpose(Image.Transpose.ROTATE_90).save(home / "photos" / "1.webp", exif=exif, lossless=True)
        else:
            seen.save(home / "photos" / "a" / f"{k}.png")
    asked = ["reconstruct", str(home / "photos"), "--out", str(home / "model"), "--undistort", str(home / "out")]
    camera = f"SIMPLE_RADIAL,{focal},{width / 2},{height / 2},{BEND}"
    assert main([*asked, "--model", "rootsift", "--max-keypoints", "600", "--camera", camera]) == 0
    return home


def as_3dgs_reads(folder: Path):
    """cameras.bin and images.bin byte by byte, PINHOLE only: camera -> numbers, name -> pose, camera, keypoints."""
    cameras, views = {}, {}
    with (folder / "cameras.bin").open("rb") as file:
        for _ in range(struct.unpack("<Q", file.read(8))[0]):
            number, model, width, height = struct.unpack("<iiQQ", file.read(24))
            assert model == 1  # PINHOLE: the code of 3DGS takes no other
            cameras[number] = (width, height, *struct.unpack("<4d", file.read(32)))
    with (folder / "images.bin").open("rb") as file:
        for _ in range(struct.unpack("<Q", file.read(8))[0]):
            _, *pose, camera = struct.unpack("<idddddddi", file.read(64))
            name = b"".join(iter(lambda: file.read(1), b"\0")).decode()
            (count,) = struct.unpack("<Q", file.read(8))
            points = np.frombuffer(file.read(24 * count), [("xy", "<f8", 2), ("point", "<i8")])
            views[name] = (np.array(pose), camera, points)
    xyz = {}
    with (folder / "points3D.bin").open("rb") as file:
        for _ in range(struct.unpack("<Q", file.read(8))[0]):
            number, *place = struct.unpack("<Qddd", file.read(32))
            file.read(3 + 8)
            file.read(8 * struct.unpack("<Q", file.read(8))[0])
            xyz[number] = place
    return cameras, views, xyz


def turned(quaternion: np.ndarray) -> np.ndarray:
    w, x, y, z = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_points_lie_on_their_keypoints_by_the_rules_of_3dgs(splat):
    cameras, views, xyz = as_3dgs_reads(splat / "out" / "sparse" / "0")
    files = sorted(
        path.relative_to(splat / "out" / "images").as_posix() for path in (splat / "out/images").rglob("*.*")
    )
    assert files == sorted(views) == ["1.png", "a_0.png", "a_2.png"]  # gsplat pairs the two sorted lists
    for name, (pose, camera, points) in views.items():
        width, height, fx, fy, cx, cy = cameras[camera]
        with Image.open(splat / "out" / "images" / name) as photo:
            assert photo.size == (width, height)
            assert photo.getexif().get(0x0112, 1) == 1
        with Image.open(splat / "out" / "masks" / f"{Path(name).stem}.png") as mask:  # as nerfstudio names them
            assert mask.size == (width, height)
            assert np.asarray(mask).min() == 255
        seen = points[points["point"] >= 0]
        assert len(seen) > 50
        x, y, z = turned(pose[:4]) @ np.array([xyz[number] for number in seen["point"]]).T + pose[4:, None]
        apart = np.hypot(fx * x / z + cx - seen["xy"][:, 0], fy * y / z + cy - seen["xy"][:, 1])
        assert np.median(apart) < 0.5


def test_the_photos_are_those_that_a_pinhole_would_have_taken(splat, truth):
    cameras, views, _ = as_3dgs_reads(splat / "out" / "sparse" / "0")
    for name, k in (("a_0.png", 0), ("1.png", 1), ("a_2.png", 2)):
        width, height, fx, fy, cx, cy = cameras[views[name][1]]
        ours = cv2.imread(str(splat / "out" / "images" / name), cv2.IMREAD_GRAYSCALE).astype(float)
        straight = np.array([[fx, 0, cx - 0.5], [0, fy, cy - 0.5], [0, 0, 1]])
        true = cv2.warpPerspective(
            truth.photos[k], straight @ np.linalg.inv(truth.K), (width, height), flags=cv2.INTER_CUBIC
        )
        inner = (slice(20, height - 20), slice(20, width - 20))
        assert np.abs(ours - true)[inner].mean() < 4
        shifted = np.abs(ours[:, 2:] - true[:, :-2])[20 : height - 20, 20 : width - 20].mean()
        assert shifted > 2 * np.abs(ours - true)[inner].mean()  # a shift of two pixels would show


def test_a_mask_is_straightened_with_its_photo_and_wrong_photos_are_told(splat, tmp_path):
    masks = tmp_path / "masks" / "a"
    masks.mkdir(parents=True)
    hidden = np.full((300, 400), 255, np.uint8)
    hidden[:, :200] = 0
    cv2.imwrite(str(masks / "0.png.png"), hidden)
    assert undistort(splat / "model", splat / "photos", tmp_path / "out", masks=masks.parent) == 3
    drawn = cv2.imread(str(tmp_path / "out" / "masks" / "a_0.png"), cv2.IMREAD_GRAYSCALE)
    assert drawn[:, : drawn.shape[1] // 2 - 2].max() == 0
    assert drawn[:, drawn.shape[1] // 2 + 2 :].min() == 255
    with pytest.raises(DataNotFound, match=r"is not in"):
        undistort(splat / "model", splat / "photos" / "a", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    cv2.imwrite(str(masks / "2.png.png"), hidden[:9])
    with pytest.raises(BadInput, match="another size than its photo"):
        undistort(splat / "model", splat / "photos", tmp_path / "half", masks=masks.parent)
    assert not (tmp_path / "half" / "sparse").exists()


@pytest.mark.parametrize("into", ["scene", "scene/images", "scene/images/new"])
def test_photos_are_never_overwritten_by_their_undistorted_ones(into, tmp_path, capsys):
    photo = tmp_path / "scene" / "images" / "0.png"
    photo.parent.mkdir(parents=True)
    photo.write_bytes(b"the only one")
    asked = f"reconstruct {photo.parent} --out {tmp_path}/model --undistort {tmp_path / into}"
    assert main(asked.split()) == 2
    assert "cannot go into" in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [photo]
    assert not (tmp_path / "model").exists()

"""Photos come in as grey pixels, or with one sentence that says why not."""

from __future__ import annotations

import io
import os
import struct
import sys
import threading
import zlib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

import hynet
from hynet import images
from hynet.errors import BadInput, DataNotFound, UnreadableImage


@pytest.fixture(scope="module")
def colour() -> np.ndarray:
    """A smooth colour picture (40, 60, 3) uint8, so that lossy formats change it little."""
    coarse = np.random.default_rng(0).uniform(0, 255, (5, 7, 3)).astype(np.float32)
    return cv2.resize(coarse, (60, 40), interpolation=cv2.INTER_CUBIC).clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def grey(colour) -> np.ndarray:
    return np.rint(colour @ [0.299, 0.587, 0.114])


@pytest.mark.parametrize("suffix", ["png", "ppm", "tiff", "bmp"])
def test_every_exact_format_gives_the_grey_values_of_its_array(suffix, colour, grey, tmp_path):
    Image.fromarray(colour).save(tmp_path / f"photo.{suffix}")
    photo = images.read(tmp_path / f"photo.{suffix}")
    assert photo.dtype == np.uint8
    assert np.array_equal(photo, images.read(colour))
    assert np.abs(photo - grey).max() <= 1


@pytest.mark.parametrize("suffix", ["jpg", "webp"])
def test_lossy_formats_give_nearly_the_grey_values_of_their_array(suffix, colour, grey, tmp_path):
    Image.fromarray(colour).save(tmp_path / f"photo.{suffix}", quality=95)
    assert np.abs(images.read(tmp_path / f"photo.{suffix}") - grey).mean() < 3
    decoded = np.asarray(Image.open(tmp_path / f"photo.{suffix}").convert("RGB"))
    assert np.abs(images.read(tmp_path / f"photo.{suffix}").astype(int) - images.read(decoded)).max() <= 2


@pytest.mark.parametrize("suffix", ["png", "tiff", "ppm"])
@pytest.mark.parametrize("channels", ["grey", "colour"])
def test_sixteen_bits_become_eight(suffix, channels, colour, grey, tmp_path):
    path = str(tmp_path / f"photo.{suffix if (suffix, channels) != ('ppm', 'grey') else 'pgm'}")
    levels = colour[:, :, ::-1] if channels == "colour" else images.read(colour)
    cv2.imwrite(path, levels.astype(np.uint16) * 257)
    assert np.abs(images.read(path) - grey).max() <= 1


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGBA", "CMYK"])
def test_every_colour_mode_is_read(mode, colour, tmp_path):
    suffix = "tiff" if mode == "CMYK" else "png"
    Image.fromarray(colour).convert(mode).save(tmp_path / f"photo.{suffix}")
    expected = np.asarray(Image.fromarray(colour).convert(mode).convert("RGB").convert("L")).astype(int)
    assert np.abs(images.read(tmp_path / f"photo.{suffix}") - expected).max() <= 1


def test_a_cmyk_jpeg_is_not_a_negative(colour, grey, tmp_path):
    Image.fromarray(colour).convert("CMYK").save(tmp_path / "photo.jpg", quality=95)
    assert np.abs(images.read(tmp_path / "photo.jpg") - grey).mean() < 5


def test_transparency_hides_nothing(colour, tmp_path):
    alpha = np.full((*colour.shape[:2], 1), 90, np.uint8)
    Image.fromarray(np.concatenate([colour, alpha], 2)).save(tmp_path / "photo.png")
    assert np.array_equal(images.read(tmp_path / "photo.png"), images.read(colour))


@pytest.mark.parametrize("suffix", ["gif", "webp", "png"])
def test_an_animation_is_its_first_frame(suffix, tmp_path):
    frames = [Image.new("RGB", (9, 9), (level, level, level)) for level in (40, 200)]
    frames[0].save(tmp_path / f"photo.{suffix}", save_all=True, append_images=frames[1:])
    assert np.abs(images.read(tmp_path / f"photo.{suffix}").astype(int) - 40).max() <= 3


@pytest.mark.parametrize("suffix", ["jpg", "png", "tiff", "webp"])
def test_a_photo_is_turned_upright(suffix, colour, tmp_path):
    quarter_turn = Image.Exif()
    quarter_turn[0x0112] = 6  # the top of the scene is the right side of the stored pixels
    stored = Image.fromarray(np.rot90(colour).copy())
    stored.save(tmp_path / f"photo.{suffix}", exif=quarter_turn, quality=95)
    photo = images.read(tmp_path / f"photo.{suffix}").astype(int)
    assert photo.shape == colour.shape[:2]
    assert np.abs(photo - images.read(colour)).mean() < 3


@pytest.mark.parametrize(
    ("kind", "full"), [(np.uint8, 255), (np.uint16, 65535), (">u2", 65535), (np.float32, 1), (np.float64, 1)]
)
def test_an_array_keeps_black_and_white(kind, full):
    ramp = np.linspace(0, full, 256).round(0 if full > 1 else 9).astype(kind).reshape(16, 16)
    assert np.array_equal(images.read(ramp).ravel(), np.arange(256))


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((4, 4, 2), np.uint8), r"\(4, 4, 2\)"),
        (np.zeros((0, 4), np.uint8), r"\(0, 4\)"),
        (np.zeros(4, np.uint8), r"\(4,\)"),
        (np.full((4, 4), 200.0), "200"),
        (np.full((4, 4), np.nan), "nan"),
        (np.zeros((4, 4), np.int64), "int64"),
    ],
)
def test_an_array_that_is_no_image_is_told_so(array, reason):
    with pytest.raises(BadInput, match=reason):
        images.read(array)


def test_a_single_pixel_is_a_photo(tmp_path):
    Image.new("L", (1, 1), 77).save(tmp_path / "dot.png")
    assert images.read(tmp_path / "dot.png").tolist() == [[77]]


@pytest.mark.parametrize("suffix", ["jpg", "png", "tiff", "webp", "ppm"])
def test_a_truncated_photo_is_refused(suffix, tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / f"whole.{suffix}")
    content = (tmp_path / f"whole.{suffix}").read_bytes()
    (tmp_path / f"cut.{suffix}").write_bytes(content[: len(content) // 2])
    with pytest.raises(UnreadableImage, match="cut"):
        images.read(tmp_path / f"cut.{suffix}")


def test_what_is_not_a_photo_gets_one_sentence(tmp_path):
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.jpg").write_text("not a photo")
    for name, reason in {
        "empty.jpg": "empty",
        "text.jpg": "not a photo",
        "": "folder",
        "absent.jpg": "no photo",
    }.items():
        with pytest.raises(UnreadableImage, match=reason) as caught:
            images.read(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_photo_without_permission_is_told_so(tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "secret.png")
    (tmp_path / "secret.png").chmod(0)
    with pytest.raises(UnreadableImage, match="permission"):
        images.read(tmp_path / "secret.png")


def png_that_claims(width: int, height: int) -> bytes:
    """A PNG of a few hundred bytes whose header promises any size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def test_a_decompression_bomb_is_refused_by_its_header(tmp_path):
    (tmp_path / "bomb.png").write_bytes(png_that_claims(30_000, 20_000))
    limit = Image.MAX_IMAGE_PIXELS
    with pytest.raises(UnreadableImage, match="30000 x 20000"):
        images.read(tmp_path / "bomb.png")
    assert limit == Image.MAX_IMAGE_PIXELS


def blob(shape: tuple[int, int], xy: tuple[float, float], sigma: float) -> np.ndarray:
    y, x = np.indices(shape)
    bump = np.exp(-((x - xy[0]) ** 2 + (y - xy[1]) ** 2) / (2 * sigma**2))
    return np.rint(20 + 200 * bump).astype(np.uint8)


def test_shrinking_moves_a_point_where_the_scale_says():
    photo = blob((301, 407), (250.3, 120.6), 12)
    small, scale = images.shrink(photo, 173)
    assert max(small.shape) == 173
    weights = small.astype(float) - 20
    y, x = np.indices(small.shape)
    centre = np.array([[(weights * x).sum(), (weights * y).sum()]]) / weights.sum()
    assert images.unshrink(centre, scale) == pytest.approx(np.array([[250.3, 120.6]]), abs=0.05)


def test_a_thread_of_a_photo_keeps_a_pixel():
    assert images.shrink(np.zeros((3, 5000), np.uint8), 100)[0].shape == (1, 100)


def test_a_small_photo_is_not_enlarged():
    photo = blob((30, 40), (20, 20), 5)
    assert images.shrink(photo, 100) == (photo, 1.0)


def test_photos_are_listed_with_those_of_folders_below(tmp_path):
    for name in ["b.JPG", "a.png", "sub/c.tif", "notes.txt", ".hidden.jpg", ".cache/d.jpg"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert images.list_photos(tmp_path) == [tmp_path / "a.png", tmp_path / "b.JPG", tmp_path / "sub" / "c.tif"]


def test_a_folder_without_photos_is_told_so(tmp_path):
    (tmp_path / "notes.txt").touch()
    for folder in (tmp_path, Path(tmp_path, "absent")):
        with pytest.raises(DataNotFound):
            images.list_photos(folder)


def test_colours_come_as_they_are_and_grey_photos_as_three_equal_channels(tmp_path):
    colours = np.zeros((4, 5, 3), np.uint8)
    colours[..., 0], colours[..., 2] = 200, 30
    Image.fromarray(colours).save(tmp_path / "colours.png")
    Image.fromarray(colours[..., 0]).save(tmp_path / "grey.png")
    np.testing.assert_array_equal(images.read_colour(tmp_path / "colours.png"), colours)
    np.testing.assert_array_equal(images.read_colour(tmp_path / "grey.png"), np.full((4, 5, 3), 200))
    np.testing.assert_array_equal(images.read_colour(colours / np.float32(255)), colours)


# --- photos as people have them ---


@pytest.fixture(scope="module")
def turned_jpeg(colour) -> bytes:
    """A JPEG that EXIF says to turn, with a focal length."""
    exif = Image.Exif()
    exif[0x0112] = 6
    exif.get_ifd(0x8769)[0xA405] = 30  # mm of 35 mm film
    file = io.BytesIO()
    Image.fromarray(np.rot90(colour).copy()).save(file, "JPEG", exif=exif, quality=95)
    return file.getvalue()


def ways_to_give(content: bytes, folder: Path) -> dict[str, object]:
    (folder / "photo.jpg").write_bytes(content)
    written = io.BytesIO()
    written.write(content)  # stands at its end
    return {
        "str": str(folder / "photo.jpg"),
        "home": "~/photo.jpg",
        "bytes": content,
        "bytearray": bytearray(content),
        "file": written,
        "PIL": Image.open(io.BytesIO(content)),
    }


def test_a_photo_is_the_same_however_it_is_given(turned_jpeg, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    ways = ways_to_give(turned_jpeg, tmp_path)
    expected, focal = images.read_colour(ways["str"]), images.focal(ways["str"])
    assert expected.shape == (40, 60, 3)
    assert focal > 0
    for way, photo in ways.items():
        np.testing.assert_array_equal(images.read_colour(photo), expected, err_msg=way)
        assert images.focal(photo) == focal, way
        assert np.abs(images.read(photo).astype(int) - images.read(expected)).max() <= 2, way
        assert images.thumbnail(photo, 30).shape == (20, 30, 3), way


def test_tensors_and_arrays_of_any_layout_are_photos(colour):
    torch = pytest.importorskip("torch")
    expected = images.read(colour)
    channels_first = torch.tensor(colour.transpose(2, 0, 1).copy())
    for tensor in (channels_first, channels_first[None], channels_first / 255, torch.tensor(colour)):
        np.testing.assert_array_equal(images.read(tensor), expected)
    np.testing.assert_array_equal(images.read(torch.tensor(expected)[None]), expected)
    np.testing.assert_array_equal(images.read(expected[:, :, None]), expected)
    assert np.abs(images.read((channels_first / 255).bfloat16().requires_grad_()) - expected.astype(int)).max() <= 2
    with pytest.raises(BadInput, match="transpose"):
        images.read(colour.transpose(2, 0, 1))


def test_a_bool_mask_hides_keypoints(colour):
    photo = cv2.resize(colour, (300, 200), interpolation=cv2.INTER_NEAREST)
    mask = np.zeros((200, 300), bool)
    mask[:, 150:] = True
    extract = hynet.Extractor(model="rootsift", max_keypoints=200)
    assert extract(photo).keypoints.xy[:, 0].min() < 140
    assert extract(photo, mask).keypoints.xy[:, 0].min() > 149


def test_what_is_not_a_photo_is_told_what_is():
    for wrong in (None, 3, [[1, 2], [3, 4]], {"a": 1}):
        with pytest.raises(BadInput, match="a photo is a path, a URL, bytes"):
            images.read(wrong)
    with pytest.raises(BadInput, match="binary mode"):
        images.read(io.StringIO("text"))
    with pytest.raises(UnreadableImage, match="the photo is empty"):
        images.read(b"")
    with pytest.raises(UnreadableImage, match="the photo is not a photo"):
        images.read(b"nothing of the kind")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def test_a_url_is_fetched_and_a_wrong_one_told_in_one_sentence(turned_jpeg, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(turned_jpeg)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        expected = images.read(tmp_path / "photo.jpg")
        np.testing.assert_array_equal(images.read(f"{address}/photo.jpg"), expected)
        np.testing.assert_array_equal(images.read(Path(f"{address}/photo.jpg")), expected)  # loses a slash
        with pytest.raises(UnreadableImage, match=f"{address}/absent.jpg answered 404"):
            images.read(f"{address}/absent.jpg")
        server.shutdown()
    with pytest.raises(UnreadableImage, match="is there a network"):
        images.read(f"{address}/photo.jpg")


def test_a_heic_photo_is_read(colour, tmp_path):
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()
    Image.fromarray(colour).save(tmp_path / "phone.heic", quality=95)
    assert np.abs(images.read(tmp_path / "phone.heic").astype(int) - images.read(colour)).mean() < 3
    assert images.list_photos(tmp_path) == [tmp_path / "phone.heic"]


def test_without_its_package_a_heic_photo_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (tmp_path / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(50))
    with pytest.raises(UnreadableImage, match=r"pip install 'hynet-features\[heic\]'"):
        images.read(tmp_path / "phone.heic")


def test_features_remember_their_photo_and_draw_it_in_colour(colour, tmp_path):
    photo = cv2.resize(colour, (1200, 800), interpolation=cv2.INTER_NEAREST)
    Image.fromarray(photo).save(tmp_path / "photo.png")
    extract = hynet.Extractor(model="rootsift", max_keypoints=100)
    a, b = extract(tmp_path / "photo.png"), extract(photo)
    assert a.photo == tmp_path / "photo.png"
    assert b.photo.shape == (600, 900, 3)
    matches = hynet.match(a, b)
    picture = hynet.draw(a, b, matches)
    left, right = picture[:600, :900].astype(int), picture[:600, 910:].astype(int)
    assert np.abs(np.median(left - right)) < 10
    assert (picture[:600].std(2) > 10).mean() > 0.3
    assert hynet.draw(a, b, matches, inliers=np.zeros(len(matches), bool)).shape == picture.shape
    with pytest.raises(BadInput, match="one bool per match"):
        hynet.draw(a, b, matches, inliers=np.zeros(3, bool))
    with pytest.raises(BadInput, match="not of these features"):
        hynet.draw(a[:2], b, matches)


@pytest.mark.parametrize(("name", "sentence"), [("x" * 300 + ".jpg", "too long"), ("file.png/b.jpg", "no photo")])
def test_a_path_that_the_system_refuses_is_one_sentence(tmp_path, name, sentence):
    (tmp_path / "file.png").touch()
    with pytest.raises(UnreadableImage, match=sentence):
        images.read(tmp_path / name)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_of_exif_is_undone_as_pillow_does(tmp_path, orientation):
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as photo:
        expected = np.asarray(ImageOps.exif_transpose(photo))
    np.testing.assert_array_equal(images.read(tmp_path / "a.png"), expected)
    assert images.is_turned(tmp_path / "a.png") == (orientation != 1)


def test_pixels_are_read_though_the_metadata_is_broken(tmp_path, monkeypatch):
    Image.fromarray(np.full((8, 9), 77, np.uint8)).save(tmp_path / "a.png")

    def broken(photo):
        raise SyntaxError("not a TIFF file")  # as Pillow says of a garbled EXIF header

    monkeypatch.setattr(Image.Image, "getexif", broken)
    assert (images.read(tmp_path / "a.png") == 77).all()

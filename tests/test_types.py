from __future__ import annotations

import pickle
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hynet
from hynet.datasets import synthetic
from hynet.errors import BadData, BadInput, plural
from hynet.images import patches
from hynet.runtime.files import atomic_write
from hynet.types import LAF_SUPPORT, Features, Keypoints, Matches, PatchPairs, PatchSet, Table


@given(x=st.floats(-1e3, 1e3), y=st.floats(-1e3, 1e3), sigma=st.floats(0.1, 100), angle=st.floats(-3.1, 3.1))
def test_circles_come_back_from_frames(x, y, sigma, angle):
    keypoints = Keypoints.from_circles([[x, y]], [sigma], [angle], [1.0])
    np.testing.assert_allclose(keypoints.xy, [[x, y]], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(keypoints.sigma, [sigma], rtol=1e-4)
    np.testing.assert_allclose(keypoints.angle, [angle], atol=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PatchSet(np.zeros((3, 4, 5), np.uint8), np.zeros(3, int)),
        lambda: PatchSet(np.zeros((3, 4, 4), np.uint8), np.zeros(2, int)),
        lambda: PatchSet(np.zeros((3, 4, 4), np.float32), np.zeros(3, int)),
        lambda: PatchPairs(np.zeros(3, int), np.zeros(2, int), np.zeros(3, bool)),
        lambda: Keypoints(np.zeros((3, 2, 2)), np.zeros(3)),
        lambda: Keypoints(np.zeros((3, 2, 3)), np.zeros(2)),
        lambda: Features(Keypoints(np.zeros((3, 2, 3)), np.zeros(3)), np.zeros((2, 128)), (5, 5)),
        lambda: Matches(np.zeros((3, 3), int), np.zeros(3)),
    ],
)
def test_values_that_do_not_fit_together_are_refused_when_made(make):
    with pytest.raises(BadInput):
        make()


def test_a_table_prints_the_papers_row_above_ours():
    paper = Table("UBC", ["fpr95"], {"HyNet": {"fpr95": 0.84}})
    ours = Table("UBC", ["fpr95", "pairs"], {"hynet": {"fpr95": 0.9, "pairs": 100}})
    lines = ours.beside(paper).markdown().splitlines()
    assert lines[0] == "**UBC**"
    assert [line.split("|")[1].strip() for line in lines[4:]] == ["HyNet (paper)", "hynet"]
    assert lines[4].split("|")[3].strip() == "-"


@pytest.mark.parametrize(
    ("count", "words", "sentence"),
    [
        (0, ("pair",), "0 pairs"),
        (1, ("match",), "1 match"),
        (3, ("match",), "3 matches"),
        (1, ("entry", "entries"), "1 entry"),
        (2, ("entry", "entries"), "2 entries"),
    ],
)
def test_only_one_of_a_thing_is_written_in_the_singular(count, words, sentence):
    assert plural(count, *words) == sentence


def test_large_counts_are_written_with_commas_on_request():
    assert plural(1234, "pair", spec=",") == "1,234 pairs"


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "deep" / "file.txt"
    with atomic_write(target) as temporary:
        temporary.write_text("first")
        assert not target.exists()
    with pytest.raises(ZeroDivisionError), atomic_write(target) as temporary:
        temporary.write_text(f"half of the sec{1 / 0}")
    assert target.read_text() == "first"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


def test_an_unwritable_place_gets_one_sentence(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(BadInput, match="cannot write"), atomic_write(tmp_path / "file" / "x.txt"):
        pass


def test_a_table_is_no_wider_than_the_terminal_and_names_what_is_left_out():
    columns = [f"column {k}" for k in range(9)]
    table = Table("Wide", columns, {"a method": dict.fromkeys(columns, 1.5)})
    shown = table.markdown(60)
    assert max(map(len, shown.splitlines()[:5])) <= 60
    assert "column 3" in shown.splitlines()[2]
    assert shown.endswith("column 4, column 5, column 6, column 7, column 8.")
    long = Table("Long", ["what"], {"a": {"what": "words " * 40}, "b": {"what": "few"}}).markdown(50)
    assert max(map(len, long.splitlines())) <= 50
    assert "…" in long
    assert table.markdown() == table.markdown(1000)


# --- other people's shapes, in and out ---


@pytest.fixture(scope="module")
def some() -> Keypoints:
    rng = np.random.default_rng(0)
    xy, sigma = rng.uniform(60, 140, (20, 2)), rng.uniform(1, 3, 20)
    return Keypoints.from_circles(xy, sigma, rng.uniform(-3, 3, 20), rng.uniform(0, 1, 20))


def test_keypoints_go_to_opencv_and_back(some):
    back = Keypoints.from_cv2(some.to_cv2())
    np.testing.assert_allclose(back.frames, some.frames, atol=1e-4)
    np.testing.assert_allclose(back.scores, some.scores)
    point = cv2.KeyPoint(10, 20, 8, -1, 0.5)  # as FAST leaves it: no angle
    upright = Keypoints.from_cv2((point,))
    np.testing.assert_allclose(upright.frames, [[[4, 0, 10], [0, 4, 20]]], atol=1e-6)
    assert len(Keypoints.from_cv2([])) == 0
    with pytest.raises(BadInput, match=r"cv2\.KeyPoint"):
        Keypoints.from_cv2(np.zeros((3, 2)))


def test_opencv_describes_our_keypoints_as_it_does_its_own():
    photo = synthetic.texture((320, 240), seed=1)
    sift = cv2.SIFT.create(100)
    found, expected = sift.detectAndCompute(photo, None)
    first_octave = [k for k, point in enumerate(found) if point.octave & 255 == 255]
    again = Keypoints.from_cv2(found).to_cv2()
    for k in first_octave:
        again[k].octave = found[k].octave  # which layer of its own pyramid; nothing that a keypoint is
    _, descriptors = sift.compute(photo, [again[k] for k in first_octave])
    assert np.abs(descriptors - expected[first_octave]).mean() < 2


def test_kornia_cuts_the_patches_that_we_cut(some):
    torch = pytest.importorskip("torch")
    feature = pytest.importorskip("kornia.feature")
    photo = cv2.GaussianBlur(synthetic.texture((200, 200), seed=2), (0, 0), 3)
    ours = patches.cut(photo, some, 32, patches.SUPPORT_SIGMAS)
    lafs = torch.from_numpy(some.to_lafs())
    assert lafs.shape == (1, 20, 2, 3)
    theirs = feature.extract_patches_from_pyramid(torch.tensor(photo)[None, None].float(), lafs, PS=32)[0, :, 0].numpy()
    inside = np.abs(some.xy - 100).max(1) + 12 * 1.5 * some.sigma < 100  # borders are filled in other ways
    assert inside.sum() > 8
    assert np.abs(theirs - ours)[inside].mean() < 1.5
    back = Keypoints.from_lafs(lafs.requires_grad_(), some.scores)
    np.testing.assert_allclose(back.frames, some.frames, atol=1e-5)
    assert LAF_SUPPORT == patches.SUPPORT_SIGMAS
    with pytest.raises(BadInput, match="frames must be"):
        Keypoints.from_lafs(np.zeros((1, 3, 3, 3)))


def features(some: Keypoints) -> Features:
    rows = np.random.default_rng(1).normal(size=(20, 8)).astype(np.float32)
    return Features(some, rows, (200, 150), 0.8, {"fundamental": 1.5}, 321.5)


def test_features_and_matches_are_saved_and_loaded(some, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    saved = features(some)
    saved.save("~/a.npz")
    loaded = Features.load(tmp_path / "a.npz")
    for name in ("descriptors", "image_size", "ratio", "thresholds", "focal"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(saved, name))
    np.testing.assert_array_equal(loaded.keypoints.frames, some.frames)  # ellipses too, unlike hloc's layout
    found = Matches(np.array([[0, 3], [2, 1]]), np.array([0.5, 0.25], np.float32))
    found.save(tmp_path / "m.npz")
    back = Matches.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(back.indices, found.indices)
    np.testing.assert_array_equal(back.distances, found.distances)
    Features(some, saved.descriptors, (9, 9)).save(tmp_path / "plain.npz")
    assert Features.load(tmp_path / "plain.npz").ratio is None


def test_a_file_that_does_not_hold_features_is_told_so(some, tmp_path):
    features(some).save(tmp_path / "a.npz")
    content = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.npz").write_text("no features")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.savez(tmp_path / "pickled.npz", kind=np.array("Features"), frames=np.array([{}], object))
    np.savez(tmp_path / "half.npz", kind=np.array("Features"), frames=some.frames)
    Matches(np.zeros((0, 2), int), np.zeros(0)).save(tmp_path / "m.npz")
    for name in ("cut", "text", "other", "pickled", "half", "m", "absent"):
        with pytest.raises(BadData, match=f"{name}.npz") as caught:
            Features.load(tmp_path / f"{name}.npz")
        assert "\n" not in str(caught.value)


def test_an_extractor_pickles_and_extracts_the_same():
    photo = synthetic.texture((320, 240), seed=4)
    extract = hynet.Extractor(detector="keynet", model="default-int8", max_keypoints=40, shape="baumberg", support=20.0)
    again = pickle.loads(pickle.dumps(extract.turned_as("upright")))
    assert (again.orientation, again.support, again.ratio) == ("upright", 20.0, extract.ratio)
    np.testing.assert_array_equal(again(photo).descriptors, extract.turned_as("upright")(photo).descriptors)
    found = pickle.loads(pickle.dumps(extract(photo)))
    assert len(found) == len(extract(photo))


def test_values_show_themselves_in_a_notebook(some):
    shown = features(some)._repr_html_()
    assert shown.count("<circle") == 20
    assert "20 features of 8 numbers" in shown
    assert repr(features(some)) == "<20 features of 8 numbers, in a photo of 200 x 150 pixels>"
    found = Matches(np.zeros((5, 2), int), np.linspace(0.2, 1, 5, dtype=np.float32))
    assert "5 matches; distance 0.20 to 1.00, median 0.60" in found._repr_html_()
    assert "no matches" in found[:0]._repr_html_()
    html = Table("<b>", ["x"], {"a & b": {"x": 1.0}})._repr_html_()
    assert "&lt;b&gt;" in html
    assert "a &amp; b" in html
    for each in (shown, found._repr_html_(), html):
        ElementTree.fromstring(each)

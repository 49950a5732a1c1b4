from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hynet.errors import BadInput
from hynet.system.files import whole
from hynet.types import Features, Keypoints, Matches, PatchPairs, PatchSet, Table


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


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "deep" / "file.txt"
    with whole(target) as temporary:
        temporary.write_text("first")
        assert not target.exists()
    with pytest.raises(ZeroDivisionError), whole(target) as temporary:
        temporary.write_text(f"half of the sec{1 / 0}")
    assert target.read_text() == "first"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


def test_an_unwritable_place_gets_one_sentence(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(BadInput, match="cannot write"), whole(tmp_path / "file" / "x.txt"):
        pass

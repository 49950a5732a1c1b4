"""What is worth its time on one's own photos: measured, compared, and named as a command."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from hynet.cli import main
from hynet.datasets import synthetic
from hynet.evaluation.tuning.choosing import Candidate, Measured, candidates, front, known_pairs, within
from hynet.evaluation.tuning.tuning import RIGHT
from hynet.geometry import transfer


def measured(ms: float, right: float) -> Measured:
    return Measured(Candidate("dog", "default", 100), ms, right)


def test_the_front_holds_what_nothing_beats_in_both():
    fast, slow, good = measured(10, 50), measured(30, 40), measured(40, 90)
    assert front([good, slow, measured(40, 80), fast]) == [fast, good]


def test_a_budget_buys_the_most_right_matches_that_fit_or_nothing():
    choices = [measured(10, 50), measured(40, 90)]
    assert within(39, choices) == choices[0]
    assert within(40, choices) == choices[1]
    assert within(9, choices) is None


def test_every_detector_meets_every_model_and_extractors_stand_alone():
    made = candidates(["dog", "keynet"], ["light"], ["opencv-sift"], [10, 20])
    assert len(made) == 6
    assert made[-1].options == "--extractor opencv-sift --max-keypoints 20"
    assert made[0].options == "--detector dog --model light --max-keypoints 10"
    assert (
        Candidate("dog", "my runs/best.pt", 10).options == "--detector dog --model 'my runs/best.pt' --max-keypoints 10"
    )


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """One photo: nothing else shows the same place."""
    folder = tmp_path_factory.mktemp("photos")
    cv2.imwrite(str(folder / "one.png"), synthetic.texture((360, 280), seed=3))
    return folder


def test_a_photo_without_others_is_matched_with_a_copy_whose_homography_is_known(photos, tmp_path):
    (pair,), meaning = known_pairs(photos, 4, tmp_path)
    assert "known homography" in meaning
    first, second = (cv2.imread(str(path), cv2.IMREAD_GRAYSCALE).astype(float) for path in (pair.first, pair.second))
    corners = np.array([[100.0, 90.0], [250.0, 180.0]])
    for (x, y), (u, v) in zip(corners, np.rint(transfer(pair.truth.second_from_first, corners)), strict=True):
        here, there = first[int(y), int(x)], second[int(v), int(u)]
        assert there == pytest.approx(0.7 * here, abs=25)


def test_the_command_prints_the_front_what_right_means_and_what_to_run(photos, capsys):
    options = "--detectors dog --models rootsift --extractors opencv-sift --keypoints 60,200 --budget 60s --json"
    assert main(["choose", "--photos", str(photos), *options.split()]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["rows"]) == 4
    assert all(row.keys() == {"extractor", "model", "keypoints", "ms", "right"} for row in told["rows"])
    assert max(row["right"] for row in told["rows"]) > 10
    assert told["chosen"] == told["front"][-1]
    assert told["command"].startswith("hynet match A B --")
    assert f"within {RIGHT:g} pixels" in told["right_means"]


def test_a_budget_that_nothing_meets_is_told(photos, capsys):
    options = "--detectors dog --models rootsift --extractors= --keypoints 60 --budget 0.001ms"
    assert main(["choose", "--photos", str(photos), *options.split()]) == 0
    assert "Nothing takes less than 0.001 ms here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--budget soon", "not a valid budget"),
        ("--keypoints many", "not a valid list of keypoint numbers"),
        ("--models nobody", "no model 'nobody'"),
    ],
)
def test_wrong_options_get_one_sentence(photos, capsys, options, said):
    assert main(["choose", "--photos", str(photos), *options.split()]) == 2
    assert said in capsys.readouterr().err

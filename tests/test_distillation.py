"""A teacher in a run: used for its part of the run only, resumable, and learnt from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import hynet
from conftest import train_whole_and_cut
from hynet.datasets import synthetic
from hynet.errors import BadInput
from hynet.training import descriptor, logbook
from hynet.training.configuration import TrainConfig

TAUGHT = TrainConfig(
    network="lightnet",
    dropout=0.0,
    loss="distilled",
    teacher="default",
    epochs=None,
    steps=6,
    pairs_per_batch=8,
    compiled=False,
    log_every=1,
)


@pytest.fixture(scope="module")
def patches():
    return synthetic.patch_set(60, 4, seed=1)


def test_a_taught_run_that_stops_and_goes_on_ends_as_one_that_did_not(tmp_path, patches):
    config = replace(TAUGHT, distill_fraction=0.5)
    one, other = (torch.load(run / "last.pt")["network"] for run in train_whole_and_cut(config, patches, tmp_path))
    assert all(torch.equal(one[key], other[key]) for key in one)
    taught = [line["step"] for line in logbook.read(tmp_path / "cut") if "copies" in line]
    assert taught == [1, 2, 3]  # half of the six steps


def test_a_pupil_comes_to_say_what_its_teacher_says(tmp_path, patches):
    config = replace(TAUGHT, steps=60, pairs_per_batch=30, learning_rate=0.005, schedule="linear")
    trained = hynet.load(hynet.train(config, {"a": patches}, tmp_path).checkpoint)
    unseen = synthetic.patch_set(60, 2, seed=2).patches
    teachers = hynet.load("default").describe(unseen)
    before = descriptor.start(config, "cpu").network.describe(unseen)
    agreement = [float(np.mean((rows * teachers).sum(1))) for rows in (before, trained.describe(unseen))]
    assert agreement[0] < 0.2
    assert agreement[1] > 0.35


def test_a_teacher_is_refused_by_a_loss_that_cannot_learn_from_it(tmp_path, patches):
    with pytest.raises(BadInput, match="the loss hynet has no use for a teacher"):
        hynet.train(replace(TAUGHT, loss="hynet"), {"a": patches}, tmp_path)


def test_a_teacher_that_does_not_exist_is_told_before_the_first_step(tmp_path, patches):
    with pytest.raises(BadInput, match="no model 'nobody'"):
        hynet.train(replace(TAUGHT, teacher="nobody"), {"a": patches}, tmp_path)

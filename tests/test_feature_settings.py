"""The one list of options for making features."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict, fields
from inspect import cleandoc
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import hynet
from hynet.datasets import synthetic
from hynet.descriptors import DESCRIPTORS
from hynet.errors import BadInput
from hynet.features import extractors
from hynet.features.settings import FeatureOptions, FeatureSettings, from_stored, stored_settings
from hynet.types import Descriptor, Detector

# What version 0.1 stored with the features of `hynet extract --model rootsift --upright --affine`
EARLIER = {
    "detector": "dog",
    "descriptor": "rootsift",
    "max_keypoints": 60,
    "upright": True,
    "longest": 1600,
    "affine": True,
    "score_threshold": None,
    "spread": True,
    "mask": None,
    "support": 12.0,
    "weights": None,
    "orientation": "auto",
    "shape": "none",
    "extractor": None,
    "precision": None,
}


@pytest.fixture(scope="module")
def photo():
    return synthetic.texture((120, 160), seed=4)


def kinds(hint: Any) -> set[Any]:
    """The types that an annotation allows."""
    if get_origin(hint) is Literal:
        return {type(each) for each in get_args(hint)}
    return set(get_args(hint)) if isinstance(hint, UnionType) else {hint}


def test_keyword_options_and_settings_have_the_same_names_and_types():
    options = get_type_hints(
        FeatureOptions,
        None,
        {"Descriptor": Descriptor, "Detector": Detector, "PhotoExtractor": extractors.PhotoExtractor},
    )
    own = get_type_hints(FeatureSettings)
    assert list(options) == list(own)
    assert all(kinds(own[name]) <= kinds(options[name]) for name in own)


def test_help_of_every_setting_is_in_the_docstrings():
    for each in fields(FeatureSettings):
        for documented in (FeatureSettings, hynet.Extractor):
            assert f"\n    {each.name}: " in cleandoc(documented.__doc__ or "")


def test_an_extractor_takes_every_setting():
    assert hynet.Extractor(**asdict(FeatureSettings(model="rootsift"))).settings == FeatureSettings(model="rootsift")


@pytest.mark.parametrize(
    ("options", "now"),
    [
        ({"descriptor": "rootsift"}, "model=..."),
        ({"upright": True}, 'orientation="upright"'),
        ({"affine": True}, 'shape="baumberg"'),
    ],
)
def test_a_renamed_option_is_answered_with_its_new_name(options, now):
    with pytest.raises(BadInput, match=f"no option {next(iter(options))}; give {now} instead."):
        hynet.Extractor(**options)


def test_options_without_names_are_refused_with_an_example():
    with pytest.raises(BadInput, match=r"by their names, such as hynet.Extractor\(detector='keynet'\)"):
        hynet.Extractor("keynet")


@pytest.mark.parametrize("options", [{"extractor": "opencv-sift"}, {"mask": "masks"}, {"precision": "int8"}])
def test_settings_of_stored_features_are_refused_for_a_photo_alone(options):
    with pytest.raises(BadInput, match=r"hynet.Extractor is a detector with a descriptor"):
        hynet.Extractor(**options)


def test_a_ready_descriptor_is_given_as_the_model(photo):
    ready = hynet.Extractor(model=DESCRIPTORS["rootsift"](), max_keypoints=50)(photo)
    named = hynet.Extractor(model="rootsift", max_keypoints=50)(photo)
    assert np.array_equal(ready.descriptors, named.descriptors)


def test_settings_of_features_made_by_an_earlier_version_are_read():
    made, weights = from_stored(json.dumps(EARLIER))
    assert made == FeatureSettings(
        model="rootsift", max_keypoints=60, orientation="upright", shape="baumberg", support=12.0, spread=True
    )
    assert weights is None
    assert stored_settings(made.to_json()) == stored_settings(json.dumps(EARLIER))


@pytest.mark.parametrize("text", [None, "", "[]", '{"colour": 1}', "[" * 100_000])
def test_what_are_not_settings_of_features_is_said_to_be_none(text):
    with pytest.raises(ValueError, match=r"not the settings|keyword argument"):
        from_stored(text)


def test_the_device_says_nothing_about_features_and_is_not_stored():
    assert "device" not in json.loads(FeatureSettings(device="cuda").to_json())


def test_settings_and_their_extractor_survive_pickling(photo):
    extract = FeatureSettings(model="rootsift", max_keypoints=40, mask="masks", precision="int8").open_extractor()
    assert isinstance(extract, extractors.patchwise.Extractor)
    again = pickle.loads(pickle.dumps(extract))
    assert np.array_equal(again(photo).descriptors, extract(photo).descriptors)


def test_two_photos_get_elliptic_regions_and_many_do_not():
    assert FeatureSettings().for_two_photos().shape == "affine-network"
    assert FeatureSettings(model="light").for_two_photos().shape == "none"
    assert FeatureSettings().for_many_photos().shape == "none"
    assert FeatureSettings(shape="baumberg").for_many_photos().shape == "baumberg"


def test_keypoints_of_dog_are_not_spread_over_a_plane():
    assert FeatureSettings().for_two_photos("homography").spread is False
    assert FeatureSettings(spread=True).for_two_photos("homography").spread is True
    assert FeatureSettings(detector="keynet").for_two_photos("homography").spread is True

"""One list of the options for matching photos, for Python, the command line and the page."""

from __future__ import annotations

from dataclasses import fields
from inspect import getdoc
from pathlib import Path
from typing import get_type_hints

import pytest

import hynet
from hynet.errors import BadInput
from hynet.features.extractors import PhotoExtractor
from hynet.features.settings import FeatureSettings
from hynet.matching.settings import MatchOptions, MatchSettings
from hynet.types import Descriptor, Detector

LOCAL = {"Descriptor": Descriptor, "Detector": Detector, "PhotoExtractor": PhotoExtractor}


def test_keyword_options_are_the_fields_of_both_settings():
    names = {each.name for settings in (MatchSettings, FeatureSettings) for each in fields(settings)}
    assert get_type_hints(MatchOptions, None, LOCAL).keys() == names - {"features"}


def test_help_of_match_photos_explains_every_option():
    text = getdoc(hynet.match_photos) or ""
    assert all(f"\n    {name}: " in text for name in MatchOptions.__annotations__)


def test_an_option_goes_to_the_settings_it_belongs_to():
    settings = MatchSettings().replace(model="light", ratio=0.8)
    assert (settings.features, settings.ratio) == (FeatureSettings(model="light"), 0.8)


def test_a_misspelt_option_is_refused():
    with pytest.raises(TypeError, match="modle"):
        hynet.match_photos("a.jpg", "b.jpg", modle="light")


def test_a_folder_of_masks_is_for_many_photos():
    with pytest.raises(BadInput, match="give a mask for each of the two"):
        hynet.match_photos("a.jpg", "b.jpg", mask="masks")


@pytest.mark.slow
def test_a_type_checker_knows_the_options(tmp_path: Path):
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text(
        "import hynet\n"
        "found = hynet.match_photos('a.jpg', 'b.jpg', model='light', max_keypoints=1000, matcher='nearest')\n"
        "hynet.match_photos('a.jpg', 'b.jpg', modle='light')\n"
        "hynet.match_photos('a.jpg', 'b.jpg', max_keypoints='many')\n"
    )
    told, _, _ = api.run(["--config-file", str(Path(__file__).parents[1] / "pyproject.toml"), str(program)])
    assert [line.split(":")[1] for line in told.splitlines() if ": error: " in line] == ["3", "4"], told

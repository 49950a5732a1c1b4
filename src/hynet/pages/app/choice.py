"""The settings chosen in the page: their check, and the equivalent Python code and command line."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ...errors import BadInput, choose
from ...features.descriptors import DESCRIPTORS
from ...features.descriptors.loading import models
from ...features.detectors import DETECTORS
from ...features.settings import ORIENTATIONS
from ...matching.settings import GEOMETRIES

FEWEST_KEYPOINTS, MOST_KEYPOINTS = 64, 4096
MOST_PIXELS_OFF = 50.0


@dataclass(frozen=True)
class Choices:
    """Everything that the page offers to choose from: name -> short description."""

    detectors: Mapping[str, str]
    models: Mapping[str, str]
    orientations: Sequence[str] = ORIENTATIONS
    geometries: Sequence[str] = (*GEOMETRIES, "none")

    @classmethod
    def with_models(cls, own: Sequence[str] = ()) -> Choices:
        """Everything that works by its name, and models of one's own by their paths."""
        shipped = dict.fromkeys(models(), "ships with hynet")
        handmade = {name: row.about for name, row in DESCRIPTORS.items() if row.learnt is False}
        detectors = {name: row.about for name, row in DETECTORS.items()}
        return cls(detectors, {**dict.fromkeys(own, "your own"), **shipped, **handmade})


@dataclass(frozen=True)
class Choice:
    """The settings to match two photos with; None takes what suits the model."""

    detector: str = "dog"
    model: str = "default"
    orientation: str = "auto"
    geometry: str = "auto"
    keypoints: int = 2048  # per photo
    ratio: float | None = None
    threshold: float | None = None

    @classmethod
    def checked(cls, asked: Any, choices: Choices) -> Choice:
        """Check the settings in a request. Names are looked up, so that no request opens a file by its path."""
        if not isinstance(asked, dict) or not asked.keys() <= cls.__annotations__.keys():
            raise BadInput(f"settings are {', '.join(cls.__annotations__)}.")
        chosen = cls(**asked)
        _one_of(choices.detectors, chosen.detector, "detector")
        _one_of(choices.models, chosen.model, "model")
        _one_of(dict.fromkeys(choices.orientations), chosen.orientation, "orientation")
        _one_of(dict.fromkeys(choices.geometries), chosen.geometry, "geometry")
        if type(chosen.keypoints) is not int or not FEWEST_KEYPOINTS <= chosen.keypoints <= MOST_KEYPOINTS:
            raise BadInput(f"keypoints must be a number from {FEWEST_KEYPOINTS} to {MOST_KEYPOINTS}.")
        _number(chosen.ratio, "ratio", 1.0)
        _number(chosen.threshold, "threshold", MOST_PIXELS_OFF)
        return chosen


def snippet(choice: Choice, names: tuple[str, str] | None) -> str:
    """Return Python code that matches two photos with these settings; names are the photos', None for the example."""
    given = "".join(f", {name}={value!r}" for name, value in _unusual(choice).items())
    photos = "*example().paths" if names is None else f"{names[0]!r}, {names[1]!r}"
    imports = "import hynet\n" + ("from hynet.images.example import example\n" if names is None else "")
    return f"""{imports}
found = hynet.match_photos({photos}{given})
print(found)  # matches, inliers
found.points(found.inliers)  # x1, y1, x2, y2
found.save("matches.png")
"""


def command(choice: Choice, names: tuple[str, str] | None) -> str:
    """Return the command that matches two photos with these settings; names are the photos', None for the example."""
    given = [f"--{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in _unusual(choice).items()]
    photos = [_file(name) for name in names or ()]
    return " ".join(["hynet match", *photos, *given, "--out matches.png"])


def _unusual(choice: Choice) -> dict[str, Any]:
    """Return the settings that differ from the defaults, by the names of `hynet.match_photos`."""
    chosen = {each.name: getattr(choice, each.name) for each in fields(choice)}
    return {NAMED.get(name, name): value for name, value in chosen.items() if value != getattr(Choice, name)}


NAMED = {"keypoints": "max_keypoints"}


def _file(name: str) -> str:
    """Quoted for a shell, and not to be taken for an option."""
    return shlex.quote(f"./{name}" if name.startswith("-") else name)


def _one_of(table: Mapping[str, Any], name: Any, kind: str) -> None:
    if not isinstance(name, str):
        raise BadInput(f"the {kind} must be a name.")
    choose(table, name, kind)


def _number(value: Any, name: str, most: float) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise BadInput(f"the {name} must be a number.")
    if not 0 < value <= most:
        raise BadInput(f"the {name} must be above 0 and at most {most:g}.")

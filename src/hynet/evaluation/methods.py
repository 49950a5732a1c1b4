"""Who takes part end to end: photo -> Features, by detector + patch descriptor, by a peer's whole pipeline, or read.

Every patch descriptor is given the same keypoints: they are found once a photo, and cached. So are all features.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from .. import geometry, images, types
from .. import matching as matchers
from ..errors import BadData, BadInput
from ..features import detectors, extractors, models, rotation_check
from ..features.calibrated import saved
from ..features.collection import is_collection, known_by
from ..features.detectors import DETECTORS
from ..features.extractors import PhotoExtractor, find_extractor, open_extractor, patchwise
from ..features.extractors.patchwise import Extractor, network_of_shape
from ..features.hloc_file import FeaturesFile
from ..features.rotation_check import orientation_of
from ..features.settings import usual_shape
from ..images import patches
from ..matching import Matcher, open_matcher
from ..runtime import cache, fingerprints
from ..runtime.parts import find_part
from ..types import Array, Features, Keypoints
from . import contestants
from .contestants import SANITY, Contestant, Model

# Our code that a photo goes through before it is described
DETECTION = (detectors, models, patchwise, images, patches, geometry, types)
GIVEN_BY = "dog"  # the detector whose keypoints a scene may bring along


@dataclass(frozen=True)
class Setting:
    """What all methods of one run share."""

    detectors: Sequence[str] = ("dog",)  # of patch descriptors
    max_keypoints: int = 2048
    orientation: str = "auto"  # of patch descriptors; auto: by folder, whose photos are one collection
    shape: str = "none"  # of patch descriptors; auto: as two photos are matched, by the detector
    spread: bool = True  # DoG's keypoints over the photo; otherwise the strongest anywhere
    given: Mapping[Path, Path] = field(default_factory=dict)  # photo -> file of its keypoints, in place of GIVEN_BY
    read_given: Callable[[Path], Keypoints] | None = None  # reads such a file

    def told(self) -> str:
        """For the notes of a table."""
        if self.given:
            return (
                f"Patch descriptors: the keypoints that the scenes bring along, for {GIVEN_BY}. Others find their own."
            )
        turned = {"upright": "upright", "gradient": "oriented"}.get(self.orientation, "")
        turned = turned or "upright (oriented in folders where some photos were turned)"
        shape = usual_shape(self.detectors[0], "") if self.shape == "auto" else self.shape
        shaped = "" if shape == "none" else f", with elliptic regions by {Path(shape).name}"
        dog = "dog" if self.spread else "dog (the strongest anywhere, not spread)"
        found = " and of ".join(dog if detector == "dog" else detector for detector in self.detectors)
        return (
            f"Patch descriptors: the same {turned} keypoints of {found}, at most {self.max_keypoints:,} per photo"
            f"{shaped}. Others find their own, as many."
        )


@dataclass(frozen=True)
class KeypointOptions:
    """Whose keypoints, and how many: options of the benchmarks that start from photos."""

    detector: tuple[str, ...] = ("dog",)  # finds keypoints for patch descriptors; each additional one adds rows
    max_keypoints: int = 2048  # maximum per photo
    # for patch descriptors: keypoints rotated to the dominant gradient direction (gradient) or not (upright); auto:
    # upright, but gradient in a folder where some photos are rotated relative to others
    orientation: Literal["auto", "upright", "gradient"] = "auto"
    shape: str = "none"  # for patch descriptors: none, baumberg, affine-network, or the path of a network
    features: tuple[Path, ...] = ()  # features files in hloc's layout, one row each

    def setting(self, **more: Any) -> Setting:
        """What methods share by these options; more: its fields that are no options of all benchmarks."""
        return Setting(
            detectors=self.detector,
            max_keypoints=self.max_keypoints,
            orientation=self.orientation,
            shape=self.shape,
            **more,
        )


@dataclass(frozen=True)
class Method:
    """One row of a table. Without a fingerprint nothing of it is cached."""

    name: str
    features: Callable[[Path], Features]
    fingerprint: str | None = None
    matcher: Matcher | None = None  # its own, in place of nearest neighbours


def open_methods(
    models: Sequence[Model], setting: Setting, *, files: Sequence[Path] = (), photos: Sequence[Path] = ()
) -> list[Method]:
    """The models in the order given, the sanity rows, features files. Loads all: a wrong name is told at once.

    files: in hloc's layout, of the `photos`.
    """
    if not models and not files:
        models = ["default"]
    if not setting.detectors:
        raise BadInput("patch descriptors need a detector; name one, such as dog.")
    names = [_name(model) for model in models]
    asked = [*models, *(name for name in SANITY if name not in names)]
    auto = setting.orientation == "auto"
    finders = {*setting.detectors, *(name.rpartition("+")[0] for name in names)} - {""}
    looked_at = [photo for photo in photos if photo not in setting.given or finders != {GIVEN_BY}]
    turned = _turned(looked_at) if auto else {}
    methods = [method for model in asked for method in _made(model, setting, turned)]
    stems = [path.stem for path in files]
    methods += [
        _from_file(path, str(path) if stems.count(path.stem) > 1 else path.stem, photos, setting) for path in files
    ]
    told = [method.name for method in methods]
    twice = next((name for name in told if told.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"{twice} is named twice; name each method once.")
    return methods


def key(method: Method, photo: Path) -> Mapping[str, Any]:
    """What the features of a photo depend on."""
    return {"what": "features", "method": method.fingerprint, "photo": fingerprints.content(photo)}


# For the notes of a table
REFINED = (
    "Matches are refined as `hynet match` does, for every method whose keypoints have a size; --no-refine leaves them "
    "where the keypoints were detected."
)


def _made(model: Model, setting: Setting, turned: Mapping[Path, str]) -> list[Method]:
    """One row; of a patch descriptor one for each detector. DETECTOR+DESCRIPTOR and EXTRACTOR+MATCHER are one row."""
    name = _name(model)
    first, _, second = name.rpartition("+")
    if first and not Path(name).is_file():
        if find_part(DETECTORS, first) is not None:
            described = model if isinstance(model, Contestant) else contestants.entered(second)
            return [replace(_patchwise(described, first, setting, turned), name=name)]
        if not isinstance(model, Contestant):
            return [_with_matcher(name, open_extractor(first, setting.max_keypoints), first, second, setting)]
    # "patchwise" is not a method here: each patch descriptor is one, with the detectors of the setting.
    if isinstance(model, str | Path) and name != "patchwise":
        extract = find_extractor(name, setting.max_keypoints)
        if extract is not None:
            return [_end_to_end(name, extract, setting)]
    contestant = model if isinstance(model, Contestant) else contestants.entered(name)
    return [_patchwise(contestant, detector, setting, turned) for detector in setting.detectors]


def _name(model: Model) -> str:
    return model.name if isinstance(model, Contestant) else str(model)


def _turned(photos: Sequence[Path]) -> dict[Path, str]:
    """Photo -> the orientation that suits its folder."""
    folders: dict[Path, list[Path]] = {}
    for photo in photos:
        folders.setdefault(photo.parent, []).append(photo)

    def orientation(some: Sequence[Path]) -> str:
        of = {"what": "turned", "photos": [fingerprints.content(photo) for photo in some]}
        of |= {"code": fingerprints.code(rotation_check, *DETECTION, patches)}
        return "gradient" if cache.array(of, lambda: np.array(orientation_of(some) == "gradient")) else "upright"

    found = {folder: orientation(sorted(some)) for folder, some in folders.items()}
    return {photo: found[photo.parent] for photo in photos}


def _patchwise(contestant: Contestant, detector: str, setting: Setting, turned: Mapping[Path, str]) -> Method:
    calibration = saved(contestant.name, detector, personal=False)
    shape = usual_shape(detector, "") if setting.shape == "auto" else setting.shape  # the same for all descriptors
    spread = setting.spread or detector != "dog"
    extract = Extractor(
        detector=detector,
        model=contestant.descriptor,
        max_keypoints=setting.max_keypoints,
        support=calibration.support,
        orientation=setting.orientation,
        shape=shape,
        spread=spread,
    )
    ratio = calibration.ratio or extract.ratio
    known_as = detector if detector in detectors.DETECTORS else fingerprints.content(Path(detector))
    found_by: dict[str, Any] = {"detector": known_as, "most": setting.max_keypoints, "orientation": extract.orientation}
    code = fingerprints.code(*DETECTION, *_from_outside(extract.detector))
    found_by |= {"shape": _known_shape(shape), "spread": spread, "code": code}
    if shape != "none":  # which a network sees in patches as wide as the descriptor's
        found_by |= {"support": extract.support}
    given = setting.given if detector == GIVEN_BY else {}
    if given:
        found_by |= {"given": [fingerprints.content(file) for file in given.values()]}
    stand = sorted((fingerprints.content(photo), turn) for photo, turn in turned.items())
    described_by = [contestant.fingerprint, extract.support, fingerprints.code(patches)]

    def keypoints(image: Array, photo: Path) -> Keypoints:
        if setting.read_given is not None and photo in given:
            return setting.read_given(given[photo])
        turn = turned.get(photo, extract.orientation)
        where = {"what": "keypoints", **found_by, "orientation": turn, "photo": fingerprints.content(photo)}

        def detect() -> dict[str, Array]:
            found = extract.turned_as(turn).detect(image)
            return {"frames": found.frames, "scores": found.scores}

        return Keypoints(**cache.arrays(where, detect))

    def features(photo: Path) -> Features:
        image = images.read(photo)
        return replace(extract.describe(image, keypoints(image, photo)), ratio=ratio)

    name = contestant.name if len(setting.detectors) == 1 else f"{detector}+{contestant.name}"
    known = None if contestant.fingerprint is None else fingerprints.values([found_by, stand, described_by])
    return _cached(Method(name, features, known), ratio)


def _known_shape(shape: str) -> str:
    weights = network_of_shape(shape)
    return fingerprints.content(weights) if weights and weights.is_file() else shape


def _end_to_end(name: str, extract: PhotoExtractor, setting: Setting) -> Method:
    if is_collection(name):
        content = fingerprints.files(*known_by(name))
    else:
        content = fingerprints.content(Path(name)) if Path(name).is_file() else name
    made = [content, setting.max_keypoints, fingerprints.code(extractors, images, types, *_from_outside(extract))]
    method = Method(name, extract, fingerprints.values(made))
    return _cached(method, extract.ratio or 1.0)  # whose authors use no ratio test is matched without one


def _with_matcher(name: str, extract: PhotoExtractor, first: str, second: str, setting: Setting) -> Method:
    """The features are those of the extractor alone, and cached as such."""
    method = _end_to_end(first, extract, setting)
    matched_by = fingerprints.content(Path(second)) if Path(second).is_file() else second
    matcher = open_matcher(second)
    made = [method.fingerprint, matched_by, fingerprints.code(matchers, *_from_outside(matcher))]
    return replace(method, name=name, fingerprint=fingerprints.values(made), matcher=matcher)


def _from_outside(part: Any) -> list[ModuleType]:
    """The package that brings a part, where it is not ours: what the part does changes with it."""
    package = sys.modules[part.__module__.partition(".")[0]]
    return [package] if package.__name__ != "hynet" and getattr(package, "__file__", None) else []


def _cached(method: Method, ratio: float | None) -> Method:
    """The same method, asked once for each photo. The ratio is no part of what is stored: it may be calibrated anew."""
    if method.fingerprint is None:
        return method

    def features(photo: Path) -> Features:
        stored = cache.arrays(key(method, photo), lambda: _columns(method.features(photo)))
        width, height = (int(side) for side in stored["image_size"])
        return Features(Keypoints(stored["frames"], stored["scores"]), stored["descriptors"], (width, height), ratio)

    return replace(method, features=features)


def _columns(features: Features) -> dict[str, Array]:
    found = features.keypoints
    size = np.array(features.image_size)
    return {"frames": found.frames, "scores": found.scores, "descriptors": features.descriptors, "image_size": size}


def _from_file(path: Path, name: str, photos: Sequence[Path], setting: Setting) -> Method:
    """Anyone's features, of all photos and of each its own."""
    extract = FeaturesFile(path, setting.max_keypoints)
    names = {photo: extract.name_of(photo) for photo in photos}
    shared = next((photo for photo in photos if list(names.values()).count(names[photo]) > 1), None)
    if shared is not None:
        raise BadData(f"{path} holds one group {names[shared]} for several photos; name the groups FOLDER/PHOTO.")
    return Method(name, extract, fingerprints.values([fingerprints.files(*known_by(path)), setting.max_keypoints]))

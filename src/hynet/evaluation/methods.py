"""Methods that are compared from photos on: a detector with a patch descriptor, a peer's whole pipeline, or a file.

Every patch descriptor is given the same keypoints: they are found once a photo, and cached, as all features are.
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
from ..features import detectors, extractors, models
from ..features.calibrated import saved
from ..features.detectors import DETECTORS
from ..features.extractors import PhotoExtractor, find_extractor, open_extractor, patchwise
from ..features.extractors.patchwise import Extractor, network_of_shape
from ..features.settings import FeatureSettings, usual_shape
from ..images import patches
from ..matching import Matcher, open_matcher
from ..runtime import cache, fingerprints
from ..runtime.parts import find_part
from ..types import Array, Features, Keypoints
from . import contestants
from .contestants import SANITY, Contestant, Model

# Our code that a photo goes through before it is described
DETECTION = (detectors, models, patchwise, images, patches, geometry, types)
USUAL = FeatureSettings().for_many_photos()
GIVEN_BY = "dog"  # the detector whose keypoints a scene may bring along


@dataclass(frozen=True)
class Protocol:
    """Keypoints that all patch descriptors of one run share."""

    detectors: Sequence[str] = ("dog",)
    # orientation auto: by folder, whose photos are one collection; shape auto: as for two photos
    features: FeatureSettings = USUAL
    given: Mapping[Path, Path] = field(default_factory=dict)  # photo -> file of its keypoints, in place of GIVEN_BY
    read_given: Callable[[Path], Keypoints] | None = None  # reads such a file

    @property
    def most(self) -> int:
        """Maximum number of keypoints of a photo."""
        return self.features.max_keypoints

    def shape_for(self, detector: str) -> str:
        """Return the shape of a detector's regions, the same for all descriptors."""
        return usual_shape(detector, "") if self.features.shape == "auto" else self.features.shape

    def summary(self) -> str:
        """A sentence for the notes of a table."""
        if self.given:
            return (
                f"Patch descriptors: the keypoints that the scenes bring along, for {GIVEN_BY}. Others find their own."
            )
        turned = {"upright": "upright", "gradient": "oriented"}.get(self.features.orientation, "")
        turned = turned or "upright (oriented in folders where some photos were turned)"
        shape = self.shape_for(self.detectors[0])
        shaped = "" if shape == "none" else f", with elliptic regions by {Path(shape).name}"
        dog = "dog" if self.features.spread else "dog (the strongest anywhere, not spread)"
        found = " and of ".join(dog if detector == "dog" else detector for detector in self.detectors)
        return (
            f"Patch descriptors: the same {turned} keypoints of {found}, at most {self.features.max_keypoints:,} per "
            f"photo{shaped}. Others find their own, as many."
        )


@dataclass(frozen=True)
class DetectorOptions:
    """Detectors of a benchmark that starts from photos."""

    detector: tuple[str, ...] = ("dog",)  # finds keypoints for patch descriptors; each additional one adds rows
    max_keypoints: int = 2048  # maximum per photo

    def shared(self, settings: FeatureSettings | None = None, **more: Any) -> Protocol:
        """Return what methods share by these options; settings: other options of features."""
        settings = settings or USUAL
        return Protocol(self.detector, settings.replace(max_keypoints=self.max_keypoints), **more)


@dataclass(frozen=True)
class KeypointOptions(DetectorOptions):
    """Keypoints of a benchmark that also takes features files."""

    # for patch descriptors: keypoints rotated to the dominant gradient direction (gradient) or not (upright); auto:
    # upright, but gradient in a folder where some photos are rotated relative to others
    orientation: Literal["auto", "upright", "gradient"] = "auto"
    shape: str = "none"  # for patch descriptors: none, baumberg, affine-network, or the path of a network
    features: tuple[Path, ...] = ()  # features files in hloc's layout, one row each

    def shared(self, settings: FeatureSettings | None = None, **more: Any) -> Protocol:
        """Return what methods share by these options; settings: other options of features."""
        settings = settings or USUAL
        return super().shared(settings.replace(orientation=self.orientation, shape=self.shape), **more)


@dataclass(frozen=True)
class Method:
    """One row of a table: features of a photo, and a matcher of its own. Without a fingerprint nothing is cached."""

    name: str
    features: Callable[[Path], Features]
    fingerprint: str | None = None
    matcher: Matcher | None = None  # its own, in place of nearest neighbours


def open_methods(
    models: Sequence[Model], protocol: Protocol, *, files: Sequence[Path] = (), photos: Sequence[Path] = ()
) -> list[Method]:
    """Open the models in the order given, the sanity rows, features files. Loads all: a wrong name is reported at once.

    files: in hloc's layout, of the `photos`.
    """
    if not models and not files:
        models = ["default"]
    if not protocol.detectors:
        raise BadInput("patch descriptors need a detector; name one, such as dog.")
    names = [_name(model) for model in models]
    asked = [*models, *(name for name in SANITY if name not in names)]
    auto = protocol.features.orientation == "auto"
    finders = {*protocol.detectors, *(name.rpartition("+")[0] for name in names)} - {""}
    looked_at = [photo for photo in photos if photo not in protocol.given or finders != {GIVEN_BY}]
    turned = _turned(looked_at) if auto else {}
    methods = [method for model in asked for method in _made(model, protocol, turned)]
    stems = [path.stem for path in files]
    methods += [
        _from_file(path, str(path) if stems.count(path.stem) > 1 else path.stem, photos, protocol) for path in files
    ]
    entered = [method.name for method in methods]
    twice = next((name for name in entered if entered.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"{twice} is named twice; name each method once.")
    return methods


def key(method: Method, photo: Path) -> Mapping[str, Any]:
    """Everything that the features of a photo depend on."""
    return {"what": "features", "method": method.fingerprint, "photo": fingerprints.content(photo)}


# For the notes of a table
REFINED = (
    "Matches are refined as `hynet match` does, for every method whose keypoints have a size; --no-refine leaves them "
    "where the keypoints were detected."
)


def _made(model: Model, protocol: Protocol, turned: Mapping[Path, str]) -> list[Method]:
    """One row; of a patch descriptor one for each detector. DETECTOR+DESCRIPTOR and EXTRACTOR+MATCHER are one row."""
    name = _name(model)
    first, _, second = name.rpartition("+")
    if first and not Path(name).is_file():
        if find_part(DETECTORS, first) is not None:
            described = model if isinstance(model, Contestant) else contestants.entered(second)
            return [replace(_patchwise(described, first, protocol, turned), name=name)]
        if not isinstance(model, Contestant):
            return [_with_matcher(name, open_extractor(first, protocol.most), first, second, protocol)]
    # "patchwise" is not a method here: each patch descriptor is one, with the detectors of the protocol.
    if isinstance(model, str | Path) and name != "patchwise":
        extract = find_extractor(name, protocol.most)
        if extract is not None:
            return [_end_to_end(name, extract, protocol)]
    contestant = model if isinstance(model, Contestant) else contestants.entered(name)
    return [_patchwise(contestant, detector, protocol, turned) for detector in protocol.detectors]


def _name(model: Model) -> str:
    return model.name if isinstance(model, Contestant) else str(model)


def _turned(photos: Sequence[Path]) -> dict[Path, str]:
    """Photo -> the orientation that suits its folder."""
    folders: dict[Path, list[Path]] = {}
    for photo in photos:
        folders.setdefault(photo.parent, []).append(photo)

    from ..features import rotation_check

    def orientation(some: Sequence[Path]) -> str:
        of = {"what": "turned", "photos": [fingerprints.content(photo) for photo in some]}
        of |= {"code": fingerprints.code(rotation_check, *DETECTION, patches)}
        return (
            "gradient"
            if cache.array(of, lambda: np.array(rotation_check.orientation_of(some) == "gradient"))
            else "upright"
        )

    found = {folder: orientation(sorted(some)) for folder, some in folders.items()}
    return {photo: found[photo.parent] for photo in photos}


def _patchwise(contestant: Contestant, detector: str, protocol: Protocol, turned: Mapping[Path, str]) -> Method:
    calibration = saved(contestant.name, detector, personal=False)
    shape = protocol.shape_for(detector)
    spread = protocol.features.spread is not False or detector != "dog"
    shaped = protocol.features.replace(shape=shape, spread=spread)
    extract = Extractor(shaped, detector=detector, model=contestant.descriptor, support=calibration.support)
    ratio = calibration.ratio or extract.ratio
    known_as = detector if detector in detectors.DETECTORS else fingerprints.content(Path(detector))
    found_by: dict[str, Any] = {
        "detector": known_as,
        "most": protocol.most,
        "orientation": extract.orientation,
    }
    code = fingerprints.code(*DETECTION, *_from_outside(extract.detector))
    found_by |= {"shape": _known_shape(shape), "spread": spread, "code": code}
    if shape != "none":  # which a network sees in patches as wide as the descriptor's
        found_by |= {"support": extract.support}
    given = protocol.given if detector == GIVEN_BY else {}
    if given:
        found_by |= {"given": [fingerprints.content(file) for file in given.values()]}
    stand = sorted((fingerprints.content(photo), turn) for photo, turn in turned.items())
    described_by = [contestant.fingerprint, extract.support, fingerprints.code(patches)]

    def keypoints(image: Array, photo: Path) -> Keypoints:
        if protocol.read_given is not None and photo in given:
            return protocol.read_given(given[photo])
        turn = turned.get(photo, extract.orientation)
        where = {"what": "keypoints", **found_by, "orientation": turn, "photo": fingerprints.content(photo)}

        def detect() -> dict[str, Array]:
            found = extract.turned_as(turn).detect(image)
            return {"frames": found.frames, "scores": found.scores}

        return Keypoints(**cache.arrays(where, detect))

    def features(photo: Path) -> Features:
        image = images.read(photo)
        return replace(extract.describe(image, keypoints(image, photo)), ratio=ratio)

    name = contestant.name if len(protocol.detectors) == 1 else f"{detector}+{contestant.name}"
    known = None if contestant.fingerprint is None else fingerprints.values([found_by, stand, described_by])
    return _cached(Method(name, features, known), ratio)


def _known_shape(shape: str) -> str:
    weights = network_of_shape(shape)
    return fingerprints.content(weights) if weights and weights.is_file() else shape


def _end_to_end(name: str, extract: PhotoExtractor, protocol: Protocol) -> Method:
    from ..features.collection import is_collection, known_by

    if is_collection(name):
        content = fingerprints.files(*known_by(name))
    else:
        content = fingerprints.content(Path(name)) if Path(name).is_file() else name
    code = fingerprints.code(extractors, images, types, *_from_outside(extract))
    made = [content, protocol.most, code]
    method = Method(name, extract, fingerprints.values(made))
    return _cached(method, extract.ratio or 1.0)  # whose authors use no ratio test is matched without one


def _with_matcher(name: str, extract: PhotoExtractor, first: str, second: str, protocol: Protocol) -> Method:
    """The features are those of the extractor alone, and cached as such."""
    method = _end_to_end(first, extract, protocol)
    matched_by = fingerprints.content(Path(second)) if Path(second).is_file() else second
    matcher = open_matcher(second)
    made = [method.fingerprint, matched_by, fingerprints.code(matchers, *_from_outside(matcher))]
    return replace(method, name=name, fingerprint=fingerprints.values(made), matcher=matcher)


def _from_outside(part: Any) -> list[ModuleType]:
    """The package that brings a part, where it is not ours: what the part does changes with it."""
    package = sys.modules[part.__module__.partition(".")[0]]
    return [package] if package.__name__ != "hynet" and getattr(package, "__file__", None) else []


def _cached(method: Method, ratio: float | None) -> Method:
    """Wrap a method so that features are cached by photo. The ratio is not stored: it may be calibrated anew."""
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


def _from_file(path: Path, name: str, photos: Sequence[Path], protocol: Protocol) -> Method:
    """Open a features file as a method; each photo needs a group of its own."""
    from ..features.collection import known_by
    from ..features.hloc_file import FeaturesFile

    extract = FeaturesFile(path, protocol.most)
    names = {photo: extract.name_of(photo) for photo in photos}
    shared = next((photo for photo in photos if list(names.values()).count(names[photo]) > 1), None)
    if shared is not None:
        raise BadData(f"{path} holds one group {names[shared]} for several photos; name the groups FOLDER/PHOTO.")
    return Method(name, extract, fingerprints.values([fingerprints.files(*known_by(path)), protocol.most]))

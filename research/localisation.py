"""How many inliers photos reach that are not of the place: what BY_CHANCE of sfm/localisation.py is chosen by.

Usage: python research/localisation.py strecha/ photos/ [--model default] [--keypoints 2048]
A map is made of each folder with cameras in the first argument, one photo of three left out; every photo in the second
is looked up in it, and the photos of the other maps. Prints the inliers of both kinds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from hynet import images
from hynet.datasets import scenes
from hynet.features.settings import FeatureSettings
from hynet.sfm.localisation import Map
from hynet.sfm.reconstruct import reconstruct

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("maps", type=Path)
parser.add_argument("strangers", type=Path)
parser.add_argument("--model", default="default")
parser.add_argument("--keypoints", type=int, default=2048)
parser.add_argument("--most", type=int, default=40, help="strangers in each map")
asked = parser.parse_args()

found = {scene.name: sorted(view.photo for view in scene.views.values()) for scene in scenes.load(asked.maps)}
others = images.list_photos(asked.strangers)
others = [others[k] for k in np.linspace(0, len(others) - 1, min(len(others), asked.most)).astype(int)]
for name, photos in found.items():
    left_out = photos[1::3]
    with TemporaryDirectory() as place:
        folder = Path(place) / "photos"
        folder.mkdir()
        for photo in photos:
            if photo not in left_out:
                (folder / photo.name).symlink_to(photo.resolve())
        settings = FeatureSettings(model=asked.model, max_keypoints=asked.keypoints)
        reconstruct(folder, Path(place) / "model", settings=settings)
        here = Map(Path(place) / "model")
        strangers = others + [photo for other, them in found.items() if other != name for photo in them]
        here_inliers = [here.locate(photo).inliers for photo in left_out]
        chance = sorted(here.locate(photo).inliers for photo in strangers)
    print(f"{name}: left out {here_inliers}; strangers, sorted: {chance}", flush=True)

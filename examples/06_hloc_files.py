"""06 - Features and matches in hloc's files, and a reconstruction from them: whoever made them.

Usage: python examples/06_hloc_files.py     (needs hynet-features[sfm])
With hloc installed, `from hynet.interop.hloc import entry` gives it our extractor: docs/interop.md.
"""

from itertools import combinations
from pathlib import Path

import cv2
import h5py

import hynet
from hynet.datasets import synthetic
from hynet.features.extractors import open_extractor
from hynet.features.settings import FeatureSettings
from hynet.matching.hloc_matches import write_pair

photos = Path("photos")
photos.mkdir(exist_ok=True)
for k, photo in enumerate(synthetic.scene(seed=3, photos=4, size=(480, 360)).photos):
    cv2.imwrite(str(photos / f"{k}.jpg"), photo)

hynet.extract_all(photos, "features.h5", FeatureSettings(max_keypoints=1000))
extract = open_extractor("features.h5")
features = {path.name: extract(path) for path in sorted(photos.iterdir())}

with h5py.File("matches.h5", "w") as file:
    for first, second in combinations(features, 2):
        matches = hynet.match(features[first], features[second])
        write_pair(file, first, second, matches, len(features[first]))

done = hynet.reconstruct(photos, "model", features="features.h5", matches="matches.h5")
print(f"{done.registered} of {done.photos} photos, {done.points} points, from features.h5 and matches.h5 alone")

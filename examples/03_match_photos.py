"""03 - Match two photos: detect, describe, match, verify, draw.

Usage: python examples/03_match_photos.py [a.jpg b.jpg]      without photos, an example pair
"""

import sys

import hynet
from hynet import drawing, images
from hynet.datasets.example import example

first, second = map(images.read, sys.argv[1:3]) if len(sys.argv) > 2 else example().photos  # (H, W) grey

extract = hynet.Extractor(detector="dog", descriptor="default", max_keypoints=2048)
a, b = extract(first), extract(second)  # Features
matches = hynet.match(a, b)  # mutual nearest neighbours that pass the ratio test
fit = hynet.verify(a, b, matches, geometry="fundamental")  # .matches, .inliers, .model
said = f"{len(matches)} matches, {len(fit.matches)} agree on one geometry"
print(said)

picture = drawing.matches(
    (first, second), (a.keypoints, b.keypoints), matches, fit.inliers, caption=[(said, drawing.INK)]
)
drawing.save(picture, "matches.png")

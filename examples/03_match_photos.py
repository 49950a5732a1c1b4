"""03 - Match two photos: detect, describe, match, verify, draw.

Usage: python examples/03_match_photos.py [a.jpg b.jpg]      without photos, an example pair
"""

import sys

import hynet
from hynet.images import drawing
from hynet.images.example import example

first, second = sys.argv[1:3] if len(sys.argv) > 2 else example().paths

extract = hynet.Extractor(detector="dog", model="default", max_keypoints=2048)
a, b = extract(first), extract(second)  # Features
matches = hynet.match(a, b)  # mutual nearest neighbours that pass the ratio test
fit = hynet.verify(a, b, matches, geometry="fundamental")  # .inliers, .is_inlier, .model
print(f"{len(matches)} matches, {len(fit.inliers)} inliers")

picture = hynet.draw(a, b, matches, inliers=fit.is_inlier)  # (H, W, 3) RGB, in colour
drawing.save(picture, "matches.png")

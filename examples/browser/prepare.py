"""What the page needs of two photos: their keypoints, found here, and the patches around them; and the model.

Usage: python examples/browser/prepare.py [a.jpg b.jpg] --out page/      without photos, an example pair
       cd page && npm install onnxruntime-web && python -m http.server    then open http://localhost:8000
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
from pathlib import Path

import cv2

import hynet
from hynet import images
from hynet.features import models
from hynet.images.example import example

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("photos", nargs="*", type=Path)
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--keypoints", type=int, default=1000)
asked = parser.parse_args()

photos = [images.read(path) for path in asked.photos] if len(asked.photos) == 2 else list(example().photos)
extract = hynet.Extractor(max_keypoints=asked.keypoints)
asked.out.mkdir(parents=True, exist_ok=True)
views = []
for name, photo in zip("ab", photos, strict=True):
    cv2.imwrite(str(asked.out / f"{name}.png"), photo)
    keypoints = extract.detect(photo)
    patches = extract.patches(photo, keypoints)  # (N, 32, 32) uint8
    packed = base64.b64encode(patches.tobytes()).decode()
    views.append({"photo": f"{name}.png", "xy": keypoints.xy.round(2).tolist(), "patches": packed})
(asked.out / "pair.json").write_text(json.dumps({"ratio": extract.ratio, "side": patches.shape[1], "views": views}))
shutil.copy(models.FOLDER / "default-float.onnx", asked.out / "model.onnx")
for name in ("index.html", "match.js"):
    shutil.copy(Path(__file__).parent / name, asked.out / name)
print(f"{asked.out}: {' and '.join(str(len(view['xy'])) for view in views)} keypoints")

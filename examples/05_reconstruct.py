"""05 - A folder of photos becomes a 3-D model that COLMAP opens, and a web page that shows it.

Usage: python examples/05_reconstruct.py [photos/]      without photos, six pictures of a made-up scene
"""

import sys
from pathlib import Path

import cv2

import hynet
from hynet import pages
from hynet.datasets import synthetic
from hynet.pages import view
from hynet.sfm.colmap.reading import read_model

if len(sys.argv) > 1:
    photos = Path(sys.argv[1])
else:
    photos = Path("made-up-photos")
    photos.mkdir(exist_ok=True)
    for number, photo in enumerate(synthetic.scene(photos=6, size=(320, 240)).photos):
        cv2.imwrite(str(photos / f"{number}.png"), photo)

done = hynet.reconstruct(photos, "model/")
print(f"{done.registered} of {done.photos} photos, {done.points} points, {done.reprojection_error:.2f} px")

model = read_model("model/")  # arrays: model.photos[k].cam_from_world (3, 4), model.xyz (M, 3)
print("camera 0 looks along", model.photos[0].cam_from_world[2, :3].round(2))
pages.write("view.html", view.page(model, "made by example 05"))  # open it in a browser

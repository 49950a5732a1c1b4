"""Who takes part in docs/results.md: names, and published weights by their path below the folder of weights."""

from __future__ import annotations

from hynet.features.descriptors.loading import models
from hynet.features.models import OTHER_NAMES

OURS = [name for name in models() if name not in OTHER_NAMES]
BASELINES = ["rootsift", "sift"]
OPENCV = ["vgg", "beblid", "teblid"]
PATCH_NETWORKS = ["tfeat-liberty.params", "hardtfeat.pth", "DesDis-32.pth", "DesDis-16.pth", "mkd-concat-64.pth"]
END_TO_END = ["aliked-n16.pth", "aliked-t16.pth", "xfeat_n4m.onnx"]  # R2D2, too, but it takes half a minute a photo
MATCHED = ["xfeat_n4m.onnx+lighterglue_L3.onnx"]  # EXTRACTOR+MATCHER


def weights(names: list[str]) -> list[str]:
    """As `hynet evaluate --model` takes them, in a folder where `weights` is."""
    return ["+".join(f"weights/{part}" for part in name.split("+")) for name in names]


# The paper's Key.Net + HyNet is a row of each table that photos go into.
WHOLE = [
    "default-float",
    "keynet+default-float",
    *(name for name in OURS if name != "default-float"),
    *BASELINES,
    *OPENCV,
    *weights(PATCH_NETWORKS),
    "opencv-rootsift",
    *weights([*END_TO_END, *MATCHED]),
]

# Of these, what the tables of poses have: a person's choices, without what is there to compare patches (OpenCV's and
# older descriptors).
POSES = [name for name in WHOLE if name not in {*OPENCV, *weights([*PATCH_NETWORKS])}]
POSES += weights(["hardtfeat.pth", "DesDis-32.pth"])

"""Named settings: every row of the paper's tables and ablations, each the one before with something replaced.

`hynet train --list` shows them; any field can be given on the command line.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Generic, TypeVar

from .configuration import AdaptConfig, JointConfig, KeynetConfig, RunConfig, ShapeConfig, TrainConfig

Config = TypeVar("Config", bound=RunConfig, covariant=True)


@dataclass(frozen=True)
class Recipe(Generic[Config]):
    """A named training run: what it is, in one line, and its settings."""

    about: str
    config: Config


HYNET = TrainConfig()  # 200 epochs of 512 pairs, Adam at 0.01, PyTorch's own start, as released
# L2-Net's layout, which HardNet, SOSNet and DOAP share. How DOAP was trained could not be found (docs/training.md): its
# recipe has HyNet's settings.
L2NET = replace(HYNET, network="l2net")
# Its loss learns badly with Adam at 0.01: terms that keep outputs apart win over the one that joins partners.
ORIGINAL_L2NET = replace(
    L2NET,
    loss="l2net",
    dropout=0.0,
    optimiser="sgd",
    weight_decay=1e-4,
)
# github.com/DagnyT/hardnet, code/HardNet.py at 94e5683. One of its epochs is five million pairs.
HARDNET = replace(
    L2NET,
    loss="hardnet",
    start="orthogonal",
    pairs_per_batch=1024,
    pairs_per_epoch=5_000_000,
    epochs=10,
    optimiser="sgd",
    learning_rate=10.0,
    dampening=0.9,
    weight_decay=1e-4,
    schedule="linear",
)
# Adam at 0.01, constant, and an orthogonal start: its author in github.com/yuruntian/SOSNet/issues/2, who names no gain
# (PyTorch's is 1). Dropout: sosnet_model.py of github.com/scape-research/SOSNet. Batch and epochs are those of its loss
# in HyNet's released trainer.
SOSNET = replace(L2NET, loss="sosnet", start="orthogonal", gain=1.0, dropout=0.1)
# github.com/vbalnt/tfeat, tfeat-train.ipynb at 738eb4f: 300 epochs of a million triplets, the rate times 0.8 every ten.
TFEAT = replace(
    HYNET,
    network="tfeat",
    loss="tfeat",
    margin=2.0,
    pairs_per_batch=300,
    pairs_per_epoch=1_000_000,
    epochs=300,
    optimiser="sgd",
    learning_rate=0.1,
    momentum=0.0,
    weight_decay=1e-4,
    schedule="stepwise",
    num_decays=30,
    lr_decay=0.8,
)
# Chosen by short runs of equal length on real patches, all from HardNet's start (research/training-log.md).
CPU = replace(
    HYNET,
    start="orthogonal",
    epochs=None,
    minutes=60.0,
    pairs_per_batch=256,
    learning_rate=0.005,
    schedule="linear",
    warmup=0.05,
    jitter=0.5,
    light=0.3,
    balance=0.5,
    group_size=8,
    hard=0.5,
    certain=True,
    validate_minutes=10.0,
)

# Chosen by short runs: docs/training.md.
LIGHT = replace(
    CPU,
    network="lightnet",
    start="torch",
    dropout=0.0,
    teacher="default",
    distill_fraction=0.75,
    loss="distilled",
    level=1.0,
    minutes=120.0,
    pairs_per_batch=128,
    warmup=0.03,
    jitter=0.3,
    light=0.5,
    blur=0.2,
    noise=0.1,
    jpeg=0.1,
    average=0.995,
)
# Fine-tuning on one's own photos: a tenth of the recipe's rate, which starts from nothing. One scene, whose points are
# different places. `level` as `default` was trained in the end: without, it would first unlearn its one threshold.
ADAPT = replace(
    AdaptConfig(**asdict(CPU)),
    learning_rate=5e-4,
    pairs_per_batch=256,
    balance=0.0,
    certain=False,
    level=1.0,
    average=0.99,
    precision="auto",
)
# Chosen by short runs: docs/training.md.
SHAPE = ShapeConfig(
    minutes=45.0,
    pairs_per_batch=128,
    learning_rate=0.001,
    schedule="linear",
    warmup=0.03,
    average=0.995,
    balance=0.5,
    group_size=8,
    hard=0.5,
    certain=True,
    precision="auto",
    validate_minutes=10.0,
    checkpoint_minutes=3.0,
)
# Warps are milder, since patches are described in their full width. The loss and the augmentation are those of the last
# runs of `commercial`, since both networks have been trained before; blur and noise, which act on patches of 64 pixels
# here and are halved with them, are twice as strong.
JOINT = JointConfig(
    minutes=45.0,
    pairs_per_batch=256,
    learning_rate=0.002,
    schedule="linear",
    warmup=0.03,
    average=0.998,
    balance=0.5,
    group_size=8,
    hard=0.5,
    certain=True,
    precision="auto",
    validate_minutes=10.0,
    checkpoint_minutes=3.0,
    sosr=1.0,
    level=1.0,
    dropout=0.1,
    jitter=0.6,
    light=0.2,
    blur=0.4,
    noise=0.2,
    jpeg=0.1,
)

RECIPES = {  # of descriptors
    "hynet": Recipe("HyNet as published: hybrid similarity, norm regulariser, FRN", HYNET),
    "hynet-sosr": Recipe("HyNet with second-order similarity", replace(HYNET, sosr=1.0)),
    "hynet-cpu": Recipe("HyNet for a plain CPU: `--minutes` sets the whole schedule", CPU),
    "light": Recipe("LightNet, a small network for CPUs, taught by a `--teacher`", LIGHT),
    "hardnet": Recipe("HardNet as published: triplet with the hardest negative", HARDNET),
    "sosnet": Recipe("SOSNet as published: quadratic triplet and second-order similarity", SOSNET),
    "l2net": Recipe("L2-Net: relative distances, decorrelation, feature maps", ORIGINAL_L2NET),
    "tfeat": Recipe("TFeat as published: random triplets with anchor swap", TFEAT),
    "doap": Recipe("DOAP: average precision of finding the partner", replace(L2NET, loss="doap")),
    # ablations: HyNet but for one thing
    "hynet-no-norms": Recipe("HyNet without R_L2, the norm regulariser", replace(HYNET, gamma=0.0)),
    "hynet-s": Recipe("HyNet with s in place of the hybrid similarity", replace(HYNET, loss="s_only")),
    "hynet-d": Recipe("HyNet with d in place of the hybrid similarity", replace(HYNET, loss="d_only")),
    "hynet-bn": Recipe("HyNet with BatchNorm and ReLU", replace(HYNET, norm="bn")),
    "hynet-in": Recipe("HyNet with InstanceNorm and ReLU", replace(HYNET, norm="in")),
    # Table 3 does not say which negatives "HardNet" means: by default those of HardNet's own code.
    "hardnet-frn": Recipe(
        "HardNet's loss on HyNet's network; `--loss hardnet_four` mines as HyNet does", replace(HYNET, loss="hardnet")
    ),
    "sosnet-frn": Recipe("SOSNet's loss on HyNet's network", replace(HYNET, loss="sosnet")),
    "loss-a": Recipe("L_A: s for positives, d for negatives", replace(HYNET, loss="loss_a")),
    "loss-b": Recipe("L_B: a triplet on s plus a triplet on d", replace(HYNET, loss="loss_b")),
}
ALL_RECIPES: dict[str, Recipe[RunConfig]] = {
    **RECIPES,
    "keynet": Recipe("the Key.Net detector, from photos alone", KeynetConfig(minutes=60.0)),
    "shape": Recipe("affine shapes of keypoints, from patch sets", SHAPE),
    "joint": Recipe("affine shapes and a descriptor together, both from trained weights", JOINT),
}

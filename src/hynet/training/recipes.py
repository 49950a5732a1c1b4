"""Named TrainConfigs: every row of the paper's tables and ablations, each the one before with something replaced.

`hynet train --list` shows them; any field can be given on the command line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .configuration import TrainConfig


@dataclass(frozen=True)
class Recipe:
    about: str
    config: TrainConfig


HYNET = TrainConfig()  # 200 epochs of 512 pairs, Adam at 0.01, PyTorch's own start, as released
L2NET = replace(HYNET, network="l2net")  # the layout that HardNet, SOSNet and DOAP share
# Chosen by short runs of equal length on real patches, all from HardNet's start: docs/training.md has the table.
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
    together=8,
    hard=0.5,
    certain=True,
    validate_minutes=10.0,
)

RECIPES = {
    "hynet": Recipe("HyNet as published: hybrid similarity, norm regulariser, FRN", HYNET),
    "hynet-sosr": Recipe("HyNet with second-order similarity", replace(HYNET, sosr=1.0)),
    "hynet-cpu": Recipe("HyNet for a plain CPU: `--minutes` sets the whole schedule", CPU),
    "hardnet": Recipe("HardNet: triplet with the hardest negative", replace(L2NET, loss="hardnet", start="orthogonal")),
    "sosnet": Recipe(
        "SOSNet: quadratic triplet and second-order similarity",
        # Its author says "nn.init.orthogonal" and names no gain: PyTorch's is 1.
        replace(L2NET, loss="sosnet", start="orthogonal", gain=1.0),
    ),
    "l2net": Recipe("L2-Net: relative distances, decorrelation, feature maps", replace(L2NET, loss="l2net")),
    "tfeat": Recipe("TFeat: random triplets with anchor swap", replace(HYNET, network="tfeat", loss="tfeat")),
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

"""A package from outside, as pip installs it, whose network and loss are trained, loaded, exported and evaluated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from hynet.datasets import synthetic, ubc
from hynet.types import PatchPairs
from test_plugins import install

# It knows nothing of our classes: a plain module, and a function that returns LossTerms.
PACKAGE = '''
from torch import nn


class Tiny(nn.Module):
    """Two strided convolutions and one full layer."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.InstanceNorm2d(1), nn.Conv2d(1, 8, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 7 * 7, 16)
        )

    def forward(self, x):
        return self.layers(x)


def pull(raw_a, raw_p, *, strength: float = 1.0):
    """Pulls partners together, and a batch apart."""
    from hynet.losses import added_up
    from hynet.mining import unit

    a, p = unit(raw_a), unit(raw_p)
    d_pos, d_neg = (a - p).norm(dim=1), (a - p.roll(1, 0)).norm(dim=1)
    cost = (strength + d_pos - d_neg).relu()
    return added_up({"pull": cost.mean()}, d_pos, d_neg, cost)
'''
ENTRY_POINTS = """
[hynet.descriptors]
tiny = tiny_features:Tiny
[hynet.losses]
pull = tiny_features:pull
"""
BROKEN = """
[hynet.descriptors]
wrecked = wrecked:Net
[hynet.losses]
wrecked = wrecked:loss
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder of installed packages, one of them broken."""
    site = tmp_path_factory.mktemp("site")
    install(site, "tiny_features", PACKAGE, ENTRY_POINTS)
    install(site, "wrecked", "import no_such_library", BROKEN)
    return site


@pytest.fixture(scope="module")
def patch_set(tmp_path_factory) -> Path:
    """A small PhotoTour set with pairs to validate and to test on."""
    root = tmp_path_factory.mktemp("sets") / "made-up"
    made = synthetic.patch_set(40, 4, seed=1)
    first = np.arange(0, len(made), 4)
    second = np.concatenate([first + 1, np.roll(first, 1) + 2])
    first = np.concatenate([first, first])
    pairs = PatchPairs(first, second, made.points[first] == made.points[second])
    zeros = np.zeros(len(made))
    ubc.write(root, made, xy=np.zeros((len(made), 2)), angle=zeros, log2_scale=zeros, pairs=[pairs])
    return root


def hynet(*args: str | Path, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, with these packages installed."""
    paths = [str(packages)] if packages else []
    paths += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "hynet", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def answer(*args: str | Path, packages: Path | None = None) -> dict:
    done = hynet(*args, "--json", packages=packages)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def trained(site, patch_set, tmp_path_factory) -> Path:
    """A checkpoint of the package's network, trained with its loss."""
    run = tmp_path_factory.mktemp("runs") / "tiny"
    small = ["--steps", "4", "--pairs-per-batch", "8", "--no-compiled", "--loss-options", "strength", "0.7"]
    sets = ["--data", patch_set, "--validate", patch_set, "--out", run]
    ended = answer("train", "hynet", *sets, "--network", "tiny", "--loss", "pull", *small, packages=site)
    assert ended["steps"] == 4
    assert list(ended["validation"]) == [str(patch_set)]
    settings = json.loads((run / "run.json").read_text())["config"]
    assert (settings["network"], settings["loss"]) == ("tiny", "pull")
    assert settings["loss_options"] == {"strength": 0.7}
    return Path(ended["checkpoint"])


def test_info_lists_what_packages_add_and_names_what_is_broken(site):
    told = answer("info", packages=site)
    assert told["descriptors"]["tiny"] == "Two strided convolutions and one full layer. (from tiny_features)"
    assert told["losses"]["pull"] == "Pulls partners together, and a batch apart. (from tiny_features)"
    assert "package wrecked cannot be imported (ModuleNotFoundError" in told["losses"]["wrecked"]
    assert told["descriptors"]["hynet"]


def test_a_network_of_a_package_loads_from_its_checkpoint(site, trained):
    code = (
        "import hynet, numpy, sys\n"
        "descriptor = hynet.load(sys.argv[1])\n"
        "rows = descriptor.describe(numpy.full((3, 64, 64), 7, 'uint8'))\n"
        "print(descriptor.dim, rows.shape)\n"
    )
    paths = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", code, str(trained)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths})
    assert done.stdout == "16 (3, 16)\n", done.stderr


def test_a_network_of_a_package_is_exported_and_then_needs_the_package_no_more(site, trained, patch_set, tmp_path):
    exported = tmp_path / "tiny.onnx"
    assert answer("export", "--model", trained, "--to", exported, packages=site)["difference"] < 1e-4
    rows = answer("evaluate", "ubc", "--model", exported, "--data", patch_set)["rows"]
    assert 0 <= rows[str(exported)]["fpr95"] <= 100


def test_a_network_of_a_package_is_evaluated(site, trained, patch_set):
    rows = answer("evaluate", "ubc", "--model", trained, "--data", patch_set, packages=site)["rows"]
    assert 0 <= rows[str(trained)]["fpr95"] <= 100


def test_without_its_package_a_checkpoint_says_what_is_missing(trained, patch_set):
    done = hynet("evaluate", "ubc", "--model", trained, "--data", patch_set)
    assert done.returncode == 2
    assert "holds weights of none of hynet, l2net" in done.stderr
    assert "hynet.load(path, network=...)" in done.stderr


def test_asking_for_what_is_broken_gets_one_sentence(site, patch_set, tmp_path):
    sets = ["--data", patch_set, "--out", tmp_path / "run"]
    done = hynet("train", "hynet", *sets, "--loss", "wrecked", packages=site)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "wrecked:loss of the package wrecked cannot be imported" in done.stderr


def test_a_recipe_of_ours_trains_by_command_and_goes_on(patch_set, tmp_path):
    run = tmp_path / "run"
    small = ["--pairs-per-batch", "8", "--no-compiled", "--log-every", "1", "--learning-rate", "0.001"]
    args = ["train", "hardnet", "--data", patch_set, "--out", run, "--steps", "3", *small]
    first = answer(*args)
    assert (first["steps"], first["checkpoint"]) == (3, str(run / "last.pt"))
    assert first["patches_per_second"] > 0
    # As if it had been stopped after two steps.
    content = torch.load(run / "last.pt", weights_only=True)
    content["position"]["step"] = 2
    torch.save(content, run / "last.pt")
    resumed = hynet(*args, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert [line.split()[1] for line in resumed.stderr.splitlines() if line.startswith("step")] == ["3"]

"""A package from outside, as pip installs it, whose network and loss are trained, loaded, exported and evaluated."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import torch

import hynet
from conftest import write_set
from hynet.cli import main
from hynet.runtime.processes import Worker
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
    return write_set(tmp_path_factory.mktemp("sets") / "made-up", 40, seed=1)


Told = tuple[int, str, str]  # exit code, stdout, stderr


def command(args: list[str]) -> Told:
    """The command line in this process, where no package is installed; or in a helper's, where some are."""
    said, complaints = io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(complaints):
        code = main(args)
    return code, said.getvalue(), complaints.getvalue()


def described(checkpoint: str) -> tuple[int, tuple[int, ...]]:
    descriptor = hynet.load(checkpoint)
    return descriptor.dim, descriptor.describe(np.full((3, 64, 64), 7, np.uint8)).shape


@pytest.fixture(scope="module")
def installed(site) -> Iterator[Worker]:
    """A process in which the packages are installed; one for all tests, since each would import torch."""
    with Worker() as helper:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(site)
            helper.start()
        yield helper


def ask(*args: str | Path, packages: Worker | None = None) -> Told:
    words = [str(arg) for arg in args]
    return packages.call(f"{__name__}:command", words) if packages else command(words)


def answer(*args: str | Path, packages: Worker | None = None) -> dict:
    code, said, complaints = ask(*args, "--json", packages=packages)
    assert code == 0, complaints
    return json.loads(said)


@pytest.fixture(scope="module")
def trained(installed, patch_set, tmp_path_factory) -> Path:
    """A checkpoint of the package's network, trained with its loss."""
    run = tmp_path_factory.mktemp("runs") / "tiny"
    small = ["--steps", "4", "--pairs-per-batch", "8", "--no-compiled", "--loss-options", "strength", "0.7"]
    sets = ["--data", patch_set, "--validate", patch_set, "--validate-on-training", "--out", run]
    ended = answer("train", "hynet", *sets, "--network", "tiny", "--loss", "pull", *small, packages=installed)
    assert ended["steps"] == 4
    assert list(ended["validation"]) == [str(patch_set)]
    settings = json.loads((run / "run.json").read_text())["config"]
    assert (settings["network"], settings["loss"]) == ("tiny", "pull")
    assert settings["loss_options"] == {"strength": 0.7}
    return Path(ended["checkpoint"])


def test_info_lists_what_packages_add_and_names_what_is_broken(installed):
    told = answer("info", packages=installed)
    assert told["descriptors"]["tiny"] == "Two strided convolutions and one full layer. (from tiny_features)"
    assert told["losses"]["pull"] == "Pulls partners together, and a batch apart. (from tiny_features)"
    assert "package wrecked cannot be imported (ModuleNotFoundError" in told["losses"]["wrecked"]
    assert told["descriptors"]["hynet"]


def test_a_network_of_a_package_loads_from_its_checkpoint(installed, trained):
    assert installed.call(f"{__name__}:described", str(trained)) == (16, (3, 16))


def test_a_network_of_a_package_is_exported_and_then_needs_the_package_no_more(installed, trained, patch_set, tmp_path):
    exported = tmp_path / "tiny.onnx"
    assert answer("export", "--model", trained, "--to", exported, packages=installed)["difference"] < 1e-4
    rows = answer("evaluate", "ubc", "--model", exported, "--data", patch_set)["rows"]
    assert 0 <= rows[str(exported)]["fpr95"] <= 100


def test_a_network_of_a_package_is_evaluated(installed, trained, patch_set):
    rows = answer("evaluate", "ubc", "--model", trained, "--data", patch_set, packages=installed)["rows"]
    assert 0 <= rows[str(trained)]["fpr95"] <= 100


def test_without_its_package_a_checkpoint_says_what_is_missing(trained, patch_set):
    code, _, complaints = ask("evaluate", "ubc", "--model", trained, "--data", patch_set)
    assert code == 2
    assert "holds weights of none of hynet, l2net" in complaints
    assert "hynet.load(path, network=...)" in complaints


def test_asking_for_what_is_broken_gets_one_sentence(installed, patch_set, tmp_path):
    sets = ["--data", patch_set, "--out", tmp_path / "run"]
    code, _, complaints = ask("train", "hynet", *sets, "--loss", "wrecked", packages=installed)
    assert code == 2
    assert complaints.count("\n") == 1
    assert "wrecked:loss of the package wrecked cannot be imported" in complaints


def test_a_recipe_of_ours_trains_by_command_and_goes_on(patch_set, tmp_path):
    run = tmp_path / "run"
    small = ["--pairs-per-batch", "8", "--pairs-per-epoch", "64", "--no-compiled"]
    small += ["--log-every", "1", "--learning-rate", "0.001"]
    args = ["train", "hardnet", "--data", patch_set, "--out", run, "--steps", "3", *small]
    first = answer(*args)
    assert (first["steps"], first["checkpoint"]) == (3, str(run / "last.pt"))
    assert first["patches_per_second"] > 0
    # As if it had been stopped after two steps.
    content = torch.load(run / "last.pt", weights_only=True)
    content["position"]["step"] = 2
    torch.save(content, run / "last.pt")
    code, _, watched = ask(*args, "--resume")
    assert code == 0, watched
    assert [line.split()[1] for line in watched.splitlines() if line.startswith("step")] == ["3"]

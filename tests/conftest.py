"""What several test files share."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

# Before torch is imported anywhere: see hynet.cli.main.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# A suite that was started in the background ignores Ctrl-C, and its tests of Ctrl-C would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A shared machine stalls now and then: a slow example is not a wrong one. Same examples every run.
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(autouse=True, scope="session")
def nobody_at_home(tmp_path_factory):
    """Tests neither read nor change what the user of this machine has calibrated or cached."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        yield


@pytest.fixture
def patches() -> np.ndarray:
    """(24, 32, 32) uint8 with structure: noise under a few octaves of blur."""
    import cv2

    random = np.random.default_rng(0)
    fields = random.normal(0, 1, (24, 32, 32)).astype(np.float32)
    smooth = np.stack([sum(cv2.GaussianBlur(field, (0, 0), sigma) * sigma for sigma in (1, 2, 4)) for field in fields])
    return np.clip(128 + 60 * smooth / smooth.std(), 0, 255).astype(np.uint8)


def shared_file(name: str) -> Path:
    """A file beside the project, or a skip: the suite passes without it."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


def with_environment(word: str) -> list[str]:
    """Return the processes with this word in their environment, which those that they start inherit."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found


def exchange(path: Path, content: bytes) -> None:
    """Other content under the same name, of the same size and time, so that only reading it tells."""
    before = path.stat()
    assert len(content) <= before.st_size
    path.write_bytes(content.ljust(before.st_size, b"\0"))  # decoders of photos do not read on behind the end
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def write_set(root: Path, points: int, seed: int) -> Path:
    """A set in PhotoTour's format, half of whose pairs match."""
    from hynet.datasets import synthetic, ubc
    from hynet.types import PatchPairs

    patch_set = synthetic.patch_set(points, 4, seed=seed)
    first = np.arange(0, len(patch_set), 4)
    second = np.concatenate([first + 1, np.roll(first, 1) + 2])
    first = np.concatenate([first, first])
    known = PatchPairs(first, second, patch_set.points[first] == patch_set.points[second])
    nothing = np.zeros(len(patch_set))
    ubc.write(root, patch_set, xy=np.zeros((len(patch_set), 2)), angle=nothing, log2_scale=nothing, pairs=[known])
    return root


def train_whole_and_cut(config: Any, patches: Any, folder: Path, train: Any = None) -> tuple[Path, Path]:
    """Two runs that must end alike: one undisturbed, one stopped by Ctrl-C at step 2 and taken up again."""
    import hynet

    train = train or hynet.train

    def watch(line: dict[str, Any]) -> None:
        if line["step"] == 2:
            signal.raise_signal(signal.SIGINT)

    whole, cut = folder / "whole", folder / "cut"
    train(config, {"a": patches}, whole)
    with pytest.raises(KeyboardInterrupt):
        train(config, {"a": patches}, cut, watch=watch)
    train(config, {"a": patches}, cut, resume=True)
    return whole, cut

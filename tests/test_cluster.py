"""A real Dask cluster of processes on this machine, and what can happen to it: results as of an undisturbed run."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import poison
from hynet.errors import BadInput
from hynet.features import folder, sinks
from hynet.features.extractors import EXTRACTORS
from hynet.features.folder import extract_collection
from hynet.features.settings import FeatureSettings
from hynet.runtime import dask_pool
from hynet.runtime import pool as pools
from hynet.runtime.parts import FilePart
from hynet.runtime.pool import open_pool
from test_collection import files
from test_features import write_photos
from test_plugins import install

distributed = pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

SETTINGS = FeatureSettings(extractor="touchy")
PHOTOS = [f"{k:02}.png" for k in range(24)]


@pytest.fixture(scope="module", autouse=True)
def site(tmp_path_factory) -> Iterator[Path]:
    """A folder of packages, with the extractor that some photos are too much for."""
    site = tmp_path_factory.mktemp("site")
    install(site, "touchy", "", poison.ENTRY_POINTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        patch.setitem(EXTRACTORS, "touchy", FilePart("poison:Touchy"))
        patch.setattr(sinks, "SHARD", 8)
        patch.setattr(folder, "TOGETHER", 4)
        yield site


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"), PHOTOS, (48, 48))


@pytest.fixture(scope="module")
def undisturbed(photos, tmp_path_factory) -> dict[str, bytes]:
    """What one process of this machine makes of them."""
    out = tmp_path_factory.mktemp("undisturbed") / "collection"
    with open_pool("local", workers=1) as here:
        extract_collection([photos], out, SETTINGS, cluster=here)
    return files(out)


class Dask:
    """A scheduler and its workers, each a process."""

    def __init__(self, site: Path, folder: Path) -> None:
        paths = [str(site), str(Path(__file__).parent), *sys.path]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "DASK_LOGGING__DISTRIBUTED": "error"}
        self._folder = folder
        self._port = 0
        self.workers: list[subprocess.Popen[bytes]] = []
        self.start_scheduler()

    @property
    def address(self) -> str:
        return f"dask://127.0.0.1:{self._port}"

    def start_scheduler(self) -> None:
        note = self._folder / "scheduler.json"
        note.unlink(missing_ok=True)
        args = ["--host", "127.0.0.1", "--port", str(self._port), "--no-dashboard", "--scheduler-file", str(note)]
        self.scheduler = self._start("dask_scheduler", *args)
        while not note.exists():
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        self._port = int(note.read_text().partition('"address": "tcp://127.0.0.1:')[2].partition('"')[0])

    def start_worker(self, **options) -> subprocess.Popen[bytes]:
        args = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self._folder)]
        worker = self._start("dask_worker", self.address.replace("dask", "tcp"), *args, **options)
        self.workers.append(worker)
        return worker

    def wait(self, count: int) -> None:
        with distributed.Client(self.address.replace("dask", "tcp"), set_as_default=False) as client:
            client.wait_for_workers(count, timeout=120)

    def _start(self, kind: str, *args: str, **options) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{kind}", *args]
        return subprocess.Popen(
            command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options
        )

    def end(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()


@contextmanager
def dask_cluster(site: Path, folder: Path) -> Iterator[Dask]:
    dask = Dask(site, folder)
    try:
        yield dask
    finally:
        dask.end()


@pytest.fixture(scope="module")
def dask(site, tmp_path_factory) -> Iterator[Dask]:
    """With two workers; whoever kills one starts another."""
    with dask_cluster(site, tmp_path_factory.mktemp("dask")) as dask:
        dask.start_worker()
        dask.start_worker()
        dask.wait(2)
        yield dask


def once(done_at: int, act) -> object:
    """Progress that acts once, in the middle of the run."""
    acted = []

    def progress(done: int, total: int, what: str) -> None:
        if done >= done_at and not acted:
            acted.append(done)
            act()

    return progress


def test_a_worker_that_is_killed_loses_only_its_batch(dask, photos, undisturbed, tmp_path):
    def kill() -> None:
        dask.workers[-1].send_signal(signal.SIGKILL)
        dask.workers.pop().wait()
        dask.start_worker()

    with open_pool(dask.address) as there:
        done = extract_collection([photos], tmp_path / "out", SETTINGS, cluster=there, progress=once(6, kill))
    assert (done.photos, done.new, done.quarantined) == (24, 24, {})
    assert files(tmp_path / "out") == undisturbed


def test_a_photo_that_kills_its_process_is_quarantined_and_all_others_are_as_without_it(
    dask, photos, undisturbed, tmp_path
):
    poisoned = shutil.copytree(photos, tmp_path / "photos")
    shutil.copy(photos / "00.png", poisoned / "kills.png")
    with open_pool(dask.address) as there:
        done = extract_collection([poisoned], tmp_path / "out", SETTINGS, cluster=there)
    assert list(done.quarantined) == ["kills.png"]
    assert "SIGKILL" in done.quarantined["kills.png"]
    assert done.photos == 24
    shards = {name: content for name, content in undisturbed.items() if name != "index.parquet"}
    after = files(tmp_path / "out")
    assert {name: after[name] for name in shards} == shards
    assert after.keys() - undisturbed.keys() == {"shards/00003.h5", "shards/00003.parquet"}


def test_photos_in_quarantine_get_another_chance_and_fail_again_without_harm(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "ALL_FAIL", 1)
    poisoned, out = tmp_path / "photos", tmp_path / "out"
    poisoned.mkdir()
    for name in ("01.png", "02.png", "kills0.png", "kills9.png"):
        shutil.copy(photos / "00.png", poisoned / name)
    with open_pool("local", workers=2) as here:
        extract = partial(extract_collection, [poisoned], out, SETTINGS, cluster=here)
        assert set(extract().quarantined) == {"kills0.png", "kills9.png"}
        before = {path: path.stat().st_mtime_ns for path in (out / "shards").iterdir()}
        assert set(extract().quarantined) == {"kills0.png", "kills9.png"}
        assert {path: path.stat().st_mtime_ns for path in (out / "shards").iterdir()} == before
        (poisoned / "kills9.cured").touch()
        done = extract()
        assert (done.photos, done.new, set(done.quarantined)) == (3, 1, {"kills0.png"})
        extract_collection([poisoned], tmp_path / "fresh", SETTINGS, cluster=here)
    assert files(out) == files(tmp_path / "fresh")


@pytest.mark.slow
def test_a_run_is_stopped_and_moved_to_another_cluster(dask, photos, undisturbed, tmp_path):
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_pool("local", workers=1) as here:
        extract_collection([photos], tmp_path / "out", SETTINGS, cluster=here, progress=once(6, stop))
    with open_pool(dask.address) as there:
        assert extract_collection([photos], tmp_path / "out", SETTINGS, cluster=there).new < 24
    assert files(tmp_path / "out") == undisturbed


@pytest.fixture
def slurm(site, tmp_path, monkeypatch) -> Path:
    """Stand-ins for Slurm's commands that run jobs here; the folder has the scripts that were submitted."""
    pytest.importorskip("dask_jobqueue")
    import dask

    commands = {
        "sbatch": f'cp "$1" {tmp_path}/job-$$; setsid bash {tmp_path}/job-$$ >/dev/null 2>&1 & echo "job $!"',
        "scancel": 'kill -9 -- "-$1"',
    }
    (tmp_path / "bin").mkdir()
    for name, line in commands.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(Path(__file__).parent), *sys.path]))
    described = {"cores": 2, "processes": 1, "memory": "4GB", "queue": "cpu", "walltime": "00:10:00"}
    with dask.config.set({f"jobqueue.slurm.{key}": value for key, value in described.items()}):
        yield tmp_path


def test_slurm_gets_jobs_as_the_users_configuration_describes_them(slurm, photos, undisturbed):
    with open_pool("slurm", workers=2) as there:
        done = extract_collection([photos], slurm / "out", SETTINGS, cluster=there)
    assert (done.photos, done.quarantined) == (24, {})
    assert files(slurm / "out") == undisturbed
    jobs = [path.read_text() for path in slurm.glob("job-*")]
    assert len(jobs) == 2
    for job in jobs:
        assert {"#SBATCH -p cpu", "#SBATCH --cpus-per-task=2", "#SBATCH -t 00:10:00"} <= set(job.splitlines())
        assert "dask_worker tcp://" in job


def test_a_scheduler_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(dask_pool.DaskPool, "_connect", lambda self, seconds: connect(self, 1))
    with pytest.raises(BadInput, match="no Dask scheduler answers at tcp://127"), open_pool("dask://127.0.0.1:9"):
        pass


connect = dask_pool.DaskPool._connect


@pytest.mark.slow
def test_photos_that_hang_or_eat_memory_are_quarantined(dask, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "TOGETHER", 2)
    poisoned = shutil.copytree(photos, tmp_path / "photos")
    shutil.copy(photos / "00.png", poisoned / "hangs.png")
    shutil.copy(photos / "00.png", poisoned / "eats.png")
    with open_pool(dask.address) as there:
        done = extract_collection([poisoned], tmp_path / "out", SETTINGS, cluster=there, watchdog=15)
    assert set(done.quarantined) == {"eats.png", "hangs.png"}
    assert "took more than 15 seconds" in done.quarantined["hangs.png"]
    assert "not enough memory" in done.quarantined["eats.png"]
    assert done.photos == 24


@pytest.mark.slow
def test_a_worker_with_a_full_disk_is_left_alone(site, photos, undisturbed, tmp_path):
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    (tmp_path / "dask").mkdir()
    with dask_cluster(site, tmp_path / "dask") as dask:
        dask.start_worker(preexec_fn=small_files)
        dask.start_worker()
        dask.wait(2)
        with open_pool(dask.address) as there:
            done = extract_collection([photos], tmp_path / "out", SETTINGS, cluster=there)
            assert (done.photos, done.quarantined) == (24, {})
            assert len(there._avoided) == 1
        assert files(tmp_path / "out") == undisturbed
        dask.workers.pop().kill()
        with pytest.raises(BadInput, match="cannot write"), open_pool(dask.address) as there:
            extract_collection([photos], tmp_path / "full", SETTINGS, cluster=there)


@pytest.mark.slow
def test_a_scheduler_that_is_started_again_gets_the_rest(site, photos, undisturbed, tmp_path):
    (tmp_path / "dask").mkdir()
    with dask_cluster(site, tmp_path / "dask") as dask:
        dask.start_worker()
        dask.wait(1)

        def restart() -> None:
            for process in [dask.scheduler, *dask.workers]:
                process.kill()
                process.wait()
            dask.workers.clear()
            threading.Timer(3, lambda: (dask.start_scheduler(), dask.start_worker())).start()

        with open_pool(dask.address) as there:
            done = extract_collection([photos], tmp_path / "out", SETTINGS, cluster=there, progress=once(6, restart))
        assert (done.photos, done.quarantined) == (24, {})
    assert files(tmp_path / "out") == undisturbed

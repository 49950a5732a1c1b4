"""The pool's engine for a Dask cluster, whose workers may come and go, and the scheduler too."""

from __future__ import annotations

import pickle
import queue
import time
from collections.abc import Hashable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from .. import __version__
from ..errors import BadInput, MissingExtra, need
from .machine import memory
from .pool import Outcome, Workers

PATIENCE = 600  # seconds without a scheduler, or without a worker, before we give up


@contextmanager
def open_dask_pool(name: str, jobs: int) -> Iterator[DaskPool]:
    """Connect to the scheduler at an address, or start one with so many jobs of Slurm."""
    if name == "slurm":
        with _slurm(max(1, jobs)) as started, DaskPool(started.scheduler_address) as pool:
            yield pool
        return
    address = name.replace("dask://", "tcp://", 1)
    if not address.rpartition(":")[2].isdigit():
        raise BadInput(f"--cluster {name} has no port; Dask's scheduler listens at 8786 by default.")
    with DaskPool(address) as pool:
        yield pool


@contextmanager
def _slurm(jobs: int) -> Iterator[Any]:
    """A Dask cluster of Slurm jobs as the user's own Dask configuration (jobqueue.yaml) describes them."""
    need("distributed", "cluster", "a cluster")
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError:
        raise MissingExtra(
            "--cluster slurm needs dask-jobqueue: pip install dask-jobqueue, or start a scheduler and workers yourself "
            "and give --cluster dask://HOST:PORT."
        ) from None
    try:
        cluster = SLURMCluster()
    except (ValueError, OSError) as error:
        raise BadInput(f"Dask cannot start jobs of Slurm ({error}); write its jobqueue.yaml first.") from None
    with cluster:
        cluster.scale(jobs=jobs)
        yield cluster


class DaskPool:
    """Batches for the workers of a Dask scheduler."""

    def __init__(self, address: str) -> None:
        self._distributed = need("distributed", "cluster", "a cluster")
        self._address = address
        self._futures: dict[Hashable, Any] = {}  # under way
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()  # tickets
        self._avoided: set[str] = set()
        self._seen = time.monotonic(), 0  # when there was last a worker, and threads of all
        self._client = self._connect(seconds=30)
        self.dashboard: str | None = None
        with suppress(KeyError, AttributeError):  # the scheduler has no Bokeh
            self.dashboard = self._client.dashboard_link
        self._check_versions()

    def slots(self) -> int:
        now, (when, threads) = time.monotonic(), self._seen
        if now - when > 2 or not threads:
            threads = sum(count for where, count in self._workers().items() if where not in self._avoided)
            if threads:
                self._seen = now, threads
            elif now - when > PATIENCE:
                raise BadInput(f"{self._address} has had no worker for {PATIENCE} s; start some and run this again.")
        return max(1, threads)

    def submit(self, ticket: Hashable, function: str, *values: Any, seconds: float | None) -> None:
        if self._client.status != "running":
            self._reconnect()
        others = [where for where in self._workers() if where not in self._avoided] if self._avoided else []
        where: dict[str, Any] = {"workers": others, "allow_other_workers": True} if others else {}
        packed = pickle.dumps((function, values))
        future = self._client.submit(dask_task, packed, seconds, pure=False, **where)
        self._futures[ticket] = future
        future.add_done_callback(lambda _: self._done.put((ticket, future)))

    def next(self) -> tuple[Any, Outcome]:
        while True:
            try:
                ticket, future = self._done.get(timeout=2)
            except queue.Empty:
                if self._client.status != "running":
                    self._reconnect()
                self.slots()  # raises where nobody has been there for long
                continue
            if self._futures.get(ticket) is future:  # else it was given up before
                del self._futures[ticket]
                return ticket, self._outcome(future)

    def avoid(self, where: str, why: str) -> None:
        self._avoided.add(where)
        if not self._workers().keys() - self._avoided:
            raise BadInput(why)

    def _outcome(self, future: Any) -> Outcome:
        try:
            return future.result(timeout=30)
        except self._distributed.scheduler.KilledWorker:
            return Outcome("failed", why="every worker that tried it died.")
        except (CancelledError, TimeoutError, self._distributed.CancelledError, OSError):
            return Outcome("lost")  # with the scheduler, or with the worker that had the result
        except Exception as error:  # it cannot even be started there
            return Outcome("refused", why=f"a worker of {self._address} failed ({type(error).__name__}: {error}).")

    def _workers(self) -> dict[str, int]:
        """Address -> threads."""
        try:
            return self._client.nthreads()
        except (OSError, TimeoutError, CancelledError, RuntimeError, AttributeError):  # in between two schedulers
            return {}

    def _connect(self, seconds: float) -> Any:
        try:
            return self._distributed.Client(self._address, timeout=seconds, set_as_default=False)
        except (OSError, TimeoutError, ValueError):
            raise BadInput(
                f"no Dask scheduler answers at {self._address}; start one by `dask scheduler`, or correct the address, "
                "and run this again: what is done is kept."
            ) from None

    def _reconnect(self) -> None:
        """Connect anew, and give back what was under way: a scheduler that was started again knows nothing of it."""
        end = time.monotonic() + PATIENCE
        while self._client.status == "connecting" and time.monotonic() < end:
            time.sleep(0.2)
        if self._client.status != "running":
            with suppress(Exception):
                self._client.close(timeout=1)
            self._client = self._connect(seconds=max(1.0, end - time.monotonic()))
        for ticket, future in list(self._futures.items()):
            self._done.put((ticket, future))

    def _check_versions(self) -> None:
        answers = self._client.run(our_version, on_error="return")
        for where, answer in answers.items():
            if isinstance(answer, OSError | TimeoutError):  # it has just died, and gets no work
                continue
            if isinstance(answer, Exception):
                raise BadInput(
                    f"the worker {where} cannot import hynet ({answer}); install version {__version__} there."
                )
            if answer != __version__:
                raise BadInput(f"the worker {where} has hynet {answer}, and this is {__version__}; install one.")

    def __enter__(self) -> DaskPool:
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(Exception):  # whatever the scheduler has become, our results are on disk
            self._client.cancel(list(self._futures.values()))
            self._client.run(end_idle_workers)
        with suppress(Exception):
            self._client.close(timeout=5)


# --- In a Dask worker ---

_workers = Workers()  # one for each of its threads


def end_idle_workers() -> None:
    """End the processes beside a Dask worker, which would keep their memory until it ends."""
    _workers.close_idle()


def dask_task(packed: bytes, seconds: float | None) -> Outcome:
    """Do a batch in the process of one of a Dask worker's threads, which share its memory.

    packed: function and values, pickled: Dask would look through all of them for results of its own.
    """
    from distributed import get_worker

    worker = get_worker()
    most = getattr(worker.memory_manager, "memory_limit", None) or memory()
    function, values = pickle.loads(packed)
    outcome = _workers.attempt(function, values, seconds, most // worker.state.nthreads)
    return replace(outcome, where=worker.address)


def our_version() -> str:
    return __version__

"""Where batches of work are done: in processes of this machine, or by the workers of a Dask cluster.

    with open_cluster("local", workers=4) as cluster:
        cluster.submit(ticket, "package.module:function", *values, seconds=60)
        ticket, outcome = cluster.next()

A worker does its batch in a process beside it that can crash, hang or run out of memory without taking the worker with
it, and that keeps what it has loaded for the next batch. It computes with one thread, so that results are the same
bytes on one core or a thousand.
"""

from __future__ import annotations

import pickle
import queue
import threading
import time
from collections.abc import Hashable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .. import __version__
from ..errors import BadInput, HynetError, MissingExtra, need
from .machine import cores, memory
from .processes import EndedEarly, Helper

PATIENCE = 600  # seconds without a scheduler, or without a worker, before we give up
STARTING = 300.0  # seconds that a process may take to start
SCHEMES = ("dask://", "tcp://", "tls://")


@dataclass(frozen=True)
class Outcome:
    """What became of a batch. Lost: nobody is to blame. Refused: this worker cannot do it, another one may."""

    how: Literal["done", "failed", "refused", "lost"]
    value: Any = None  # what the function returned
    why: str = ""
    where: str = ""  # the worker that refused


class Cluster(Protocol):
    """Batches go in under tickets, outcomes come back in any order."""

    dashboard: str | None  # a web page of what it does

    def slots(self) -> int:
        """How many batches are done at once."""
        ...

    def submit(self, ticket: Hashable, function: str, *values: Any, seconds: float) -> None: ...

    def next(self) -> tuple[Any, Outcome]:
        """Waits for one."""
        ...

    def avoid(self, where: str, why: str) -> None:
        """Give no more to that worker, or raise BadInput where there is no other."""
        ...


@contextmanager
def open_cluster(name: str = "local", workers: int = 0) -> Iterator[Cluster]:
    """name: local, slurm, or the address of a Dask scheduler, dask://HOST:PORT.

    workers: processes of this machine, or jobs of Slurm; 0 means one a core, and one job.
    """
    if workers < 0:
        raise BadInput(f"the jobs must be at least 1, or 0 for one per core, got {workers}.")
    if name == "local":
        with Processes(workers or len(cores())) as here:
            yield here
    elif name == "slurm":
        with _slurm(max(1, workers)) as started, DaskWorkers(started.scheduler_address) as there:
            yield there
    elif name == "kubernetes":
        raise BadInput("start Dask's scheduler on Kubernetes, as docs/scale.md says, and give --cluster its address.")
    elif name.startswith(SCHEMES):
        address = name.replace("dask://", "tcp://", 1)
        if not address.rpartition(":")[2].isdigit():
            raise BadInput(f"--cluster {name} has no port; Dask's scheduler listens at 8786 by default.")
        with DaskWorkers(address) as there:
            yield there
    else:
        raise BadInput(f"no cluster {name!r}; choose local, slurm or dask://HOST:PORT.")


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


# --- Beside a worker ---


class Helpers:
    """One process for each thread that asks."""

    def __init__(self) -> None:
        self._thread = threading.local()
        self._all: list[Helper] = []
        self._over = False

    def mine(self, most_memory: int) -> Helper:
        helper = getattr(self._thread, "helper", None)
        if helper is None:
            helper = self._thread.helper = Helper(most_memory, threads=1)
            self._all.append(helper)
        if self._over:
            helper.end()
        return helper

    def close_idle(self) -> None:
        """Those that nobody is using; a later batch starts another."""
        for helper in list(self._all):
            helper.close_if_idle()

    def end(self) -> None:
        """All of them, for good, whatever they do."""
        self._over = True
        for helper in list(self._all):
            helper.end()


_of_dask_worker = Helpers()


def in_helper(helpers: Helpers, function: str, values: tuple[Any, ...], seconds: float, most_memory: int) -> Outcome:
    """Call "module:function" in the process that belongs to this thread."""
    helper = helpers.mine(most_memory)
    try:
        helper.call("time:time", seconds=STARTING)  # on a busy machine a new process is not there at once
        return Outcome("done", helper.call(function, *values, seconds=seconds))
    except EndedEarly as error:
        return Outcome("failed", why=str(error))
    except (HynetError, OSError, ImportError) as error:  # a full disk, other weights than ours, a missing package
        return Outcome("refused", why=str(error) or type(error).__name__, where=_this_worker())
    except MemoryError:
        helper.close()  # what it holds may be what is missing
        return Outcome("failed", why=f"there is not enough memory (of {most_memory / 1e9:.1f} GB).")
    except Exception as error:
        return Outcome("failed", why=f"{type(error).__name__}: {error}")


def end_idle_helpers() -> None:
    """In a Dask worker, whose helpers would keep their memory until it ends."""
    _of_dask_worker.close_idle()


def dask_task(packed: bytes, seconds: float) -> Outcome:
    """The same in a Dask worker, whose threads share its memory.

    packed: function and values, pickled: Dask would look through all of them for results of its own.
    """
    from distributed import get_worker

    worker = get_worker()
    most = getattr(worker.memory_manager, "memory_limit", None) or memory()
    function, values = pickle.loads(packed)
    return in_helper(_of_dask_worker, function, values, seconds, most // worker.state.nthreads)


def _this_worker() -> str:
    try:
        from distributed import get_worker

        return get_worker().address
    except (ImportError, ValueError):  # a thread of `Processes`
        return ""


def our_version() -> str:
    return __version__


# --- The two kinds ---


class Processes:
    """Processes of this machine, one a thread that waits for it."""

    def __init__(self, workers: int) -> None:
        self.dashboard: str | None = None
        self._workers = workers
        self._helpers = Helpers()
        self._pool = ThreadPoolExecutor(workers)
        self._done: queue.SimpleQueue[tuple[Any, Outcome]] = queue.SimpleQueue()

    def slots(self) -> int:
        return self._workers

    def submit(self, ticket: Hashable, function: str, *values: Any, seconds: float) -> None:
        def work() -> None:
            most = memory() // self._workers
            self._done.put((ticket, in_helper(self._helpers, function, values, seconds, most)))

        self._pool.submit(work)

    def next(self) -> tuple[Any, Outcome]:
        return self._done.get()

    def avoid(self, where: str, why: str) -> None:
        raise BadInput(why)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *raised: object) -> None:
        """Ends at once; what is half done is lost."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._helpers.end()


class DaskWorkers:
    """The workers of a Dask scheduler, which may come and go, and the scheduler too."""

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

    def submit(self, ticket: Hashable, function: str, *values: Any, seconds: float) -> None:
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
        """A scheduler that was started again knows nothing of what it had been given."""
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

    def __enter__(self) -> DaskWorkers:
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(Exception):  # whatever the scheduler has become, our results are on disk
            self._client.cancel(list(self._futures.values()))
            self._client.run(end_idle_helpers)
        with suppress(Exception):
            self._client.close(timeout=5)

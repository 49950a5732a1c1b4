"""One open page and all that it holds. When the page closes, its work is cancelled and everything is thrown away."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import HynetError
from ...matching.matched_photos import MatchedPhotos
from ...runtime.locks import exclusive_lock
from .desk import TooBusy
from .pair import Memory
from .photo import PagePhoto

MOST_VISITS = 24
GRACE = 20.0  # seconds that a page may be out of reach: a phone changes from one network to another
HEARTBEAT = 3.0  # seconds; a page that has gone is noticed when it does not take one
PREFIX = "hynet-app-"


class NoVisit(HynetError):
    """The page was away for too long, or the server started anew."""


class Visit:
    """The state of one open page: its photos, its results and its reconstruction."""

    def __init__(self, root: Path) -> None:
        self.key = secrets.token_urlsafe(24)
        self.folder = root / self.key
        self.photos: list[PagePhoto | None] = [None, None]
        self.is_example = False
        self.memory: Memory | None = None
        self.shown: dict[int, MatchedPhotos] = {}  # run -> what it found, of the last few
        self.runs = 0
        self.taking_turns = asyncio.Lock()  # one page does one thing at a time
        self.closed = threading.Event()
        self.album: dict[str, int] = {}  # file name -> bytes
        self.work: asyncio.Task[None] | None = None
        self.news: dict[str, Any] = {"stage": "idle"}  # of the reconstruction
        self.seen = time.monotonic()
        self._listeners: set[asyncio.Queue[dict[str, Any]]] = set()

    def put(self, side: int, photo: PagePhoto, *, example: bool = False) -> None:
        """A new photo: what is known of the pair is forgotten."""
        if self.is_example and not example:
            self.photos = [None, None]
        self.photos[side] = photo
        self.is_example = example
        self.memory = None

    def pair(self) -> Memory:
        first, second = self.photos
        if first is None or second is None:
            raise HynetError("choose two photos first.")
        if self.memory is None:
            self.memory = Memory((first, second), self.closed, example=self.is_example)
        return self.memory

    def show(self, found: MatchedPhotos) -> int:
        """A number by which the page asks for the patches of what it shows."""
        self.runs += 1
        self.shown[self.runs] = found
        for old in [run for run in self.shown if run <= self.runs - 4]:  # two models, each perhaps being replaced
            del self.shown[old]
        return self.runs

    def tell(self, news: dict[str, Any]) -> None:
        self.news = news
        for listener in self._listeners:
            listener.put_nowait(news)

    async def listen(self) -> AsyncIterator[str]:
        """Server-sent events, for as long as the page is open."""
        mine: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        mine.put_nowait(self.news)
        self._listeners.add(mine)
        try:
            while not self.closed.is_set():
                try:
                    yield f"data: {json.dumps(await asyncio.wait_for(mine.get(), HEARTBEAT))}\n\n"
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners.discard(mine)
            self.seen = time.monotonic()

    @property
    def away(self) -> float:
        """Seconds since the page was last heard of."""
        return 0.0 if self._listeners else time.monotonic() - self.seen

    async def cancel(self) -> None:
        """End the reconstruction, if there is one, with all its processes."""
        work, self.work = self.work, None
        if work is not None:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            if work.cancelled():  # the work itself cannot tell if it had not begun
                self.tell({"stage": "cancelled"})

    async def end(self) -> None:
        self.closed.set()
        await self.cancel()
        self.shown.clear()
        self.memory = None
        await asyncio.to_thread(shutil.rmtree, self.folder, True)


class Visits:
    """All open pages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._visits: dict[str, Visit] = {}

    def __len__(self) -> int:
        return len(self._visits)

    def begin(self) -> Visit:
        if len(self._visits) >= MOST_VISITS:
            raise TooBusy(f"{MOST_VISITS} people use this page already; try again in a minute.")
        visit = Visit(self.root)
        self._visits[visit.key] = visit
        return visit

    def find(self, key: str) -> Visit:
        visit = self._visits.get(key)
        if visit is None:
            raise NoVisit("this page was away for too long, and what it held is gone; load it again.")
        visit.seen = time.monotonic()
        return visit

    async def end(self, visit: Visit) -> None:
        self._visits.pop(visit.key, None)
        await visit.end()

    async def sweep(self) -> None:
        """End the visits of pages that have gone, for ever."""
        while True:
            await asyncio.sleep(1)
            for visit in [visit for visit in self._visits.values() if visit.away > GRACE]:
                await self.end(visit)

    async def end_all(self) -> None:
        for visit in list(self._visits.values()):
            await self.end(visit)


@contextmanager
def folder_of_visits() -> Iterator[Path]:
    """A private folder that goes with us; those of servers that were killed go too."""
    above = Path(tempfile.gettempdir())
    for left in above.glob(f"{PREFIX}*"):
        try:
            if not _is_ours(left):
                continue
            with exclusive_lock(left):
                shutil.rmtree(left, ignore_errors=True)
        except (HynetError, OSError):  # of a server that runs, or of another user
            continue
    root = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with exclusive_lock(root):
            yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Whether a folder is a real one of this user; what others leave there may be links to files of ours."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and (not hasattr(os, "getuid") or status.st_uid == os.getuid())

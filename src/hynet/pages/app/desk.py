"""Work takes turns: several people at once neither disturb each other nor wait for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from ...errors import HynetError

Value = TypeVar("Value")


class TooBusy(HynetError):
    """More people than this machine can serve."""


class Desk:
    """Serves a few at a time, in the order they came; whoever would have to wait too long is told at once."""

    def __init__(self, at_once: int, waiting: int, seconds: float) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most_waiting = waiting
        self._seconds = seconds
        self.waiting = 0
        self.serving = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The block begins when it is our turn."""
        if self.waiting >= self._most_waiting:
            raise TooBusy("this machine is busy with the photos of others; try again in a minute.")
        self.waiting += 1
        try:
            await asyncio.wait_for(self._free.acquire(), self._seconds)
        except TimeoutError:
            raise TooBusy("the work of others took too long; try again in a minute.") from None
        finally:
            self.waiting -= 1
        self.serving += 1
        try:
            yield
        finally:
            self.serving -= 1
            self._free.release()

    async def run(self, work: Callable[[], Value]) -> Value:
        """Wait for a turn, run a function in a thread and return its result."""
        async with self.turn():
            return await asyncio.to_thread(work)

"""Many items in batches on a cluster. What makes a batch fail is found by halving it, and the rest goes on.

for batch, result in done(cluster, source):     # source() -> the next Batch, or None where there is none just now
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..errors import BadInput
from .cluster import Cluster

TRIES = 2  # of an item alone: its worker may have been killed from outside
REFUSALS = 100  # by workers, before we think that it is all of them
ALL_FAIL = 8  # items that failed with nothing done: then it is not the items


@dataclass(frozen=True)
class Batch:
    """`function(context, items)`, called in a process somewhere; the function is named "module:function"."""

    function: str
    context: Any
    items: tuple[Any, ...]
    seconds: float  # that each item may take; the function goes through them by `processes.one_by_one`
    tries: int = 0
    failed_before: bool = False  # in an earlier run: that it does again says nothing about the cluster

    def halves(self) -> list[Batch]:
        middle = len(self.items) // 2
        return [replace(self, items=half, tries=0) for half in (self.items[:middle], self.items[middle:])]


@dataclass(frozen=True)
class Failed:
    """One item cannot be done: it crashes, hangs, or takes more memory than there is."""

    why: str


def done(cluster: Cluster, source: Callable[[], Batch | None]) -> Iterator[tuple[Batch, Any]]:
    """Each batch with what it returned, in the order in which they are finished; or one item with `Failed`.

    Twice as many are under way as can be done at once, so that nobody waits and memory stays bounded.
    """
    again: deque[Batch] = deque()
    under_way: dict[int, Batch] = {}
    tickets = refusals = failures = successes = 0
    while True:
        while len(under_way) < 2 * cluster.slots():
            batch = again.popleft() if again else source()
            if batch is None:
                break
            cluster.submit(tickets, batch.function, batch.context, batch.items, seconds=batch.seconds)
            under_way[tickets] = batch
            tickets += 1
        if not under_way:
            return
        ticket, outcome = cluster.next()
        batch = under_way.pop(ticket)
        if outcome.how == "done":
            successes += 1
            yield batch, outcome.value
        elif outcome.how == "lost":
            again.append(batch)
        elif outcome.how == "refused":
            refusals += 1
            cluster.avoid(outcome.where, outcome.why)
            if refusals > REFUSALS:
                raise BadInput(f"{refusals} batches were refused, the last one since: {outcome.why}")
            again.append(batch)
        elif len(batch.items) > 1:
            again.extendleft(reversed(batch.halves()))
        elif batch.tries + 1 < TRIES:
            again.append(replace(batch, tries=batch.tries + 1))
        else:
            failures += not batch.failed_before
            if failures >= ALL_FAIL and not successes:
                raise BadInput(f"nothing can be done, the first {failures} tasks all failed: {outcome.why}")
            yield batch, Failed(outcome.why)

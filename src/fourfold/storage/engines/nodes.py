"""Chooses the node that answers a search: one that is up and holds everything up to the cursor of the search."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from fourfold.errors import IndexUnavailable
from fourfold.storage.engines.protocol import Node

T = TypeVar("T")
C = TypeVar("C", bound="tuple[int, ...]")

ATTEMPT_SECONDS = 0.6
"""For one node. A retriever has time for two attempts and an answer of PostgreSQL."""
_ASK_SECONDS = 1.0
"""No further node is asked after this long."""
_PAUSE_SECONDS = 2.0
"""A node that failed is not asked for the same collection again for this long."""
_TRUSTED_SECONDS = 5.0
"""What a node holds is read again after this long: it may have been restored from a backup."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a call in a daemon thread, which may outlive its deadline; TimeoutError after that."""
    done: Future[T] = Future()

    def running() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # noqa: BLE001  raised again where the result is asked for
            done.set_exception(error)

    threading.Thread(target=running, name="fourfold-index", daemon=True).start()
    return done.result(seconds)


@dataclass(slots=True)
class _Known(Generic[C]):
    end: C
    since: float


class Nodes(Generic[C]):
    """Threads share it. `C` is a position in the log."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._turns = count()
        self._paused: dict[tuple[str, str], tuple[float, IndexUnavailable]] = {}
        self._known: dict[tuple[str, str], _Known[C]] = {}

    def ask(
        self,
        collection: str,
        cursor: C,
        behind: Collection[str],
        find_end: Callable[[str], C | None],
        call: Callable[[Node, float], T],
    ) -> T:
        """`behind`: nodes that lack batches, whatever their mark says.

        `find_end`: the position up to which a node with this mark holds everything; None for an unknown mark.
        IndexUnavailable says why no node could answer.
        """
        turn, reasons = next(self._turns), list[str]()
        until = time.monotonic() + _ASK_SECONDS
        for offset in range(len(self._nodes)):
            node = self._nodes[(turn + offset) % len(self._nodes)]
            place = (node.name, collection)
            paused = self._paused.get(place)
            if paused is not None and time.monotonic() < paused[0]:
                reasons.append(paused[1].message)
                continue
            if time.monotonic() > until:
                break
            try:
                if node.name not in behind and self._holds(node, collection, cursor, find_end):
                    found = call(node, ATTEMPT_SECONDS)
                    self._paused.pop(place, None)
                    return found
                reasons.append(f"{node.name} does not hold the last changes")
            except IndexUnavailable as error:
                self._paused[place] = (time.monotonic() + _PAUSE_SECONDS, error)
                self._known.pop(place, None)
                reasons.append(error.message)
        raise IndexUnavailable("; ".join(dict.fromkeys(reasons)), "Check the nodes of the index")

    def _holds(self, node: Node, collection: str, cursor: C, find_end: Callable[[str], C | None]) -> bool:
        known = self._known.get((node.name, collection))
        if known is None or known.end < cursor or time.monotonic() > known.since + _TRUSTED_SECONDS:
            applied = node.applied(collection, ATTEMPT_SECONDS)
            end = None if applied is None else find_end(applied.mark)
            if end is None:
                self._known.pop((node.name, collection), None)
                return False
            self._known[node.name, collection] = known = _Known(end, time.monotonic())
        return known.end >= cursor

"""Receipts of what searches supplied: counted in memory, and added to the store from time to time.

No text of a query or of an item is kept. A search only adds to counters: a store that is read-only or locked makes none
fail or wait. Counts that cannot be written are kept for the next time, and lost when the memory is closed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from fourfold.errors import FourfoldError
from fourfold.retrieval import SearchResponse
from fourfold.storage.protocols import Store
from fourfold.storage.values import Receipt

_SECONDS: Final = 10.0
"""Receipts are written at most this often while a memory is open."""
_MOST_ITEMS: Final = 100_000
"""Items that are counted between two writes; of more, which only a store that cannot be written reaches, none."""


class Receipts:
    def __init__(self, store: Store, least: float, *, are_kept: bool) -> None:
        """`least`: the confidence from which on a result is an answer."""
        self._store = store
        self._least = least
        self._are_kept = are_kept
        self._changing = threading.Lock()
        self._supplies: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By namespace: Receipt(...) of each interface, its fields as PART of `VIA PART`."""
        self._items: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._written_at = time.monotonic()

    def add(self, namespace: str, via: str, answers: Iterable[int]) -> None:
        """Counts a question that came through an interface, and the items that it was given for an answer."""
        if not self._are_kept:
            return
        given = [*answers]
        with self._changing:
            counts = self._supplies[namespace]
            counts.update({f"{via} asked": 1, f"{via} answered": int(bool(given)), f"{via} items": len(given)})
            if len(self._items[namespace]) < _MOST_ITEMS:
                self._items[namespace].update(given)

    def add_response(self, response: SearchResponse, via: str, namespaces: Sequence[str]) -> None:
        """Counts a search of these namespaces, in each of which results with enough confidence are answers."""
        sure = [each.item for each in response.results if each.confidence >= self._least]
        for namespace in namespaces:
            self.add(namespace, via, [item.id for item in sure if item.namespace == namespace])

    def write_due(self) -> None:
        """Writes if the last time is a while ago."""
        if time.monotonic() - self._written_at >= _SECONDS:
            self.write()

    def write(self) -> None:
        """Adds what was counted to the store, unless another writer would have to be waited for."""
        with self._changing:
            supplies, items = self._supplies, self._items
            self._supplies, self._items = defaultdict(Counter), defaultdict(Counter)
            self._written_at = time.monotonic()
        for namespace, counts in supplies.items():
            if not self._add(namespace, counts, items[namespace]):
                with self._changing:
                    self._supplies[namespace].update(counts)
                    self._items[namespace].update(items[namespace])

    def _add(self, namespace: str, counts: Counter[str], items: Counter[int]) -> bool:
        names = sorted({name.rpartition(" ")[0] for name in counts})
        receipts = {via: Receipt(*(counts[f"{via} {part}"] for part in Receipt._fields)) for via in names}
        try:
            return self._store.add_receipts(namespace, receipts, items, datetime.now(UTC))
        except FourfoldError:  # such as a store that is read-only: receipts are not worth a failure
            return False

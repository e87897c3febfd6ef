"""Names, links and tags in memory: columns with a tail.

Built in a background thread after a few searches, from one snapshot. A search folds what changed since into the tail,
so it sees what the tables hold; a search for which there are no columns reads the tables, and never waits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold import scheduling
from fourfold.index.link_state import LinkRows, LinkState
from fourfold.storage.sqlite import changes
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import Database
from fourfold.storage.sqlite.link_source import SqliteLinkSource, changed
from fourfold.storage.sqlite.tuning import Tuning
from fourfold.threads import Task, Workers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.storage.sqlite.snapshot import SqliteSnapshot

_BATCH_ROWS = 2000
"""Rows that are read between two pauses for searches."""
_NAMESPACES = 16
"""Namespaces whose columns are kept."""
_LONGEST_TAIL = 4
"""Times the length at which columns are read again, up to which they are used meanwhile."""


class _Closed(Exception):
    """The store is being closed, so the build ends."""


@dataclass(frozen=True, slots=True)
class Known:
    """What this process knows about one namespace."""

    change: int
    """The last change that the state holds; without a state, the one at which the misses were counted."""
    state: LinkState | None = None
    misses: int = 0
    """Searches at this change that had to read the tables."""
    not_before: float = 0.0
    """When the next build may start, on the monotonic clock."""


class LinkCache:
    def __init__(self, database: Database, tuning: Tuning) -> None:
        self._database = database
        self._tuning = tuning
        self.known: dict[int, Known] = {}
        """By namespace."""
        self._changing = Lock()
        self._building: Task[None] | None = None
        self._builders = Workers(1, "fourfold-links")
        self._closed = False

    def state(self, at: SqliteSnapshot) -> LinkState | None:
        """The columns as of the snapshot, if `known` has those of another change; None if there are none."""
        with self._changing:
            return self._followed(at, self.known.get(at.ns) or Known(at.last_change))

    def _followed(self, at: SqliteSnapshot, known: Known) -> LinkState | None:
        if known.state is not None and known.change <= at.last_change:
            state = self._folded(at, known.state, known.change)
            if state is not None:
                self.known[at.ns] = replace(known, change=at.last_change, state=state)
                if len(state.tail) > self._tuning.columns_tail:
                    self._begin(at.ns, known)
                return state
        if known.change > at.last_change or not at.exists:
            return None  # an older snapshot than that of another search
        misses = known.misses + 1 if known.change == at.last_change else 1
        self.known[at.ns] = Known(at.last_change, None, misses, known.not_before)
        if misses >= self._tuning.columns_after_searches:
            self._begin(at.ns, known)
        return None

    def _folded(self, at: SqliteSnapshot, state: LinkState, since: int) -> LinkState | None:
        """The columns with the changes since; None if they have to be built again."""
        if since == at.last_change:
            return state  # another search was first
        found = changed(at.db, at.ns, since, at.last_change, self._tuning.columns_fold_changes)
        if found is None or len(state.tail) > _LONGEST_TAIL * self._tuning.columns_tail:
            return None
        if not found.items and not found.nodes:
            return state
        try:
            return state.updated(SqliteLinkSource(at.db), *found)
        except ValueError:  # rows that point nowhere, which `check` reports
            return None

    def _begin(self, ns: int, known: Known) -> None:
        """Starts a build, unless one is running or has just ended."""
        idle = self._building is None or self._building.done.is_set
        if idle and time.monotonic() >= known.not_before:
            self._building = self._builders.submit(partial(self._build, ns))

    def _build(self, ns: int) -> None:
        """In a background thread."""
        began = time.monotonic()
        change, state = 0, None
        try:
            with scheduling.in_bulk(), self._database.read() as db:
                change = changes.last_change(db, ns)
                size = db.value(_SIZE, ns, ns) or 0
                state = self._read(db, ns) if size <= self._tuning.max_column_rows else None
        except (_Closed, ValueError):  # ValueError: rows that refer to missing rows, which `check` reports
            pass
        finally:
            ended = time.monotonic()
            with self._changing:
                wait = (
                    ended + (ended - began) * self._tuning.columns_pause
                    if state is not None
                    else ended + _RETRY_SECONDS
                )
                if len(self.known) > _NAMESPACES:
                    self.known.clear()
                self.known[ns] = Known(change, state, 0, wait)

    def _read(self, db: Connection, ns: int) -> LinkState:
        tags = db.rows("SELECT id, folded FROM tags WHERE ns = ? AND uses > 0", ns)
        place = {tag: number for number, (tag, _) in enumerate(tags)}
        tagged = self._ints(db, _TAGGED, ns, 2)
        tagged[0] = [place[tag] for tag in tagged[0].tolist()]
        nodes = self._ints(db, "SELECT id, holders, mentioned, degree FROM nodes WHERE ns = ?", ns, 4)
        edges = self._table(db, _EDGES, ns, np.float64, 3)
        return LinkState(
            LinkRows(
                items=self._ints(db, "SELECT id FROM items WHERE ns = ?", ns, 1)[0],
                nodes=nodes[0],
                counts=nodes[1:],
                names=self._names(db, ns),
                owned=self._ints(db, _OF_NODES.format("node_items"), ns, 2),
                mentions=self._ints(db, _OF_NODES.format("mentions"), ns, 2),
                edges=edges[:2].astype(np.int64),
                weights=edges[2],
                tags=[folded for _, folded in tags],
                tag_ids=[tag for tag, _ in tags],
                tagged=tagged,
            )
        )

    def _names(self, db: Connection, ns: int) -> NDArray[np.int64]:
        sql = "SELECT folded, node FROM names WHERE ns = ?"
        pairs = ((hash(name), node) for name, node in self._paced(db.execute(sql, (ns,))))
        return np.fromiter(chain.from_iterable(pairs), np.int64).reshape(-1, 2).T.copy()

    def _ints(self, db: Connection, sql: str, ns: int, width: int) -> NDArray[np.int64]:
        return self._table(db, sql, ns, np.int64, width)

    def _table(self, db: Connection, sql: str, ns: int, kind: Any, width: int) -> NDArray[Any]:
        """The columns of the rows."""
        numbers = chain.from_iterable(self._paced(db.execute(sql, (ns,))))
        return np.fromiter(numbers, kind).reshape(-1, width).T.copy()

    def _paced(self, found: Iterator[Any]) -> Iterator[Any]:
        while part := list(islice(found, _BATCH_ROWS)):
            if self._closed:
                raise _Closed
            scheduling.give_way()
            yield from part

    def settle(self) -> None:
        """Waits for a build that is running."""
        if self._building is not None:
            self._building.done.wait()

    def close(self) -> None:
        """Ends a build that is running."""
        self._closed = True
        self._builders.close()


_RETRY_SECONDS = 60.0
"""Pause after a build that gave no columns."""
_SIZE = (
    "SELECT (SELECT coalesce(sum(uses), 0) FROM tags WHERE ns = ?) "
    "+ coalesce(sum(1 + holders + mentioned + degree), 0) FROM nodes WHERE ns = ?"
)
_TAGGED = "SELECT tag, item FROM tags CROSS JOIN item_tags ON tag = tags.id WHERE ns = ?"
_OF_NODES = "SELECT node, item FROM nodes CROSS JOIN {} ON node = nodes.id WHERE ns = ?"
_EDGES = "SELECT source, target, weight FROM nodes CROSS JOIN edges ON source = nodes.id WHERE ns = ?"

"""An index in step with the log: what is published, and the changes since folded into a tail in memory."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

import apsw

from fourfold.stores.sqlite import items
from fourfold.stores.sqlite.items import Change

AT_ONCE = 2000
"""So many changes are folded in by the search that meets them; more are work for the builder."""


class Published(Protocol):
    @property
    def seq(self) -> int: ...
    @property
    def damage(self) -> str: ...


class FollowingState(Protocol):
    """Immutable, and swapped at once: searches go on in other threads while one follows the log."""

    @property
    def base(self) -> Published: ...
    @property
    def seq(self) -> int:
        """The last change that it holds."""
        ...


S = TypeVar("S", bound=FollowingState)


class Follower(ABC, Generic[S]):
    """One index of one namespace."""

    WHAT: ClassVar[Change]
    """The changes that this index has to hear of."""

    def __init__(self, ns: int) -> None:
        self.ns = ns
        self.looked = 0.0
        """When somebody last looked for a newer publication."""
        self._following = threading.Lock()
        self._state: S | None = None

    @abstractmethod
    def published(self) -> S:
        """What the files say."""

    @abstractmethod
    def _nothing(self, damage: str = "") -> S: ...

    @abstractmethod
    def _with(self, db: apsw.Connection, state: S, changed: Sequence[int], last: int) -> S:
        """The state with these items as they are now, at change `last`."""

    @property
    def state(self) -> S | None:
        return self._state

    def current(self, db: apsw.Connection, last: int) -> S | None:
        """The state that holds every change up to `last`, the newest that this connection sees.

        None if it takes more than a moment to get there: `renew` does it.
        """
        state = self._state
        if state is not None and state.seq >= last:
            return state
        with self._following:
            if self._state is None or self._is_far(db, self._state, last):
                return None
            self._state = self._followed(db, self._state, last)
            return self._state

    def renew(self, db: apsw.Connection, last: int, state: S | None = None, damage: str = "") -> S:
        """Starts anew from what was published before `db` began to read, or from the rows; others search meanwhile."""
        if state is None or state.seq < items.pruned(db, self.ns):
            state = self._nothing(damage or (state.base.damage if state is not None else ""))
        elif state.seq > last:
            state = self._nothing("it is ahead of the database, which somebody has put back")
        renewed = self._followed(db, state, last)
        with self._following:
            self._state = renewed
        return renewed

    def _is_far(self, db: apsw.Connection, state: S, last: int) -> bool:
        if state.seq < items.pruned(db, self.ns):
            return True
        return last - state.seq > AT_ONCE and items.count_changes(db, self.ns, state.seq, AT_ONCE) >= AT_ONCE

    def _followed(self, db: apsw.Connection, state: S, last: int) -> S:
        if state.seq >= last:
            return state
        if state.seq:
            changed = items.changed(db, self.ns, state.seq, last, self.WHAT | Change.GONE)
        else:
            changed = items.all_ids(db, self.ns)
        return self._with(db, state, changed, last)

"""An index in step with the log: what is published, and the changes since folded into a tail in memory."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

import apsw

from fourfold.stores.sqlite import items
from fourfold.stores.sqlite.database import Database
from fourfold.stores.sqlite.files import Manifest
from fourfold.stores.sqlite.items import Change
from fourfold.stores.sqlite.lease import Hold

AT_ONCE = 2000
"""So many changes are folded in by the search that meets them; more are work for an opener."""
_PIECE = 200
"""So many are folded in at a time where searches are to go on meanwhile."""
_ATTEMPTS = 3


class Published(Protocol):
    @property
    def seq(self) -> int: ...
    @property
    def manifest(self) -> Manifest | None: ...
    @property
    def hold(self) -> Hold | None: ...
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
    KIND: ClassVar[str]
    """The name of its folder."""

    def __init__(self, ns: int) -> None:
        self.ns = ns
        self.looked = 0.0
        """When somebody last looked for a newer publication."""
        self.asked = 0.0
        """When somebody last searched."""
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

    def close(self) -> None:
        """Lets go of the files. Nobody searches any more."""
        if self._state is not None and self._state.base.hold is not None:
            self._state.base.hold.let_go()
        self._state = None

    def current(self, db: apsw.Connection, last: int, at_once: int = AT_ONCE) -> S | None:
        """The state that holds every change up to `last`, the newest that this connection sees.

        None if more than `at_once` changes are missing: `renew` takes its time.
        """
        state, self.asked = self._state, time.monotonic()
        if state is not None and state.seq >= last:
            return state
        if not self._following.acquire(blocking=at_once >= AT_ONCE):
            return None
        try:
            if self._state is None or self._is_far(db, self._state, last, at_once):
                return None
            self._state = self._followed(db, self._state, last)
            return self._state
        finally:
            self._following.release()

    def follow(self, database: Database, most: int) -> None:
        """Folds in what was written, up to so many changes, piece by piece; others search the state before."""
        for _ in range(_ATTEMPTS):
            state = self._state
            with database.read() as db:
                last = items.last_change(db, self.ns)
                if state is None or self._is_far(db, state, last, most):
                    return
                followed = self._followed(db, state, last, _PIECE)
            with self._following:
                if self._state is state:
                    self._state = followed
                    return

    def renew(self, db: apsw.Connection, last: int, state: S | None = None, damage: str = "") -> S:
        """Starts anew from what was published before `db` began to read, or from the rows; others search meanwhile."""
        state = self._nothing(damage) if state is None else self._believed(db, last, state)
        renewed = self._followed(db, state, last)
        with self._following:
            self._state = renewed
        return renewed

    def _believed(self, db: apsw.Connection, last: int, state: S) -> S:
        """The state, unless it is of another past of the database, or of one that the log has forgotten."""
        manifest = state.base.manifest
        if manifest is None:
            return state
        if state.seq > last or manifest.mark not in items.marks_of(db, self.ns, self.KIND):
            return self._nothing("it is ahead of the database, which somebody has put back")
        return self._nothing() if state.seq < items.pruned(db, self.ns) else state

    def _is_far(self, db: apsw.Connection, state: S, last: int, at_once: int) -> bool:
        if state.seq < items.pruned(db, self.ns):
            return True
        return last - state.seq > at_once and items.count_changes(db, self.ns, state.seq, at_once + 1) > at_once

    def _followed(self, db: apsw.Connection, state: S, last: int, at_a_time: int | None = None) -> S:
        if state.seq >= last:
            return state
        if state.seq:
            changed = items.changed(db, self.ns, state.seq, last, self.WHAT | Change.GONE)
        else:
            changed = items.all_ids(db, self.ns)
        pieces = list(items.chunks(changed, at_a_time or max(len(changed), 1))) or [changed]
        for piece in pieces[:-1]:
            state = self._with(db, state, piece, state.seq)
        return self._with(db, state, pieces[-1], last)

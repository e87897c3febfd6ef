"""An index that follows the change log: a published segment, and the changes since folded into a tail in memory."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from fourfold.index.locks import ReadLock
from fourfold.index.segment_files import Manifest

if TYPE_CHECKING:
    from fourfold.index.rows import Ints, Matrix


# ---------------------------------------------------------------- tuning
#
# Sizes at which indexes change their way of working. Tests pass smaller ones.


@dataclass(frozen=True, slots=True)
class IndexTuning:
    fold_at_most_changes: int = 2000
    """Changes that a search folds into the tail itself; above this a background thread does it."""
    scan_rows: int = 5000
    """If a filter passes at most this many rows, all of them are scored, without postings or FAISS."""
    exact_rows: int = 20_000
    """Up to this many vectors one matrix product is as fast as FAISS, and exact."""
    min_faiss_lists: int = 64
    coded_factor: int = 4
    """Above this many candidates for each wanted hit, codes rule out most of them."""
    coded_after_scans: int = 3
    """Scans of all vectors after which their codes are made, which rule out most rows of later scans."""
    thread_rows: int = 1000
    """Vectors whose search is worth waking the thread of the kernel."""
    dead_share: float = 0.1
    """With a larger share of dead rows, an index is rebuilt from all items."""
    unknown_to_faiss_share: float = 0.25
    """FAISS is trained again when it lacks a larger share of the rows."""
    publish_batch_items: int = 2000
    """Items that a publication reads in one snapshot."""


DEFAULT = IndexTuning()


# ---------------------------------------------------------------- what indexes read
#
# The items of one namespace, and the log of their changes. A store implements these protocols.

TextRow: TypeAlias = tuple[int, str, str, str]
"""(id, title, text, language) of an item as keyword search reads it: the fact that it states is part of its title."""


class Change(IntFlag):
    """What changed in an item."""

    TEXT = 1
    VECTOR = 2
    REMOVED = 4
    LABELS = 8
    """Tags, metadata or links. With the number 0: anything in the graph."""
    NODE = 16
    """Names or edges of a node, whose number takes the place of the item's."""


class SourceSnapshot(Protocol):
    """One read transaction."""

    @property
    def last_change(self) -> int: ...

    @property
    def pruned(self) -> int:
        """The log begins after this change."""
        ...

    def all_ids(self) -> list[int]:
        """Ids of all items, ascending."""
        ...

    def changed_ids(self, after: int, last: int, kinds: Change) -> list[int]:
        """Ids of the items that the log names for changes of these kinds, ascending."""
        ...

    def count_changes(self, after: int, limit: int, kinds: Change | None = None) -> int:
        """Changes after that one, of these kinds or of any, counted up to `limit`."""
        ...

    def texts(self, ids: Sequence[int]) -> Iterable[TextRow]:
        """The texts of those of these items that exist."""
        ...

    def vectors(self, ids: Sequence[int], dimension: int) -> tuple[Ints, Matrix]:
        """The vectors of those of these items that have one, with their ids; those of an item are adjacent."""
        ...

    def publication_marks(self, kind: str) -> Sequence[str]:
        """Marks of the latest publications of an index. A database that was restored lacks later ones."""
        ...


class Source(Protocol):
    """One namespace of a store."""

    def read(self) -> AbstractContextManager[SourceSnapshot]:
        """Begins a snapshot. Callers release it soon: SQLite cannot reset its write-ahead log while one is held."""
        ...

    def add_publication_mark(self, kind: str) -> str:
        """Records, durably, that a publication is about to take effect, and returns its mark."""
        ...


_FOLD_BATCH_ITEMS = 200
"""Items that a writer folds in at a time, so that searches run in between."""
_FOLD_ATTEMPTS = 3


class Segment(Protocol):
    """The published part of an index."""

    @property
    def seq(self) -> int:
        """The last change that it holds."""
        ...

    @property
    def manifest(self) -> Manifest | None:
        """None if nothing usable is published; the segment is then empty."""
        ...

    @property
    def lock(self) -> ReadLock | None: ...

    @property
    def damage(self) -> str:
        """Why the published files cannot be used; empty if they can."""
        ...


class IndexState(Protocol):
    """Immutable, and replaced as a whole: searches in other threads keep the state they began with."""

    @property
    def segment(self) -> Segment: ...

    @property
    def seq(self) -> int:
        """The last change that segment and tail hold."""
        ...


S = TypeVar("S", bound=IndexState)


class TailedIndex(ABC, Generic[S]):
    """One index of one namespace."""

    CHANGES: ClassVar[Change]
    """The changes of items that matter to this index, besides removals."""
    KIND: ClassVar[str]
    """The name of its folder."""

    def __init__(self, source: Source, tuning: IndexTuning) -> None:
        self.source = source
        self.tuning = tuning
        self.checked_at = 0.0
        """When a search last looked for a newer publication."""
        self.searched_at = 0.0
        self._changing = threading.Lock()
        self.state: S | None = None
        """What is searched; None until the index is opened."""

    @abstractmethod
    def published(self) -> S:
        """The state that the published files describe, with an empty tail."""

    @abstractmethod
    def _empty(self, damage: str = "") -> S: ...

    @abstractmethod
    def _updated(self, source: SourceSnapshot, state: S, changed: Sequence[int], last: int) -> S:
        """The state with these items as they are now, at change `last`."""

    def close(self) -> None:
        """Releases the files. No search runs any more."""
        if self.state is not None and self.state.segment.lock is not None:
            self.state.segment.lock.release()
        self.state = None

    def current(self, source: SourceSnapshot, last: int) -> S | None:
        """The state with all changes up to `last`, the newest of this snapshot.

        None if the index is not open, or if more changes are missing than a search folds in.
        """
        with self._changing:
            state = self.state
            if state is None or self._is_far_behind(source, state, last, self.tuning.fold_at_most_changes):
                return None
            self.state = self._caught_up(source, state, last)
            return self.state

    def fold_in(self, limit: int) -> None:
        """Folds in what was written, if that is at most `limit` changes; searches use the old state meanwhile."""
        for _ in range(_FOLD_ATTEMPTS):
            state = self.state
            with self.source.read() as source:
                last = source.last_change
                if state is None or self._is_far_behind(source, state, last, limit):
                    return
                folded = self._caught_up(source, state, last, _FOLD_BATCH_ITEMS)
            with self._changing:
                if self.state is state:
                    self.state = folded
                    return

    def reopen(self, source: SourceSnapshot, state: S | None = None, damage: str = "") -> S:
        """Replaces the state by one that was published before this snapshot, or by all items in the tail."""
        reopened = self.caught_up(source, self._empty(damage) if state is None else state)
        self.adopt(reopened, force=True)
        return reopened

    def caught_up(self, source: SourceSnapshot, state: S) -> S:
        """The published state with the changes since."""
        return self._caught_up(source, self._validated(source, state), source.last_change)

    def adopt(self, state: S, *, force: bool) -> bool:
        """Makes this the searched state, unless the current one holds later changes."""
        with self._changing:
            if not force and self.state is not None and self.state.seq > state.seq:
                return False
            self.state = state
            return True

    def _validated(self, source: SourceSnapshot, state: S) -> S:
        """The state, unless it belongs to another past of the database, or to one that the log no longer covers."""
        manifest = state.segment.manifest
        if manifest is None:
            return state
        if state.seq > source.last_change or manifest.mark not in source.publication_marks(self.KIND):
            return self._empty("it is ahead of the database, which was restored")
        return self._empty() if state.seq < source.pruned else state

    def _is_far_behind(self, source: SourceSnapshot, state: S, last: int, limit: int) -> bool:
        if state.seq >= last:
            return False
        if state.seq < source.pruned:
            return True
        return last - state.seq > limit and source.count_changes(state.seq, limit + 1) > limit

    def _caught_up(self, source: SourceSnapshot, state: S, last: int, batch_items: int | None = None) -> S:
        if state.seq >= last:
            return state
        kinds = self.CHANGES | Change.REMOVED
        changed = source.changed_ids(state.seq, last, kinds) if state.seq else source.all_ids()
        step = batch_items or max(len(changed), 1)
        for start in range(0, len(changed) - step, step):
            state = self._updated(source, state, changed[start : start + step], state.seq)
        return self._updated(source, state, changed[-(len(changed) % step or step) :], last)

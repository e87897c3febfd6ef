"""An index that follows the change log: a published segment, and the changes since folded into a tail in memory."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from fourfold.index.locks import ReadLock
from fourfold.index.segment_files import Manifest
from fourfold.index.source import Change, Source, SourceSnapshot
from fourfold.index.tuning import IndexTuning

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

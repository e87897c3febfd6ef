"""The open indexes of a store: opened when first searched, updated from the change log, replaced when published."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

from fourfold.errors import StoreBusy, WorldError
from fourfold.index.log_tail import IndexState, SourceSnapshot, TailedIndex
from fourfold.index.segment_files import Damaged
from fourfold.index.text_index import TextIndex, TextState
from fourfold.index.vector_index import VectorIndex, VectorState
from fourfold.model import Space
from fourfold.storage.sqlite.database import DEFAULT, Database, Tuning, exceeded
from fourfold.storage.sqlite.namespaces import SourceRows, SqliteSource
from fourfold.storage.sqlite.publishing import Publisher
from fourfold.storage.values import Deadline
from fourfold.threads import Task, Workers

if TYPE_CHECKING:
    from fourfold.storage.sqlite.store import SqliteSnapshot

_OPENER_THREADS = 4
_SEARCHED_SECONDS = 5.0
"""Writers update indexes that were searched within this many seconds."""
_PUBLISHING_CHECK_SECONDS = 0.05
_CATCH_UP_ROUNDS = 5
"""Rounds in which an index that is opened catches up with concurrent writes."""

T = TypeVar("T")
S = TypeVar("S", bound=IndexState)


class IndexOpening(Exception):
    """The index is being opened or replaced; the caller waits and reads again."""

    def __init__(self, ready: Task[None], *, rebuilding: bool = False) -> None:
        super().__init__("the index is being opened")
        self._ready = ready
        self._rebuilding = rebuilding
        """The index is rebuilt from too many items for a search to wait."""

    def wait(self, deadline: Deadline, path: Path) -> None:
        if self._rebuilding:
            raise StoreBusy("the index is being rebuilt", "Try again in a moment") from self
        if not self._ready.done.wait(deadline.seconds_left):
            raise exceeded(deadline, path) from self
        self._ready.result()


@dataclass(frozen=True)
class HiddenChanges:
    """The changes of a transaction that is being committed: those after `before`, up to `last`."""

    ns: int
    before: int
    last: int


class Indexes:
    """Background threads open indexes and fold in many changes; searches wait for them within their deadline."""

    def __init__(self, folder: Path, store: str, database: Database, tuning: Tuning = DEFAULT) -> None:
        self.tuning = tuning
        self.publisher = Publisher(folder, store, database, tuning, self)
        self._database = database
        self._openers = Workers(_OPENER_THREADS, "fourfold-open")
        self._changing = Lock()
        """Guards the three below."""
        self._texts: dict[int, TextIndex] = {}
        self._vectors: dict[int, VectorIndex] = {}
        self._opening: dict[TailedIndex[Any], Task[None]] = {}
        self._suspects: dict[TailedIndex[Any], int] = {}
        """Generations in which reads found damage, though the checksums of the files were right."""
        self._unconfirmed: ref[HiddenChanges] | None = None
        """Weak: the transaction has them. One that Ctrl-C kept from confirming hides nothing once its frame is gone."""

    # ------------------------------------------------------------ searching

    def read_texts(self, at: SqliteSnapshot, work: Callable[[TextState], T]) -> T:
        """Calls `work` with the keyword index as of the snapshot; waits, within the deadline, until it can be read."""
        return self._waited(at, self._text_index(at.ns.id), work)

    def read_vectors(self, at: SqliteSnapshot, space: Space, work: Callable[[VectorState], T]) -> T:
        """The same for the vector index."""
        return self._waited(at, self._vector_index(at.ns.id, space), work)

    def _waited(self, at: SqliteSnapshot, index: TailedIndex[S], work: Callable[[S], T]) -> T:
        while True:
            try:
                return self._read(at, index, work)
            except IndexOpening as opening:
                opening.wait(at.deadline, self._database.path)

    def read_open_texts(self, at: SqliteSnapshot, work: Callable[[TextState], T]) -> T:
        """Does not wait: raises IndexOpening if the keyword index cannot be read now."""
        return self._read(at, self._text_index(at.ns.id), work)

    def _read(self, at: SqliteSnapshot, index: TailedIndex[S], work: Callable[[S], T]) -> T:
        state = self._current(index, at)
        try:
            return work(state)
        except Damaged as error:
            raise self._reopening(index, state, error) from error

    def _text_index(self, ns: int) -> TextIndex:
        if (opened := self._texts.get(ns)) is not None:
            return opened
        with self._changing:
            index = self._texts.get(ns)
            if index is None:
                folder, source = self.publisher.folder(ns) / TextIndex.KIND, SqliteSource(self._database, ns)
                index = self._texts[ns] = TextIndex(folder, self.publisher.owner(ns), source, self.tuning)
            return index

    def _vector_index(self, ns: int, space: Space) -> VectorIndex:
        if (opened := self._vectors.get(ns)) is not None and opened.space == space:
            return opened
        with self._changing:
            index = self._vectors.get(ns)
            if index is None or index.space != space:
                folder, source = self.publisher.folder(ns) / VectorIndex.KIND, SqliteSource(self._database, ns)
                index = VectorIndex(folder, self.publisher.owner(ns), space, source, self.tuning)
                self._vectors[ns] = index
            return index

    def _current(self, index: TailedIndex[S], at: SqliteSnapshot) -> S:
        """The index with all changes that the snapshot has to show."""
        index.searched_at = now = time.monotonic()
        state, last = index.state, self._last_confirmed(at)
        if state is None or state.seq < last:
            state = index.current(SourceRows(at.db, at.ns.id), last)
            if state is None:
                rebuilding = isinstance(index, TextIndex) and self.publisher.lacks_many_texts(at.db, at.ns.id)
                raise IndexOpening(self._begin(index, lambda: self._open(at.ns.id, index)), rebuilding=rebuilding)
        if (
            state.seq - state.segment.seq >= self.tuning.publish_every_changes
            and now - index.checked_at > self.tuning.look_every_seconds
        ):
            index.checked_at = now
            self._begin(index, lambda: self._take_over(at.ns.id, index))
        return state

    def _last_confirmed(self, at: SqliteSnapshot) -> int:
        """The last change that a search has to show. A write of this process is folded in before it is confirmed."""
        hidden = self._hidden()
        if hidden is None or hidden.ns != at.ns.id or not hidden.before < at.last_change <= hidden.last:
            return at.last_change
        return hidden.before

    def _hidden(self) -> HiddenChanges | None:
        return None if self._unconfirmed is None else self._unconfirmed()

    # ------------------------------------------------------------ opening, in background threads

    def _begin(self, index: TailedIndex[Any], work: Callable[[], None]) -> Task[None]:
        """Starts `work` on an index, unless other work on it is running."""

        def working() -> None:
            try:
                work()
            finally:
                with self._changing:
                    self._opening.pop(index, None)

        with self._changing:
            task = self._opening.get(index)
            if task is None or task.done.is_set:
                task = self._opening[index] = self._openers.submit(working)
            return task

    def _open(self, ns: int, index: TailedIndex[Any]) -> None:
        """Opens the files and folds in the changes since. Very many texts are published first."""
        while isinstance(index, TextIndex) and self._lacks_many_texts(ns):
            if self.publisher.try_publish_texts(ns, _PUBLISHING_CHECK_SECONDS):
                break
        self._reopen(index)

    def _lacks_many_texts(self, ns: int) -> bool:
        with self._database.read() as db:
            return self.publisher.lacks_many_texts(db, ns)

    def _reopen(self, index: TailedIndex[Any]) -> None:
        """Reads the files before the database, so that the files are never newer."""
        state = index.published()
        for rounds_left in reversed(range(_CATCH_UP_ROUNDS)):
            with index.source.read() as source:
                state = index.caught_up(source, state)
            if index.adopt(state, force=not rounds_left):
                return

    def _take_over(self, ns: int, index: TailedIndex[Any]) -> None:
        """Replaces a long tail by files that another process has published."""
        with self._database.read() as db:
            newest = self.publisher.published_seq(db, ns)
        state = index.state
        if state is not None and not state.segment.damage and newest > state.segment.seq:
            self._reopen(index)

    def _reopening(self, index: TailedIndex[S], damaged: S, error: Damaged) -> IndexOpening:
        """Replaces damaged files by a tail with all items."""

        def work() -> None:
            if index.state is not None and index.state.segment is damaged.segment:  # not replaced meanwhile
                with index.source.read() as source:
                    index.reopen(source, damage=str(error))
                self._suspects[index] = _generation(damaged)

        return IndexOpening(self._begin(index, work))

    # ------------------------------------------------------------ writes of this process

    def hide(self, changes: HiddenChanges) -> None:
        """Called inside a transaction: searches ignore its changes until `confirm`."""
        self._unconfirmed = ref(changes)

    def fold_in(self) -> None:
        """Folds the hidden changes into indexes that are being searched, so that no search has to."""
        hidden = self._hidden()
        if hidden is None:
            return
        for indexes in (self._texts, self._vectors):
            index = indexes.get(hidden.ns)
            if index is not None and _is_searched(index):
                with suppress(WorldError):  # the write succeeded, and searches fold in the changes
                    index.fold_in(self.tuning.child_at_changes)

    def confirm(self) -> None:
        """Called when a transaction was committed or rolled back."""
        self._unconfirmed = None

    def note_write(self, ns: int, items: int) -> None:
        """Counts written items, so that a bulk load is published while it runs."""
        index = self._texts.get(ns)
        self.publisher.note_write(ns, items, searched=index is not None and _is_searched(index))

    # ------------------------------------------------------------ publications

    def is_damaged(self, ns: int) -> bool:
        return bool(self._damaged(ns))

    def _damaged(self, ns: int) -> list[TailedIndex[Any]]:
        opened = (indexes.get(ns) for indexes in (self._texts, self._vectors))
        return [index for index in opened if index is not None and index.state and index.state.segment.damage]

    def reopen_repaired(self, ns: int) -> None:
        for index in self._damaged(ns):
            state = index.published()
            if not state.segment.damage and _generation(state) != self._suspects.get(index, 0):
                with index.source.read() as source:
                    index.reopen(source, state)

    def reopen(self, ns: int, kind: str) -> None:
        index = self._texts.get(ns) if kind == TextIndex.KIND else self._vectors.get(ns)
        if index is not None and index.state is not None:
            self._reopen(index)

    # ------------------------------------------------------------ checks

    def published(self, ns: int, space: Space | None) -> tuple[TextState, VectorState | None]:
        """Both indexes as the files describe them."""
        return self._text_index(ns).published(), space and self._vector_index(ns, space).published()

    def caught_up(
        self, ns: int, space: Space | None, source: SourceSnapshot, states: tuple[TextState, VectorState | None]
    ) -> tuple[TextState, VectorState | None]:
        """Both indexes with the changes since, which searches use from now on."""
        texts, vectors = states
        return (
            self._text_index(ns).reopen(source, texts),
            None if space is None else self._vector_index(ns, space).reopen(source, vectors),
        )

    def close(self) -> None:
        """Waits for publications, and releases the mapped files."""
        self.publisher.close()
        self._openers.close()
        for index in (*self._texts.values(), *self._vectors.values()):
            index.close()
        self._opening.clear()
        self._texts.clear()
        self._vectors.clear()


def _is_searched(index: TailedIndex[Any]) -> bool:
    return time.monotonic() - index.searched_at < _SEARCHED_SECONDS


def _generation(state: IndexState) -> int:
    manifest = state.segment.manifest
    return manifest.generation if manifest is not None else 0

"""The indexes of all namespaces of one store: opened when first needed, followed, and published under the lease."""

from __future__ import annotations

import errno
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import apsw
import numpy as np

from fourfold import courtesy
from fourfold.errors import WorldError
from fourfold.model import NO_FILTERS, Filters
from fourfold.stores.base import Space
from fourfold.stores.sqlite import files, items, publish, spaces
from fourfold.stores.sqlite.building import Ending, NotApart, Order, written, written_apart
from fourfold.stores.sqlite.database import Database, translated
from fourfold.stores.sqlite.following import AT_ONCE, Follower, FollowingState
from fourfold.stores.sqlite.items import Change
from fourfold.stores.sqlite.lease import Lease
from fourfold.stores.sqlite.moment import Moment
from fourfold.stores.sqlite.text_index import TextIndex, TextState
from fourfold.stores.sqlite.vector_index import VectorIndex, VectorState
from fourfold.text.analysis import ANALYSER_VERSION

if TYPE_CHECKING:
    from fourfold.stores.sqlite.rows import Ints

PUBLISH_AT = 1000
"""Changes in the tail that are worth a publication."""
_WHOLE_AT = 40_000
"""So many changes are published before they are searched: folding them into a tail first would be the work twice."""
APART_AT = 10_000
"""So many changes are published by a process of its own."""
_EARLY_AT = 10_000
"""So many items written at a stretch are a bulk load, which is published while it goes on."""
_AGAIN_AT = 20_000
"""So many changes later it is published again."""
_WHEN_SEARCHED = 5000
"""Both where somebody searches meanwhile, for whom a long tail is slow."""
_LOG_KEPT = 10_000
"""So many published changes stay in the log, for other processes that have not heard of them."""
_PRUNED_AT_ONCE = 50_000
_OPENERS = 4
_IN_A_HURRY = 16
_ASKED_SECONDS = 5.0
"""An index that was searched so lately is kept in step by who writes."""
_REMEMBERED_FILTERS = 16
_LOOK_SECONDS = 1.0
"""How often a search with a long tail looks for a newer publication."""
_LOOK_AGAIN_SECONDS = 0.05
_ROUNDS = 5
"""In which an index that is opened catches up with what is written meanwhile."""

T = TypeVar("T")
S = TypeVar("S", bound=FollowingState)


class NotNow(Exception):
    """It would take longer than the moment that a thread in a hurry has: ask in another thread."""


class Behind(NotNow):
    """The index is being opened: wait for `ready`, outside of any transaction, and ask again."""

    def __init__(self, ready: Future[None], *, long: bool = False) -> None:
        super().__init__("the index is being opened")
        self.ready = ready
        self.long = long
        """It must be built anew from very many items, for which nobody should wait."""


class Indexes:
    """Searching takes a moment or is Behind. Opening and following far is done by openers, writing by one builder."""

    def __init__(self, folder: Path, store: str, database: Database) -> None:
        self._folder = folder
        self._store = store
        self._database = database
        self._texts: dict[int, TextIndex] = {}
        self._vectors: dict[int, VectorIndex] = {}
        self._leases: dict[int, Lease] = {}
        self.worker = Lease(folder / "embedding-worker")
        """Held by the process that embeds for the whole store."""
        self._changing = threading.Lock()
        self._hurry = threading.local()
        self._builder = ThreadPoolExecutor(1, "fourfold-index")
        self._openers = ThreadPoolExecutor(_OPENERS, "fourfold-open")
        self._opening: dict[Follower[Any], Future[None]] = {}
        self._overwritten: set[int] = set()
        """Namespaces whose indexes of another version were replaced."""
        self._suspects: dict[Follower[Any], int] = {}
        """Generations that turned out to be damaged when they were read, though their checksums were right."""
        self._written_since: dict[int, int] = {}
        """Items that this process has written since it last began to publish early."""
        self._load: tuple[int, Ending] | None = None
        """The namespace of a bulk load that is being published while it goes on, and how to come to an end of that."""
        self._unconfirmed: tuple[int, int, int] | None = None
        """The namespace that this process writes to, the last change before, and its own last."""
        self._filtered: OrderedDict[str, tuple[int, Ints]] = OrderedDict()
        self._filtering = [threading.Lock() for _ in range(_REMEMBERED_FILTERS)]

    # ------------------------------------------------------------ searching

    @contextmanager
    def texts(self, at: Moment) -> Generator[TextState]:
        index = self._text_index(at.ns)
        with self._reading(index):
            state = self._current(index, at)
            try:
                yield state
            finally:  # also behind an error: tantivy may have read something else than what was verified
                state.base.require_unmodified()

    @contextmanager
    def vectors(self, at: Moment, space: Space) -> Generator[VectorState]:
        index = self._vector_index(at.ns, space)
        with self._reading(index):
            yield self._current(index, at)

    def _text_index(self, ns: int) -> TextIndex:
        with self._changing:
            index = self._texts.get(ns)
            if index is None:
                index = self._texts[ns] = TextIndex(self._folder / str(ns) / "text", ns, self._owner(ns))
            return index

    def _vector_index(self, ns: int, space: Space) -> VectorIndex:
        with self._changing:
            index = self._vectors.get(ns)
            if index is None or index.space != space:
                index = VectorIndex(self._folder / str(ns) / "vectors", ns, self._owner(ns), space)
                self._vectors[ns] = index
            return index

    def _owner(self, ns: int) -> str:
        """What files must say that they belong to."""
        return f"{self._store}/{ns}"

    @contextmanager
    def hurried(self) -> Generator[None]:
        """For what must not take longer than a moment: the thread inside follows a few changes or is Behind."""
        self._hurry.on = True
        try:
            yield
        finally:
            self._hurry.on = False

    def _is_hurried(self) -> bool:
        return bool(getattr(self._hurry, "on", False))

    def _current(self, index: Follower[S], at: Moment) -> S:
        at_once = _IN_A_HURRY if self._is_hurried() else AT_ONCE
        state = index.current(at.db, self._confirmed(at), at_once)
        if state is None:
            raise Behind(self._begin(index, self._open), long=self._is_long(at.db, index))
        if state.seq - state.base.seq >= PUBLISH_AT and time.monotonic() - index.looked > _LOOK_SECONDS:
            index.looked = time.monotonic()
            self._begin(index, self._take_over)
        return state

    def _confirmed(self, at: Moment) -> int:
        """The last change that a search has to show: what this process writes need not be there before it is confirmed,
        which is after `follow`; so no search has to fold it in."""
        ns, before, last = self._unconfirmed or (0, 0, 0)
        return before if ns == at.ns and before < at.last <= last else at.last

    @contextmanager
    def _reading(self, index: Follower[S]) -> Generator[None]:
        """Around what is read from files: where they turn out to be damaged, the search goes to the rows instead."""
        try:
            yield
        except files.Damaged as error:
            reason, state = str(error), index.state

            def renewing(index: Follower[S]) -> None:
                if index.state is state:  # otherwise it is another one by now
                    with self._database.read() as db:
                        index.renew(db, items.last_change(db, index.ns), damage=reason)
                    self._suspects[index] = _generation(state)

            raise Behind(self._begin(index, renewing)) from error

    def allowed(self, at: Moment, filters: Filters) -> Ints | None:
        """The ids that pass; None if all do. Remembered while the change number stands."""
        if filters is NO_FILTERS or filters == NO_FILTERS:
            return None
        name = f"{at.ns} {filters!r}"
        known = self._filtered.get(name)
        if known is not None and known[0] == at.last:
            return known[1]
        if self._is_hurried():
            raise NotNow
        lock = self._filtering[hash(name) % len(self._filtering)]
        with lock:  # the retrievers of a search ask the same at the same time
            known = self._filtered.get(name)
            if known is None or known[0] != at.last:
                known = (at.last, np.array(items.matching(at.db, at.ns, filters), np.int64))
                self._filtered[name] = known
                while len(self._filtered) > _REMEMBERED_FILTERS:
                    self._filtered.popitem(last=False)
            return known[1]

    # ------------------------------------------------------------ what takes longer

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """The builder does one thing at a time. Whoever comes does not wait for the end of a bulk load."""
        self._end_load()
        return self._build(work)

    def _build(self, work: Callable[[], T]) -> Future[T]:
        def building() -> T:
            with courtesy.in_bulk():
                return work()

        return self._builder.submit(building)

    def _end_load(self) -> None:
        with self._changing:
            load = self._load
        if load is not None:
            load[1].come()

    def _begin(self, index: Follower[S], work: Callable[[Follower[S]], None]) -> Future[None]:
        """`work(index)` by an opener; an index that is being worked on is not worked on twice."""
        with self._changing:
            known = self._opening.get(index)
            if known is None or known.done():
                known = self._opening[index] = self._openers.submit(work, index)
                known.add_done_callback(lambda _: self._opening.pop(index, None))
            return known

    def _open(self, index: Follower[S]) -> None:
        """From the files, and the changes since; with very many texts among those, they are published first."""
        publishing: Future[bool] | None = None
        while self._is_long_now(index):
            if publishing is not None and publishing.done():
                break
            publishing = publishing or self.submit(lambda: self.publish(index.ns, faiss=False))
            wait([publishing], _LOOK_AGAIN_SECONDS)  # the builder may be at it already, and busy with FAISS afterwards
        if publishing is not None:
            publishing.cancel()
        self._renew(index)

    def _is_long_now(self, index: Follower[Any]) -> bool:
        with self._database.read() as db:
            return self._is_long(db, index)

    def _is_long(self, db: apsw.Connection, index: Follower[S]) -> bool:
        """Vectors are read in a moment, texts have to be analysed."""
        if index.WHAT is not Change.TEXT:
            return False
        ns, seq = index.ns, publish.published_seq(self._folder / str(index.ns), self._owner(index.ns), None)
        if seq < items.pruned(db, ns):
            return spaces.size(db, ns).items >= _WHOLE_AT
        return items.count_changes(db, ns, seq, _WHOLE_AT, Change.TEXT | Change.GONE) >= _WHOLE_AT

    def _renew(self, index: Follower[S]) -> None:
        """The files first: what they hold can then not be newer than what the database says."""
        state = index.published()
        for left in reversed(range(_ROUNDS)):
            with self._database.read() as db:
                state = index.caught_up(db, items.last_change(db, index.ns), state)
            if index.take(state, anyway=not left):
                return

    def _take_over(self, index: Follower[S]) -> None:
        """Lets go of a long tail, if another process has published what it holds."""
        state = index.state
        with self._database.read() as db:
            newest = self._published_seq(db, index.ns)
        if state is not None and not state.base.damage and newest > state.base.seq:
            self._renew(index)

    # ------------------------------------------------------------ what this process writes

    def unconfirmed(self, ns: int, before: int, last: int) -> None:
        """Inside of the transaction that writes the changes between these, before they can be seen."""
        self._unconfirmed = (ns, before, last)

    def confirm(self) -> None:
        """What was written, or rolled back, is about to be confirmed."""
        self._unconfirmed = None

    def follow(self) -> None:
        """Folds what was just written into indexes that are being searched, so that no search has to."""
        if self._unconfirmed is None:
            return
        for indexes in (self._texts, self._vectors):
            index = indexes.get(self._unconfirmed[0])
            if index is not None and self._is_searched(index):
                with suppress(WorldError):  # it is written, and a search that meets it tries again
                    index.follow(self._database, APART_AT)

    def _is_searched(self, index: Follower[Any]) -> bool:
        return time.monotonic() - index.asked < _ASKED_SECONDS

    # ------------------------------------------------------------ publishing

    def lease(self, ns: int) -> Lease:
        with self._changing:
            return self._leases.setdefault(ns, Lease(self._folder / str(ns) / "lease"))

    def maintain(self, ns: int, *, wholly: bool = False) -> bool:
        """Publishes if that is worth it, or anything is left and it shall be `wholly`. False: another process is at it.

        It is worth it for many changes, or when files could not be used.
        """
        for index in self._damaged(ns):
            self._forgive(index)
        with self._database.read() as db:
            lacks = self._lacks(db, ns, 1 if wholly else PUBLISH_AT) or self._lacks_faiss(db, ns)
        due = lacks or bool(self._damaged(ns))
        if not due or (not wholly and self._is_contested(ns)):
            self._collect_released(ns)
            return True
        if not self.publish(ns):
            return False
        self._prune(ns)
        return True

    def _is_contested(self, ns: int) -> bool:
        """Whether another version of Fourfold writes the indexes of this namespace over and over, as this one does.

        Each process does so once; then it leaves the other's alone.
        """
        if not _is_foreign(self._folder / str(ns) / TextIndex.KIND, self._owner(ns)):
            return False
        contested = ns in self._overwritten
        self._overwritten.add(ns)
        return contested

    def _damaged(self, ns: int) -> list[Follower[Any]]:
        """Indexes whose files this process could not use."""
        opened = (indexes.get(ns) for indexes in (self._texts, self._vectors))
        return [index for index in opened if index is not None and index.state and index.state.base.damage]

    def _forgive(self, index: Follower[Any]) -> None:
        """Takes up what is published now, if another process has mended it."""
        state = index.published()
        if not state.base.damage and _generation(state) != self._suspects.get(index, 0):
            with self._database.read() as db:
                index.renew(db, items.last_change(db, index.ns), state)

    def _lacks(self, db: apsw.Connection, ns: int, changes: int) -> bool:
        """Whether what is published lacks so many changes; all items, if the log no longer says what it lacks."""
        seq = self._published_seq(db, ns)
        lacking = items.count_changes(db, ns, seq, changes)
        return (max(lacking, spaces.size(db, ns).items) if seq < items.pruned(db, ns) else lacking) >= changes

    def _lacks_faiss(self, db: apsw.Connection, ns: int, vectors: int = 0) -> bool:
        """Whether FAISS is due over what is published, or will be with so many vectors."""
        space = spaces.space(db, ns)
        if space is None:
            return False
        try:
            manifest = files.fitting(self._folder / str(ns) / VectorIndex.KIND, self._owner(ns), space.fingerprint)
        except files.Damaged:
            return False
        return manifest is not None and publish.lacks_faiss(manifest, vectors)

    def _published_seq(self, db: apsw.Connection, ns: int) -> int:
        """The last change that every index that can be used holds; 0 where one cannot."""
        return publish.published_seq(self._folder / str(ns), self._owner(ns), spaces.space(db, ns))

    def published(self, ns: int, space: Space | None) -> tuple[TextState, VectorState | None]:
        """Both indexes as the files have them."""
        return self._text_index(ns).published(), space and self._vector_index(ns, space).published()

    def renewed(
        self, db: apsw.Connection, ns: int, space: Space | None, states: tuple[TextState, VectorState | None]
    ) -> tuple[TextState, VectorState | None]:
        """The same with the changes since."""
        last, (texts, vectors) = items.last_change(db, ns), states
        return (
            self._text_index(ns).renew(db, last, texts),
            None if space is None else self._vector_index(ns, space).renew(db, last, vectors),
        )

    def publish(
        self, ns: int, *, anew: bool = False, purge: bool = False, faiss: bool = True, load: Ending | None = None
    ) -> bool:
        """Publishes what the tails hold. False if another process is at it.

        `anew`: from the rows alone. `purge`: older generations go, even those that somebody still reads. Without
        `faiss`, the approximate index is left to another time. `load`: goes on while there is more, until that ends.
        """
        with translated(self._folder), self.lease(ns).held() as mine:
            if not mine:
                return False
            try:
                for kind in self._written(ns, load, anew=anew or bool(self._damaged(ns)), faiss=faiss):
                    self._renew_opened(ns, kind)
                    if load is not None:
                        self._prune(ns)
            except (files.Damaged, RuntimeError) as error:  # what FAISS raises, too
                raise OSError(errno.EIO, f"an index cannot be written ({error})") from error
            finally:
                self._collect(ns, held=purge)
        return True

    def _collect(self, ns: int, *, held: bool = False) -> None:
        for kind in (TextIndex.KIND, VectorIndex.KIND):
            publish.collect(self._folder / str(ns) / kind, held=held)

    def _collect_released(self, ns: int) -> None:
        """Removes generations that a reader still had open when the last publication ended."""
        if any(publish.has_older(self._folder / str(ns) / kind) for kind in (TextIndex.KIND, VectorIndex.KIND)):
            with translated(self._folder), self.lease(ns).held() as mine:
                if mine:
                    self._collect(ns)

    def _written(self, ns: int, load: Ending | None, *, anew: bool, faiss: bool) -> Generator[str]:
        """Writes what is to be published, and says each time which index has something new."""
        again = 0 if load is None else load.every
        order = Order(str(self._database.path), str(self._folder / str(ns)), ns, self._owner(ns), anew, faiss, again)
        handle = self.lease(ns).handle
        if handle is not None and (load is not None or self._takes_long(ns, anew=anew)):
            try:
                yield from written_apart(order, handle, load)
                return
            except NotApart:
                pass  # then here: who cannot write says here why
        yield from written(order, self._database)

    def _takes_long(self, ns: int, *, anew: bool) -> bool:
        with self._database.read() as db:
            if anew:
                return spaces.size(db, ns).items >= APART_AT
            seq = self._published_seq(db, ns)
            if seq < items.pruned(db, ns):
                return spaces.size(db, ns).items >= APART_AT
            fresh = spaces.size(db, ns).vectors
            return self._lacks_faiss(db, ns, fresh) or items.count_changes(db, ns, seq, APART_AT) >= APART_AT

    def _renew_opened(self, ns: int, kind: str) -> None:
        """Takes over what was published, if anybody here has asked for it before."""
        opened: dict[int, Any] = {TextIndex.KIND: self._texts, VectorIndex.KIND: self._vectors}[kind]
        index = opened.get(ns)
        if index is not None and index.state is not None:
            self._renew(index)

    def keep_up(self, ns: int, written: int) -> None:
        """Takes note of what was written: a bulk load is published while it goes on, all but FAISS."""
        with self._changing:
            self._written_since[ns] = since = self._written_since.get(ns, 0) + written
            searched = (index := self._texts.get(ns)) is not None and self._is_searched(index)
            if since < (_WHEN_SEARCHED if searched else _EARLY_AT):
                return
            self._written_since[ns] = 0
            every = _WHEN_SEARCHED if searched else _AGAIN_AT
            if self._load is not None and self._load[0] == ns and self._load[1].every <= every:
                return
        self._end_load()  # that of another namespace, or one that is published too seldom
        load = Ending(every)
        with self._changing:
            self._load = ns, load
        with suppress(RuntimeError):  # it was closed
            self._build(lambda: self._publish_load(ns, load))

    def _publish_load(self, ns: int, load: Ending) -> None:
        try:
            with suppress(WorldError):
                if self.publish(ns, faiss=False, load=load):
                    self._prune(ns)
        finally:
            with self._changing:
                if self._load is not None and self._load[1] is load:
                    self._load = None

    def _prune(self, ns: int) -> None:
        """Shortens the log to what somebody may still have to hear of."""
        with self._database.read() as db:
            until = self._published_seq(db, ns) - _LOG_KEPT
            if until <= items.pruned(db, ns) + _LOG_KEPT:
                return
            after = items.pruned(db, ns)
        while after < until:
            after = min(after + _PRUNED_AT_ONCE, until)
            with self._database.write() as db:
                items.prune(db, ns, after)

    def close(self) -> None:
        """Lets go of the mapped files."""
        self._end_load()
        self._openers.shutdown()
        self._builder.shutdown()
        for index in (*self._texts.values(), *self._vectors.values()):
            index.close()
        self._opening.clear()
        self._texts.clear()
        self._vectors.clear()
        self._filtered.clear()


def _generation(state: FollowingState | None) -> int:
    manifest = state.base.manifest if state is not None else None
    return manifest.generation if manifest is not None else 0


def _is_foreign(folder: Path, owner: str) -> bool:
    """Whether what is published is sound, and ours, but of another version."""
    try:
        manifest = files.read_manifest(folder)
    except files.Damaged:
        return False
    if manifest is None or manifest.store != owner:
        return False
    return (manifest.space, manifest.format) != (ANALYSER_VERSION, files.FORMAT)

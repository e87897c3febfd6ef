"""Background work after writes: vectors for pending items, and published indexes. It never fails the write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Final

from fourfold import scheduling, threads
from fourfold.embed.base import embeds_in
from fourfold.engine.embedding_queue import EmbeddingQueue, Progress
from fourfold.errors import FourfoldError, InvalidItem, StoreUnavailable
from fourfold.filters import Test, field_at
from fourfold.model import Filters
from fourfold.storage.protocols import Store

_JOIN_SECONDS = 5.0
"""`close` waits this long for a batch that is being embedded."""
NO_VECTORS = "vectors are not being made"
NO_INDEX = "indexes are not being published"
NOT_REMOVED = "expired items are not being removed"
_STOPPED = "background work has stopped"


class Maintenance:
    """Of one store, for one Memory. With `watch` it also works for other processes, which may be gone by now."""

    def __init__(
        self,
        store: Store,
        embedding: EmbeddingQueue | None,
        namespace: str,
        *,
        watch: bool,
        now_and_then: Callable[[], None] = lambda: None,
    ) -> None:
        """`now_and_then`: called in the background while this watches."""
        self._store = store
        self._pace = store.maintenance.pace
        self._embedding = embedding
        self._namespace = namespace
        self._watches = watch
        self._now_and_then = now_and_then
        self._changing = threading.Lock()
        """Guards everything below."""
        self._writes = 0
        self._write_seconds = 0.0
        """Duration of the last write."""
        self._writing = scheduling.Marks()
        self._due = {namespace}
        """Namespaces that were written to since they were published."""
        self._served = {namespace}
        """Namespaces that this process has written to."""
        self._publisher: threads.Task[None] | None = None
        self._watcher: threads.Task[None] | None = None
        self._woken: SimpleQueue[None] = SimpleQueue()
        """Holds an entry while the watcher has something to look at. In C: Ctrl-C cannot leave it locked."""
        self._closing = threads.Flag()
        self.troubles: dict[str, str] = {}
        """Failures, with their reasons; searches report them in their notes."""

    def start(self) -> None:
        with self._changing:
            if self._watches and not self._closing.is_set and not _is_running(self._watcher):
                self._watcher = self._thread("fourfold-watch", self._watch)

    @contextmanager
    def writing(self, namespace: str) -> Generator[None]:
        """Around a write, which may have taken effect even if the block raises."""
        write, begun = scheduling.Mark(), time.monotonic()
        try:
            with self._changing:
                self._served.add(namespace)
                self._writing.add(write)
            yield
        finally:
            with self._changing:
                self._writing.discard(write)
                self._writes += 1
                self._write_seconds = time.monotonic() - begun
                self._due.add(namespace)
            self._publish_soon()  # before the watcher wakes, which publishes at once where no publisher runs
            self._wake()
            self.start()

    def close(self) -> None:
        """Publishes what is due; items that are pending stay so."""
        with self._changing:
            self._closing.set()
            publisher, watcher = self._publisher, self._watcher
        self._wake()
        if self._embedding is not None:
            self._embedding.stop()
        if publisher is not None:
            publisher.done.wait()
        if watcher is not None:
            watcher.done.wait(_JOIN_SECONDS)
        self._publish()

    def _wake(self) -> None:
        if self._watches and self._woken.empty():
            self._woken.put(None)

    def _thread(self, name: str, work: Callable[[], None]) -> threads.Task[None]:
        def working() -> None:
            try:
                work()
            except Exception as error:  # a bug: it must not end background work silently
                if not self._closing.is_set:
                    self.troubles[_STOPPED] = f"{type(error).__name__}: {error}"
                    raise

        return threads.start(working, name)

    # ------------------------------------------------------------ indexes

    def _publish_soon(self) -> None:
        with self._changing:
            if not _is_running(self._publisher) and not self._closing.is_set:
                self._publisher = self._thread("fourfold-publish", self._publish_when_quiet)

    def _publish_when_quiet(self) -> None:
        while not self._closing.is_set:
            paused = self._have_writes_paused()
            if self._closing.is_set:
                break
            finished, seen = self._publish(amid_writes=not paused), self._writes
            with self._changing:
                if finished and seen == self._writes and not self._writing:
                    self._publisher = None
                    return
        with self._changing:
            self._publisher = None

    def _have_writes_paused(self) -> bool:
        """Waits until writes have paused, or the memory closes; False if they have not after the longest wait.

        A pause is as long as the last write: on a busy machine, a load takes seconds for a batch and between batches.
        """
        until, seen = time.monotonic() + self._pace.longest_wait_seconds, -1
        while self._writing or seen != self._writes:
            if time.monotonic() >= until:
                return False
            seen = self._writes
            left = max(until - time.monotonic(), 0.0)
            if self._closing.wait(max(self._pace.quiet_seconds, min(self._write_seconds, left))):
                break
        return True

    def _publish(self, *, amid_writes: bool = False) -> bool:
        """Publishes what is due; False if that has to be tried again, since something else is doing it.

        Indexes are caches: a failure here stops nothing else. It is tried again after the next write.
        """
        with self._changing:
            due, self._due = sorted({self._namespace, *self._due}), set[str]()
        left: set[str] = set(due)
        try:
            for namespace in due:
                if self._store.maintenance.publish(namespace, amid_writes=amid_writes) and not amid_writes:
                    left.discard(namespace)
            self.troubles.pop(NO_INDEX, None)
        except FourfoldError as error:
            self.troubles[NO_INDEX] = str(error)
            return True
        finally:
            with self._changing:
                self._due |= left
        return not left

    # ------------------------------------------------------------ vectors

    def _watch(self) -> None:
        pause = self._pace.watch_seconds
        while not self._closing.is_set:
            while not self._woken.empty():
                self._woken.get()
            pause = self._pace.watch_seconds if self._drain_all() else min(pause * 2, self._pace.longest_pause_seconds)
            with self._changing:
                served = sorted(self._served)
            try:
                for namespace in served:
                    remove_expired(self._store, namespace, datetime.now(UTC))
                self.troubles.pop(NOT_REMOVED, None)
            except FourfoldError as error:
                if not self._closing.is_set:
                    self.troubles[NOT_REMOVED] = str(error)
            self._now_and_then()
            if not _is_running(self._publisher) and not self._closing.is_set:
                self._publish()
            with suppress(Empty):
                self._woken.get(timeout=pause)

    def _drain_all(self) -> bool:
        """Makes the vectors of every namespace in this embedder's space. False if that failed."""
        if self._embedding is None:
            return True
        embedding, troubles = self._embedding, list[str]()
        try:
            queues = [name for name in embedding.queues() if self._is_ours(name, embedding)]
        except FourfoldError as error:
            queues, troubles = [], [str(error)]
        for namespace in queues:
            try:
                self.drain(embedding, namespace)
            except FourfoldError as error:
                if self._closing.is_set and isinstance(error, StoreUnavailable):
                    return True
                troubles.append(str(error))
        if troubles:
            self.troubles[NO_VECTORS] = troubles[0]
        return not troubles

    def drain(
        self,
        embedding: EmbeddingQueue,
        namespace: str,
        progress: Progress | None = None,
        *,
        patient: bool = False,
        seconds: float | None = None,
    ) -> int:
        """Makes the pending vectors of one namespace; its indexes are published meanwhile."""

        def report(done: int, total: int) -> None:
            with self._changing:
                self._due.add(namespace)
            self._publish_soon()
            if progress is not None:
                progress(done, total)

        made = embedding.drain(namespace, report, patient=patient, seconds=seconds)
        self.troubles.pop(NO_VECTORS, None)
        return made

    def _is_ours(self, namespace: str, embedding: EmbeddingQueue) -> bool:
        if namespace in self._served:
            return True
        with self._store.snapshot(namespace) as snapshot:
            return snapshot.space is not None and embeds_in(embedding.embedder, snapshot.space.fingerprint)


def _is_running(task: threads.Task[None] | None) -> bool:
    return task is not None and not task.done.is_set


# ---------------------------------------------------------------- expiry
#
# Removal of items that have expired. Searches do not show them from the moment of their expiry on.

_REMOVED_ITEMS: Final = 1000
"""Items that one transaction removes, so that other writers do not wait for long."""


def in_future(expires_at: datetime | None) -> datetime | None:
    """The expiry that a person or an agent gives; InvalidItem if it has passed, because nothing would find the item."""
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise InvalidItem(f"it would have expired on {expires_at:%Y-%m-%d %H:%M}", "Give a time in the future")
    return expires_at


def remove_expired(store: Store, namespace: str, now: datetime) -> int:
    """Removes the items of a namespace that have expired; returns how many there were."""
    expired = Filters(where=Test(field_at(["expires_at"]), "lte", (now,)))
    removed = 0
    while _has_expired(store, namespace, now):
        with store.transaction(namespace) as tx:
            with store.snapshot(namespace) as snapshot:  # other writers wait: no item is renewed meanwhile
                ids = snapshot.rows.ids(expired)[:_REMOVED_ITEMS]
            removed += tx.items.forget(ids)
    return removed


def _has_expired(store: Store, namespace: str, now: datetime) -> bool:
    with store.snapshot(namespace) as snapshot:
        return snapshot.hidden.expiring and snapshot.rows.last_expiry(now) is not None

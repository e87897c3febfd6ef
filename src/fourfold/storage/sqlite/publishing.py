"""Publishing the indexes of a store: leases, generations, bulk loads, and pruning of the change log.

A long publication in a thread of this process would compete with searches for the GIL. A child process runs at low
priority and uses all cores to train FAISS.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fourfold import child_process, scheduling, threads
from fourfold.errors import StoreUnavailable, WorldError
from fourfold.index import publish, segment_files
from fourfold.index.locks import Lease
from fourfold.index.log_tail import Change
from fourfold.index.publish import lacks_faiss, published_seq
from fourfold.index.text_index import TextIndex
from fourfold.index.vector_index import VectorIndex
from fourfold.storage.sqlite import namespaces
from fourfold.storage.sqlite.database import DEFAULT, Connection, Database, Tuning, translated
from fourfold.storage.sqlite.namespaces import SourceRows, SqliteSource, read_namespace
from fourfold.text.analysis import ANALYSER_VERSION

if TYPE_CHECKING:
    from fourfold.storage.sqlite.indexes import Indexes

# ---------------------------------------------------------------- in this process or in a child process


KINDS = (TextIndex.KIND, VectorIndex.KIND)
_TRAINING_NICENESS = 10
_LOAD_NICENESS = 5
_REST_SHARE = 20
"""The rest of a load is published at its end unless it is less than one part in this many of a usual publication."""
_POLL_SECONDS = 0.2
_COLLECTED_OBJECTS = 100_000
"""New objects after which the garbage collector of the child process runs: its batches of rows have no cycles."""


@dataclass(frozen=True, slots=True)
class PublishJob:
    database: str
    folder: str
    """Of the indexes of this namespace."""
    ns: int
    owner: str
    tuning: Tuning = DEFAULT
    rebuild: bool = False
    """Ignores the published files, and reads all items."""
    faiss: bool = True
    """Also trains FAISS, if that is due."""
    load_every_changes: int = 0
    """If positive, publishes again after this many changes, until the end of the standard input."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> PublishJob:
        fields: dict[str, Any] = json.loads(text)
        fields["tuning"] = Tuning(**fields["tuning"])
        return PublishJob(**fields)


class NoChildProcess(Exception):
    """No child process can be started, or it failed."""


class BulkLoad:
    """A bulk load that a child process publishes while it runs."""

    def __init__(self, ns: int, every_changes: int) -> None:
        self.ns = ns
        self.every_changes = every_changes
        self._changing = threading.Lock()
        self._input: IO[bytes] | None = None
        self._has_ended = False

    def attach(self, process: subprocess.Popen[bytes]) -> None:
        with self._changing:
            self._input = process.stdin
        if self._has_ended:
            self.end()

    def end(self) -> None:
        """Makes the child process publish the rest and exit."""
        with self._changing:
            self._has_ended = True
            if self._input is not None:
                self._input.close()


def publish_here(job: PublishJob, database: Database, *, in_child: bool = False) -> Iterator[str]:
    """Publishes one index after the other, and yields the kind of each that changed."""
    publication = publish.Publication(
        Path(job.folder), SqliteSource(database, job.ns), job.owner, job.tuning, job.rebuild
    )
    with database.read() as db:
        space = read_namespace(db, job.ns).space
    if publish.publish_text(publication):
        yield TextIndex.KIND
    if space is None:
        return
    if publish.publish_vectors(publication, space):
        yield VectorIndex.KIND
    if not job.faiss:
        return
    if in_child:
        os.nice(_TRAINING_NICENESS)
    if publish.publish_faiss(publication, space):
        yield VectorIndex.KIND


def link_in_child(database: Path, ns: int) -> None:
    """Looks for new names in all texts in a child process. Raises NoChildProcess."""
    for _ in _run_child("links", PublishJob(str(database), "", ns, "")):
        pass


def _run_child(task: str, job: PublishJob, *handles: int, load: BulkLoad | None = None) -> Iterator[str]:
    """Yields the lines that a child process prints, which shares the lease (`handles`). Raises NoChildProcess.

    With a `load`, the child publishes what is written meanwhile, until the load ends.
    """
    if sys.platform == "win32":
        raise NoChildProcess
    placed = replace(job, database=str(Path(job.database).absolute()), folder=str(Path(job.folder).absolute()))
    stdin = subprocess.DEVNULL if load is None else subprocess.PIPE
    try:
        process = child_process.start(
            __name__,
            task,
            placed.to_json(),
            stdin=stdin,
            stdout=subprocess.PIPE,
            pass_fds=handles,
            one_thread=task == "links" or not job.faiss,
        )
    except child_process.CannotStart as error:
        raise NoChildProcess from error
    with process:
        if load is not None:
            load.attach(process)
        for line in process.stdout or ():
            yield line.decode().strip()
    if process.returncode:
        raise NoChildProcess


# ---------------------------------------------------------------- in the child process


def main(task: str, text: str) -> None:
    gc.set_threshold(_COLLECTED_OBJECTS)
    job = PublishJob.from_json(text)
    database = Database(Path(job.database), job.tuning)
    if task == "links":
        os.nice(_TRAINING_NICENESS)
        namespaces.catch_up(database, job.ns)
    else:
        is_load = job.load_every_changes > 0
        for kind in _publish_load(job, database) if is_load else publish_here(job, database, in_child=True):
            sys.stdout.write(f"{kind}\n")
            sys.stdout.flush()
    database.close()


def _publish_load(job: PublishJob, database: Database) -> Iterator[str]:
    """Publishes whenever enough was written, and the rest after the end of the input. Writers have priority."""
    os.nice(_LOAD_NICENESS)
    yield from _publish_round(job, database)
    while not _has_input_ended(job, database):
        yield from _publish_round(job, database)
    if _has_unpublished(job, database, job.load_every_changes // _REST_SHARE):
        yield from _publish_round(job, database)


def _publish_round(job: PublishJob, database: Database) -> Iterator[str]:
    yield from publish_here(job, database, in_child=True)
    for kind in KINDS:
        segment_files.remove_old_generations(Path(job.folder) / kind)


def _has_input_ended(job: PublishJob, database: Database) -> bool:
    """Waits for enough to publish, or for the end of the input, which also comes when the parent process dies."""
    while not select.select([sys.stdin], [], [], _POLL_SECONDS)[0]:
        if _has_unpublished(job, database, job.load_every_changes):
            return False
    return True


def _has_unpublished(job: PublishJob, database: Database, count: int) -> bool:
    with database.read() as db:
        seq = publish.published_seq(Path(job.folder), job.owner, read_namespace(db, job.ns).space)
        rows = SourceRows(db, job.ns)
        return rows.last_change - seq >= count and rows.count_changes(seq, count) >= count


# ---------------------------------------------------------------- what is due


_PRUNE_BATCH_CHANGES = 50_000
"""Changes that one transaction removes from the log."""


class Publisher:
    """Publishes in the calling thread, one publication at a time. Bulk loads are published by a thread of their own."""

    def __init__(self, folder: Path, store: str, database: Database, tuning: Tuning, opened: Indexes) -> None:
        self._folder = folder
        self._store = store
        self._database = database
        self._tuning = tuning
        self._opened = opened
        self.worker_lease = Lease(folder / "embedding-worker")
        """Held by the process that embeds for the whole store."""
        self._turns = threading.Lock()
        """Held while this process publishes."""
        self._waiting: set[int] = set()
        """Threads that wait for a turn."""
        self._changing = threading.Lock()
        """Guards everything below."""
        self._leases: dict[int, Lease] = {}
        self._replaced: set[int] = set()
        """Namespaces whose indexes of another version this process has replaced."""
        self._written_items: dict[int, int] = {}
        """By namespace, items that this process wrote since it last began to publish a bulk load."""
        self._load: BulkLoad | None = None
        self._loader: threads.Task[None] | None = None
        self._closed = False

    def owner(self, ns: int) -> str:
        """The name of store and namespace in the manifests of their indexes."""
        return f"{self._store}/{ns}"

    def folder(self, ns: int) -> Path:
        return self._folder / str(ns)

    def lease(self, ns: int) -> Lease:
        with self._changing:
            return self._leases.setdefault(ns, Lease(self.folder(ns) / "lease"))

    @contextmanager
    def turn(self) -> Generator[None]:
        """Around publications and repairs. Waits for the one that runs, but not for the end of a bulk load."""
        thread = threading.get_ident()
        try:
            self._waiting.add(thread)
            self._end_load()
            with self._turns, scheduling.in_bulk():
                self._waiting.discard(thread)
                if self._closed:
                    raise StoreUnavailable(f"{self._folder.parent} was closed", "Open it again")
                yield
        finally:
            self._waiting.discard(thread)

    # ------------------------------------------------------------ what is due

    def publish_if_due(self, ns: int, *, everything: bool = False) -> bool:
        """Publishes if there are many changes, or any with `everything`. False if another process holds the lease.

        Damaged files are replaced even if nothing changed.
        """
        self._opened.reopen_repaired(ns)
        limit = 1 if everything else self._tuning.publish_every_changes
        with self._database.read() as db:
            due = self.unpublished(db, ns, limit) >= limit or self._lacks_faiss(db, ns)
        due = due or self._opened.is_damaged(ns)
        if not due or (not everything and self._is_contested(ns)):
            # Removes generations that were still being read when the last publication ended.
            if any(segment_files.has_old_generations(self.folder(ns) / kind) for kind in KINDS):
                with translated(self._folder), self.lease(ns).held() as mine:
                    if mine:
                        self._remove_old(ns)
            return True
        if not self.publish(ns):
            return False
        self._prune(ns)
        return True

    def published_seq(self, db: Connection, ns: int) -> int:
        """The last change that all indexes hold; 0 if one of them is missing or cannot be used."""
        return published_seq(self.folder(ns), self.owner(ns), read_namespace(db, ns).space)

    def lacks_many_texts(self, db: Connection, ns: int) -> bool:
        """Whether folding all unpublished texts into a tail takes as long as publishing them."""
        seq, limit = published_seq(self.folder(ns), self.owner(ns), None), self._tuning.rebuild_at_changes
        return self._count_after(db, ns, seq, limit, Change.TEXT | Change.REMOVED) >= limit

    def unpublished(self, db: Connection, ns: int, limit: int) -> int:
        """Changes that the indexes lack, counted up to `limit`."""
        return self._count_after(db, ns, self.published_seq(db, ns), limit)

    def _count_after(self, db: Connection, ns: int, seq: int, limit: int, kinds: Change | None = None) -> int:
        """Changes after `seq`, counted up to `limit`; at least all items, if the log no longer covers them."""
        rows = SourceRows(db, ns)
        count = rows.count_changes(seq, limit, kinds)
        return max(count, read_namespace(db, ns).items) if seq < rows.pruned else count

    def _lacks_faiss(self, db: Connection, ns: int, expected_vectors: int = 0) -> bool:
        """Whether FAISS must be trained, now or after a publication of `expected_vectors`."""
        space = read_namespace(db, ns).space
        if space is None:
            return False
        folder = self.folder(ns) / VectorIndex.KIND
        try:
            manifest = segment_files.matching_manifest(folder, self.owner(ns), space.fingerprint)
        except segment_files.Damaged:
            return False
        return manifest is not None and lacks_faiss(manifest, self._tuning, expected_vectors)

    def _is_contested(self, ns: int) -> bool:
        """Whether a process of another version keeps replacing the indexes. Each process replaces them once only."""
        try:
            manifest = segment_files.read_manifest(self.folder(ns) / TextIndex.KIND)
        except segment_files.Damaged:
            return False
        if manifest is None or manifest.store != self.owner(ns):
            return False
        if (manifest.space, manifest.format) == (ANALYSER_VERSION, segment_files.FORMAT):
            return False
        contested = ns in self._replaced
        self._replaced.add(ns)
        return contested

    # ------------------------------------------------------------ publishing

    def publish(
        self, ns: int, *, rebuild: bool = False, purge: bool = False, faiss: bool = True, load: BulkLoad | None = None
    ) -> bool:
        """Publishes all changes. False if another process holds the lease. Callers have the turn.

        `rebuild`: from all items. `purge`: removes old generations even if they are being read. Without `faiss`, FAISS
        is not trained. `load`: publishes until that load ends.
        """
        with translated(self._folder), self.lease(ns).held() as mine:
            if not mine:
                return False
            rebuild = rebuild or self._opened.is_damaged(ns)
            every = 0 if load is None else load.every_changes
            database, folder = str(self._database.path), str(self.folder(ns))
            job = PublishJob(database, folder, ns, self.owner(ns), self._tuning, rebuild, faiss, every)
            try:
                for kind in self._run(job, load):
                    self._opened.reopen(ns, kind)
                    if load is not None:
                        self._prune(ns)
            except (segment_files.Damaged, RuntimeError) as error:  # FAISS raises RuntimeError
                raise OSError(errno.EIO, f"an index cannot be written ({error})") from error
            finally:
                self._remove_old(ns, even_if_read=purge)
        return True

    def try_publish_texts(self, ns: int, seconds: float) -> bool:
        """Publishes without FAISS. False if another publication of this process did not end in time."""
        self._end_load()
        if not self._turns.acquire(timeout=seconds):
            return self._closed
        try:
            with scheduling.in_bulk():
                self.publish(ns, faiss=False)
        finally:
            self._turns.release()
        return True

    def _run(self, job: PublishJob, load: BulkLoad | None) -> Iterator[str]:
        handle = self.lease(job.ns).handle
        if handle is not None and (load is not None or self._takes_long(job)):
            try:
                yield from _run_child("publish", job, handle, load=load)
                return
            except NoChildProcess:
                pass  # this process publishes, and raises the error that the child may have met
        yield from publish_here(job, self._database)

    def _takes_long(self, job: PublishJob) -> bool:
        limit = self._tuning.child_at_changes
        with self._database.read() as db:
            ns = read_namespace(db, job.ns)
            if job.rebuild:
                return ns.items >= limit
            is_far_behind = self.unpublished(db, job.ns, limit) >= limit
            return is_far_behind or self._lacks_faiss(db, job.ns, ns.vectors + ns.windows)

    def _remove_old(self, ns: int, *, even_if_read: bool = False) -> None:
        for kind in KINDS:
            segment_files.remove_old_generations(self.folder(ns) / kind, even_if_read=even_if_read)

    def _prune(self, ns: int) -> None:
        """Removes published changes from the log, except the last ones, which other processes may still need."""
        kept = self._tuning.log_kept_changes
        with self._database.read() as db:
            last, done = self.published_seq(db, ns) - kept, SourceRows(db, ns).pruned
        if last <= done + kept:
            return
        while done < last:
            done = min(done + _PRUNE_BATCH_CHANGES, last)
            with self._database.write() as db:
                SourceRows(db, ns).prune(done)

    # ------------------------------------------------------------ bulk loads

    def note_write(self, ns: int, items: int, *, searched: bool) -> None:
        """Counts written items. From some number on, a thread publishes them, without FAISS, while writes continue."""
        tuning = self._tuning
        every = tuning.searched_every_changes if searched else tuning.load_every_changes
        with self._changing:
            self._written_items[ns] = written = self._written_items.get(ns, 0) + items
            if written < (tuning.searched_every_changes if searched else tuning.load_at_items):
                return
            self._written_items[ns] = 0
            if self._load is not None and self._load.ns == ns and self._load.every_changes <= every:
                return
        self._end_load()  # of another namespace, or published too rarely
        with self._changing:
            if self._closed:
                return
            load = self._load = BulkLoad(ns, every)
            self._loader = threads.start(partial(self._publish_load, load, self._loader), "fourfold-load")

    def _publish_load(self, load: BulkLoad, previous: threads.Task[None] | None) -> None:
        if previous is not None:
            previous.done.wait()
        try:
            with self._turns, scheduling.in_bulk(), suppress(WorldError):
                if self._waiting:
                    load.end()  # publishes once: another thread waits for its turn
                if self.publish(load.ns, faiss=False, load=load):
                    self._prune(load.ns)
        finally:
            with self._changing:
                if self._load is load:
                    self._load = None

    def is_loading(self, ns: int) -> bool:
        """Whether a bulk load is being published while it is written."""
        with self._changing:
            return self._load is not None and self._load.ns == ns

    def _end_load(self) -> None:
        with self._changing:
            load = self._load
        if load is not None:
            load.end()

    def close(self) -> None:
        """Waits for the publication that runs."""
        with self._changing:
            self._closed = True
        self._end_load()
        if self._loader is not None:
            self._loader.done.wait()
        with self._turns:
            pass

"""Publishing the indexes of a namespace, in this process or in a child process.

A long publication in a thread of this process would compete with searches for the GIL. A child process runs at low
priority and uses all cores to train FAISS.
"""

from __future__ import annotations

import gc
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from fourfold import child_process
from fourfold.index import publish, segment_files
from fourfold.index.text_index import TextIndex
from fourfold.index.vector_index import VectorIndex
from fourfold.storage.sqlite import changes, namespaces, transaction
from fourfold.storage.sqlite.changes import SqliteSource
from fourfold.storage.sqlite.database import Database
from fourfold.storage.sqlite.tuning import DEFAULT, Tuning

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
        space = namespaces.read(db, job.ns).space
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


def publish_in_child(job: PublishJob, lease: int, load: BulkLoad | None = None) -> Iterator[str]:
    """Does the same in a child process, which shares the lease as long as it lives. Raises NoChildProcess.

    With a `load`, the child publishes what is written meanwhile, until the load ends.
    """
    yield from _run_child("publish", job, lease, load=load)


def link_in_child(database: Path, ns: int) -> None:
    """Looks for new names in all texts in a child process. Raises NoChildProcess."""
    for _ in _run_child("links", PublishJob(str(database), "", ns, "")):
        pass


def _run_child(task: str, job: PublishJob, *handles: int, load: BulkLoad | None = None) -> Iterator[str]:
    """Yields the lines that the child prints."""
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
        transaction.catch_up(database, job.ns)
    else:
        run = _publish_load if job.load_every_changes else _publish_once
        for kind in run(job, database):
            sys.stdout.write(f"{kind}\n")
            sys.stdout.flush()
    database.close()


def _publish_once(job: PublishJob, database: Database) -> Iterator[str]:
    return publish_here(job, database, in_child=True)


def _publish_load(job: PublishJob, database: Database) -> Iterator[str]:
    """Publishes whenever enough was written, and the rest after the end of the input. Writers have priority."""
    os.nice(_LOAD_NICENESS)
    yield from _publish_round(job, database)
    while not _has_input_ended(job, database):
        yield from _publish_round(job, database)
    if _has_unpublished(job, database, job.load_every_changes // _REST_SHARE):
        yield from _publish_round(job, database)


def _publish_round(job: PublishJob, database: Database) -> Iterator[str]:
    yield from _publish_once(job, database)
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
        seq = publish.published_seq(Path(job.folder), job.owner, namespaces.read(db, job.ns).space)
        if changes.last_change(db, job.ns) - seq < count:
            return False
        return changes.count_changes(db, job.ns, seq, count) >= count

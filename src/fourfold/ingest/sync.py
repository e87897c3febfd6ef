"""Making a store say what the files of a folder say. Every step is one transaction, and running again goes on."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fourfold.ingest import reading, walk
from fourfold.ingest.document import Unreadable
from fourfold.ingest.kinds import suffix
from fourfold.ingest.readers import pdf
from fourfold.ingest.report import IndexReport
from fourfold.ingest.safe_open import Beneath, NotRegular, read_up_to
from fourfold.ingest.walk import Entry, Walk
from fourfold.stores.base import FileRow, FileState, FileUpdate, Store

Progress = Callable[[int, int], None]
"""(files done, files to do)"""

_FILES = 64
_CHUNKS = 256
"""A transaction is closed when it has so many files or chunks."""
_FORGET = 500
_TICK_NS = 20_000_000
"""A file that was written so short a time ago may be written again within the same tick of its clock."""
_COARSE_NS = 2_000_000_000
"""The same where the file system counts whole seconds."""


async def index_folders(
    store: Store,
    namespace: str,
    folders: Sequence[str | Path],
    *,
    links: bool = True,
    verify: bool = False,
    progress: Progress | None = None,
) -> IndexReport:
    """Stores what is new or changed below the folders, and removes what is gone; nothing unless all folders exist."""
    report = IndexReport()
    for root in list(dict.fromkeys(map(walk.root_of, folders))):
        # What is known comes first: a file that somebody stores meanwhile is then not missing, but looked into again.
        known = await store.files(namespace, walk.prefix_of(root))
        todo, missing = await asyncio.to_thread(_walked, root, known, report, verify=verify)
        run = _Run(root, report, known, missing)
        if todo:
            await _put(store, namespace, run, todo, links, progress)
        elif progress is not None:
            progress(0, 0)
        left = list(run.missing)
        for start in range(0, len(left), _FORGET):
            await store.forget_files(namespace, left[start : start + _FORGET])
        report.removed += len(left)
    return report


def _walked(
    root: Path, known: Mapping[str, FileRow], report: IndexReport, *, verify: bool
) -> tuple[list[Entry], dict[str, FileState]]:
    """The files to look into, in the order of their paths, and known files that are not there."""
    found = walk.walk(root)
    report.skip_all(found.skipped)
    todo, skipped = _different(found.files, known, verify=verify)
    report.skip_all(skipped)
    report.files += len(found.files)
    report.unchanged += len(found.files) - len(todo) - len(skipped)
    return [found.entry(path) for path in sorted(todo)], _missing(found, known, todo)


def _missing(found: Walk, known: Mapping[str, FileRow], todo: Sequence[str]) -> dict[str, FileState]:
    new = sum(path not in known for path in todo)
    if len(known) == len(found.files) - new:
        return {}
    unseen = tuple(found.unseen)
    gone = sorted(path for path in known.keys() - found.files.keys() if not path.startswith(unseen))
    return {path: FileState._make(known[path]) for path in gone}


def _different(
    files: Mapping[str, tuple[int, int]], known: Mapping[str, FileRow], *, verify: bool
) -> tuple[list[str], list[tuple[str, str]]]:
    """Paths that are new or not as they were; and those that are, but hold nothing, with the reason.

    This is done for every file of every run, so it does little.
    """
    current = f"{reading.FORMAT}-"
    todo: list[str] = []
    skipped: list[tuple[str, str]] = []
    get, nothing = known.get, ("", -1, -1, "", "")
    for path, (size, mtime_ns) in files.items():
        _, known_size, known_time, digest, reason = get(path, nothing)
        if size != known_size or mtime_ns != known_time or verify or not digest.startswith(current):
            todo.append(path)
        elif reason:
            skipped.append((reason, path))
    return todo, skipped


# ---------------------------------------------------------------- storing


@dataclass(slots=True)
class _Run:
    root: Path
    report: IndexReport
    known: Mapping[str, FileRow]
    missing: dict[str, FileState]
    """Known files that are not there; one whose content turns up elsewhere was moved."""
    moved: dict[str, str] = field(default_factory=dict[str, str])
    """By digest: a path of the missing."""

    def __post_init__(self) -> None:
        stored = [(path, state) for path, state in self.missing.items() if not state.skipped]
        self.moved = {state.digest: path for path, state in reversed(stored)}

    def state(self, path: str) -> FileState | None:
        row = self.known.get(path)
        return None if row is None else FileState._make(row)


async def _put(
    store: Store, namespace: str, run: _Run, todo: Sequence[Entry], links: bool, progress: Progress | None
) -> None:
    """While one transaction is written, the files of the next are read."""
    batches = _Batches(run, todo)
    try:
        coming = asyncio.create_task(asyncio.to_thread(batches.next))
        while updates := await coming:
            coming = asyncio.create_task(asyncio.to_thread(batches.next))
            done = batches.done
            await store.put_files(namespace, updates, datetime.now(UTC), links=links)
            _count(run, updates)
            if progress is not None:
                progress(done, len(todo))
        if progress is not None:
            progress(len(todo), len(todo))
    finally:
        await asyncio.to_thread(batches.close)
        run.report.skip_all(batches.skipped)
        run.report.opened += batches.opened


def _count(run: _Run, updates: Sequence[FileUpdate]) -> None:
    report = run.report
    for update in updates:
        path, state = update.state.path, run.state(update.state.path)
        report.chunks += len(update.chunks or ())
        if update.state.skipped:
            report.skip(update.state.skipped, path)
        elif update.moved_from is not None:
            report.moved += 1
        elif state is None or state.skipped:
            report.new += 1
        elif update.chunks is None:
            report.unchanged += 1
        else:
            report.changed += 1
        if update.moved_from is not None:
            run.missing.pop(update.moved_from, None)


class _Batches:
    """Reads files, a transaction's worth at a time. One thread at a time uses it."""

    def __init__(self, run: _Run, todo: Sequence[Entry]) -> None:
        self._run = run
        self._beneath = Beneath(run.root)
        self._entries: Iterator[Entry] = iter(todo)
        self.done = 0
        """Files that were taken from the list."""
        self.opened = 0
        self.skipped: list[tuple[str, str]] = []

    def next(self) -> list[FileUpdate]:
        """Empty at the end."""
        updates: list[FileUpdate] = []
        chunks = 0
        for entry in self._entries:
            self.done += 1
            update = self._update(entry)
            if update is not None:
                updates.append(update)
                chunks += len(update.chunks or ())
            if len(updates) >= _FILES or chunks >= _CHUNKS:
                break
        return updates

    def close(self) -> None:
        self._beneath.close()

    def _update(self, entry: Entry) -> FileUpdate | None:
        """None where it could not be looked into: what is stored of it stays, and the next run tries again."""
        if suffix(entry.path) == "pdf" and not pdf.can_read():
            self.skipped.append((pdf.NO_EXTRA, entry.path))
            return None
        try:
            with self._beneath.open(entry.place) as descriptor:
                return self._looked_into(entry, descriptor)
        except NotRegular:
            self.skipped.append((walk.SPECIAL, entry.path))
        except OSError:
            self.skipped.append((walk.UNREADABLE, entry.path))
        return None

    def _looked_into(self, entry: Entry, descriptor: int) -> FileUpdate:
        found = os.fstat(descriptor)
        _let_the_clock_tick(found.st_mtime_ns)
        most = walk.largest(suffix(entry.path))
        data = read_up_to(descriptor, most + 1)
        self.opened += 1
        digest = f"{reading.FORMAT}-{hashlib.blake2b(data, digest_size=16).hexdigest()}"
        state = FileState(entry.path, found.st_size, found.st_mtime_ns, digest)
        if len(data) > most:
            return FileUpdate(state._replace(skipped=walk.LARGE))
        return self._cut(state, data)

    def _cut(self, state: FileState, data: bytes) -> FileUpdate:
        known = self._run.state(state.path)
        if known is not None and known.digest == state.digest:
            return FileUpdate(state._replace(skipped=known.skipped), None)
        try:
            chunks = reading.items(state.path, data, state.mtime_ns)
        except Unreadable as reason:
            return FileUpdate(state._replace(skipped=str(reason)))
        moved = self._run.moved.pop(state.digest, None) if known is None else None
        return FileUpdate(state, chunks, moved)


def _let_the_clock_tick(mtime_ns: int) -> None:
    """So that a change after this reading has another time than the one before it."""
    tick = _TICK_NS if mtime_ns % 1_000_000_000 else _COARSE_NS
    left = mtime_ns + tick - time.time_ns()
    if 0 < left <= tick:
        time.sleep(left / 1e9)

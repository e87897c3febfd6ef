"""Indexing of folders: synchronizes the store with their files.

Every step is one transaction; after an interruption the next run continues.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, cast

from fourfold import threads
from fourfold import validation as rules
from fourfold.errors import FourfoldError, InvalidItem
from fourfold.ingest import formats, walk
from fourfold.ingest.document import Chunk, Unreadable
from fourfold.ingest.formats import ChunkedFile, format_of
from fourfold.ingest.ignore import Rules, exclusions
from fourfold.ingest.reader_process import ReaderProcess, Request
from fourfold.ingest.walk import Entry, NotRegular, RootFolder, Target, Walk, read_up_to
from fourfold.limits import TAGS
from fourfold.model import Json, NewItem
from fourfold.storage.protocols import Store
from fourfold.storage.sql.dialect import pages
from fourfold.storage.sql.linking import bring_names
from fourfold.storage.values import FileRow, FileState, FileUpdate

Progress = Callable[[int, int], None]
"""(files done, files to do)"""
_GROUP_FILES = 64
_GROUP_BYTES = 4 * 1024 * 1024
"""Limits of one group of files that is handed to the reader."""
_TRANSACTION_CHUNKS = 256
"""A transaction ends when it has this many chunks."""
_FORGOTTEN_FILES = 500
"""Files that one transaction removes."""
_TICK_NS = 20_000_000
"""A file written within this time may be written again within the same tick of its clock."""
_COARSE_TICK_NS = 2_000_000_000
"""The same for file systems that store whole seconds."""


def index_folders(
    store: Store,
    namespace: str,
    folders: Sequence[str | Path],
    *,
    exclude: Sequence[str] = (),
    tags: Sequence[str] = (),
    links: bool = True,
    verify: bool = False,
    protect: Protect | None = None,
    progress: Progress | None = None,
) -> IndexReport:
    """Stores new and changed files of these folders, and removes deleted ones; nothing unless all folders exist.

    `protect` converts the checked items of a file before they are stored; an InvalidItem leaves the file out.
    `exclude`: globs in the syntax of .gitignore. `tags`: for every item; if they differ from those of the last run, all
    files are read again.
    """
    report = IndexReport()
    options = _Options(exclusions(exclude), rules.checked_tags(tags), verify, protect)
    with closing(ReaderProcess()) as reader:
        for target in dict.fromkeys(map(walk.target_of, folders)):
            # Known files are read before the walk: one that another process stores meanwhile is read again, not missed.
            with store.snapshot(namespace) as snapshot:
                rows = snapshot.files(target.prefix)
            stored = {path: row for path, row in rows.items() if target.holds(path)} if target.name else rows
            todo, missing = _walked(target, stored, report, options)
            run = _Run(target.root, report, stored, missing, options)
            if todo:
                _put(store, namespace, run, _Batches(run, todo, reader), links, progress)
            elif progress is not None:
                progress(0, 0)
            for gone in pages(list(run.missing), _FORGOTTEN_FILES):
                with store.transaction(namespace) as transaction:
                    transaction.files.forget(gone)
            report.removed += len(run.missing)
    return report


class _Options(NamedTuple):
    exclude: Rules | None
    tags: tuple[str, ...]
    verify: bool
    protect: Protect | None = None

    @property
    def version(self) -> str:
        """The prefix of digests: files whose digest has another prefix are read again."""
        if not self.tags:
            return f"{formats.FORMAT}-"
        return f"{formats.FORMAT}.{hashlib.blake2b(json.dumps(self.tags).encode(), digest_size=4).hexdigest()}-"


def _walked(
    target: Target, stored: Mapping[str, FileRow], report: IndexReport, options: _Options
) -> tuple[list[Entry], dict[str, FileState]]:
    """The files to open, in the order of their paths, and known files that are missing."""
    started = time.monotonic()
    walked = walk.walk(target, options.exclude)
    report.skip_all(walked.skipped)
    todo, skipped = _different(walked.files, stored, options)
    report.walk_seconds += time.monotonic() - started
    report.skip_all(skipped)
    report.files += len(walked.files)
    report.unchanged += len(walked.files) - len(todo) - len(skipped)
    return [walked.entry(path) for path in sorted(todo)], _missing(walked, stored, todo)


def _missing(walked: Walk, stored: Mapping[str, FileRow], todo: Sequence[str]) -> dict[str, FileState]:
    new = sum(path not in stored for path in todo)
    if len(stored) == len(walked.files) - new:
        return {}
    unseen = tuple(walked.unseen)
    gone = sorted(path for path in stored.keys() - walked.files.keys() if not path.startswith(unseen))
    return {path: FileState._make(stored[path]) for path in gone}


def _different(
    files: Mapping[str, tuple[int, int]], stored: Mapping[str, FileRow], options: _Options
) -> tuple[list[str], list[tuple[str, str]]]:
    """Paths that are new or changed, and unchanged paths of which nothing is stored, with the reason.

    This runs for every file of every run, so it does little.
    """
    current, verify = options.version, options.verify
    todo: list[str] = []
    skipped: list[tuple[str, str]] = []
    get, nothing = stored.get, ("", -1, -1, "", "")
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
    stored: Mapping[str, FileRow]
    missing: dict[str, FileState]
    """Known files that are missing; one whose content is found under another path was moved."""
    options: _Options
    moved: dict[str, str] = field(default_factory=dict[str, str])
    """Paths of missing files by digest."""

    def __post_init__(self) -> None:
        stored = [(path, state) for path, state in self.missing.items() if not state.skipped]
        self.moved = {state.digest: path for path, state in reversed(stored)}

    def state(self, path: str) -> FileState | None:
        row = self.stored.get(path)
        return None if row is None else FileState._make(row)


def _put(store: Store, namespace: str, run: _Run, batches: _Batches, links: bool, progress: Progress | None) -> None:
    """Reads the files of the next transaction in a thread while one is written."""
    coming = threads.start(batches.next, "fourfold-reader")
    try:
        while updates := coming.result():
            done = batches.done
            coming = threads.start(batches.next, "fourfold-reader")
            chunks = [chunk for update in updates for chunk in update.chunks or ()]
            with store.transaction(namespace, names=links and bring_names(chunks)) as transaction:
                transaction.files.put(updates, datetime.now(UTC), links=links)
            _count(run, updates)
            if progress is not None:
                progress(done, batches.total)
        if progress is not None:
            progress(batches.total, batches.total)
    finally:
        if not coming.done.is_set:
            batches.stop()
        batches.close()
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
    """Reads files, one transaction at a time. For one thread at a time."""

    def __init__(self, run: _Run, todo: Sequence[Entry], reader: ReaderProcess) -> None:
        self._run = run
        self._reader = reader
        self._beneath = RootFolder(run.root)
        self._entries: Iterator[Entry] = iter(todo)
        self._read: deque[FileUpdate] = deque()
        self._reading = threading.Lock()
        self._closed = False
        self.total = len(todo)
        self.done = 0
        """Files taken from the list so far."""
        self.opened = 0
        self.skipped: list[tuple[str, str]] = []

    def next(self) -> list[FileUpdate]:
        """The updates of the next transaction; empty at the end."""
        with self._reading:
            return [] if self._closed else self._next()

    def _next(self) -> list[FileUpdate]:
        while not self._read and (group := list(self._group())):
            self._read.extend(self._parsed(group))
        updates: list[FileUpdate] = []
        chunks = 0
        while self._read and chunks < _TRANSACTION_CHUNKS:
            updates.append(self._read.popleft())
            chunks += len(updates[-1].chunks or ())
        return updates

    def stop(self) -> None:
        """Ends a `next` that runs in another thread: gives up the file that is being parsed."""
        self._reader.close()

    def close(self) -> None:
        """Waits for a `next` that runs."""
        self._closed = True
        with self._reading:
            self._beneath.close()

    def _group(self) -> Iterator[_Content]:
        """The next files that could be opened."""
        files = size = 0
        while files < _GROUP_FILES and size < _GROUP_BYTES and (entry := next(self._entries, None)) is not None:
            self.done += 1
            content = self._content(entry)
            if content is not None:
                files += 1
                size += len(content.data)
                yield content

    def _content(self, entry: Entry) -> _Content | None:
        """None if the file cannot be opened: its stored chunks stay, and the next run tries again."""
        format_ = format_of(entry.path)
        if not format_.is_readable:
            self.skipped.append((format_.missing, entry.path))
            return None
        try:
            with self._beneath.open(entry.place) as descriptor:
                return self._opened(entry, descriptor, format_.most_bytes)
        except NotRegular:
            self.skipped.append((walk.SPECIAL, entry.path))
        except OSError:
            self.skipped.append((walk.UNREADABLE, entry.path))
        return None

    def _opened(self, entry: Entry, descriptor: int, most_bytes: int) -> _Content:
        status = os.fstat(descriptor)
        modified_ns = walk.modified_ns(status)
        _let_the_clock_tick(modified_ns)
        data = read_up_to(descriptor, most_bytes + 1)
        self.opened += 1
        digest = self._run.options.version + hashlib.blake2b(data, digest_size=16).hexdigest()
        state = FileState(entry.path, status.st_size, modified_ns, digest)
        if len(data) > most_bytes:
            return _Content(b"", FileUpdate(state._replace(skipped=walk.LARGE)))
        stored = self._run.state(state.path)
        if stored is not None and stored.digest == digest:
            return _Content(b"", FileUpdate(state._replace(skipped=stored.skipped), None))
        return _Content(data, FileUpdate(state))

    def _parsed(self, group: Sequence[_Content]) -> Iterator[FileUpdate]:
        states = [content.update.state for content in group if content.data]
        cuts = list(self._reader.read([Request(content.name, content.data) for content in group if content.data]))
        made = [
            [] if isinstance(cut, Unreadable) else file_items(state.path, cut, state.mtime_ns, self._run.options.tags)
            for state, cut in zip(states, cuts, strict=True)
        ]
        parsed = zip(cuts, checked_files(made, self._run.options.protect), strict=True)
        for content in group:
            yield self._update(content.update.state, *next(parsed)) if content.data else content.update

    def _update(
        self, state: FileState, cut: ChunkedFile | Unreadable, items: Sequence[NewItem] | Unreadable
    ) -> FileUpdate:
        for result in (cut, items):
            if isinstance(result, Unreadable):
                return FileUpdate(state._replace(skipped=str(result)))
        if isinstance(cut, ChunkedFile) and cut.document.note:
            self._run.report.note(cut.document.note, state.path)
        moved = self._run.moved.pop(state.digest, None) if self._run.state(state.path) is None else None
        return FileUpdate(state, cast("Sequence[NewItem]", items), moved)


class _Content(NamedTuple):
    data: bytes
    """Empty: nothing to parse."""
    update: FileUpdate

    @property
    def name(self) -> str:
        return self.update.state.path.rpartition("/")[2]


def _let_the_clock_tick(mtime_ns: int) -> None:
    """Waits until a later change of the file gets a later time than the one that was read."""
    tick = _TICK_NS if mtime_ns % 1_000_000_000 else _COARSE_TICK_NS
    left = mtime_ns + tick - time.time_ns()
    if 0 < left <= tick:
        time.sleep(left / 1e9)


# ---------------------------------------------------------------- items

_LANGUAGE_OF_CODE: Final = "en"
"""Identifiers and keywords are English; detection would find a dozen languages."""
_README: Final = "readme"
_REPEATED_METADATA_BYTES: Final = 4096
"""Maximum size of a file's metadata that is repeated in all chunks; larger metadata is stored with the first one."""


def file_items(path: str, cut: ChunkedFile, mtime_ns: int, tags: Sequence[str] = ()) -> list[NewItem]:
    """Return the chunks of a file as unchecked items; `tags` are added to all of them."""
    maker = _Maker(path, cut, _time(mtime_ns), tags)
    return [maker.item(number, chunk) for number, chunk in enumerate(cut.chunks)]


Protect = Callable[[Sequence[NewItem]], Sequence[NewItem]]


def checked_files(
    files: Sequence[Sequence[NewItem]], protect: Protect | None = None
) -> list[Sequence[NewItem] | Unreadable]:
    """Check the items of all files in one go, which is faster; a file with an invalid item gives Unreadable.

    `protect` converts the checked items of a file before they are stored.
    """
    try:
        checked = iter(rules.checked_many([item for items in files for item in items]))
        return [_protected(list(islice(checked, len(items))), protect) for items in files]
    except InvalidItem:
        return [_checked(items, protect) for items in files]


def _protected(checked: Sequence[NewItem], protect: Protect | None) -> Sequence[NewItem]:
    return checked if protect is None else protect(checked)


def _checked(items: Sequence[NewItem], protect: Protect | None) -> Sequence[NewItem] | Unreadable:
    try:
        return _protected(rules.checked_many(items), protect)
    except InvalidItem as error:
        return Unreadable(f"cannot be stored: {error.message}")


class _Maker:
    def __init__(self, path: str, cut: ChunkedFile, created: datetime | None, tags: Sequence[str]) -> None:
        name = path.rpartition("/")[2]
        self._path = path
        self._tags = (*tags, *cut.document.tags)
        self._document = cut.document
        self._format = format_of(name)
        self._created = created
        self._unit = cut.document.unit
        self._name = own_name(path)
        title = "" if cut.document.title.casefold() == _README else cut.document.title
        self._title = title or (self._name if self._format.is_page or stem(path) != self._name else name)
        is_small = len(json.dumps(self._document.metadata)) <= _REPEATED_METADATA_BYTES
        self._shared = self._document.metadata if is_small else {}

    def item(self, number: int, chunk: Chunk) -> NewItem:
        return NewItem(
            text=chunk.text,
            title=self._title if number == 0 else chunk.title(self._title),
            tags=tuple(dict.fromkeys((*self._tags, *chunk.tags)))[:TAGS],
            kind=self._document.kind or self._format.kind,
            metadata=self._metadata(number, chunk),
            language=_LANGUAGE_OF_CODE if self._format.kind == "code" else None,
            created_at=self._created,
            path=self._path,
            chunk_index=number,
            source="file",
        )

    def _metadata(self, number: int, chunk: Chunk) -> Mapping[str, Json]:
        """Metadata of a chunk; the first one represents the file and has its names besides the title."""
        position: Mapping[str, Json] = chunk.metadata or {self._unit: chunk.first, f"end_{self._unit}": chunk.last}
        if number > 0:
            return {**self._shared, **position}
        aliases = [name for name in dict.fromkeys((self._name, *self._document.aliases)) if name != self._title]
        names = {"aliases": aliases} if self._format.is_page and aliases else {}
        return {**self._document.metadata, **names, **position}


def own_name(path: str) -> str:
    """Return the name of a file without a title: its stem, or that of its folder for a README."""
    name = stem(path)
    if name.casefold() != _README:
        return name
    return path.rpartition("/")[0].rpartition("/")[2] or name


def stem(path: str) -> str:
    """Return the file name without its suffix."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


def _time(mtime_ns: int) -> datetime | None:
    """The time in UTC; None if it is out of range."""
    try:
        return datetime.fromtimestamp(mtime_ns // 1000 / 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


# ---------------------------------------------------------------- watching

PAUSE_SECONDS = 1.0
_PAUSE_PER_WALK = 20
"""Ratio of the pause to the walk before it: watching a large tree takes a twentieth of a core."""


def watch(index: Callable[[], IndexReport], pause: float = PAUSE_SECONDS) -> Generator[IndexReport | FourfoldError]:
    """Indexes repeatedly, with pauses, without end. Yields the report of each run, or its error: a missing folder."""
    while True:
        walk_seconds = 0.0
        try:
            report = index()
            walk_seconds = report.walk_seconds
            yield report
        except FourfoldError as error:
            yield error
        time.sleep(pause_after(walk_seconds, pause))


def pause_after(walk_seconds: float, least: float = PAUSE_SECONDS) -> float:
    """Without the time that reading and storing took: after a run that stored much, changes must not wait."""
    return max(least, _PAUSE_PER_WALK * walk_seconds)


# ---------------------------------------------------------------- the report of a run

_EXAMPLES = 5


@dataclass(slots=True)
class Skipped:
    count: int = 0
    examples: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class IndexReport:
    files: int = 0
    """Number of files after exclusion by rules, name and size."""
    new: int = 0
    changed: int = 0
    moved: int = 0
    removed: int = 0
    unchanged: int = 0
    opened: int = 0
    """Files whose content was read."""
    chunks: int = 0
    """Items of the files that were stored in this run."""
    walk_seconds: float = 0.0
    """Time that finding the files took, which a run without changes takes, too."""
    skipped: dict[str, Skipped] = field(default_factory=dict[str, Skipped])
    """By reason."""
    notes: dict[str, Skipped] = field(default_factory=dict[str, Skipped])
    """Stored files with missing parts, by reason."""

    def skip(self, reason: str, path: str) -> None:
        _count_reason(self.skipped, reason, path)

    def note(self, reason: str, path: str) -> None:
        _count_reason(self.notes, reason, path)

    def skip_all(self, skipped: Iterable[tuple[str, str]]) -> None:
        for reason, path in skipped:
            self.skip(reason, path)

    @property
    def touched(self) -> bool:
        """Whether anything changed."""
        return bool(self.new or self.changed or self.moved or self.removed)


def _count_reason(reasons: dict[str, Skipped], reason: str, path: str) -> None:
    entry = reasons.setdefault(reason, Skipped())
    entry.count += 1
    if len(entry.examples) < _EXAMPLES:
        entry.examples.append(path)


def reasons(skipped: Mapping[str, Skipped]) -> list[tuple[str, Skipped]]:
    """Return the reasons, most frequent first."""
    return sorted(skipped.items(), key=lambda reason: (-reason[1].count, reason[0]))

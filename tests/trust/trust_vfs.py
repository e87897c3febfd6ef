"""Disks that fail or lose power below SQLite, and the work that is done on them.

`FaultyDisk` wraps the functions of SQLite's own VFS. An `apsw.VFSFile` would raise its Python exception even where
SQLite ignores an error (a checkpoint that fails after a durable commit), so that a confirmed write would look like a
failed one; and it has no `mmap`. `Recorder` makes nothing fail and is an ordinary `apsw.VFS`. Both use the real WAL and
shared memory.
"""

import ctypes
import random
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p, cast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
from engine_support import WordEmbedder, notes
from store_calls import StoreCalls

from fourfold import ItemPatch, Memory, NewItem
from fourfold.storage.sqlite.database import Tuning
from fourfold.storage.sqlite.store import SqliteStore

# ---------------------------------------------------------------- a disk that fails on demand

_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)
_SHM = CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int, c_void_p)


class _Vfs(Structure):
    """The beginning of SQLite's struct sqlite3_vfs."""

    _fields_ = (
        ("version", c_int),
        ("file_size", c_int),
        ("path_length", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
    )


class _Methods(Structure):
    """SQLite's struct sqlite3_io_methods, version 3."""

    _fields_ = (
        ("version", c_int),
        *((name, c_void_p) for name in ("close", "read", "write", "truncate", "sync", "size", "lock", "unlock")),
        *((name, c_void_p) for name in ("reserved", "control", "sector", "device")),
        *((name, c_void_p) for name in ("shm_map", "shm_lock", "shm_barrier", "shm_unmap", "fetch", "unfetch")),
    )


class _File(Structure):
    _fields_ = (("methods", POINTER(_Methods)),)


IO_ERRORS = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "grow": apsw.SQLITE_IOERR_SHMSIZE,
}
FULL = {**dict.fromkeys(IO_ERRORS, apsw.SQLITE_FULL), "grow": apsw.SQLITE_IOERR_SHMSIZE}
"""Error codes of a full disk. SQLite itself reports shared memory that cannot grow as an I/O error."""


class FaultyDisk:
    """Counts every write, truncation, sync and growth of shared memory, and lets the call with a given number fail."""

    def __init__(self) -> None:
        self.calls = 0
        self.failed: list[str] = []
        self._fail_at: int | None = None
        self._sticky = False
        self._codes: dict[str, int] = {}
        self._wrapped: dict[int, _Methods] = {}
        self._kept: list[Any] = []
        self._vfs = _default_vfs()
        self._open: Any = _OPEN(self._vfs.open)
        self._hook = _OPEN(self._opening)
        self.install()

    def install(self) -> None:
        """Intercepts files that are opened from now on."""
        self._vfs.open = cast(self._hook, c_void_p).value

    def fail(self, call: int, codes: dict[str, int], *, sticky: bool) -> None:
        """Restarts counting; the call with that number fails, and with `sticky` all later ones, until `heal`."""
        self.calls, self.failed = 0, []
        self._fail_at, self._codes, self._sticky = call, codes, sticky

    def heal(self) -> None:
        self._fail_at = None

    def remove(self) -> None:
        """Stops intercepting files that are opened from now on."""
        self._vfs.open = cast(self._open, c_void_p).value

    def _opening(self, vfs: int, name: int, file: int, flags: int, out: int) -> int:
        code = self._open(vfs, name, file, flags, out)
        opened = cast(file, POINTER(_File)).contents
        if code == apsw.SQLITE_OK and opened.methods:
            opened.methods = ctypes.pointer(self._methods(opened.methods.contents))
        return code

    def _methods(self, plain: _Methods) -> _Methods:
        address = ctypes.addressof(plain)
        if address not in self._wrapped:
            mine = _Methods.from_buffer_copy(plain)
            for name, kind, form in (
                ("write", "write", _WRITE),
                ("truncate", "truncate", _TRUNCATE),
                ("sync", "sync", _SYNC),
                ("shm_map", "grow", _SHM),
            ):
                if getattr(plain, name):
                    hook = form(self._failing(kind, form(getattr(plain, name))))
                    self._kept.append(hook)
                    setattr(mine, name, cast(hook, c_void_p).value)
            self._wrapped[address] = mine
        return self._wrapped[address]

    def _failing(self, kind: str, plain: Any) -> Callable[..., int]:
        def call(*args: Any) -> int:
            if kind == "grow" and not args[3]:  # does not grow the memory
                return plain(*args)
            self.calls += 1
            if self._fail_at is None or self.calls < self._fail_at or (self.failed and not self._sticky):
                return plain(*args)
            self.failed.append(kind)
            return self._codes[kind]

        return call


def _default_vfs() -> _Vfs:
    db = apsw.Connection(":memory:")
    found = c_void_p()
    assert db.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(found))
    db.close()
    vfs = cast(found, POINTER(_Vfs)).contents
    assert vfs.name.decode() == apsw.vfs_names()[0]
    return vfs


# ---------------------------------------------------------------- the work

AUTOCHECKPOINT = 24
"""Pages of WAL after which SQLite checkpoints; its default of 1,000 would never touch the database file here."""
OLD = 24
"""Items that the store holds, with vectors and published, before the work begins."""


@dataclass(frozen=True)
class Seen:
    """The contents of a store, as far as the steps need them."""

    tags: dict[str, tuple[str, ...]]
    """Tags by text."""
    waiting: frozenset[str]
    """Texts without a vector."""
    edges: frozenset[tuple[str, str, str]]

    def stored(self, *texts: str, tag: str = "") -> list[bool]:
        return [text in self.tags and (not tag or tag in self.tags[text]) for text in texts]

    def embedded(self, *texts: str) -> list[bool]:
        return [text in self.tags and text not in self.waiting for text in texts]


@dataclass(frozen=True)
class Step:
    """One call of the engine, and the facts that it makes true, grouped by transaction."""

    name: str
    run: Callable[[Memory], Any]
    facts: Callable[[Seen], list[list[bool]]]

    def verdict(self, seen: Seen) -> str:
        groups = self.facts(seen)
        if all(all(group) for group in groups):
            return "done"
        if any(len(set(group)) > 1 for group in groups):
            return "half"
        return "part" if any(group[0] for group in groups) else "nothing"


def old(number: int) -> str:
    return notes(OLD, "old")[number].text


def steps(folder: Path) -> list[Step]:
    """The work: adds, updates, forgets, links, embeds, checkpoints and publishes."""

    def many(word: str, count: int) -> list[NewItem]:
        return [NewItem(note.text, tags=("fresh", word)) for note in notes(count, word)]

    def texts(word: str, count: int) -> list[str]:
        return [note.text for note in notes(count, word)]

    def add(word: str, count: int, *, wait: bool = False) -> Step:
        def facts(seen: Seen) -> list[list[bool]]:
            stored = [seen.stored(*texts(word, count)) + seen.stored(*texts(word, count), tag=word)]
            return [*stored, seen.embedded(*texts(word, count))] if wait else stored

        return Step(f"add {word}", lambda memory: memory.add_many(many(word, count), wait=wait), facts)

    def update(number: int, text: str, tag: str) -> Step:
        def facts(seen: Seen) -> list[list[bool]]:
            return [[*seen.stored(text), *seen.stored(text, tag=tag), old(number) not in seen.tags]]

        patch = ItemPatch(text=text, add_tags=(tag,))
        return Step(f"update {number}", lambda memory: memory.update(f"key:old{number}", patch), facts)

    def forget(*numbers: int) -> Step:
        keys = [f"key:old{number}" for number in numbers]
        return Step(
            f"forget {numbers}",
            lambda memory: memory.forget(keys),
            lambda seen: [[old(number) not in seen.tags for number in numbers]],
        )

    def link(source: str, target: str) -> Step:
        return Step(
            f"link {source}",
            lambda memory: memory.add_edge(source, "guards", target),
            lambda seen: [[(source, "guards", target) in seen.edges]],
        )

    return [
        add("single", 1),
        add("several", 5),
        update(1, "the ferry leaves at noon", "harbour"),
        forget(2, 3),
        link("Keeper", "Lighthouse"),
        add("embedded", 2, wait=True),
        Step("checkpoint", lambda memory: checkpoint(folder), lambda seen: []),
        add("second", 1),
        link("Warden", "Harbour"),
        update(4, "the bridge is closed on Sunday", "road"),
        Step("publish", lambda memory: memory.index(), lambda seen: []),
        forget(5),
        add("third", 4),
        add("last", 1, wait=True),
    ]


def checkpoint(folder: Path) -> None:
    """Makes a checkpoint, as any process with the file may do; ignores its failure."""
    try:
        db = apsw.Connection(str(folder / "fourfold.db"))
        try:
            db.pragma("synchronous", "full")
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            db.close()
    except (apsw.IOError, apsw.FullError):
        pass


def prepare(folder: Path) -> None:
    """Makes a store with old items, edges and indexes, and closes it."""
    with open_store(folder) as memory:
        prepared = [NewItem(note.text, key=f"old{number}") for number, note in enumerate(notes(OLD, "old"))]
        memory.add_many(prepared, wait=True)
        memory.add_edge("Keeper", "knows", "Warden")
        memory.index()


TUNING = Tuning()


def open_store(folder: Path) -> Memory:
    return Memory.open(SqliteStore(folder, tuning=TUNING), embedder=WordEmbedder(), background=False)


def look(memory: Memory) -> Seen:
    items = memory.list(limit=200)
    waiting = {item for item, *_ in StoreCalls(memory.store).pending(memory.namespace, 200)}
    edges = {
        (name, found.relation, found.node.name)
        for name in ("Keeper", "Warden")
        for found in memory.neighbors(name, direction="out")
    }
    assert len({item.text for item in items}) == len(items), "an item is stored twice"
    tags = {item.text: item.tags for item in items}
    return Seen(tags, frozenset(item.text for item in items if item.id in waiting), frozenset(edges))


def checkpoint_often() -> None:
    """Makes all connections that this process opens from now on checkpoint after a few pages."""
    apsw.connection_hooks.append(lambda db: db.wal_autocheckpoint(AUTOCHECKPOINT))


# ---------------------------------------------------------------- a disk that loses power

SECTOR = 512


@dataclass(frozen=True)
class Event:
    """A change in the disk's cache (write, truncate, delete), a sync, or a confirmation (mark)."""

    kind: str
    file: str
    offset: int = 0
    data: bytes = b""


@dataclass
class Record:
    """The durable files at the beginning, and all events on them, in order."""

    beginning: dict[str, bytes]
    events: list[Event] = field(default_factory=list[Event])


class Recorder(apsw.VFS):
    """A default VFS that passes everything on to the files and records it."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.base = apsw.vfs_names()[0]
        super().__init__("recorder", self.base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _RecordedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.record.events.append(Event("delete", Path(filename).name, int(syncdir)))


class _RecordedFile(apsw.VFSFile):
    def __init__(self, vfs: Recorder, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(path or "temporary").name
        self._events = vfs.record.events
        super().__init__(vfs.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._events.append(Event("write", self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._events.append(Event("truncate", self._name, newsize))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._events.append(Event("sync", self._name))


def after_power_loss(record: Record, cut: int, keep: float, chance: random.Random) -> dict[str, bytes]:
    """The files after a power loss at `cut` events: all that was synced, and each unsynced sector with probability
    `keep`. An unsynced truncation or deletion happened or did not."""
    durable = dict(record.beginning)
    cached: dict[str, list[Event]] = {}
    for event in record.events[:cut]:
        if event.kind == "sync":
            for each in cached.pop(event.file, []):
                _apply(durable, each)
        elif event.kind != "mark":
            cached.setdefault(event.file, []).append(event)
    for event in (each for events in cached.values() for each in events):
        for piece in _pieces(event):
            if chance.random() < keep:
                _apply(durable, piece)
    return durable


def _pieces(event: Event) -> Sequence[Event]:
    if event.kind != "write":
        return [event]
    first = SECTOR - event.offset % SECTOR
    ends = [*range(first, len(event.data), SECTOR), len(event.data)]
    starts = [0, *ends[:-1]]
    return [
        Event("write", event.file, event.offset + a, event.data[a:b])
        for a, b in zip(starts, ends, strict=True)
        if a < b
    ]


def _apply(files: dict[str, bytes], event: Event) -> None:
    content = files.get(event.file, b"")
    if event.kind == "delete":
        files.pop(event.file, None)
    elif event.kind == "truncate":
        files[event.file] = content[: event.offset].ljust(event.offset, b"\0")
    else:
        end = event.offset + len(event.data)
        files[event.file] = content[: event.offset].ljust(event.offset, b"\0") + event.data + content[end:]

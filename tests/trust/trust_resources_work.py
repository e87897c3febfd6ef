"""The work of children in the tests of resources: thousands of calls, cancelled calls, closing during calls."""

import asyncio
import ctypes
import gc
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apsw
from concurrently import begin, results
from engine_support import WordEmbedder

from fourfold import AsyncMemory, Filters, FourfoldError, Item, ItemPatch, Memory, NewItem
from fourfold.index import segment_files
from fourfold.ranking.plan import PRESETS
from fourfold.storage.sqlite.database import Tuning
from fourfold.storage.sqlite.store import SqliteStore
from fourfold.storage.values import Pace

_M_ARENA_MAX = -8
ITEMS = 150
DIMENSION = 32
_CONNECTIONS = 16


def publish_often(changes: int) -> None:
    """Makes stores of this process publish after this many changes, without a pause.

    Links are read again after as many: by default their tail grows for 5,000 changes, which would look like a leak.
    """
    global _tuning
    _tuning = Tuning(publish_every_changes=changes, columns_tail=changes, pace=Pace(quiet_seconds=0))


class Forgetful(WordEmbedder):
    def embed(self, texts: Sequence[str]) -> Any:
        found = super().embed(texts)
        self.texts.clear()
        return found


_tuning = Tuning()


def opened(folder: Path, **options: Any) -> Memory:
    return Memory.open(SqliteStore(folder, tuning=_tuning), embedder=Forgetful(dimension=DIMENSION), **options)


# ---------------------------------------------------------------- resource use of a process


@dataclass(frozen=True, slots=True)
class Usage:
    resident: int
    """Resident bytes without mapped files, which the system loads and drops as it likes."""
    heap: int
    """Bytes allocated by native code and for large objects, if the C library reports them."""
    blocks: int
    """Allocated blocks of the Python interpreter."""
    descriptors: int
    threads: int
    """All threads, including those of native libraries, which come and go."""
    own: int
    """Threads of Python."""
    index: int
    """Bytes of the index on disk."""
    generations: int
    published: int
    """The number of the newest generation."""


def swept() -> None:
    """Frees unreferenced memory."""
    gc.collect()
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def usage(folder: Path) -> Usage:
    sides = [side for side in folder.glob("index/*/*") if side.is_dir()]
    numbers = [[int(path.name[1:]) for path in side.glob("g*")] for side in sides]
    return Usage(
        _status("RssAnon"),
        _heap(),
        sys.getallocatedblocks(),
        descriptors(),
        _status("Threads"),
        threading.active_count(),
        _bytes(folder / "index"),
        max(map(len, numbers)),
        max(itertools.chain.from_iterable(numbers)),
    )


class _MallocInfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "o", "s", "h", "mapped", "u", "f", "used", "free", "keep")  # as in malloc.h
    )


def _heap() -> int:
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0
    mallinfo.restype = _MallocInfo
    found = mallinfo()
    return found.used + found.mapped


def one_arena() -> None:
    """Restricts malloc to one arena, so that freed memory can be returned; per-thread arenas return a random share."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            value, *unit = line.split()[1:]
            return int(value) * (1024 if unit == ["kB"] else 1)
    raise AssertionError(f"no {name}")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _bytes(folder: Path) -> int:
    """Bytes on disk; a file that two generations share counts once. Old generations may be removed meanwhile."""
    found: dict[int, int] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                entry = Path(place, name).lstat()
                found[entry.st_ino] = entry.st_size
    return sum(found.values())


# ---------------------------------------------------------------- thousands of calls


class Steady:
    """Calls of every kind in random order over a store that does not grow."""

    def __init__(self, memory: Memory, reader: Memory, seed: int) -> None:
        self.memory = memory
        self.reader = reader
        self.chance = random.Random(seed)
        self.number = 0
        self.calls = 0
        self.stored: list[int] = []
        often: list[Callable[[], Any]] = [self._search, self._read] * 3
        writes: list[Callable[[], Any]] = [self._add, self._update, self._update, self.shrink]
        self.kinds = [*often, *writes, self._list, self._get, self._graph, self._embed]

    def fill(self) -> None:
        new = [self._new() for _ in range(ITEMS)]
        self.stored = [item.id for item in self.memory.add_many(new, wait=True)]
        for number in range(10):
            self.memory.add_edge(f"Anna {number}", "knows", f"Karl {number}")

    def call(self) -> None:
        self.calls += 1
        (self.several if self.calls % 200 == 0 else self.chance.choice(self.kinds))()

    def _text(self) -> str:
        animals = ("heron", "otter", "badger", "lynx", "marten", "raven", "viper", "stoat")
        return f"the {self.chance.choice(animals)} met the {self.chance.choice(animals)} at gate {self.number % 13}"

    def _new(self) -> NewItem:
        """A unique text made of known words, since the analyser caches words."""
        self.number += 1
        name = f"{self.number % 97} {self.number // 97 % 97} {self.number // 97**2}"
        text = f"der Reiher am Wassertor {name}" if self.number % 7 == 0 else f"note {name}: {self._text()}"
        return NewItem(text, title=f"Gate {self.number % 5}" if self.number % 9 == 0 else "", tags=("gate",))

    def _search(self) -> None:
        self.memory.search(self._text(), preset=self.chance.choice(list(PRESETS)))

    def _read(self) -> None:
        filters = Filters(tags=("gate",)) if self.chance.random() < 0.5 else Filters()
        self.reader.search(self._text(), filters=filters)

    def several(self) -> None:
        """Makes more concurrent calls than there are threads."""
        self.calls += 16
        results(*[self._search] * 8, *[self._read] * 8)

    def _add(self) -> None:
        self.stored.append(self.memory.add(self._new(), wait=self.chance.random() < 0.5).id)

    def _update(self) -> None:
        self.memory.update(self.chance.choice(self.stored), ItemPatch(text=self._new().text))

    def shrink(self) -> None:
        while len(self.stored) > ITEMS:
            self.memory.forget([self.stored.pop(self.chance.randrange(len(self.stored)))])

    def _list(self) -> None:
        self.memory.list(limit=20)

    def _get(self) -> None:
        self.memory.get([self.chance.choice(self.stored)])

    def _graph(self) -> None:
        number = self.chance.randrange(10)
        self.memory.add_edge(f"Anna {number}", "knows", f"Karl {(number + self.chance.randrange(3)) % 10}")
        self.memory.neighbors(f"Anna {number}", depth=2)

    def _embed(self) -> None:
        self.memory.embed_pending()


def many_calls(folder: Path, warm: int, calls: int, windows: int, seed: int) -> list[Usage]:
    """The resource use after the warm-up and after each window of calls."""
    one_arena()
    publish_often(60)
    found: list[Usage] = []
    with opened(folder) as memory, opened(folder) as reader:
        steady = Steady(memory, reader, seed)
        steady.fill()
        for each in (memory, reader):
            fill_pools(each)
        fill_notes(folder.parent / "notes")
        for end in [warm, *(warm + calls * (window + 1) // windows for window in range(windows))]:
            while steady.calls < end:
                steady.call()
            found.append(_at_rest(steady, folder))
    return found


def fill_pools(memory: Memory) -> None:
    """Starts all threads of the pools and opens all connections; created on demand, they would look like growth."""
    store: Any = memory.store
    with ExitStack() as reads:
        for _ in range(_CONNECTIONS):
            reads.enter_context(store.database.read())
    for pool in (store.caches.vector_threads, store.indexes._openers):
        everyone = threading.Barrier(pool.count + 1)
        for _ in range(pool.count):
            pool.submit(everyone.wait)
        everyone.wait()


def fill_notes(folder: Path) -> None:
    """Fills the notes of written files up to their limit, which otherwise takes 2,000 calls."""
    folder.mkdir()
    for number in range(segment_files.NOTED_FILES):
        path = folder / str(number)
        path.touch()
        segment_files.note_written(path, segment_files.Part())


def _at_rest(steady: Steady, folder: Path) -> Usage:
    """The resource use when everything is embedded and published, and the threads of the publication have ended."""
    steady.shrink()
    steady.memory.embed_pending()
    steady.memory.index()
    steady.several()
    swept()
    samples = []
    for _ in range(10):
        time.sleep(0.005)
        samples.append(usage(folder))
    return min(samples, key=lambda each: (each.threads, each.descriptors))


# ---------------------------------------------------------------- cancelled calls

Call = Callable[[Memory, int, Path], Any]


def _all(memory: Memory) -> list[Item]:
    found: list[Item] = []
    while page := memory.list(limit=1000, offset=len(found)):
        found += page
    return found


def _some(memory: Memory, number: int) -> int:
    """The id of a stored note."""
    notes = [item.id for item in _all(memory) if item.text.startswith("note")]
    return notes[number % len(notes)] if notes else memory.add(f"note {number} of the otter").id


def _update(memory: Memory, number: int, folder: Path) -> None:
    (first,) = memory.get(["key:first"])
    change = ItemPatch(text=f"changed {number}", add_tags=(f"changed-{number}",), remove_tags=first.tags)
    memory.update("key:first", change)


def _forget(memory: Memory, number: int, folder: Path) -> None:
    memory.forget([_some(memory, number)])


def _batch(number: int) -> list[NewItem]:
    return [NewItem(f"batch {number} part {part} of the otter", tags=(f"batch-{number}",)) for part in range(5)]


CALLS: dict[str, Call] = {
    "search": lambda memory, number, folder: memory.search(f"the heron met the otter at gate {number}"),
    "add": lambda memory, number, folder: memory.add(NewItem(f"added {number}"), wait=True),
    "add many": lambda memory, number, folder: memory.add_many(_batch(number), wait=number % 2 == 0),
    "update": _update,
    "forget": _forget,
    "list": lambda memory, number, folder: memory.list(limit=500),
    "edge": lambda memory, number, folder: memory.add_edge(f"Anna {number}", "knows", f"Karl {number}"),
    "index": lambda memory, number, folder: memory.index(),
    "reembed": lambda memory, number, folder: memory.reembed(),
    "export": lambda memory, number, folder: memory.export(folder.parent / f"{number}.jsonl"),
    "backup": lambda memory, number, folder: memory.backup(folder.parent / f"{number}.backup"),
    "repair": lambda memory, number, folder: memory.repair(),
    "check": lambda memory, number, folder: memory.check(),
}


async def _cancelled_call(chance: random.Random, memory: AsyncMemory, call: Call, number: int, folder: Path) -> bool:
    """Cancels a call of AsyncMemory at a random time, or lets it time out; returns whether it was cut short."""
    running = asyncio.ensure_future(memory._run(lambda: call(memory._memory, number, folder)))
    if chance.random() < 0.3:
        try:
            await asyncio.wait_for(running, chance.expovariate(1 / 0.004))
        except TimeoutError:
            return True
        return False
    if chance.random() < 0.5:
        for _ in range(chance.randrange(40)):
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(chance.expovariate(1 / 0.006))
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        return True
    return False


class Interrupter:
    """Interrupts a call in the main thread like Ctrl-C, after some seconds."""

    def __init__(self) -> None:
        self._is_inside = False
        signal.signal(signal.SIGALRM, self._interrupt)

    def _interrupt(self, *_: object) -> None:
        if self._is_inside:  # a signal that another thread received may arrive after the call
            self._is_inside = False
            raise KeyboardInterrupt

    def call(self, seconds: float, call: Callable[[], Any]) -> bool:
        """Makes the call; returns whether it was interrupted."""
        try:
            self._is_inside = True
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
            call()
            self._is_inside = False
        except KeyboardInterrupt:
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return False


def _idle() -> None:
    """Waits, without a limit, until no connection of this process is in a transaction."""
    while not all(_is_idle(db) for db in apsw.connections()):
        time.sleep(0.001)


def _is_idle(db: apsw.Connection) -> bool:
    try:
        return not db.in_transaction
    except (apsw.ThreadingViolationError, apsw.BusyError):  # used by another thread
        return False
    except apsw.ConnectionClosedError:
        return True


@dataclass(frozen=True, slots=True)
class Cancelled:
    counts: dict[str, tuple[int, int]]
    """For each kind of call, the number of calls and how many were cut short."""
    problems: list[str]
    threads: list[int]
    descriptors: list[int]


def neighbour(pipe: Any, folder: Path) -> None:
    """Writes whenever told to, in another process, and reports the error, if any."""
    with opened(folder, background=False) as memory:
        while (number := pipe.recv()) is not None:
            try:
                memory.add(NewItem(f"neighbour {number}", tags=("neighbour",)))
            except FourfoldError as error:
                pipe.send(str(error))
            else:
                pipe.send("")


def cancelled(pipe: Any, folder: Path, count: int, seed: int) -> Cancelled:
    """Calls of AsyncMemory that are cancelled."""
    chance = random.Random(seed)
    with opened(folder) as memory, asyncio.Runner() as runner:
        calls = AsyncMemory(memory)

        def cut(call: Call, number: int) -> bool:
            return runner.run(_cancelled_call(chance, calls, call, number, folder))

        return _cut_calls(pipe, memory, folder, count, cut)


def interrupted(pipe: Any, folder: Path, count: int, seed: int) -> Cancelled:
    """Calls of Memory that are interrupted by Ctrl-C, which arrives as a signal in the thread of the call."""
    chance = random.Random(seed)
    interrupter = Interrupter()
    with opened(folder) as memory:

        def cut(call: Call, number: int) -> bool:
            return interrupter.call(chance.expovariate(1 / 0.004), partial(call, memory, number, folder))

        return _cut_calls(pipe, memory, folder, count, cut)


def _cut_calls(pipe: Any, memory: Memory, folder: Path, count: int, cut: Callable[[Call, int], bool]) -> Cancelled:
    publish_often(30)
    found = Cancelled({}, [], [], [])
    kinds = list(CALLS)
    memory.add_many([NewItem("the first", key="first"), *_notes(ITEMS)], wait=True)
    for number in range(count):
        name = kinds[number % len(kinds)]
        try:
            was_cut = cut(CALLS[name], number)
            begin(partial(_unharmed, pipe, memory, number, name, found)).result(120)
        except Exception as error:  # noqa: BLE001  (anything but the interruption is a problem)
            found.problems.append(f"{number} {name}: {type(error).__name__}: {error}")
            was_cut = False
        calls, cuts = found.counts.get(name, (0, 0))
        found.counts[name] = (calls + 1, cuts + was_cut)
        found.threads.append(threading.active_count())
        found.descriptors.append(descriptors())
    pipe.send(None)
    memory.embed_pending()
    response = memory.search("otter")
    found.problems.extend(f"at the end: {failure}" for failure in response.degraded)
    found.problems.extend(f"check: {line}" for line in memory.check())
    found.problems.extend(_half_written(memory, folder, count))
    return found


def _notes(count: int) -> list[NewItem]:
    return [NewItem(f"note {number}: the heron met the otter at gate {number % 13}") for number in range(count)]


def _unharmed(pipe: Any, memory: Memory, number: int, name: str, found: Cancelled) -> None:
    """Asserts that the next call works, no transaction stays open, and another process can write."""
    if not memory.search("otter").results:
        found.problems.append(f"{number} {name}: the next search finds nothing")
    memory.add(f"after {number}")
    _idle()
    pipe.send(number)
    if said := pipe.recv():
        found.problems.append(f"{number} {name}: the neighbour: {said}")


def _half_written(memory: Memory, folder: Path, count: int) -> list[str]:
    problems: list[str] = []
    for number in range(count):
        if (parts := memory.count(Filters(tags=(f"batch-{number}",)))) not in (0, 5):
            problems.append(f"{parts} parts of batch {number}")
    (first,) = memory.get(["key:first"])
    changed = max((int(tag.rpartition("-")[2]) for tag in first.tags), default=None)
    if changed is not None and first.text != f"changed {changed}":
        problems.append(f"the first item says {first.text!r} and has the tag of change {changed}")
    stored = {item.text for item in _all(memory)}
    problems += [f"after {number} is lost" for number in range(count) if f"after {number}" not in stored]
    problems += [f"neighbour {number} is lost" for number in range(count) if f"neighbour {number}" not in stored]
    return problems + _unfinished(folder.parent)


def _unfinished(folder: Path) -> list[str]:
    """Incomplete exports and backups, and leftover temporary files."""
    problems = [f"{path.name} was left" for path in folder.iterdir() if path.suffix in (".part", ".new")]
    for path in folder.glob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        if not any(line.get("key") == "first" for line in lines):
            problems.append(f"{path.name} is not whole")
    for path in folder.glob("*.backup"):
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        if db.pragma("integrity_check") != "ok" or not db.execute("SELECT count(*) FROM items").get:
            problems.append(f"{path.name} is not whole")
        db.close()
    return problems


# ---------------------------------------------------------------- closing during calls


def closed_during_calls(folder: Path, rounds: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """Closes the memory during calls; returns how the calls ended, by error name or `done`, and all problems."""
    publish_often(30)
    chance = random.Random(seed)
    ends: dict[str, int] = {}
    problems: list[str] = []
    with opened(folder) as memory:
        memory.add_many([NewItem("the first", key="first"), *_notes(ITEMS)], wait=True)
    names = [name for name in CALLS if name not in ("export", "backup")]
    for number in range(rounds):
        memory = opened(folder)
        chosen = [chance.choice(names) for _ in range(20)]
        calls = [begin(partial(CALLS[name], memory, 100 * number + n, folder)) for n, name in enumerate(chosen)]
        time.sleep(chance.expovariate(1 / 0.02))
        if number % 2:  # skips the publication with which `Memory.close` begins
            begin(memory.store.close).result(120)
        begin(memory.close).result(120)
        try:
            answers = [call.exception(120) for call in calls]
        except TimeoutError:
            return ends, [*problems, f"round {number}: hangs"]
        for name, error in zip(chosen, answers, strict=True):
            end = type(error).__name__ if error else "done"
            ends[end] = ends.get(end, 0) + 1
            if error and not isinstance(error, FourfoldError):
                problems.append(f"round {number}: {name} ended with {end}: {error}")
        calls, answers, error = [], [], None  # drops tracebacks, which keep files open
        problems += [f"round {number}: {line}" for line in _left(folder)]
    with opened(folder) as memory:
        problems += memory.check()
    return ends, problems


def _left(folder: Path) -> list[str]:
    """Threads and open files of a closed memory that remain after two seconds."""
    left: list[str] = []
    for _ in range(200):
        gc.collect()
        left = [thread.name for thread in threading.enumerate() if thread.name.startswith("fourfold")]
        left += [path for path in _open_files() if path.startswith(str(folder))]
        if not left:
            return []
        time.sleep(0.01)
    return [f"{each} is left" for each in left]


def _open_files() -> list[str]:
    found: list[str] = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(os.readlink(path))  # noqa: PTH115  (no path: sockets and pipes have names of their own)
    return found

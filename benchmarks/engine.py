"""What the comparison asks of every search engine, and the processes in which engines are built and asked.

An engine is built in one process, then asked in a fresh one over a pipe. The child measures every query itself, so the
time of the pipe is not in the numbers.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from corpus import Corpus, recall_of

ENGINES = {
    "fourfold": ("fourfold_engine", "FourfoldEngine"),
    "postgres": ("fourfold_engine", "PostgresEngine"),
    "sqlite": ("peers", "SqliteEngine"),
    "sqlite-stop": ("peers", "SqliteStopEngine"),
    "lancedb": ("peers", "LanceEngine"),
    "chroma": ("chroma_engine", "ChromaEngine"),
    "qdrant": ("qdrant_engine", "QdrantEngine"),
}
PROCESSES = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Built:
    """What building an engine cost, and with which settings it will be searched."""

    seconds: float
    megabytes: float
    settings: str


@dataclass(frozen=True, slots=True)
class Answer:
    """How long one query took by the clock and on the processors, and the keys it found."""

    seconds: float
    processor_seconds: float
    keys: list[str]


@dataclass(frozen=True, slots=True)
class Resident:
    """Memory of a process, in megabytes: its own (anonymous) and mapped from files."""

    anonymous: float
    files: float


@dataclass(frozen=True, slots=True)
class Load:
    """What several clients got done together: each one's queries by the clock, and the processor time of all."""

    clients: int
    kind: ClientKind
    seconds: float
    processor_seconds: float
    times: list[float]


@dataclass(frozen=True, slots=True)
class Task:
    """Work for a child: queries one after the other, or as many as some clients can ask in some seconds."""

    mode: Mode
    numbers: range
    clients: int = 0
    kind: ClientKind = "threads"
    seconds: float = 0.0


def engine_class(name: str) -> type[Engine]:
    """Return the class of an engine."""
    module, attribute = ENGINES[name]
    chosen: type[Engine] = getattr(importlib.import_module(module), attribute)
    return chosen


def lacking(name: str) -> list[str]:
    """Return what an engine needs and has not: packages, and the address of a server."""
    chosen = engine_class(name)
    missing = [package for package in chosen.packages if not is_installed(package)]
    unset = chosen.environment and not os.environ.get(chosen.environment)
    return [*missing, *([f"the variable {chosen.environment}"] if unset else [])]


def is_installed(package: str) -> bool:
    """Tell whether a distribution is there."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def build_engine(name: str, folder: Path, corpus: Corpus) -> Built:
    """Build an engine in a process that ends afterwards, and tune it in another one."""
    with ProcessPoolExecutor(1, PROCESSES) as process:
        seconds = process.submit(timed_build, name, folder, corpus).result()
    with ProcessPoolExecutor(1, PROCESSES) as process:
        settings = process.submit(tuned_settings, name, folder, corpus).result()
    return Built(seconds, engine_class(name)(folder).megabytes(folder), settings)


def timed_build(name: str, folder: Path, corpus: Corpus) -> float:
    """Build an engine here and return the seconds it took."""
    engine = engine_class(name)(folder)
    begin = time.perf_counter()
    engine.build(corpus)
    return time.perf_counter() - begin


def tuned_settings(name: str, folder: Path, corpus: Corpus) -> str:
    """Let an engine choose its search settings here."""
    return engine_class(name)(folder).tune(corpus)


# ---------------------------------------------------------------- seen from the comparison


class Child:
    """A running engine process."""

    def __init__(self, name: str, folder: Path, corpus: Corpus) -> None:
        self._pipe, far_end = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=serve, args=(far_end, name, folder, corpus), daemon=True)
        self._process.start()
        far_end.close()
        self._pipe.recv()

    def run(self, mode: Mode, numbers: range) -> list[Answer]:
        """Ask some of the corpus's queries, one after the other."""
        self.begin(Task(mode, numbers))
        answers: list[Answer] = self.result()
        return answers

    def begin(self, task: Task) -> None:
        """Give it work without waiting for it."""
        self._pipe.send(task)

    def result(self) -> Any:
        """Wait for that work."""
        return self._pipe.recv()

    def stop(self) -> Resident:
        """End the process and return the memory it had."""
        self._pipe.send(None)
        resident: Resident = self._pipe.recv()
        self._process.join()
        return resident


def under_load(name: str, folder: Path, corpus: Corpus, task: Task) -> Load:
    """Let several clients ask at once, in one process or in one each; each begins at another query.

    All queries are asked once before: what an engine reads into memory meanwhile is not what is measured here.
    """
    alone = task.kind == "processes"
    shares = [task] if not alone else [client_task(task, corpus, number) for number in range(task.clients)]
    children = [Child(name, folder, corpus) for _ in shares]
    for child in children:
        child.run(task.mode, range(len(corpus.queries())))
    for child, share in zip(children, shares, strict=True):
        child.begin(share)
    loads: list[Load] = [child.result() for child in children]
    for child in children:
        child.stop()
    times = [seconds for load in loads for seconds in load.times]
    processor = sum(load.processor_seconds for load in loads)
    return Load(task.clients, task.kind, max(load.seconds for load in loads), processor, times)


def client_task(task: Task, corpus: Corpus, number: int) -> Task:
    """One client's part of the work, in a process of its own."""
    start = number * corpus.query_count // task.clients
    return Task(task.mode, range(start, start + corpus.query_count), 1, "threads", task.seconds)


# ---------------------------------------------------------------- in the engine's process


def serve(pipe: Connection, name: str, folder: Path, corpus: Corpus) -> None:
    """Be the engine process: open the engine, answer every request, report the memory, close."""
    engine = engine_class(name)(folder)
    asked = Asked(engine, [query.text for query in corpus.queries()], corpus.query_vectors(), corpus.query_count)
    engine.open()
    pipe.send("ready")
    while (task := pipe.recv()) is not None:
        pipe.send(asked.load(task) if task.clients else [asked.timed(task.mode, n) for n in task.numbers])
    pipe.send(resident_memory([os.getpid(), *engine.processes()]))
    engine.close()


class Asked:
    """An open engine and the queries for it."""

    def __init__(self, engine: Engine, texts: list[str], vectors: Vector, count: int) -> None:
        self._engine = engine
        self._texts = texts
        self._vectors = vectors
        self._count = count

    def timed(self, mode: Mode, number: int) -> Answer:
        """Ask one query and measure it."""
        begin, processor = time.perf_counter(), time.process_time()
        keys = ask(self._engine, mode, self._texts[number], self._vectors[number])
        return Answer(time.perf_counter() - begin, time.process_time() - processor, keys)

    def load(self, task: Task) -> Load:
        """Let the clients of this process ask until the time is over."""
        starts = [task.numbers.start + n * self._count // task.clients for n in range(task.clients)]
        begin, processor = time.perf_counter(), time.process_time()
        until = begin + task.seconds
        with ThreadPoolExecutor(task.clients) as pool:
            times = list(pool.map(lambda start: self._client(task.mode, start, until), starts))
        spent = time.process_time() - processor
        together = [seconds for mine in times for seconds in mine]
        return Load(task.clients, task.kind, time.perf_counter() - begin, spent, together)

    def _client(self, mode: Mode, start: int, until: float) -> list[float]:
        """One client: the queries from `start` on, over and over."""
        times: list[float] = []
        number = start
        while (begin := time.perf_counter()) < until:
            query = number % self._count
            ask(self._engine, mode, self._texts[query], self._vectors[query])
            times.append(time.perf_counter() - begin)
            number += 1
        return times


def resident_memory(processes: list[int]) -> Resident:
    """Read the memory of these processes from Linux; what they share with each other counts once."""
    status = [process_status(process) for process in processes]
    shared = max(fields["RssShmem"] for fields in status)
    return Resident(sum(fields["RssAnon"] for fields in status) + shared, sum(fields["RssFile"] for fields in status))


def process_status(process: int) -> dict[str, float]:
    """Return the memory fields of a process, in megabytes."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    fields: dict[str, str] = dict(line.split(":", 1) for line in lines)
    return {name: int(value.split()[0]) * 1024 / MEGABYTE for name, value in fields.items() if name.startswith("Rss")}


Vector: TypeAlias = npt.NDArray[np.float32]
Mode: TypeAlias = Literal["hybrid", "keyword", "vector"]
ClientKind: TypeAlias = Literal["threads", "processes"]
Value = TypeVar("Value")

MODES: tuple[Mode, ...] = ("hybrid", "keyword", "vector")
DEPTH = 200
TOP = 10
BATCH = 1000
RANK_CONSTANT = 60
TUNED_RECALL = 0.95
TUNING_QUERIES = 200
MEGABYTE = 1_000_000


class Engine(Protocol):
    """A search engine with its data in one folder; every search returns the keys of its best ten items."""

    label: str
    packages: tuple[str, ...]
    environment: str = ""
    """A variable that it cannot run without: the address of a server."""
    client_kinds: tuple[ClientKind, ...] = ("processes",)
    """How several clients share it: threads of one process, or a process each."""

    def __init__(self, folder: Path) -> None: ...

    def build(self, corpus: Corpus) -> None:
        """Store and index everything, then close."""
        ...

    def tune(self, corpus: Corpus) -> str:
        """Choose the search settings for what was built; return the settings in words."""
        ...

    def open(self) -> None:
        """Open what was built, ready for searches."""
        ...

    def hybrid(self, text: str, vector: Vector) -> list[str]:
        """Search with words and vector together."""
        ...

    def keyword(self, text: str) -> list[str]:
        """Search with words only."""
        ...

    def vector(self, text: str, vector: Vector) -> list[str]:
        """Search with the vector only."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...

    def megabytes(self, folder: Path) -> float:
        """What the data takes on disk."""
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MEGABYTE

    def processes(self) -> list[int]:
        """Other processes that work for this one: a server's."""
        return []


def ask(engine: Engine, mode: Mode, text: str, vector: Vector) -> list[str]:
    """Search in one of the modes."""
    if mode == "hybrid":
        return engine.hybrid(text, vector)
    if mode == "keyword":
        return engine.keyword(text)
    return engine.vector(text, vector)


def tuned(corpus: Corpus, ladder: Sequence[Value], search: Callable[[Value, Vector], list[str]]) -> tuple[Value, float]:
    """The first setting of a ladder whose vector search finds enough of the true ten nearest, and its recall."""
    count = min(TUNING_QUERIES, corpus.query_count)
    queries, truth = corpus.query_vectors()[:count], corpus.neighbours(TOP)[:count]
    setting, recall = ladder[0], 0.0
    for setting in ladder:
        recall = recall_of([search(setting, query) for query in queries], truth)
        if recall >= TUNED_RECALL:
            break
    return setting, recall


def batches(values: Iterable[Value], size: int) -> Iterator[list[Value]]:
    """Cut a stream into lists of at most `size` values."""
    stream = iter(values)
    while batch := list(islice(stream, size)):
        yield batch


def fuse_ranks(*ranked: list[int]) -> list[int]:
    """Merge ranked lists by reciprocal rank fusion and return the best ten."""
    scores: dict[int, float] = {}
    for numbers in ranked:
        for rank, number in enumerate(numbers, 1):
            scores[number] = scores.get(number, 0.0) + 1.0 / (RANK_CONSTANT + rank)
    return sorted(scores, key=scores.__getitem__, reverse=True)[:TOP]

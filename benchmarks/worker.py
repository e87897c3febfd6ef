"""An engine in a process of its own: built in one process, then asked in a fresh one over a pipe.

The child measures every query itself, so the time of the pipe is not in the numbers.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from corpus import Corpus
from engine import Engine, Mode, Vector

ENGINES = {
    "fourfold": ("fourfold_engine", "FourfoldEngine"),
    "sqlite": ("peers", "SqliteEngine"),
    "sqlite-stop": ("peers", "SqliteStopEngine"),
    "lancedb": ("peers", "LanceEngine"),
}
MEGABYTE = 1_000_000
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


def engine_class(name: str) -> type[Engine]:
    """Return the class of an engine."""
    module, attribute = ENGINES[name]
    chosen: type[Engine] = getattr(importlib.import_module(module), attribute)
    return chosen


def missing_packages(name: str) -> list[str]:
    """Return the packages an engine needs that are not installed."""
    return [package for package in engine_class(name).packages if find_spec(package.replace("-", "_")) is None]


def build_engine(name: str, folder: Path, corpus: Corpus) -> Built:
    """Build an engine in a process that ends afterwards, and tune it in another one."""
    with ProcessPoolExecutor(1, PROCESSES) as process:
        seconds = process.submit(timed_build, name, folder, corpus).result()
    with ProcessPoolExecutor(1, PROCESSES) as process:
        settings = process.submit(tuned_settings, name, folder, corpus).result()
    return Built(seconds, folder_megabytes(folder), settings)


def timed_build(name: str, folder: Path, corpus: Corpus) -> float:
    """Build an engine here and return the seconds it took."""
    engine = engine_class(name)(folder)
    begin = time.perf_counter()
    asyncio.run(engine.build(corpus))
    return time.perf_counter() - begin


def tuned_settings(name: str, folder: Path, corpus: Corpus) -> str:
    """Let an engine choose its search settings here."""
    return asyncio.run(engine_class(name)(folder).tune(corpus))


def folder_megabytes(folder: Path) -> float:
    """Return how much all files in a folder hold."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / MEGABYTE


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
        self._pipe.send((mode, numbers))
        answers: list[Answer] = self._pipe.recv()
        return answers

    def stop(self) -> Resident:
        """End the process and return the memory it had."""
        self._pipe.send(None)
        resident: Resident = self._pipe.recv()
        self._process.join()
        return resident


def serve(pipe: Connection, name: str, folder: Path, corpus: Corpus) -> None:
    """Be the engine process until told to stop."""
    asyncio.run(answer_requests(pipe, engine_class(name)(folder), corpus))


async def answer_requests(pipe: Connection, engine: Engine, corpus: Corpus) -> None:
    """Open the engine, answer every request from the pipe, report the memory, close."""
    texts = [query.text for query in corpus.queries()]
    vectors = corpus.query_vectors()
    await engine.open()
    pipe.send("ready")
    while request := await asyncio.to_thread(pipe.recv):
        mode, numbers = request
        pipe.send([await timed(engine, mode, texts[number], vectors[number]) for number in numbers])
    pipe.send(resident_memory())
    await engine.close()


async def timed(engine: Engine, mode: Mode, text: str, vector: Vector) -> Answer:
    """Run one query and measure it."""
    begin, processor_begin = time.perf_counter(), time.process_time()
    keys = await search(engine, mode, text, vector)
    return Answer(time.perf_counter() - begin, time.process_time() - processor_begin, keys)


async def search(engine: Engine, mode: Mode, text: str, vector: Vector) -> list[str]:
    """Run one query of the given kind."""
    if mode == "hybrid":
        return await engine.hybrid(text, vector)
    if mode == "keyword":
        return await engine.keyword(text)
    return await engine.vector(text, vector)


def resident_memory() -> Resident:
    """Read this process's memory from Linux."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    fields: dict[str, Any] = dict(line.split(":", 1) for line in lines)
    return Resident(*(int(fields[name].split()[0]) * 1024 / MEGABYTE for name in ("RssAnon", "RssFile")))

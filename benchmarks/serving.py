"""Searching under what happens to a store: being opened, being built, the price of fusing it all, and fresh writes.

python benchmarks/serving.py --items 100000

What it costs to see another process's write at once: one process stores, another searches, in turns. The reader's
searches come in pairs: one without a write before it, and one directly after the writer's commit, which must show that
commit. So noise of the machine hits both alike. The store is a copy of the one that compare.py builds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from corpus import WARM_UP, Corpus, item_key
from engine import BATCH, PROCESSES, TOP, Vector, batches
from report import Bar
from setting import Setting, in_process, run_alone

Kind: TypeAlias = Literal["add", "update", "forget"]

KINDS: tuple[Kind, ...] = ("add", "update", "forget")
FRESHNESS_BAR = 3


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and the key of the item that a write brings into its answer or takes out of it."""

    text: str
    vector: Vector
    key: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """How long a search took, when it ended by the clock of all processes, and whether the item was in its answer."""

    seconds: float
    end: float
    found: bool


@dataclass
class Times:
    """What was measured of one kind of write."""

    calm: list[float] = field(default_factory=list)
    after_write: list[float] = field(default_factory=list)
    from_commit: list[float] = field(default_factory=list)


def published(folder: Path) -> None:
    """Publish what is left to publish: all of it, if the store was built by another version."""
    from fourfold import Memory

    with Memory.open(folder, embedder="none") as memory:
        memory.index()


def measure(folder: Path, corpus: Corpus, rounds: int) -> dict[Kind, Times]:
    """Let the kinds of write take turns, each with a search before it and one after it."""
    queries = [
        Question(query.text, vector) for query, vector in zip(corpus.queries(), corpus.query_vectors(), strict=True)
    ]
    times = {kind: Times() for kind in KINDS}
    with running(write, folder) as writer, running(read, folder) as reader:
        for query in queries[corpus.query_count :]:
            ask(reader, query)
        for pair, item in enumerate(islice(corpus.items(), rounds)):
            calm, other = (queries[number % corpus.query_count] for number in (pair, pair ^ 1))  # both roles for each
            questions = {
                "add": replace(other, text=f"{other.text} addword{pair}", key=f"fresh-{pair}"),
                "update": replace(other, text=f"{other.text} updateword{pair}", key=item_key(rounds + pair)),
                "forget": Question(f"{item.title} {item.text[:40]}", corpus.vectors()[pair], item.key),
            }
            for kind in KINDS:
                one_round(writer, reader, times[kind], kind, calm, questions[kind])
    return times


def one_round(
    writer: Connection, reader: Connection, times: Times, kind: Kind, calm: Question, fresh: Question
) -> None:
    """Search twice without a write before the second, write, and search for what was written."""
    known = ask(reader, fresh).found
    before = ask(reader, calm)
    writer.send((kind, fresh))
    committed: float = writer.recv()
    after = ask(reader, fresh)
    if (known, after.found) != (kind == "forget", kind != "forget"):
        raise SystemExit(f"{kind} of {fresh.key}: found before it: {known}, directly after the commit: {after.found}")
    times.calm.append(before.seconds)
    times.after_write.append(after.seconds)
    times.from_commit.append(after.end - committed)


def ask(reader: Connection, question: Question) -> Seen:
    """Let the reader search."""
    reader.send(question)
    seen: Seen = reader.recv()
    return seen


# ---------------------------------------------------------------- the two processes

Answering: TypeAlias = Callable[[Any, Any], Any]


@contextmanager
def running(work: Answering, folder: Path) -> Iterator[Connection]:
    """A process that has the store open and answers requests until the block ends."""
    mine, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=serve, args=(theirs, work, folder), daemon=True)
    process.start()
    theirs.close()
    try:
        mine.recv()
        yield mine
        mine.send(None)
        process.join()
    finally:
        process.kill()


def serve(pipe: Connection, work: Answering, folder: Path) -> None:
    """Be such a process: open the store as a server does, and answer until told to stop."""
    from fourfold import Memory, Settings

    patient = Settings(retriever_seconds=60)  # the first search opens the indexes, on a machine that may be busy
    with Memory.open(folder, embedder="none", settings=patient) as memory:
        pipe.send("ready")
        while request := pipe.recv():
            pipe.send(work(memory, request))


def read(memory: Any, question: Question) -> Seen:
    """Search, and measure it."""
    begin = time.perf_counter()
    response = memory.search(question.text, vector=question.vector, top_k=TOP)
    end = time.perf_counter()
    if response.degraded:
        raise RuntimeError(f"answered without: {response.degraded}")
    return Seen(end - begin, end, question.key in [result.key for result in response.results])


def write(memory: Any, request: tuple[Kind, Question]) -> float:
    """Add, replace or forget the question's item, and say when that was committed."""
    kind, question = request
    if kind == "forget":
        memory.forget([f"key:{question.key}"])
    else:
        memory.add(new_item(question))
    return time.perf_counter()


def new_item(question: Question) -> Any:
    """An item that this question finds, with its vector, in place of the one that has the key."""
    from fourfold import NewItem

    return NewItem(f"What was asked: {question.text}", key=question.key, vector=question.vector)


# ---------------------------------------------------------------- the table


OPEN_BAR = 1.0
STARTING_BAR = 0.6
DURING_BAR = 3.0
OVERHEAD_BAR = 1.0
OPENINGS = 5
ADDED_SHARE = 0.3
"""Share of the items that is added again under other keys. Above a quarter the approximate index is rebuilt."""
ROUNDS = 100


def freshness_bars(setting: Setting) -> list[Bar]:
    """A search directly after another process's commit, which it must show, beside one without a write before it."""
    with setting.copied_store() as folder:
        published(folder)
        times = measure(folder, setting.corpus, min(ROUNDS, setting.corpus.item_count // 4))
    return [
        Bar(
            f"search after another process's {kind} / a calm one",
            ratio(found),
            FRESHNESS_BAR,
            note=medians(found),
        )
        for kind, found in times.items()
    ]


def ratio(times: Times) -> float:
    """Of the medians."""
    return float(np.median(times.after_write) / np.median(times.calm))


def medians(times: Times) -> str:
    """Both, in milliseconds."""
    return f"p50 {np.median(times.after_write) * 1000:.2f} / {np.median(times.calm) * 1000:.2f} ms"


def serving_bars(setting: Setting) -> list[Bar]:
    """All of them."""
    return [*opening_bars(setting), *starting_bars(setting), *overhead_bars(setting), *building_search_bars(setting)]


# ---------------------------------------------------------------- opening


def opening_bars(setting: Setting) -> list[Bar]:
    """Seconds until a store is open, and until it has answered, each in a fresh process."""
    folder = setting.store()
    times = np.array([in_process(opened, folder, setting.corpus) for _ in range(OPENINGS)])
    imported, opening, answered = np.median(times, axis=0)
    note = f"median of {OPENINGS} processes; importing took {imported:.2f} s before"
    return [
        Bar("opening a store, s", opening, OPEN_BAR, note=note),
        Bar("opening it and the first hybrid answer, s", answered, OPEN_BAR, note=note),
    ]


def opened(folder: Path, corpus: Corpus) -> tuple[float, float, float]:
    """Seconds of the import, of opening, and of opening and a first search."""
    text, vector = corpus.queries()[0].text, corpus.query_vectors()[0]
    begin = time.perf_counter()
    from fourfold import Memory, Settings

    imported = time.perf_counter()
    with Memory.open(folder, embedder="none", settings=Settings(retriever_seconds=60)) as memory:
        ready = time.perf_counter()
        whole(memory.search(text, vector=vector, top_k=TOP))
        answered = time.perf_counter()
    return imported - begin, ready - imported, answered - imported


def whole(response: Any) -> Any:
    """A response that lacks nothing: one that does must not count as a quick one."""
    if response.degraded:
        raise RuntimeError(f"answered without: {response.degraded}")
    return response


# ---------------------------------------------------------------- starting


def starting_bars(setting: Setting) -> list[Bar]:
    """Seconds of one `fourfold search` beyond those of an interpreter that does nothing, in turns."""
    query = setting.corpus.queries()[0].text
    command = ("-m", "fourfold", "--store", str(setting.store()), "search", query)
    times = np.array([(seconds_of("-c", "pass"), seconds_of(*command)) for _ in range(OPENINGS + 1)][1:])
    idle, searching = np.median(times, axis=0)
    note = f"{searching:.2f} s; python -c pass {idle:.2f} s; median of {OPENINGS}, embedder none, bytecode cached"
    return [Bar("one search as a command, s more than python -c pass", searching - idle, STARTING_BAR, note=note)]


def seconds_of(*arguments: str) -> float:
    """What the interpreter takes for these arguments."""
    environment = {**os.environ, "FOURFOLD_EMBEDDER": "none"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


# ---------------------------------------------------------------- the price of fusion


def overhead_bars(setting: Setting) -> list[Bar]:
    """What `Memory.search` takes beyond its slowest retriever, in parts of that retriever's time."""
    times = in_process(retriever_times, setting.store(), setting.corpus)
    medians = {name: float(np.median(values)) * 1000 for name, values in times.items()}
    slowest = max((name for name in medians if name != "search"), key=medians.__getitem__)
    alone = np.max([values for name, values in times.items() if name != "search"], axis=0)
    ratio = float(np.median((np.array(times["search"]) - alone) / alone))
    note = ", ".join(f"{name} {value:.2f} ms" for name, value in medians.items()) + f"; slowest: {slowest}"
    return [Bar("search beyond its slowest retriever / that retriever", ratio, OVERHEAD_BAR, note=note)]


def retriever_times(folder: Path, corpus: Corpus) -> dict[str, list[float]]:
    """Seconds of every query: the whole search, and each retriever asked alone, in turns."""
    from fourfold import Memory
    from fourfold.engine.retrievers import GraphRetriever, KeywordRetriever, SemanticRetriever, TagRetriever
    from fourfold.limits import CANDIDATES
    from fourfold.model import NO_FILTERS
    from fourfold.retrieval import Query

    retrievers: dict[str, Callable[[Any], Any]] = {
        "semantic": lambda snapshot: SemanticRetriever(snapshot.vectors),
        "keyword": lambda snapshot: KeywordRetriever(snapshot.words),
        "graph": lambda snapshot: GraphRetriever(snapshot.graph),
        "tags": lambda snapshot: TagRetriever(snapshot.tags),
    }
    times: dict[str, list[float]] = {}
    texts, vectors = [query.text for query in corpus.queries()], corpus.query_vectors()
    with Memory.open(folder, embedder="none") as memory:
        for number in [*range(corpus.query_count, len(texts)), *range(corpus.query_count)]:
            if number == 0:
                times.clear()  # that was the warming up
            query = Query(memory.namespace, texts[number], vectors[number], NO_FILTERS)
            for name, retriever in retrievers.items():
                begin = time.perf_counter()
                with memory.store.snapshot(memory.namespace) as snapshot:
                    retriever(snapshot).search(query, CANDIDATES)
                times.setdefault(name, []).append(time.perf_counter() - begin)
            begin = time.perf_counter()
            whole(memory.search(texts[number], vector=vectors[number], top_k=TOP))
            times.setdefault("search", []).append(time.perf_counter() - begin)
    return times


# ---------------------------------------------------------------- searching while it is built


def building_search_bars(setting: Setting) -> list[Bar]:
    """p95 of hybrid search while items are stored, and while indexes are published, beside that at rest."""
    with setting.copied_store() as folder:
        phases = in_process(searched_meanwhile, folder, setting.corpus)
    p95 = {name: float(np.percentile(times, 95)) * 1000 for name, (times, _) in phases.items()}
    found: list[Bar] = []
    for name in ("publishing", "storing"):
        times, degraded = phases[name]
        note = f"{p95[name]:.2f} / {p95['rest']:.2f} ms, {len(times)} searches, {degraded} of them degraded"
        found.append(Bar(f"search p95 while {name} / at rest", p95[name] / p95["rest"], DURING_BAR, note=note))
    return found


def searched_meanwhile(folder: Path, corpus: Corpus) -> dict[str, tuple[list[float], int]]:
    """Seconds of searches, and how many lacked something: at rest, while storing, and while publishing."""
    from fourfold import Memory, NewItem

    count = int(corpus.item_count * ADDED_SHARE)
    rows = islice(zip(corpus.items(), corpus.vectors(), strict=True), count)
    with Memory.open(folder, embedder="none", background=False) as memory:
        searching = Searching(memory, corpus)
        searching.some(WARM_UP)
        rest = searching.some(corpus.query_count)

        def store() -> None:
            for batch in batches(rows, BATCH):
                moved = [(replace(item, key=f"again-{item.key}"), vector) for item, vector in batch]
                memory.add_many(
                    [NewItem(item.text, title=item.title, key=item.key, vector=vector) for item, vector in moved]
                )

        storing = searching.during(store)
        publishing = searching.during(memory.index)
    return {"rest": rest, "storing": storing, "publishing": publishing}


class Searching:
    """One client that asks the corpus's queries, over and over."""

    def __init__(self, memory: Any, corpus: Corpus) -> None:
        self._memory = memory
        self._texts = [query.text for query in corpus.queries()]
        self._vectors = corpus.query_vectors()
        self._next = 0

    def some(self, count: int) -> tuple[list[float], int]:
        """Run this many queries."""
        answers = [self._one() for _ in range(count)]
        return [seconds for seconds, _ in answers], sum(lacking for _, lacking in answers)

    def during(self, work: Callable[[], None]) -> tuple[list[float], int]:
        """Ask until the work is done."""
        answers: list[tuple[float, bool]] = []
        with ThreadPoolExecutor(1) as other:
            task = other.submit(work)
            while not task.done():
                answers.append(self._one())
        task.result()
        return [seconds for seconds, _ in answers], sum(lacking for _, lacking in answers)

    def _one(self) -> tuple[float, bool]:
        """Seconds of one search, and whether it lacked something."""
        number = self._next % len(self._texts)
        self._next += 1
        begin = time.perf_counter()
        response = self._memory.search(self._texts[number], vector=self._vectors[number], top_k=TOP)
        return time.perf_counter() - begin, bool(response.degraded)


if __name__ == "__main__":
    run_alone(__doc__, serving_bars)

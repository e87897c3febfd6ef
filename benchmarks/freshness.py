"""What it costs to see another process's write at once: one process stores, another searches, in turns.

    python benchmarks/freshness.py --items 100000 --rounds 100

The reader's searches come in pairs: one without a write before it, and one directly after the writer's commit, which
must show that commit. So noise of the machine hits both alike. The store is a copy of the one that compare.py builds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from compare import CACHE, OURS, build, describe
from corpus import Corpus, item_key, prepare_corpus
from engine import TOP, Vector
from worker import PROCESSES

Kind: TypeAlias = Literal["add", "update", "forget"]

KINDS: tuple[Kind, ...] = ("add", "update", "forget")
BAR = 3


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


def main() -> None:
    """Run all rounds and print the table."""
    options = read_options()
    corpus = prepare_corpus(options.cache, options.items, options.queries)
    describe(corpus)
    built = options.cache / f"{OURS}-{corpus.fingerprint}"
    build(OURS, built, corpus, reuse=not options.rebuild)
    with tempfile.TemporaryDirectory(dir=options.cache) as folder:
        shutil.copytree(built, folder, dirs_exist_ok=True)
        published(Path(folder))
        times = measure(Path(folder), corpus, options.rounds)
    if options.json:
        options.json.write_text(json.dumps({kind: asdict(found) for kind, found in times.items()}), encoding="utf-8")
    print(as_markdown(times))


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000, help="how many items the store holds")
    parser.add_argument("--queries", type=int, default=500, help="of the corpus, as compare.py has it")
    parser.add_argument("--rounds", type=int, default=100, help="pairs of searches for each kind of write")
    parser.add_argument("--json", type=Path, help="also write all times to this file")
    parser.add_argument("--rebuild", action="store_true", help="build the store even if an earlier run has built it")
    parser.add_argument("--cache", type=Path, default=CACHE, help="data folder")
    return parser.parse_args()


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


def as_markdown(times: dict[Kind, Times]) -> str:
    """Lay the figures out with one line for each kind of write."""
    title = "| the other process's | calm search p50 / p95, ms | search after it p50 / p95, ms | ratio p50 / p95 "
    lines = [title + "| commit to hit p50 / p95, ms |", "|---|--:|--:|--:|--:|"]
    return "\n".join(lines + [line(kind, found) for kind, found in times.items()]) + f"\n\nThe ratio's bar is {BAR}."


def line(kind: Kind, times: Times) -> str:
    """One line of the table."""
    calm, after, commit = (
        np.percentile(values, [50, 95]) * 1000 for values in (times.calm, times.after_write, times.from_commit)
    )
    cells = [kind, *(f"{p50:.2f} / {p95:.2f}" for p50, p95 in (calm, after, after / calm, commit))]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()

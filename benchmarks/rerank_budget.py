"""Print how many searches with reranking end within their time, while other processes keep every core busy.

    python benchmarks/rerank_budget.py [--searches 500] [--seconds 1.0]

The store is the demo's, the questions are its questions in turn, and the budget is the setting `rerank_seconds`. Needs
the extra `rerank`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from itertools import cycle, islice
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import TemporaryDirectory

from fourfold import Memory, Settings
from fourfold.evaluation.bench import percentile
from fourfold.evaluation.collection import read_collection
from fourfold.ranking.fusion import RERANK

GRACE_SECONDS = 60.0
"""For loading the model, before anything is timed."""


def main() -> None:
    """Search, with every core busy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=1.0, help="the budget of each search")
    options = parser.parse_args()
    demo = read_collection(Path(str(files("fourfold"))) / "demo")
    questions = [question.text for question in demo.questions]
    cores = len(os.sched_getaffinity(0))
    settings = Settings(rerank="ms-marco", rerank_seconds=options.seconds)
    with TemporaryDirectory() as folder, Memory.open(folder, settings=settings, background=False) as memory:
        memory.add_many(demo.items)
        memory.embed_pending()
        memory.index()
        load(memory, questions[0])
        with busy(cores):
            times, read, degraded = timed(memory, list(islice(cycle(questions), options.searches)))
    within = sum(spent <= options.seconds for spent in times)
    print(f"{len(times)} searches of {len(demo.items)} items, {cores} cores, each kept busy by a process of its own")
    print(f"budget {options.seconds:g} s: {within} within it ({within / len(times):.1%}); {degraded} without the model")
    p50, p95, p99 = (percentile(times, share) for share in (0.5, 0.95, 0.99))
    print(f"p50 {p50:.2f} s, p95 {p95:.2f} s, p99 {p99:.2f} s, slowest {max(times):.2f} s")
    print(f"results read by the model: median {percentile(read, 0.5)}, least {min(read)}")


def load(memory: Memory, text: str) -> None:
    """Search until the model is loaded."""
    until = time.monotonic() + GRACE_SECONDS
    while memory.search(text).degraded and time.monotonic() < until:
        time.sleep(0.1)


def timed(memory: Memory, questions: list[str]) -> tuple[list[float], list[int], int]:
    """Seconds of each search, results read in it, and the number of searches without the model."""
    times: list[float] = []
    read: list[int] = []
    degraded = 0
    for text in questions:
        started = time.perf_counter()
        response = memory.search(text, top_k=50)
        times.append(time.perf_counter() - started)
        degraded += any(part.retriever == RERANK for part in response.degraded)
        if not any(note.startswith(RERANK) and "language" in note for note in response.notes):
            lines = (line for result in response.results for line in result.contributions)
            read.append(sum(line.source == RERANK for line in lines))
    return times, read, degraded


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """One process for each core that computes until the end."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    workers = [context.Process(target=spin, args=(stop,), daemon=True) for _ in range(cores)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def spin(stop: Event) -> None:
    """Use all of one core."""
    while not stop.is_set():
        sum(range(100_000))


if __name__ == "__main__":
    main()

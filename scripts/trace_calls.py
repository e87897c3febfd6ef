"""Prints how many files, folder switches and Python calls one warm `search`, `add` and `index` takes.

The store is a SQLite store with 200 items; vectors are given, so that no embedder runs. Only calls of functions of the
package count, not comprehensions, and not the resumption of a generator. A folder switch is a call whose file is in
another folder than that of the call before it in the same thread. `--files` lists the calls by file.

    python scripts/trace_calls.py [--files]

Another version of the package is traced with its source folder in PYTHONPATH.
"""

import argparse
import asyncio
import inspect
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import fourfold
from fourfold import Memory, NewItem

PACKAGE = f"{Path(fourfold.__file__).parent}/"
INLINE = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
ITEMS = 200
WARM_UP = 6
TOPICS = ("brakes", "tyres", "lights", "chains", "saddles", "pedals", "racks", "locks", "bells", "pumps")
QUERY = "which note is about brakes and tyres?"


@dataclass
class Trace:
    """Calls by thread, in their order."""

    threads: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    recording: bool = False
    suspended: set[FrameType] = field(default_factory=set[FrameType])
    """Generators and coroutines that were called; resuming one is not another call."""

    def hook(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not self.recording or event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name in INLINE:
            return
        if code.co_flags & SUSPENDING:
            if frame in self.suspended:
                return
            self.suspended.add(frame)
        self.threads.setdefault(threading.get_ident(), []).append(code.co_filename.removeprefix(PACKAGE))

    @property
    def files(self) -> Counter[str]:
        return Counter(file for calls in self.threads.values() for file in calls)

    @property
    def switches(self) -> int:
        folders = [[str(Path(file).parent) for file in calls] for calls in self.threads.values()]
        return sum(one != other for calls in folders for one, other in pairwise(calls))

    @property
    def calls(self) -> int:
        return self.files.total()


def traced(trace: Trace, work: Callable[[], Any]) -> Trace:
    trace.threads, trace.suspended = {}, set()
    trace.recording = True
    try:
        work()
    finally:
        trace.recording = False
    return Trace(trace.threads)


def items() -> list[NewItem]:
    """Notes with titles and tags, some of which name the one before; each has a vector."""
    return [
        NewItem(
            f"Note {number} is about {topic(number)} and {topic(number // 10)}"
            + f", see Note {number - 1}" * (number % 5 == 0),
            title=f"Note {number}",
            tags=(topic(number),),
            vector=vector(number),
        )
        for number in range(1, ITEMS + 1)
    ]


def topic(number: int) -> str:
    return TOPICS[number % len(TOPICS)]


def vector(number: int) -> list[float]:
    return [1.0, float(number % 7), float(number % 11), float(number % 13)]


def measured() -> dict[str, Trace]:
    """By operation."""
    trace = Trace()
    threading.setprofile(trace.hook)
    sys.setprofile(trace.hook)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measured(trace, Path(folder))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _measured(trace: Trace, folder: Path) -> dict[str, Trace]:
    notes = folder / "notes"
    notes.mkdir()
    loop = asyncio.new_event_loop()

    def done(result: Any) -> Any:
        """What a call returns; versions before the synchronous core return coroutines."""
        return loop.run_until_complete(result) if inspect.isawaitable(result) else result

    memory: Any = done(Memory.open(folder / "store", embedder="none", background=False))
    try:
        done(memory.add_many(items()))
        done(memory.index())
        found: dict[str, Trace] = {}
        for number in range(3):  # the last round is warm
            (notes / f"note-{number}.md").write_text(f"# Note {number}\n\nThe brakes of bike {number} are new.\n")
            for _ in range(WARM_UP):  # reads what the round before has written; then links and tags into memory
                done(memory.search(QUERY, vector=vector(3)))
                time.sleep(0.05)
            found["search"] = traced(trace, lambda: done(memory.search(QUERY, vector=vector(3))))
            new = NewItem(
                f"Bike {number} has new tyres", title=f"Bike {number}", tags=("tyres",), vector=vector(number)
            )
            found["add"] = traced(trace, lambda new=new: done(memory.add(new)))
            found["index"] = traced(trace, lambda: done(memory.index_folders([notes])))
        return found
    finally:
        done(memory.close())
        loop.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Files, folder switches and calls of one warm search, add and index.")
    parser.add_argument("--files", action="store_true", help="list the calls by file")
    wanted = parser.parse_args()
    print(f"{'':8}{'files':>8}{'switches':>10}{'calls':>8}")
    for name, trace in measured().items():
        print(f"{name:8}{len(trace.files):>8}{trace.switches:>10}{trace.calls:>8}")
        for file, calls in trace.files.most_common() if wanted.files else ():
            print(f"{calls:>12}  {file}")

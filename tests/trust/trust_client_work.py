"""Client processes of one store, and the work that tests give them."""

import os
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

import trust_child
from engine_support import WordEmbedder, ids

from fourfold import ItemPatch, Memory, NewItem, SearchResponse, Settings
from fourfold.storage.sqlite.database import Tuning
from fourfold.storage.sqlite.store import SqliteStore
from fourfold.storage.values import Pace

PATIENT = Settings(retriever_seconds=60)
"""A long deadline: many processes share the machine, and these tests are not about timeouts."""

_REQUESTS = 8
"""Requests that a client works on at a time."""

Work = Callable[..., Any]


def words() -> WordEmbedder:
    """An embedder with enough dimensions to give texts with two unique words a vector of their own."""
    return WordEmbedder(dimension=512)


class Client:
    """A process that has the store open and works on requests, several at a time."""

    def __init__(self, folder: Path, embedder: Any = None, publish_at: int | None = None) -> None:
        self._pipe, theirs = trust_child.context().Pipe()
        self.process = trust_child.start(_serve, theirs, folder, embedder, publish_at)
        theirs.close()
        self._asked = 0
        self._answers: dict[int, Any] = {}
        self.answer(0)

    def begin(self, work: Work, *args: Any) -> int:
        """Starts `work(memory, *args)` in the process; returns the number under which `answer` has the result."""
        self._asked += 1
        self._pipe.send((self._asked, work, args))
        return self._asked

    def answer(self, number: int) -> Any:
        while number not in self._answers:
            try:
                key, value = self._pipe.recv()
            except EOFError:
                self.process.join()
                raise AssertionError(f"the client ended with {self.process.exitcode}") from None
            self._answers[key] = value
        return self._answers.pop(number)

    def ask(self, work: Work, *args: Any) -> Any:
        return self.answer(self.begin(work, *args))

    def stop(self) -> None:
        self._pipe.send(None)
        self.process.join()
        assert self.process.exitcode == 0, f"the client ended with {self.process.exitcode}"

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self._pipe.close()


def _serve(pipe: Connection, folder: Path, embedder: Any, publish_at: int | None) -> None:
    """Runs each request in a thread of its own."""
    tuning = Tuning(pace=Pace(watch_seconds=0.2))
    if publish_at is not None:
        tuning = Tuning(publish_every_changes=publish_at, pace=Pace(watch_seconds=0.2, quiet_seconds=0.01))
    sending = Lock()
    with Memory.open(SqliteStore(folder, tuning=tuning), embedder=embedder or words(), settings=PATIENT) as memory:
        pipe.send((0, "open"))
        with ThreadPoolExecutor(_REQUESTS) as threads, suppress(EOFError):
            while request := pipe.recv():
                threads.submit(_answered, pipe, sending, memory, *request)


def _answered(pipe: Connection, sending: Lock, memory: Memory, number: int, work: Work, args: Sequence[Any]) -> None:
    """Sends the result of one request; an error ends the whole process, so that the test notices it."""
    try:
        done = work(memory, *args)
    except BaseException:  # noqa: BLE001 (printed, and visible in the exit code)
        traceback.print_exc()
        os._exit(1)
    with sending:
        pipe.send((number, done))


# ---------------------------------------------------------------- writing and searching


@dataclass
class Written:
    """The contents that one writer left, and the duration of each write."""

    items: dict[int, str] = field(default_factory=dict)
    """Texts by id."""
    gone: dict[int, str] = field(default_factory=dict)
    """Replaced or removed texts by id; no search may find them."""
    edges: set[tuple[str, str]] = field(default_factory=set)
    seconds: list[float] = field(default_factory=list)


_LETTERS = str.maketrans({digit: 2 * letter for digit, letter in zip("0123456789", "bcdfghjkmn", strict=True)})
"""Two letters for each digit, because a word that differs by one edit from another counts as its misspelling."""


def note(who: Any, number: int, version: int = 0) -> str:
    """A text that begins and ends with a unique word. The word has no digits, since those would split it into parts."""
    own = f"{who}x{number:05}x{version}".translate(_LETTERS)
    return f"w{own} is paper {number} of clerk {who}, filed with the seal z{own}"


def first_word(text: str) -> str:
    return text.partition(" ")[0]


def write(memory: Memory, who: Any, count: int, seed: int) -> Written:
    """Makes `count` writes, each a transaction: new items and edges, and changes of this writer's items."""
    random, written = Random(f"{seed} {who}"), Written()
    for number in range(count):
        begin = time.perf_counter()
        _write_one(memory, random, written, who, number)
        written.seconds.append(time.perf_counter() - begin)
    return written


def _write_one(memory: Memory, random: Random, written: Written, who: Any, number: int) -> None:
    chance = random.random() if written.items else 1.0
    if chance < 0.15:
        item = random.choice(list(written.items))
        text = note(who, number, 1)
        memory.update(item, ItemPatch(text=text))
        written.gone[item], written.items[item] = written.items[item], text
    elif chance < 0.2:
        item = random.choice(list(written.items))
        memory.forget([item])
        written.gone[item] = written.items.pop(item)
    elif chance < 0.3:
        edge = (f"Clerk {who}", f"Drawer {number}")
        memory.add_edge(edge[0], "filed in", edge[1])
        written.edges.add(edge)
    else:
        text = note(who, number)
        written.items[memory.add(text).id] = text


def write_and_search(memory: Memory, who: Any, count: int) -> Written:
    """Adds items in one of many threads; the search after each write finds it."""
    written = Written()
    for number in range(count):
        text = note(who, number)
        begin = time.perf_counter()
        item = memory.add(text)
        written.seconds.append(time.perf_counter() - begin)
        written.items[item.id] = text
        assert find(memory, text, "keyword") == [item.id]
    return written


def find(memory: Memory, text: str, only: str) -> list[int]:
    """The best hit for the first word of the text (keyword) or for the whole text."""
    response = memory.search(first_word(text) if only == "keyword" else text, only=[only], top_k=1)
    return ids(_not_degraded(response))


def _not_degraded(response: SearchResponse) -> SearchResponse:
    """Asserts that no retriever failed; pending items of other processes are not a failure."""
    assert all(each.pending for each in response.degraded), response.degraded
    return response


def misses(memory: Memory, items: dict[int, str], gone: dict[int, str], ways: Sequence[str]) -> list[str]:
    """Items of another process that searches miss, and removed texts that they still find."""
    missing = [f"{item}: {only}" for item, text in items.items() for only in ways if _lacks(memory, item, text, only)]
    return missing + [f"{item}: not gone" for item, text in gone.items() if find(memory, text, "keyword")]


def _lacks(memory: Memory, item: int, text: str, only: str) -> bool:
    return find(memory, text, only) != [item]


def store_one(memory: Memory, text: str) -> int:
    return memory.add(text, wait=True).id


# ---------------------------------------------------------------- the queue of vectors


class HeldEmbedder(WordEmbedder):
    """Embeds forty texts and then blocks until the gate file exists, so that it can be killed while working."""

    def __init__(self, gate: Path) -> None:
        super().__init__(dimension=512)
        self._gate = gate

    def embed(self, texts: Sequence[str]) -> Any:
        while len(self.texts) >= 40 and not self._gate.exists():
            time.sleep(0.01)
        return super().embed(texts)


def embedded(memory: Memory) -> list[str]:
    """All texts that this process has embedded."""
    return list(memory._embedding.embedder.texts)


def store_many(memory: Memory, texts: Sequence[str]) -> list[int]:
    return [memory.add(text).id for text in texts]


def hand_in(folder: Path, texts: Sequence[str]) -> list[int]:
    """Stores items like a short command: in one call, without embedding them, and ends."""
    with Memory.open(folder, embedder=words(), background=False) as memory:
        return [item.id for item in memory.add_many([NewItem(text) for text in texts])]

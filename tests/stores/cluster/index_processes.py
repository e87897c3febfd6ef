"""Processes that use one store at the same time: a feeder that may be killed, a searcher, and clients of a soak.

They are forked from a server that has imported everything, so that starting one takes some milliseconds.
"""

import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from multiprocessing.connection import Connection
from random import Random
from typing import Any

import numpy as np
from store_calls import StoreCalls

from fourfold.embed.windows import Windows
from fourfold.errors import WorldError
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, NewItem, Space
from fourfold.storage.engines import open_engine
from fourfold.storage.postgres.database import Tuning
from fourfold.storage.postgres.store import PostgresStore
from fourfold.storage.values import GIVEN_SPACE
from fourfold.validation import checked

NS = "notes"
TUNING = Tuning(narrow_items=0, feed_changes=1, vector_index_items=1, check_grace_seconds=1.0)
DIMENSION = 8
SPACE = Space(GIVEN_SPACE, DIMENSION)
WINDOWS = (1, 1, 2, 4, 16)
"""An item has one of these numbers of vectors."""

processes: Any = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["index_processes", "pymilvus", "weaviate", "fourfold.storage.engines.weaviate"])


def opened(dsn: str, address: str, tuning: Tuning = TUNING) -> PostgresStore:
    return PostgresStore(dsn, tuning, open_engine(address))


def unit(random: Random) -> Any:
    numbers = np.array([random.gauss(0, 1) for _ in range(DIMENSION)])
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def word_of(*numbers: int) -> str:
    """A word for a number that the analyser neither splits nor stems, at least two edits from any other."""
    return "q".join("".join(2 * "bcdfghjklm"[int(digit)] for digit in f"{number:05}") for number in numbers)


def long_text(*numbers: int) -> str:
    """A text whose only rare word is that of the numbers."""
    return f"heron {word_of(*numbers)} {'reed ' * 30}".strip()


def windows(text: str, vectors: Any) -> Windows:
    """One window for each vector, without a gap."""
    ends = [len(text) * number // len(vectors) for number in range(len(vectors) + 1)]
    return Windows(np.stack(vectors), tuple(pairwise(ends)))


def write(calls: StoreCalls, key: str, text: str, vectors: Sequence[Any]) -> int:
    """Stores an item, then its vectors, as the embedding queue does."""
    (new,) = calls.put(NS, [checked(NewItem(text, key=key))], datetime.now(UTC), links=False)
    made = vectors[0] if len(vectors) == 1 else windows(text, vectors)
    assert calls.put_vectors(NS, SPACE, [(new.id, "", text, made)]) == 1
    return new.id


def some_vectors(random: Random) -> list[Any]:
    return [unit(random) for _ in range(random.choice(WINDOWS))]


def feed(dsn: str, address: str, batch: int, pause_seconds: float, ready: Connection) -> None:
    """Feeds the index until killed."""
    store = opened(dsn, address, replace(TUNING, feed_batch_items=batch))
    ready.send("feeding")
    while True:
        store.maintenance.publish(NS, everything=True)
        time.sleep(pause_seconds)


def search(dsn: str, address: str, asked: Connection) -> None:
    """Answers (word, vector) with the ids that keyword search finds, the nearest items and cosines, and the note."""
    store = opened(dsn, address, replace(TUNING, vector_index_items=1_000_000))  # PostgreSQL can answer, too
    while (question := asked.recv()) is not None:
        word, vector = question
        with store.snapshot(NS) as at:
            words = [hit.id for hit in at.words.match(word, 10, NO_FILTERS).hits]
            near = list(at.vectors.begin_nearest(np.asarray(vector, np.float32), 3, NO_FILTERS)().hits)
            asked.send((words, near, at.candidates.note))
    store.close()


def client(number: int, dsn: str, address: str, seconds: float, told: Connection) -> None:
    """Reads and writes; reports confirmed writes, wrong answers, failures by type, and the times of searches.

    The first search, which loads modules, is not counted.
    """
    random, until = Random(number), time.monotonic() + seconds
    store = opened(dsn, address, replace(TUNING, feed_changes=50, feed_seconds=1.0, vector_index_items=1_000_000))
    memory = Memory(store, None, NS, background=True)
    memory._maintenance.start()
    memory.search("heron")
    mine: dict[str, str] = {}
    doubtful: set[str] = set()
    wrong: list[str] = []
    failures: dict[str, int] = {}
    spent: list[tuple[float, float]] = []
    noted, turn = 0, 0
    while time.monotonic() < until and len(wrong) < 20:
        turn += 1
        key, word = f"c{number}k{random.randrange(200)}", word_of(number, turn)
        try:
            doubtful.add(key)
            if key in mine and random.random() < 0.3:
                memory.forget([f"key:{key}"])
                gone = mine.pop(key)
                doubtful.discard(key)
                word, wanted = gone, None
            else:
                vectors = some_vectors(random)
                new = write(StoreCalls(store), key, f"heron {word}", vectors)
                mine[key] = word
                doubtful.discard(key)
                wanted = key
                with store.snapshot(NS) as at:
                    near = at.vectors.begin_nearest(random.choice(vectors), 3, NO_FILTERS)().hits
                if near[0].id != new:
                    wrong.append(f"{key}: nearest is {near[0].id} instead of {new}")
            started = time.monotonic()
            response = memory.search(word, top_k=5)
            spent.append((started, time.monotonic() - started))
            keys = [result.key for result in response.results if word in result.item.text]
            noted += any("the index" in note for note in response.notes)
            if keys != ([] if wanted is None else [wanted]) and not any(
                each.retriever == "keyword" for each in response.degraded
            ):
                wrong.append(f"{word}: {keys} instead of {wanted}")
        except WorldError as error:
            if key in doubtful:
                mine.pop(key, None)
            failures[type(error).__name__] = failures.get(type(error).__name__, 0) + 1
        except Exception as error:  # noqa: BLE001  an untyped failure is what the test looks for
            wrong.append(f"{type(error).__name__}: {error}")
    memory.close()
    told.send(
        {"mine": mine, "doubtful": doubtful, "wrong": wrong, "failures": failures, "spent": spent, "noted": noted}
    )

"""Searches of the embedded store, with indexes, codes and columns, equal those of the oracle.

The ranking of the embedded store comes from the kernel: cosines after codes, BM25 by postings,
expansion and fusion. The oracle computes everything in Python, from the exported records.
"""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from oracle import Oracle, fused

from fourfold import Filters, Memory, NewItem, Result, SearchResponse
from fourfold.ranking import fusion
from fourfold.storage.sqlite.database import DEFAULT
from fourfold.storage.sqlite.store import SqliteStore

TUNING = replace(
    DEFAULT, columns_after_searches=1, columns_pause=0.0, coded_after_scans=1, coded_factor=1, scan_rows=120
)
STARTS, ENDINGS = ("brak", "tyr", "chain", "pedal", "saddl", "lamp"), ("e", "es", "ing", "or")
WORDS = [start + end for start in STARTS for end in ENDINGS]
NAMES = ["Ada", "Zurich", "Blue Folder", "Node.js", "Kate Bush", "Müller"]
TAGS = ["bike", "office", "home", "travel", "food", "night-ride", "Büro"]
DIMENSION = 16


class Notes:
    """Random notes, changes of them, and questions."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._numbers = np.random.default_rng(seed)

    def vector(self) -> Any:
        return self._numbers.normal(size=DIMENSION).astype(np.float32)

    def item(self, number: int) -> NewItem:
        choose = self._random.choices
        words = choose(WORDS, k=self._random.randint(3, 30)) + choose(NAMES, k=self._random.choice((0, 0, 1, 2)))
        return NewItem(
            " ".join(words),
            key=f"note-{number}",
            title=self._random.choice(["", *NAMES, f"Note {number}"]),
            tags=tuple(dict.fromkeys(choose(TAGS, k=self._random.randint(0, 3)))),
            kind=self._random.choice([None, "note", "code"]),
            language="en",
            vector=self.vector() if self._random.random() < 0.9 else None,
        )

    def question(self) -> tuple[str, dict[str, Any]]:
        chosen = self._random.choices([*WORDS, *NAMES, *TAGS, "without", "braks", "2024"], k=self._random.randint(1, 7))
        options: dict[str, Any] = {"vector": self.vector(), "top_k": self._random.choice([3, 10, 40])}
        filters = [None, None, Filters(tags=("bike",)), Filters(kind="note"), Filters(where="kind != code")]
        options["filters"] = self._random.choice(filters)
        drawn = {name: self._random.random() for name in ("semantic", "keyword", "graph", "tags")}
        weights = {name: share / sum(drawn.values()) for name, share in drawn.items()}
        how: list[dict[str, Any]] = [{}, {}, {}, {"weights": weights}, {"weights": {"keyword": 1.0}}, {"fusion": "rrf"}]
        how += [{"preset": "wiki"}, {"only": ["keyword", "tags"]}, {"only": ["semantic"]}, {"fusion": "weighted"}]
        return " ".join(chosen), options | self._random.choice(how)


def lines_of(result: Result) -> list[tuple[Any, ...]]:
    lines = sorted(result.contributions, key=lambda line: line.source)
    return [(line.source, line.rank, round(line.raw or 0.0, 6), round(line.value, 9)) for line in lines]


def told(response: SearchResponse) -> tuple[Any, ...]:
    """The parts of an answer that must agree, with rounded numbers."""
    results = [
        (each.key, round(each.score, 9), round(each.confidence, 6), each.graph_distance, lines_of(each))
        for each in response.results
    ]
    weights = {name: round(weight, 9) for name, weight in response.applied_weights.items()}
    return results, weights, dict(response.counts), response.overlap, set(response.notes)


@pytest.mark.spec("S1.3")
@pytest.mark.parametrize(
    ("items", "questions"), [(150, 150), pytest.param(600, 2000, marks=pytest.mark.soak)], ids=["short", "long"]
)
def test_searches_answer_like_the_oracle(tmp_path: Path, items: int, questions: int) -> None:
    notes, stored = Notes(items), items
    subject = SqliteStore(tmp_path / "store", tuning=TUNING)
    oracle = Oracle(subject)
    memory, reference = (Memory.open(store, embedder="none", background=False) for store in (subject, oracle))
    edges = [
        ("Ada", "works at", "Zurich", 1.0),
        ("Node.js", "runs in", "Zurich", 0.5),
        ("Kate Bush", "knows", "Ada", 0.9),
    ]
    memory.add_many([notes.item(number) for number in range(items)])
    memory.add_edges(edges)
    memory.index()
    for number in range(questions):
        if number % 50 == 49:  # the tail, and rows that died
            memory.add_many([notes.item(number), notes.item(stored := stored + 1)])
            oracle.reread()
        text, options = notes.question()
        answer = told(memory.search(text, **options))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fusion, "fuse_scaled", fused)
            expected = told(reference.search(text, **options))
        assert answer == expected, (number, text, options)
        if subject.caches.links._building is not None:
            subject.caches.links._building.done.wait()
    memory.close()

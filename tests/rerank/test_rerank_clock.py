"""The time of a search with a reranker. Clocks are scripted, so no test depends on the speed of the machine."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from engine_support import WordEmbedder

import fourfold.rerank
from fourfold import Memory, NewItem, Settings
from fourfold.engine.reranking import MOST_RESERVED, REMEMBERED, STEP, Delays, RerankClock
from fourfold.ranking.fusion import RERANK
from fourfold.rerank import Budget, built_in_model

QUERY = "Where is the password of the router?"
NOTES = [f"The password of the router number {number} is in folder {number}." for number in range(9)]


@dataclass(slots=True)
class Machine:
    """A clock and a model that never ends. Each wait of the caller ends late by the next of `delays`, in seconds."""

    delays: list[float] = field(default_factory=list[float])
    now: float = 100.0

    def wait(self, seconds: float) -> bool:
        self.now += seconds + (self.delays.pop(0) if self.delays else 0.0)
        return False

    def search(self, known: Delays, retrieving: float = 0.01, presenting: float = 0.0) -> tuple[float, tuple[str, ...]]:
        """How long the model could read in a search of 1 s, and the notes of the search."""
        clock = RerankClock(self.now, 1.0, known, lambda: self.now)
        self.now += retrieving
        begun = self.now
        budget = Budget(clock.model_begins())
        assert not clock.wait(self, budget)
        read = budget.until - begun
        self.now += presenting
        return read, clock.end()


@pytest.mark.parametrize(("retrieving", "kept"), [(0.0, STEP), (0.01, STEP + 0.01), (0.2, STEP + 0.2), (0.48, 0.5)])
def test_a_search_keeps_the_time_of_its_retrievers_for_its_results(retrieving: float, kept: float) -> None:
    read, notes = Machine().search(Delays(), retrieving)
    assert read == pytest.approx(1.0 - retrieving - kept)
    assert notes == ()


def test_a_late_wake_ends_the_model_earlier_in_the_same_search() -> None:
    quick, slow = (Machine(delays).search(Delays())[0] for delays in ([], [0.0, 0.2]))
    assert slow == pytest.approx(quick - 0.19)  # instead of the 0.01 s of the retrievers


def test_delays_of_the_last_searches_are_kept_and_then_forgotten() -> None:
    known, machine = Delays(), Machine()
    usual, _ = machine.search(known)
    for _ in range(10):
        machine.search(known, presenting=0.3)
    assert known.usual == pytest.approx(0.3)
    for _ in range(REMEMBERED):
        machine.search(known)
    assert machine.search(known)[0] == pytest.approx(usual)


def test_few_long_delays_among_many_searches_are_not_provided_for() -> None:
    known = Delays()
    for delay in [*[0.01] * 95, *[0.3] * 5]:
        known.add(delay)
    assert known.usual == 0.01
    known.add(0.3)  # the sixth, in place of a short one
    assert known.usual == 0.3


def test_a_delay_that_came_before_makes_the_next_search_end_in_time() -> None:
    known = Delays()
    late, again = (Machine().search(known, presenting=0.2)[1] for _ in range(2))
    assert late == ("rerank: the search took 1.14 s of 1 s",)
    assert again == ()


def test_the_model_keeps_half_of_the_time_whatever_happened_before() -> None:
    known = Delays()
    known.add(60.0)
    assert Machine().search(known, retrieving=0.0)[0] == pytest.approx(1.0 - MOST_RESERVED)


def test_retrievers_that_need_all_of_the_time_leave_none() -> None:
    read, notes = Machine().search(Delays(), retrieving=2.5)
    assert read < 0
    assert notes == ("rerank: the search took 2.50 s of 1 s",)


class Stalling:
    """The built-in model on a machine that stops it after some texts, until `resume` is set."""

    def __init__(self, texts: int) -> None:
        self.languages = frozenset({"en"})
        self.resume = threading.Event()
        self.model = built_in_model()
        self._texts = texts

    def load(self) -> None:
        self.model.load()

    def scores(self, query: str, texts: Sequence[str], budget: Budget) -> Iterator[float]:
        for index, score in enumerate(self.model.scores(query, texts, budget)):
            if index == self._texts:
                self.resume.wait()
            yield score

    def close(self) -> None:
        self.model.close()


@pytest.mark.parametrize("texts", [1, 4])
def test_a_model_that_stalls_is_left_behind_with_what_it_has_read(monkeypatch: pytest.MonkeyPatch, texts: int) -> None:
    """A slow machine may end the model earlier still, so that fewer texts have scores; what is said of them holds."""
    model = Stalling(texts)
    model.load()
    monkeypatch.setattr(fourfold.rerank, "create", lambda *_: model)
    settings = Settings(rerank_seconds=0.5)
    with Memory.open(":memory:", embedder=WordEmbedder(), settings=settings, background=False) as memory:
        memory.add_many([NewItem(text) for text in NOTES])
        memory.embed_pending()
        plain, found = memory.search(QUERY), memory.search(QUERY, rerank="ms-marco")
        model.resume.set()  # only now, so the search above did not wait for it
    lines = {
        result.item.text: line.raw for result in found.results for line in result.contributions if line.source == RERANK
    }
    first = [result.item.text for result in plain.results][: len(lines)]
    assert {result.id for result in found.results} == {result.id for result in plain.results}
    assert len(lines) <= texts
    assert [part.retriever for part in found.degraded] == ([] if lines else [RERANK])
    assert (f"rerank: read {len(lines)} of {len(NOTES)} in its time" in found.notes) == bool(lines)
    real = built_in_model().scores(QUERY, first, Budget(math.inf))
    assert [lines[text] for text in first] == pytest.approx(list(real))

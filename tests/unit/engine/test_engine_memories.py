"""The preset 'memories': tags, alpha, recency, ties."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from engine_support import Opener, ids, notes

from fourfold import Memory, NewItem, Settings
from fourfold.ranking.plan import PlanSettings
from fourfold.retrieval import Recency


@pytest.mark.spec("S5.4")
def test_alpha_follows_the_size_of_the_store_and_the_number_of_matching_tags(memory: Memory) -> None:
    def semantic_weight(query: str) -> float:
        return memory.search(query, preset="memories").applied_weights["semantic"]

    memory.add_many([NewItem("tagged", tags=("red", "green", "blue")), *notes(498)])
    assert [semantic_weight(query) for query in ("heron", "red green", "red green blue")] == [0.5, 0.5, 0.25]
    memory.add("the five hundredth")
    assert semantic_weight("heron") == 0.7


# ---------------------------------------------------------------- recency and ties, with the built-in model


QUESTION = "wifi password of the Berlin office"
ANSWER = "The guest network in Berlin: the wifi password is kranich-4711, also in the office kitchen."
CHATTER = (
    *("lunch was curry", "the train was late again", "Mia adopted a kitten", "rain all day", "new chairs arrived"),
    *("Tom is back from holiday", "the coffee is strong today", "we sang for Ada's birthday", "the lift is slow"),
    *("office plants were watered", "a parcel came for Lea", "the window was left open", "Berlin was sunny"),
    *("dinner was pasta", "the cat video was funny", "Noah forgot his umbrella", "somebody ate the cake"),
    *("the bus was full", "Lena runs a marathon", "the radio is broken", "we played cards", "the tea is gone"),
)
THINGS = ("apple", "bench", "cactus", "daisy", "elm", "fern", "goose", "hedge", "ivy", "juniper", "kite", "lily")
PYTHON = "A function with yield gives its values one by one and pauses in between, instead of building a whole list."
WAYS: list[dict[str, Any]] = [{}, {"fusion": "rrf"}, {"fusion": "weighted"}, {"alpha": 0.5}]


def ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def told(opened: Opener, notes: list[NewItem], settings: Settings | None = None) -> Memory:
    memory = opened(embedder="builtin", settings=settings or Settings())
    memory.add_many(notes, wait=True)
    return memory


def with_chatter(*answers: NewItem) -> list[NewItem]:
    chatter = [NewItem(text, created_at=ago(place / 24)) for place, text in enumerate(CHATTER)]
    return [*answers, *chatter]


@pytest.mark.spec("C1")
@pytest.mark.parametrize("way", WAYS)
def test_an_old_answer_comes_before_new_chatter(way: dict[str, Any], opened: Opener) -> None:
    memory = told(opened, with_chatter(NewItem(ANSWER, key="answer", created_at=ago(30))))
    response = memory.search(QUESTION, preset="memories", **way)
    assert response.results[0].key == "answer"
    assert response.results[0].recency < 1
    for result in response.results:
        assert result.score == sum(line.value for line in result.contributions) * result.recency


@pytest.mark.spec("C1")
def test_the_newer_of_two_good_answers_comes_first(opened: Opener) -> None:
    old = NewItem("The wifi password of the Berlin office is kranich-4711.", key="old", created_at=ago(90))
    new = NewItem("The Berlin office has another wifi password now: reiher-0815.", key="new", created_at=ago(1))
    memory = told(opened, with_chatter(old, new))
    fresh = memory.search(QUESTION, preset="memories")
    assert [result.key for result in fresh.results[:2]] == ["new", "old"]
    ageless = memory.search(QUESTION, preset="auto")
    assert [result.key for result in ageless.results[:2]] == ["old", "new"]


@pytest.mark.spec("C1")
def test_recency_can_multiply_the_whole_score(opened: Opener) -> None:
    """With strength 1 and floor 0, age decides the order."""
    plan = PlanSettings(memories_recency=Recency(0.01, 0.0), memories_recency_strength=1.0)
    memory = told(opened, with_chatter(NewItem(ANSWER, key="answer", created_at=ago(300))), Settings(plan=plan))
    response = memory.search(QUESTION, preset="memories", fusion="rrf")
    assert response.plan.weights == {"semantic": 0.5, "tags": 0.5}
    assert response.results[0].key != "answer"
    factors = {result.key: result.recency for result in response.results}
    assert factors.get("answer", 0.05) == pytest.approx(0.05, abs=0.001)


@pytest.mark.spec("C1")
@pytest.mark.parametrize("way", WAYS)
def test_a_common_tag_does_not_bury_the_answer(way: dict[str, Any], opened: Opener) -> None:
    others = [NewItem(f"Note {n}: {text}", tags=("python",)) for n, text in enumerate(CHATTER * 3)][:61]
    memory = told(opened, [*others, NewItem(PYTHON, key="answer", tags=("python",))])
    for top_k in (1, 10):
        response = memory.search("python generator yield", preset="memories", top_k=top_k, **way)
        assert response.results[0].key == "answer"


@pytest.mark.spec("C1")
def test_a_common_word_does_not_bury_the_answer(opened: Opener) -> None:
    """Equal BM25 scores share a rank, so the other list decides."""
    others = [NewItem(f"python {thing} garden") for thing in THINGS]
    answer = NewItem("python coding tutorial", key="answer")
    memory = told(opened, [*others, answer])
    response = memory.search("python programming lesson", preset="insights-basic")
    assert response.results[0].key == "answer"
    lines = [line for result in response.results for line in result.contributions if line.source == "keyword"]
    assert {line.rank for line in lines} == {1}


@pytest.mark.spec("C1")
@pytest.mark.parametrize("way", WAYS)
def test_results_for_k_are_a_prefix_of_those_for_more(way: dict[str, Any], opened: Opener) -> None:
    memory = told(opened, with_chatter(NewItem(ANSWER, created_at=ago(30), tags=("wifi",))))
    whole = ids(memory.search(QUESTION, preset="memories", top_k=20, **way))
    for top_k in (1, 3, 10):
        assert ids(memory.search(QUESTION, preset="memories", top_k=top_k, **way)) == whole[:top_k]


@pytest.mark.spec("C1")
def test_why_names_the_shared_rank_and_the_recency(opened: Opener) -> None:
    tagged = [NewItem(f"note {text}", tags=("wifi",), created_at=ago(30)) for text in CHATTER[:4]]
    memory = told(opened, tagged)
    last = memory.search("wifi", only=["tags"]).results[-1]
    why = memory.why(last.id, "wifi", preset="memories")
    assert "tags: rank 1 of 4, score 0.4191" in why.reasons
    assert why.result is not None
    assert why.result.explanation is not None
    assert [detail.description for detail in why.result.explanation.details] == ["the sum of", "recency factor"]

"""Explanations: every score is the sum of its lines, and `why` explains an item's rank or absence."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from engine_support import Clock, Opener, notes

from fourfold.engine.retrievers import GraphRetriever, TagRetriever
from fourfold.errors import NotFound
from fourfold.memory import Memory
from fourfold.model import Filters, NewItem
from fourfold.ranking.connections import INSTEAD_OF_NAMES
from fourfold.retrieval import SearchResponse

QUERY = "who repairs the Tower Clock in the office"


@pytest.fixture
def town(memory: Memory) -> Memory:
    """A store in which every retriever finds something for QUERY."""
    old = datetime.now(UTC) - timedelta(days=40)
    memory.add_many(
        [
            NewItem("It strikes every hour; the movement is of brass", title="Tower Clock", tags=("clock",)),
            NewItem("Anna Weber repairs watches and the Tower Clock", tags=("office", "people"), created_at=old),
            NewItem("She lives above the bakery", title="Anna Weber", tags=("people",), created_at=old),
            NewItem("The office opens at nine", tags=("office", "evergreen")),
            NewItem("Nothing here has to do with it"),
            *notes(20),
        ],
        wait=True,
    )
    memory.add_edge("Anna Weber", "employs", "Karl")
    memory.add_node("Karl", item=memory.add("Plays the organ on Sundays", wait=True).id)
    return memory


def assert_scores_are_sums(response: SearchResponse) -> None:
    assert response.results
    for result in response.results:
        total = math.fsum(line.value for line in result.contributions)
        assert total * result.recency == pytest.approx(result.score, abs=1e-9)
        assert result.explanation is not None
        assert result.explanation.value == result.score
        for line in result.contributions:
            assert line.value == pytest.approx(line.weight * line.scaled, abs=1e-9)


@pytest.mark.spec("B2")
@pytest.mark.parametrize("fusion", ["auto", "rrf", "weighted"])
@pytest.mark.parametrize("preset", ["auto", "insights-basic", "insights", "wiki", "files", "memories"])
def test_a_score_is_the_sum_of_its_contributions_times_recency(town: Memory, preset: str, fusion: str) -> None:
    response = town.search(QUERY, preset=preset, fusion=fusion, top_k=100, explain=True)
    assert_scores_are_sums(response)
    sources = {line.source for result in response.results for line in result.contributions}
    assert sources >= set(response.plan.retrievers) - {"walk"}


@pytest.mark.spec("B2")
@pytest.mark.parametrize(
    "weights",
    [{"semantic": 0.1, "keyword": 0.2, "graph": 0.3, "tags": 0.4}, {"tags": 1.0}, {"graph": 0.5, "tags": 0.5}],
)
def test_a_score_is_the_sum_of_its_contributions_with_given_weights(town: Memory, weights: dict[str, float]) -> None:
    for preset in ("auto", "files", "memories"):
        response = town.search(QUERY, preset=preset, weights=weights, top_k=100, explain=True)
        assert_scores_are_sums(response)
        assert {name for name, weight in response.applied_weights.items() if weight} == set(weights)


@pytest.mark.spec("B2")
def test_a_line_says_rank_raw_score_weight_and_contribution(town: Memory) -> None:
    response = town.search(QUERY, fusion="rrf")
    by_source = {line.source: line for line in response.results[0].contributions}
    for line in by_source.values():
        assert line.rank is not None
        assert line.raw is not None
        assert line.weight == 0.25
        assert line.value == pytest.approx(0.25 / (60 + line.rank))
    assert {"semantic", "keyword"} <= set(by_source)


@pytest.mark.spec("B2", "S4.2")
def test_the_walk_from_the_best_hits_has_a_line_of_its_own(town: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """`employs` leads from Anna Weber, whom the query does not name, to Karl."""
    monkeypatch.setattr(GraphRetriever, "expand", Clock(monkeypatch).slowed(GraphRetriever.expand, 0.25))
    response = town.search("watches bakery", top_k=100)
    karl = next(result for result in response.results if result.item.text.startswith("Plays the organ"))
    walk = next(line for line in karl.contributions if line.source == "walk")
    assert walk.value > 0
    assert walk.weight == response.applied_weights["graph"]
    assert not any(line.source == "graph" for line in karl.contributions)
    assert response.timings_ms["walk"] == 250
    fixed = town.search("watches bakery", top_k=100, fusion="rrf")
    assert not any(line.source == "walk" for result in fixed.results for line in result.contributions)


@pytest.mark.spec("S4.2")
def test_a_question_that_names_nothing_follows_what_its_best_hit_mentions(memory: Memory) -> None:
    memory.add_many(
        [
            NewItem("A ship in a bottle, painted by Ines Varga in one night", title="Bottle"),
            NewItem("Born in Szeged, later a teacher", title="Ines Varga"),
            NewItem("A ship without sails", title="Hulk"),
        ],
        wait=True,
    )

    def walked(text: str) -> float:
        response = memory.search(text, top_k=10)
        lines = [
            line for result in response.results if result.item.title == "Ines Varga" for line in result.contributions
        ]
        return next((line.raw or 0.0 for line in lines if line.source == "walk"), 0.0)

    topic, question, named = map(
        walked, ("ship painted at night", "ship painted at night?", "Bottle ship of the night?")
    )
    assert 0 < topic < named
    assert question == pytest.approx(INSTEAD_OF_NAMES * topic)


@pytest.mark.spec("B2", "S5.2")
def test_an_item_that_shares_a_tag_with_the_best_hit_has_a_line_for_it(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query names no tag, but the item about the harbour shares a tag with the one about the ferry."""
    monkeypatch.setattr(TagRetriever, "expand", Clock(monkeypatch).slowed(TagRetriever.expand, 0.5))
    memory.add_many(
        [
            NewItem("The ferry leaves at nine", tags=("lagoon",)),
            NewItem("Harbour dues are paid in advance", tags=("Lagoon",)),
            NewItem("Nobody has seen the heron", tags=("wetland",)),
        ],
        wait=True,
    )
    response = memory.search("when does the ferry leave?")
    lines = {
        result.item.text.split()[0]: {line.source: line for line in result.contributions} for result in response.results
    }
    assert lines["Harbour"]["shared"].value > 0
    assert "shared" not in {**lines["The"], **lines["Nobody"]}, "the best hit gets no score for its own tags"
    assert response.applied_weights["tags"] == lines["Harbour"]["shared"].weight
    assert response.timings_ms["shared"] == 500
    assert not memory.search("ferry", weights={"keyword": 0.5, "tags": 0.5}).counts.get("shared")


# ---------------------------------------------------------------- why


@pytest.mark.spec("B2")
@pytest.mark.parametrize("options", [{}, {"fusion": "rrf"}, {"preset": "memories"}, {"preset": "insights"}])
def test_why_an_item_is_where_it_is(town: Memory, options: dict[str, Any]) -> None:
    response = town.search(QUERY, top_k=100, **options)
    for place in (1, 3):
        expected = response.results[place - 1]
        why = town.why(expected.id, QUERY, **options)
        assert why.rank == place
        assert why.result is not None
        assert why.result.score == pytest.approx(expected.score, rel=1e-6)
        assert why.result.explanation is not None
        assert len(why.reasons) == len(response.plan.retrievers)
        assert any("rank" in reason for reason in why.reasons)


@pytest.mark.spec("B2")
def test_why_an_item_was_not_found(memory: Memory) -> None:
    memory.add_many([NewItem("The heron stands in the river", key="heron")], wait=True)
    memory.add_many([NewItem(f"Heron {number} in the river", key=f"r{number}") for number in range(250)])
    memory.add(NewItem("Completely unrelated", key="other"))
    memory.embed_pending()
    why = memory.why("key:other", "heron river", fusion="rrf")
    assert why.rank is None
    assert why.result is None
    semantic, keyword, graph, tags = why.reasons
    assert "not listed" in semantic
    assert "none of the query's words" in keyword
    assert "connected" in graph
    assert "no tag" in tags


@pytest.mark.spec("B2")
def test_why_says_when_there_is_no_vector_and_when_the_cosine_is_zero(opened: Opener) -> None:
    memory = opened()
    far = memory.add_many([NewItem("zebra"), *(NewItem(f"heron {number}") for number in range(210))], wait=True)
    assert "cosine 0: the best 200" in memory.why(far[0].id, "heron").reasons[0]
    waiting = opened(embedder="none").add("otter")
    assert "no vector yet" in memory.why(waiting.id, "heron").reasons[0]


@pytest.mark.spec("B2", "B5")
def test_why_names_the_filter_that_excludes_an_item(town: Memory) -> None:
    item = town.search(QUERY).results[0].item
    why = town.why(item.id, QUERY, filters=Filters(kind="recipe"))
    assert why.rank is None
    assert why.reasons[0] == "the filters leave it out"


@pytest.mark.spec("B2")
def test_why_of_an_unknown_item_is_an_error(town: Memory) -> None:
    for unknown in (999, "key:nothing", -1):
        with pytest.raises(NotFound):
            town.why(unknown, QUERY)

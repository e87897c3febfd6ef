"""The preset `memories`: tags, alpha, recency."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from engine_support import Opener, ids, notes, texts

from fourfold import config
from fourfold.config import Settings
from fourfold.memory import Memory
from fourfold.model import Filters, ItemPatch, NewItem
from fourfold.ranking.plan import PlanSettings
from fourfold.retrieval import Recency


@pytest.mark.spec("S5.1", "B13")
def test_memories_are_stored_retrieved_page_by_page_and_deleted(memory: Memory) -> None:
    stored = memory.add(
        NewItem("The meeting is on Tuesday", tags=("meeting",), kind="decision", metadata={"by": "Anna", "n": 3})
    )
    (item,) = memory.get([stored.id])
    assert (item.tags, item.kind, dict(item.metadata)) == (("meeting",), "decision", {"by": "Anna", "n": 3})
    memory.add_many(notes(25))
    memory.embed_pending()
    whole = ids(memory.search("the heron met the otter", preset="memories", top_k=20))
    first_page = ids(memory.search("the heron met the otter", preset="memories", top_k=10))
    assert whole[:10] == first_page
    assert memory.forget([stored.id]) == 1
    assert stored.id not in ids(memory.search("meeting tuesday", preset="memories", top_k=100))


@pytest.mark.spec("S5.2")
def test_words_of_the_query_that_are_tags_rank_by_number_and_rarity(memory: Memory) -> None:
    memory.add_many(
        [
            NewItem("one", tags=("python",)),
            NewItem("two", tags=("python", "async")),
            NewItem("three", tags=("python",)),
            NewItem("four", tags=("Async",)),
            NewItem("five", tags=("rust",)),
            NewItem("six"),
        ]
    )
    response = memory.search("how does Python do ASYNC?", only=["tags"])
    assert texts(response) == [
        "two",
        "four",
        "one",
        "three",
    ]  # first both tags, then the rarer one, then the common one by id


@pytest.mark.spec("S5.2")
def test_adjacent_words_also_match_joined_and_stop_words_do_not(memory: Memory) -> None:
    memory.add_many(
        [NewItem("one", tags=("machine-learning",)), NewItem("two", tags=("the",)), NewItem("three", tags=("Größe",))]
    )
    assert texts(memory.search("notes on machine learning", only=["tags"])) == ["one"]
    assert texts(memory.search("the", only=["tags"])) == []
    assert texts(memory.search("GRÖSSE", only=["tags"])) == ["three"]


@pytest.mark.spec("S5.3")
def test_alpha_1_is_vectors_only_and_0_is_tags_only(memory: Memory) -> None:
    memory.add_many([NewItem("near the river heron", tags=("bird",)), NewItem("bird"), *notes(5)], wait=True)
    vectors = memory.search("bird", preset="memories", alpha=1.0)
    assert vectors.plan.retrievers == ("semantic",)
    assert texts(vectors)[0] == "bird"
    tags = memory.search("bird", preset="memories", alpha=0.0)
    assert tags.plan.retrievers == ("tags",)
    assert texts(tags) == ["near the river heron"]
    both = memory.search("bird", preset="memories", alpha=0.25)
    assert both.applied_weights == {"semantic": 0.25, "keyword": 0.0, "graph": 0.0, "tags": 0.75}


@pytest.mark.spec("S5.3", "S5.4")
def test_explicit_alpha_wins_over_the_environment_and_that_over_the_adaptive_one(opened: Opener) -> None:
    settings = config.load({}, {"HYBRID_ALPHA": "0.35"}, None).settings
    memory = opened(settings=settings)
    memory.add_many(notes(3))
    assert memory.search("heron", preset="memories").applied_weights["semantic"] == 0.35
    assert memory.search("heron", preset="memories", alpha=0.6).applied_weights["semantic"] == 0.6


@pytest.mark.spec("S5.4")
def test_alpha_follows_the_size_of_the_store_and_the_number_of_matching_tags(memory: Memory) -> None:
    def semantic_weight(query: str = "heron") -> float:
        return memory.search(query, preset="memories").applied_weights["semantic"]

    memory.add_many([NewItem("tagged", tags=("red", "green", "blue")), *notes(498)])
    assert semantic_weight() == 0.5
    assert semantic_weight("red green") == 0.5
    assert semantic_weight("red green blue") == 0.25  # tags: min(1, 1.5 x 0.5)
    memory.add("the five hundredth")
    assert semantic_weight() == 0.7
    assert semantic_weight("red green blue") == pytest.approx(0.55)
    memory.add_many(notes(4500, "more"))
    assert semantic_weight() == 0.7
    memory.add("the 5001st")
    assert semantic_weight() == 0.8
    assert semantic_weight("red green blue") == pytest.approx(0.7)


def aging(decay: float, floor: float = 0.3) -> Settings:
    """Settings in which recency multiplies the whole score (strength 1)."""
    return Settings(plan=PlanSettings(memories_recency=Recency(decay, floor), memories_recency_strength=1.0))


def factors(memory: Memory) -> dict[str | None, float]:
    response = memory.search("heron", preset="memories", top_k=100, explain=True)
    for result in response.results:
        total = math.fsum(line.value for line in result.contributions)
        assert result.score == pytest.approx(total * result.recency, abs=1e-12)
    return {result.key: result.recency for result in response.results}


@pytest.mark.spec("S5.5")
def test_items_unchanged_for_long_count_less_down_to_a_floor(opened: Opener) -> None:
    memory = opened(settings=aging(0.01))
    for days, tags in ((0, ()), (70, ()), (70.5, ()), (1000, ()), (999, ("Evergreen",))):
        memory.add(
            NewItem(f"heron {days}", key=str(days), tags=tags, created_at=datetime.now(UTC) - timedelta(days=days)),
            wait=True,
        )
    found = factors(memory)
    assert found["0"] == pytest.approx(1.0, abs=1e-4)
    assert found["70"] == pytest.approx(math.exp(-0.7), abs=1e-4)
    assert found["70.5"] == pytest.approx(math.exp(-0.705), abs=1e-4)
    assert found["1000"] == 0.3
    assert found["999"] == 1.0
    unbounded = opened(settings=aging(0.01, 0.0))
    response = unbounded.search("heron", preset="memories", top_k=100)
    oldest = next(result for result in response.results if result.key == "1000")
    assert oldest.recency == pytest.approx(math.exp(-10), rel=1e-3)  # without a floor


@pytest.mark.spec("S5.5")
def test_decay_0_switches_recency_off_and_other_presets_have_none(opened: Opener) -> None:
    memory = opened(settings=aging(0.0))
    memory.add(NewItem("heron", key="old", created_at=datetime(2001, 1, 1, tzinfo=UTC)), wait=True)
    assert factors(memory) == {"old": 1.0}
    assert memory.search("heron").results[0].recency == 1.0


@pytest.mark.spec("S5.5")
def test_updated_at_changes_with_the_text_only(memory: Memory) -> None:
    born = datetime(2020, 5, 1, tzinfo=UTC)
    new = NewItem("heron", key="h", created_at=born)
    item = memory.add(new)
    assert (item.created_at, item.updated_at) == (born, born)
    item = memory.update(item.id, ItemPatch(add_tags=("bird",), metadata={"seen": 2}))
    assert item.updated_at == born
    item = memory.add(replace(new, tags=("grey",), metadata={}))
    assert (item.updated_at, item.tags) == (born, ("grey",))
    item = memory.update(item.id, ItemPatch(text="a grey heron"))
    assert item.created_at == born
    assert item.updated_at > born


@pytest.mark.spec("S5.6", "B6")
def test_a_tag_that_another_memory_added_is_seen_at_once(opened: Opener) -> None:
    one, other = opened(), opened()
    item = one.add("The heron stands in the river")
    assert texts(other.search("wetland", only=["tags"])) == []
    assert other.tags() == []
    one.update(item.id, ItemPatch(add_tags=("Wetland",)))
    assert texts(other.search("wetland", only=["tags"])) == ["The heron stands in the river"]
    assert other.tags() == [("wetland", 1)]
    one.forget([item.id])
    assert other.tags() == []


@pytest.mark.spec("B13")
def test_browse_and_forget_by_tag(memory: Memory) -> None:
    memory.add_many([NewItem(f"note {n}", tags=("temporary",) if n % 2 else ()) for n in range(10)])
    temporary = Filters(tags=("TEMPORARY",))
    assert memory.count(temporary) == 5
    assert [item.text for item in memory.list(temporary, limit=2, offset=1)] == ["note 7", "note 5"]
    assert memory.forget_matching(temporary) == 5
    assert [item.text for item in memory.list()] == [f"note {n}" for n in (8, 6, 4, 2, 0)]
    assert memory.tags() == []

"""Where items come from: stamped by the interface, shown, weighed, and never raised by what a caller writes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import postgres_servers
import pytest
from engine_support import WordEmbedder

from fourfold.errors import FourfoldError
from fourfold.memory import Memory
from fourfold.model import ItemPatch, NewItem
from fourfold.retrieval import Explanation, Result

pytestmark = pytest.mark.spec("C15")

KEY = "The key of the archive is in the blue box"


@pytest.fixture(params=["sqlite", "postgres"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    place = tmp_path / "store" if request.param == "sqlite" else postgres_servers.fresh()
    with Memory.open(place, embedder=WordEmbedder(), background=False) as opened:
        yield opened


def add(memory: Memory, text: str, **fields: Any) -> int:
    return memory.add(NewItem(text, **fields), wait=True).id


def leaves(tree: Explanation) -> tuple[float, list[float]]:
    """The sum of the lines, and the factors."""
    if "product" not in tree.description:
        return math.fsum(line.value for line in tree.details), []
    total, *factors = tree.details
    return math.fsum(line.value for line in total.details), [factor.value for factor in factors]


def test_weights_of_sources_change_the_order_and_are_factors_of_the_score(memory: Memory) -> None:
    tool = add(memory, "the archive key is in the blue box of the archive", source="tool")
    user = add(memory, "the key is in the blue box", source="user")
    question = "archive key in the blue box"
    assert [result.id for result in memory.search(question).results] == [tool, user]
    response = memory.search(question, source_weights={"tool": 0.25}, explain=True)
    assert response.plan.source_weights == {"tool": 0.25}
    assert [result.id for result in response.results] == [user, tool]
    before = {result.id: result.score for result in memory.search(question).results}
    for result in response.results:
        weight = 0.25 if result.id == tool else 1
        assert result.source_weight == weight
        assert result.score == sum(line.value for line in result.contributions) * weight == before[result.id] * weight
        total, factors = leaves(result.explanation or Explanation(0, ""))
        assert math.prod(factors, start=total) == result.score
    named = [each.description for each in explained(response.results[1]).details]
    assert named[1:] == ["weight of the source tool"]


def explained(result: Result) -> Explanation:
    assert result.explanation is not None
    return result.explanation


def test_weights_act_with_recency_a_time_and_several_namespaces(memory: Memory) -> None:
    for name in ("default", "other"):
        view = memory.within(name)
        view.add_many([NewItem(f"{KEY} {name}", source="agent"), NewItem(f"{KEY}, says Ada {name}")], wait=True)
    for options in ({"recency": 0.5}, {"namespaces": ["default", "other"]}):
        found = memory.search(
            f"what was said about {KEY} last week?", source_weights={"agent": 0.5}, explain=True, **options
        )
        assert {result.source_weight for result in found.results} == {0.5, 1.0}
        for result in found.results:
            total, factors = leaves(explained(result))
            assert math.prod(factors, start=total) == pytest.approx(result.score, rel=1e-12)
    why = memory.why(1, KEY, source_weights={"agent": 0.5})
    assert why.result is not None
    assert why.result.source_weight == 0.5


def test_weights_of_one_are_no_weights(memory: Memory) -> None:
    add(memory, KEY)
    assert memory.search(KEY, source_weights={"user": 1, "agent": 1.0}).plan.source_weights is None
    assert memory.search(KEY, source_weights={}).plan.source_weights is None


def test_a_weight_of_zero_ranks_last_and_leaves_nothing_out(memory: Memory) -> None:
    first, second = add(memory, KEY, source="tool"), add(memory, "a box that is blue")
    assert str(memory.search(KEY, source_weights={"tool": -0.0}).results[-1].score) == "0.0"
    assert [result.id for result in memory.search(KEY, source_weights={"tool": 0}).results] == [second, first]


@pytest.mark.parametrize(
    "weights", [{"robot": 0.5}, {"user": 2}, {"user": -0.1}, {"user": math.nan}, {"user": True}, {"user": "0.5"}]
)
def test_wrong_weights_are_refused_with_the_names(memory: Memory, weights: Any) -> None:
    with pytest.raises(FourfoldError, match="source"):
        memory.search(KEY, source_weights=weights)


# ---------------------------------------------------------------- changes


def test_new_text_has_the_source_of_its_writer(memory: Memory) -> None:
    item = add(memory, KEY)
    assert memory.update(item, ItemPatch("The key is lost", source="agent")).source == "agent"
    assert memory.update(item, ItemPatch("It is found again")).source == "user"


def test_an_item_that_keeps_a_part_of_its_text_stays_as_little_trusted(memory: Memory) -> None:
    item = add(memory, KEY, title="Archive")
    assert memory.update(item, ItemPatch("The key is lost", source="tool")).source == "tool"
    assert memory.update(item, ItemPatch("It is found again")).source == "tool"
    assert memory.update(item, ItemPatch(title="Key", text="It is in the red box")).source == "user"


def test_labels_leave_the_source_alone(memory: Memory) -> None:
    item = add(memory, KEY)
    patch = ItemPatch(KEY, add_tags=("archive",), metadata={"a": 1}, source="agent")
    assert memory.update(item, patch).source == "user"


@pytest.mark.parametrize("fact", [{}, {"subject": "archive", "attribute": "key"}])
def test_undo_brings_the_source_back_with_the_text(memory: Memory, fact: dict[str, str]) -> None:
    item = add(memory, KEY, **fact)
    memory.update(item, ItemPatch("The key is lost", source="agent"))
    restored = memory.undo(item)
    assert (restored.text, restored.source) == (KEY, "user")


def test_merging_does_not_lend_trust_to_other_words(memory: Memory) -> None:
    user, agent, same = add(memory, KEY), add(memory, KEY + "!", source="agent"), add(memory, KEY, key="copy")
    assert memory.merge(agent, [user]).source == "agent"
    memory.undo(agent)
    agents = add(memory, "Lunch is at noon", source="agent")
    users = add(memory, "Lunch is at noon", key="lunch")
    assert memory.merge(agents, [users]).source == "user"
    assert memory.merge(same, [agent]).source == "user"


def test_what_is_drawn_from_raw_records_has_the_lowest_trust_of_them(memory: Memory) -> None:
    said = memory.add_raw("Ada: the key is in the blue box", source="user")
    page = memory.add_raw("A page from elsewhere", source="import")
    assert memory.add(NewItem("Ada has the key", source_ids=(said.id,), source="agent")).source == "agent"
    assert memory.add(NewItem("The key is ours", source_ids=(said.id, page.id), source="agent")).source == "import"
    assert memory.add(NewItem("The key is known", source_ids=(page.id,))).source == "import"
    derived = memory.add(NewItem("The key is there", source_ids=(page.id,)))
    assert memory.update(derived.id, ItemPatch("The key is here", source="agent")).source == "import"

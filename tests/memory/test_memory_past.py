"""Searches for the past show what was believed then, and say what they cannot show."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import postgres_servers
import pytest
from engine_support import WordEmbedder

from fourfold.engine.present import ANSWERS, PAST_NOTE
from fourfold.limits import VERSIONS
from fourfold.memory import Memory
from fourfold.model import ItemPatch, NewItem

pytestmark = pytest.mark.spec("C15")

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgres"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    place = tmp_path / "store" if request.param == "sqlite" else postgres_servers.fresh()
    with Memory.open(place, embedder=WordEmbedder(), background=False) as opened:
        yield opened


def test_an_updated_item_is_shown_as_it_was_at_the_time_asked_for(memory: Memory) -> None:
    router = memory.add(NewItem("The router is in room 4", tags=("office",), created_at=LONG_AGO))
    memory.update(router.id, ItemPatch(text="The router is in room 5", remove_tags=("office",)))
    then = memory.search("where is the router", as_of="2026-02-01", explain=True)
    (found,) = then.results
    assert (found.item.text, found.item.tags) == ("The router is in room 4", ("office",))
    assert found.item.version_of == router.id
    assert "room 4" in found.snippet.replace("*", "")
    assert memory.get([found.id])[0] == found.item
    assert then.notes == ("items changed since 2026-02-01 23:59 UTC, found by their present texts only: 1",)
    (present,) = memory.search("where is the router", as_of=datetime.now(UTC) + timedelta(days=1)).results
    assert present.item.text == "The router is in room 5"


def test_a_search_for_the_past_says_that_earlier_texts_are_not_searched(memory: Memory) -> None:
    router = memory.add(NewItem("The router is in room 4", created_at=LONG_AGO))
    memory.update(router.id, ItemPatch(text="A switch with many ports"))
    then = memory.search("router", as_of="2026-02-01", only=["keyword"])
    assert then.results == ()
    assert "found by their present texts only: 1" in then.notes[0]


def test_an_item_whose_text_of_that_time_is_not_kept_is_left_out(memory: Memory) -> None:
    router = memory.add(NewItem("The router is in room 0", created_at=LONG_AGO))
    for room in range(VERSIONS + 1):
        memory.update(router.id, ItemPatch(text=f"The router is in room {room + 1}"))
    then = memory.search("router", as_of="2026-02-01")
    assert then.results == ()
    assert then.notes[1] == "items left out, of which the last 20 versions are all later: 1"


def test_an_updated_fact_is_shown_as_it_was_at_the_time_asked_for(memory: Memory) -> None:
    fact = NewItem("Maria lives in Bonn", subject="Maria", attribute="address", created_at=LONG_AGO)
    memory.update(memory.add(fact).id, ItemPatch(text="Maria lives in Rome"))
    then = memory.search("where does Maria live", as_of="2026-02-01")
    assert [result.item.text for result in then.results] == ["Maria lives in Bonn"]
    assert then.notes == ()


def decided(memory: Memory) -> None:
    """A decision that was changed twice, and what has nothing to do with it."""
    for month, text in enumerate(
        (
            "We take payments through Mollie",
            "We left Mollie for Stripe since Mollie charged refunds twice",
            "Payments run over Adyen",
        )
    ):
        created = LONG_AGO + timedelta(days=30 * month)
        memory.add(NewItem(text, subject="Payments", attribute="provider", created_at=created), wait=True)
    memory.add_many([NewItem(f"Room {number} has a window and a desk") for number in range(15)], wait=True)


def test_a_superseded_reason_is_found_where_nothing_current_answers(memory: Memory) -> None:
    decided(memory)
    question = "Why did we leave Mollie since it charged refunds twice?"
    found = memory.search(question)
    present, past = found.results[:2]
    assert (present.item.text, present.item.superseded_at) == ("Payments run over Adyen", None)
    assert past.item.text.startswith("We left Mollie")
    assert past.item.superseded_at is not None
    assert max(result.confidence for result in found.results) >= ANSWERS
    assert found.notes == (PAST_NOTE,)
    for size in (1, 3, 12):
        shorter = memory.search(question, top_k=size)
        assert [each.id for each in shorter.results][:10] == [each.id for each in found.results][:size]


def test_superseded_items_stay_hidden_where_a_current_one_answers_or_none_does(memory: Memory) -> None:
    decided(memory)
    for question in ("Payments run over Adyen", "who waters the plants"):
        found = memory.search(question)
        assert [result for result in found.results if result.item.superseded_at is not None] == []
        assert found.notes == ()

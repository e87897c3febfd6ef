"""Facts over time: duplicates and merges, searches for the past, sources and their weights."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from engine_support import WordEmbedder

from fourfold import Explanation, FourfoldError, ItemPatch, Memory, NewItem, Result
from fourfold.engine.present import ANSWERS, PAST_NOTE
from fourfold.errors import NotFound
from fourfold.limits import VERSIONS

pytestmark = pytest.mark.spec("C15")


# ---------------------------------------------------------------- duplicates and merges


KEY = "The key of the archive is in the blue box"


@pytest.fixture
def embedded(tmp_path: Path):
    with Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False) as opened:
        yield opened


def similar(embedded: Memory, *texts: str | NewItem) -> list[int]:
    """The items that are reported as similar to the last of these texts."""
    ids = [embedded.add(text, wait=True).id for text in texts]
    return [each.id for each in embedded.similar(ids[-1])]


@pytest.mark.parametrize(("one", "other", "has_vectors"), [
    (KEY, KEY + ".", True), (KEY, "the KEY of the archive: it is in the blue box", True), (KEY, f"({KEY})", True),
    ("Destination of the trip is Chiang Mai.", "The destination of the trip: Chiang Mai", False),
    ("Trip confirmed with plan A", "The trip is confirmed with plan A.", False),
    ("Workout on Tuesday and on Friday", "Workouts on Tuesdays, on Fridays", False),
    ("Maria's dog is called Rex", "Marias dog is called »Rex«", False),
    ("Der Schlüssel liegt im blauen Kasten", "Schlüssel liegt im blauen Kasten!", False),
    ("total = price + tax", "total=price + tax\n", False),
    ("The alarm of the archive is on.", "the alarm of the archive: is on!", False),
])  # fmt: skip
def test_a_near_duplicate_is_reported_and_kept(embedded: Memory, one: str, other: str, has_vectors: bool) -> None:
    ids = [embedded.add(NewItem(text, key=str(place)), wait=has_vectors).id for place, text in enumerate((one, other))]
    assert [each.id for each in embedded.similar(ids[1])] == ids[:1]
    assert embedded.count() == 2


@pytest.mark.parametrize("wait", [False, True], ids=["by words", "by words and vectors"])
@pytest.mark.parametrize(("one", "other"), [
    (KEY, "The key of the archive is in the red box"), (KEY, "The key of the office is in the blue box"),
    (KEY, "The key of the archive is not in the blue box"), (KEY, "The key of the archive is in the blue box (left)"),
    (KEY, "Is the key of the archive in the blue box?"), (KEY, "Lunch is at noon"),
    ("Backups run at 3 on every Sunday", "Backups run at 4 on every Sunday"),
    ("We go on with plan A next week", "We go on with plan B next week"),
    ("Call Maria before the meeting in Rome", "Call Maria after the meeting in Rome"),
    ("The alarm of the archive is on at night", "The alarm of the archive is off at night"),
    ("You must water the ficus in the hall", "You may water the ficus in the hall"),
    ("You must water the ficus in the hall", "You water the ficus in the hall"),
    ("My bicycle is in the cellar of the house", "Your bicycle is in the cellar of the house"),
    ("Der Schlüssel liegt auf dem Schrank im Flur", "Der Schlüssel liegt unter dem Schrank im Flur"),
    ("Muss ich nach der Reise in Quarantäne?", "Wieso muss ich nach der Reise in Quarantäne?"),
    ("Where is the key of the archive?", "When is the key of the archive?"),
    ("The mail from Tom about the taxes", "The mail to Tom about the taxes"),
    ("We serve tea or coffee after lunch", "We serve tea and coffee after lunch"),
    ("Tom is a manager of the office", "Tom has a manager of the office"),
    ("The budget for souvenirs is set to 0", "The budget for souvenirs is now set to 0"),
    ("A note on the codes of punched cards", "A further note on the codes of punched cards"),
    ("The light in the hall is on", "The light in the hall was on"),
    ("The train from Rome to Bonn is late", "The train from Bonn to Rome is late"),
    ("Maria pays Tom for the tickets", "Tom pays Maria for the tickets"),
    ("Back care every evening at nine", "Back care every evening at nine (paused)"),
    ("Book the flight to Oslo", "Booked the flight to Oslo"),
    ("Maria is a cyclist and a beginner", "Maria is a cyclist and a total beginner"),
    ("The freezer is at 5 degrees", "The freezer is at -5 degrees"), ("Pay 50 for the room", "Pay 50 % for the room"),
    ("Use it for values < 10 only", "Use it for values > 10 only"),
    ("The parser is written in C", "The parser is written in C++"),
    ("Euler, a generalization of Algol", "Euler, a generalization of Algol, part II"),
    ("total = price + tax", "total = price - tax"),
    ("if (size == 0) { return none; }", "if (size != 0) { return none; }"),
])  # fmt: skip
def test_a_word_a_sign_or_an_order_that_changes_the_meaning_makes_a_difference(embedded, one, other, wait):
    ids = [embedded.add(NewItem(text, key=str(place)), wait=wait).id for place, text in enumerate((one, other))]
    assert embedded.similar(ids[1]) == []


def test_different_facts_and_events_are_not_reported(embedded: Memory) -> None:
    first = NewItem("The light is on", subject="kitchen", attribute="light")
    assert similar(embedded, first, NewItem("The light is on.", subject="hall", attribute="light")) == []
    days = [datetime(2026, 5, day, tzinfo=UTC) for day in (1, 2)]
    walks = [NewItem(f"A walk in the park{end}", occurred_at=day) for end, day in zip("!.", days, strict=True)]
    assert similar(embedded, *walks) == []


def test_without_vectors_near_duplicates_are_found_by_words(embedded: Memory) -> None:
    embedded.add_many([NewItem(f"The key of the archive is in box {number}", key=str(number)) for number in range(40)])
    embedded.add(KEY)
    near = embedded.similar(embedded.add(f"{KEY}!").id)
    assert [(each.id, each.words, each.cosine) for each in near] == [(41, 1.0, None)]
    assert embedded.similar(embedded.add(f"{KEY} on the left").id) == []


def test_superseded_items_are_not_reported(embedded: Memory) -> None:
    fact = {"subject": "archive", "attribute": "key"}
    embedded.add_many([NewItem(KEY, **fact)])
    assert similar(embedded, NewItem(f"{KEY}.", **fact)) == []


def test_groups_have_the_oldest_item_first_and_each_item_once(embedded: Memory) -> None:
    texts = ["Tea is in the kitchen", KEY, "Tea is in the kitchen.", f"{KEY}!", "Lunch is at noon", f"{KEY}..."]
    embedded.add_many([NewItem(text, key=str(number)) for number, text in enumerate(texts)], wait=True)
    groups = embedded.duplicates()
    assert [(group.oldest.id, [item.id for item, _ in group.others]) for group in groups] == [(1, [3]), (2, [4, 6])]
    assert embedded.count() == len(texts)
    assert [group.oldest.id for group in embedded.duplicates(limit=1)] == [1]


def test_undoing_a_merge_restores_everything(embedded: Memory) -> None:
    kept = embedded.add(NewItem(KEY, tags=("a",)), wait=True)
    other = embedded.add(NewItem(f"{KEY}.", tags=("b",), key="k", metadata={"n": 1}), wait=True)
    merged = embedded.merge(kept.id, [other.id])
    assert (merged.id, merged.tags, embedded.count()) == (kept.id, ("a", "b"), 1)
    assert [result.id for result in embedded.search("archive").results] == [kept.id]
    with pytest.raises(NotFound):
        embedded.update(other.id, ItemPatch(text="x"))
    assert embedded.undo(kept.id, wait=True) == kept
    assert embedded.get([other.id]) == [other]
    assert embedded.pending([kept.id, other.id]) == []
    assert embedded.check() == []


def test_add_and_update_return_what_is_similar_and_an_item_equals_itself(embedded: Memory) -> None:
    first = embedded.add(KEY, wait=True)
    assert first.similar == ()
    again = embedded.add(NewItem(KEY + "!", key="again"), wait=True)
    assert again.similar == (first.id,)
    assert embedded.get([again.id]) == [again]
    assert embedded.get([again.id])[0].similar == ()
    other = embedded.add("Lunch is at noon", wait=True)
    assert embedded.update(other.id, ItemPatch(KEY), wait=True, expected=other).similar == (first.id, again.id)
    assert embedded.update(again.id, ItemPatch(add_tags=("box",)), expected=again).tags == ("box",)


# ---------------------------------------------------------------- the past


LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def memory(either: Path | str) -> Iterator[Memory]:
    with Memory.open(either, embedder=WordEmbedder(), background=False) as opened:
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


# ---------------------------------------------------------------- sources


def added(memory: Memory, text: str, **fields: Any) -> int:
    return memory.add(NewItem(text, **fields), wait=True).id


def leaves(tree: Explanation) -> tuple[float, list[float]]:
    """The sum of the lines, and the factors."""
    if "product" not in tree.description:
        return math.fsum(line.value for line in tree.details), []
    total, *factors = tree.details
    return math.fsum(line.value for line in total.details), [factor.value for factor in factors]


def test_weights_of_sources_change_the_order_and_are_factors_of_the_score(memory: Memory) -> None:
    tool = added(memory, "the archive key is in the blue box of the archive", source="tool")
    user = added(memory, "the key is in the blue box", source="user")
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
    assert why.result.source_weight == 0.5


def test_weights_of_one_are_no_weights(memory: Memory) -> None:
    added(memory, KEY)
    assert memory.search(KEY, source_weights={"user": 1, "agent": 1.0}).plan.source_weights is None
    assert memory.search(KEY, source_weights={}).plan.source_weights is None


def test_a_weight_of_zero_ranks_last_and_leaves_nothing_out(memory: Memory) -> None:
    first, second = added(memory, KEY, source="tool"), added(memory, "a box that is blue")
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
    item = added(memory, KEY)
    assert memory.update(item, ItemPatch("The key is lost", source="agent")).source == "agent"
    assert memory.update(item, ItemPatch("It is found again")).source == "user"


def test_an_item_that_keeps_a_part_of_its_text_stays_as_little_trusted(memory: Memory) -> None:
    item = added(memory, KEY, title="Archive")
    assert memory.update(item, ItemPatch("The key is lost", source="tool")).source == "tool"
    assert memory.update(item, ItemPatch("It is found again")).source == "tool"
    assert memory.update(item, ItemPatch(title="Key", text="It is in the red box")).source == "user"


def test_labels_leave_the_source_alone(memory: Memory) -> None:
    item = added(memory, KEY)
    patch = ItemPatch(KEY, add_tags=("archive",), metadata={"a": 1}, source="agent")
    assert memory.update(item, patch).source == "user"


@pytest.mark.parametrize("fact", [{}, {"subject": "archive", "attribute": "key"}])
def test_undo_brings_the_source_back_with_the_text(memory: Memory, fact: dict[str, str]) -> None:
    item = added(memory, KEY, **fact)
    memory.update(item, ItemPatch("The key is lost", source="agent"))
    restored = memory.undo(item)
    assert (restored.text, restored.source) == (KEY, "user")


def test_merging_does_not_lend_trust_to_other_words(memory: Memory) -> None:
    user, agent, same = added(memory, KEY), added(memory, KEY + "!", source="agent"), added(memory, KEY, key="copy")
    assert memory.merge(agent, [user]).source == "agent"
    memory.undo(agent)
    agents = added(memory, "Lunch is at noon", source="agent")
    users = added(memory, "Lunch is at noon", key="lunch")
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

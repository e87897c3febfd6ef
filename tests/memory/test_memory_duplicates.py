"""Near-duplicates are reported and never merged automatically; a merge can be undone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from engine_support import WordEmbedder

from fourfold.errors import NotFound
from fourfold.memory import Memory
from fourfold.model import ItemPatch, NewItem

pytestmark = pytest.mark.spec("C15")

KEY = "The key of the archive is in the blue box"


@pytest.fixture
def memory(tmp_path: Path):
    with Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False) as opened:
        yield opened


def similar(memory: Memory, *texts: str | NewItem) -> list[int]:
    """The items that are reported as similar to the last of these texts."""
    ids = [memory.add(text, wait=True).id for text in texts]
    return [each.id for each in memory.similar(ids[-1])]


@pytest.mark.parametrize("again", [KEY + ".", "the KEY of the archive: it is in the blue box", f"({KEY})"])
def test_a_near_duplicate_is_reported_and_kept(memory: Memory, again: str) -> None:
    assert similar(memory, KEY, again) == [1]
    assert memory.count() == 2


@pytest.mark.parametrize(
    "other",
    [
        "The key of the archive is in the red box",
        "The key of the office is in the blue box",
        "The key of the archive is not in the blue box",
        "The key of the archive is in the blue box (left)",
        "Is the key of the archive in the blue box?",
        "Lunch is at noon",
    ],
)
def test_an_item_with_another_meaning_is_not_reported(memory: Memory, other: str) -> None:
    assert similar(memory, KEY, other) == []


def test_numbers_and_letters_make_a_difference(memory: Memory) -> None:
    assert similar(memory, "Backups run at 3 on every Sunday", "Backups run at 4 on every Sunday") == []
    assert similar(memory, "We go on with plan A next week", "We go on with plan B next week") == []


def test_different_facts_and_events_are_not_reported(memory: Memory) -> None:
    first = NewItem("The light is on", subject="kitchen", attribute="light")
    assert similar(memory, first, NewItem("The light is on.", subject="hall", attribute="light")) == []
    days = [datetime(2026, 5, day, tzinfo=UTC) for day in (1, 2)]
    walks = [NewItem(f"A walk in the park{end}", occurred_at=day) for end, day in zip("!.", days, strict=True)]
    assert similar(memory, *walks) == []


def test_without_vectors_near_duplicates_are_found_by_words(memory: Memory) -> None:
    memory.add_many([NewItem(f"The key of the archive is in box {number}", key=str(number)) for number in range(40)])
    memory.add(KEY)
    near = memory.similar(memory.add(f"{KEY}!").id)
    assert [(each.id, each.words, each.cosine) for each in near] == [(41, 1.0, None)]
    assert memory.similar(memory.add(f"{KEY} on the left").id) == []


def test_superseded_items_are_not_reported(memory: Memory) -> None:
    fact = {"subject": "archive", "attribute": "key"}
    memory.add_many([NewItem(KEY, **fact)])
    assert similar(memory, NewItem(f"{KEY}.", **fact)) == []


def test_groups_have_the_oldest_item_first_and_each_item_once(memory: Memory) -> None:
    texts = ["Tea is in the kitchen", KEY, "Tea is in the kitchen.", f"{KEY}!", "Lunch is at noon", f"{KEY}..."]
    memory.add_many([NewItem(text, key=str(number)) for number, text in enumerate(texts)], wait=True)
    groups = memory.duplicates()
    assert [(group.oldest.id, [item.id for item, _ in group.others]) for group in groups] == [(1, [3]), (2, [4, 6])]
    assert memory.count() == len(texts)
    assert [group.oldest.id for group in memory.duplicates(limit=1)] == [1]


def test_undoing_a_merge_restores_everything(memory: Memory) -> None:
    kept = memory.add(NewItem(KEY, tags=("a",)), wait=True)
    other = memory.add(NewItem(f"{KEY}.", tags=("b",), key="k", metadata={"n": 1}), wait=True)
    merged = memory.merge(kept.id, [other.id])
    assert (merged.id, merged.tags, memory.count()) == (kept.id, ("a", "b"), 1)
    assert [result.id for result in memory.search("archive").results] == [kept.id]
    with pytest.raises(NotFound):
        memory.update(other.id, ItemPatch(text="x"))
    assert memory.undo(kept.id, wait=True) == kept
    assert memory.get([other.id]) == [other]
    assert memory.pending([kept.id, other.id]) == []
    assert memory.check() == []


def test_one_of_several_merged_items_is_restored_by_its_id(memory: Memory) -> None:
    ids = [memory.add(f"{KEY}{end}").id for end in ("", "!", "?")]
    memory.merge(ids[0], ids[1:])
    memory.undo(ids[0], to=ids[2])
    assert {item.id for item in memory.list()} == {ids[0], ids[2]}
    assert memory.get([ids[1]])[0].version_of == ids[0]
    assert memory.forget([ids[1]]) == 1
    with pytest.raises(NotFound):
        memory.undo(ids[0], to=ids[1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
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
    ],
)
def test_one_word_more_or_elsewhere_makes_a_difference(memory: Memory, one: str, other: str) -> None:
    ids = [memory.add(text).id for text in (one, other)]
    assert memory.similar(ids[1]) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The freezer is at 5 degrees", "The freezer is at -5 degrees"),
        ("Pay 50 for the room", "Pay 50 % for the room"),
        ("Use it for values < 10 only", "Use it for values > 10 only"),
        ("The parser is written in C", "The parser is written in C++"),
        ("Euler, a generalization of Algol", "Euler, a generalization of Algol, part II"),
        ("total = price + tax", "total = price - tax"),
        ("if (size == 0) { return none; }", "if (size != 0) { return none; }"),
    ],
)
def test_signs_and_operators_make_a_difference(memory: Memory, one: str, other: str) -> None:
    ids = [memory.add(text).id for text in (one, other)]
    assert memory.similar(ids[1]) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Destination of the trip is Chiang Mai.", "The destination of the trip: Chiang Mai"),
        ("Trip confirmed with plan A", "The trip is confirmed with plan A."),
        ("Workout on Tuesday and on Friday", "Workouts on Tuesdays, on Fridays"),
        ("Maria's dog is called Rex", "Marias dog is called »Rex«"),
        ("Der Schlüssel liegt im blauen Kasten", "Schlüssel liegt im blauen Kasten!"),
        ("total = price + tax", "total=price + tax\n"),
    ],
)
def test_articles_plurals_and_punctuation_make_no_difference(memory: Memory, one: str, other: str) -> None:
    ids = [memory.add(NewItem(text, key=str(place))).id for place, text in enumerate((one, other))]
    assert [each.id for each in memory.similar(ids[1])] == ids[:1]


def test_punctuation_makes_no_difference(memory: Memory) -> None:
    assert similar(memory, "The alarm of the archive is on.", "the alarm of the archive: is on!") == [1]


def test_add_and_update_return_what_is_similar_and_an_item_equals_itself(memory: Memory) -> None:
    first = memory.add(KEY, wait=True)
    assert first.similar == ()
    again = memory.add(NewItem(KEY + "!", key="again"), wait=True)
    assert again.similar == (first.id,)
    assert memory.get([again.id]) == [again]
    assert memory.get([again.id])[0].similar == ()
    other = memory.add("Lunch is at noon", wait=True)
    assert memory.update(other.id, ItemPatch(KEY), wait=True, expected=other).similar == (first.id, again.id)
    assert memory.update(again.id, ItemPatch(add_tags=("box",)), expected=again).tags == ("box",)

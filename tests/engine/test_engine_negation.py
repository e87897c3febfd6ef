"""No retriever searches for what a query excludes, and the answer names the exclusion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fourfold import Memory, NewItem

NOTE = "not searched for, because it is negated: fish Harbour Grill"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "store", embedder="none") as opened:
        opened.add(NewItem("A place for fresh fish", title="Harbour Grill", tags=("fish",)))
        opened.add(NewItem("A restaurant with lentils and salads", title="Green Fork"))
        yield opened


def test_negated_words_names_and_tags_find_nothing(memory: Memory):
    found = memory.search("restaurant without fish or Harbour Grill")
    assert [result.item.title for result in found.results] == ["Green Fork"]
    assert found.query == "restaurant without fish or Harbour Grill"
    assert NOTE in found.notes
    assert found.counts["graph"] == found.counts["tags"] == 0


def test_the_same_words_find_their_item_if_they_are_wanted(memory: Memory):
    found = memory.search("restaurant with fish")
    assert {result.item.title for result in found.results} == {"Green Fork", "Harbour Grill"}
    assert found.notes == ()


def test_analyze_and_why_name_the_excluded_words(memory: Memory):
    found = memory.analyze("restaurant without fish or Harbour Grill")
    (phrase,) = found.negated
    assert phrase.text == "without fish or Harbour Grill"
    assert [word.surface for word in found.words] == ["restaurant"]
    assert (found.names, found.tags, found.notes) == ((), (), (NOTE,))
    (item,) = memory.search("lentils").results
    assert NOTE in memory.why(item.id, "restaurant without fish or Harbour Grill").reasons


def test_a_note_names_a_correction(memory: Memory):
    found = memory.search("lentlis")
    assert [result.item.title for result in found.results] == ["Green Fork"]
    (word,) = memory.analyze("lentlis").words
    assert word.corrections[0] == "lentils"
    assert found.notes == memory.analyze("lentlis").notes != ()

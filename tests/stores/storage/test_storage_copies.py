"""Chunks with the same text in different files are returned as one result that lists the other files."""

from __future__ import annotations

import pytest
from engine_support import Opener, ids, scored

from fourfold import wire
from fourfold.memory import Memory
from fourfold.model import NewItem

LICENCE = "Permission is hereby granted to anyone who obtains a copy of this heron"


def chunk(path: str, text: str, number: int = 0, line: int = 1, title: str = "") -> NewItem:
    return NewItem(text, title=title or path, path=path, chunk_index=number, metadata={"line": line})


@pytest.fixture
def copies(opened: Opener) -> Memory:
    memory = opened()
    memory.add_many(
        [
            *(chunk(f"/lib/{name}/LICENCE", LICENCE, line=number) for number, name in enumerate("abcdef", start=1)),
            chunk("/lib/a/README", "the heron is mentioned here, too"),
            chunk("/lib/a/README", LICENCE, 1, 40),
            NewItem(LICENCE + " and a note about it"),
            NewItem(LICENCE, key="note"),
            *(chunk(f"/lib/{number}.txt", f"permission {number} of the heron granted") for number in range(80)),
        ],
        wait=True,
    )
    return memory


@pytest.mark.spec("B12")
def test_copies_in_other_files_fold_into_the_best_and_are_listed(copies: Memory) -> None:
    response = copies.search(LICENCE, top_k=20, per_source=20)
    found = [result for result in response.results if result.item.text == LICENCE]
    assert [result.item.path is None for result in found].count(True) == 1, (
        "an item with a key is not folded into another"
    )
    (one,) = [result for result in found if result.item.path is not None]
    others = {f"/lib/{name}/LICENCE:{number}" for number, name in enumerate("abcdef", start=1)} | {"/lib/a/README:40"}
    assert {*one.also_in, one.item.location} == others
    assert wire.result_json(one)["also_in"] == list(one.also_in)
    assert wire.result_json(one)["location"] == one.item.location


@pytest.mark.spec("B4")
def test_results_for_k_are_a_prefix_of_those_for_more_with_copies(copies: Memory) -> None:
    longest = copies.search("permission granted heron", top_k=60).results
    assert len(longest) == 60
    for top_k in (1, 2, 3, 5, 8, 13, 34):
        response = copies.search("permission granted heron", top_k=top_k)
        assert scored(response) == [(result.id, result.score) for result in longest[:top_k]]
        assert [one.also_in for one in response.results] == [one.also_in for one in longest[:top_k]]


@pytest.mark.spec("B2")
def test_why_says_that_an_item_is_shown_as_a_copy(copies: Memory) -> None:
    response = copies.search(LICENCE, top_k=50)
    shown = next(result for result in response.results if result.also_in)
    every = copies.list(limit=1000)
    copy = next(item for item in every if item.location == shown.also_in[0])
    assert copy.id not in ids(response)
    why = copies.why(copy.id, LICENCE)
    assert why.rank is not None
    assert why.reasons[-1] == f"folded: item {shown.id} ({shown.item.location}) has the same text and comes first"
    assert not any("folded" in reason for reason in copies.why(shown.id, LICENCE).reasons)


def test_a_location_is_a_line_or_a_page() -> None:
    from datetime import UTC, datetime

    from fourfold.model import Item

    def located(path: str | None, **metadata: int) -> str | None:
        now = datetime.now(UTC)
        return Item(1, "default", None, "t", "x", (), None, metadata, "en", now, now, (), path, 0).location

    assert located("/a.md", line=7, end_line=9) == "/a.md:7"
    assert located("/a.pdf", page=3) == "/a.pdf#page=3"
    assert located("/a.md") == "/a.md"
    assert located(None, line=7) is None

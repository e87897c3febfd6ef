"""Filters act inside every retriever: a filtered search finds all matching items and no others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from engine_support import ids

from fourfold import wire
from fourfold.memory import Memory
from fourfold.model import Filters, Item, MetadataTest, NewItem

DAY = datetime(2025, 3, 1, tzinfo=UTC)
COUNT = 600


@pytest.fixture
def library(memory: Memory) -> Memory:
    """Items that all match the query equally; every 30th passes the filters."""
    memory.add_many(
        [
            NewItem(
                f"The heron stands in the river, page {number}",
                title=f"Heron {number}" if number % 30 == 0 else "",
                key=str(number),
                tags=(
                    "heron",
                    *(("rare", "marked") if number % 30 == 0 else ("plain",)),
                    *(("odd",) if number % 2 else ()),
                ),
                kind="fact" if number % 30 == 0 else "note",
                language="de" if number % 30 == 0 else "en",
                created_at=DAY + timedelta(days=number),
                path=f"{'rare' if number % 30 == 0 else 'common'}/{number}.md",
                metadata={"n": number, "rare": number % 30 == 0, "group": {"id": number % 30}},
            )
            for number in range(COUNT)
        ],
        wait=True,
    )
    memory.add_node("Heron", item=1)
    return memory


Passes = Callable[[Item], bool]
FILTERS: dict[str, tuple[Filters, Passes]] = {
    "tag": (Filters(tags=("RARE",)), lambda item: "rare" in item.tags),
    "all tags": (Filters(tags=("rare", "odd")), lambda item: {"rare", "odd"} <= set(item.tags)),
    "any tag": (Filters(tags=("rare", "odd"), any_tag=True), lambda item: bool({"rare", "odd"} & set(item.tags))),
    "kind": (Filters(kind="fact"), lambda item: item.kind == "fact"),
    "language": (Filters(language="de"), lambda item: item.language == "de"),
    "path": (Filters(path="rare/*.md"), lambda item: (item.path or "").startswith("rare/")),
    "from": (
        Filters(created_from=DAY + timedelta(days=590)),
        lambda item: item.created_at >= DAY + timedelta(days=590),
    ),
    "to": (Filters(created_to=DAY + timedelta(days=5)), lambda item: item.created_at <= DAY + timedelta(days=5)),
    "naive": (
        Filters(created_to=(DAY + timedelta(days=5)).replace(tzinfo=None)),
        lambda item: item.created_at <= DAY + timedelta(days=5),
    ),
    "metadata": (Filters(metadata=(MetadataTest("rare", "eq", True),)), lambda item: item.metadata["rare"] is True),
    "less": (Filters(metadata=(MetadataTest("n", "lt", 7),)), lambda item: item.metadata["n"] < 7),
    "at least": (Filters(metadata=(MetadataTest("n", "gte", 595),)), lambda item: item.metadata["n"] >= 595),
    "object": (
        Filters(metadata=(MetadataTest("group", "eq", {"id": 3}),)),
        lambda item: item.metadata["group"] == {"id": 3},
    ),
    "huge": (Filters(metadata=(MetadataTest("n", "lt", 2**80),)), lambda item: True),
    "everything": (
        Filters(tags=("marked",), kind="fact", path="**/*0.md", metadata=(MetadataTest("n", "gte", 300),)),
        lambda item: "marked" in item.tags and item.metadata["n"] >= 300,
    ),
    "nothing": (Filters(tags=("unheard of",)), lambda item: False),
}


@pytest.mark.spec("B5")
@pytest.mark.parametrize("name", FILTERS)
def test_a_filtered_search_finds_all_that_pass_and_nothing_else(library: Memory, name: str) -> None:
    filters, passes = FILTERS[name]
    everything = [item for offset in (0, 1000) for item in library.list(limit=1000, offset=offset)]
    expected = {item.id for item in everything if passes(item)}
    assert library.count(filters) == len(expected)
    for only in (["semantic"], ["keyword"], ["tags"]):
        response = library.search("heron river", only=only, filters=filters, top_k=100)
        assert set(ids(response)) <= expected
        assert len(response.results) == min(100, len(expected))
        assert response.counts[only[0]] == min(200, len(expected))
    for fusion in ("auto", "rrf"):
        response = library.search("Heron river", filters=filters, top_k=100, per_source=100, fusion=fusion)
        assert set(ids(response)) <= expected
        assert len(response.results) == min(100, len(expected))
        wire.dumps(wire.response_json(response))
    for result in library.search("Heron 30", only=["graph"], filters=filters, top_k=100).results:
        assert result.id in expected


@pytest.mark.spec("B5", "B6")
def test_filters_apply_to_items_written_just_before(library: Memory) -> None:
    filters = Filters(tags=("fresh",))
    assert ids(library.search("heron", filters=filters)) == []
    item = library.add(NewItem("One more heron", tags=("fresh",)))
    assert ids(library.search("heron", filters=filters)) == [item.id]
    library.forget([item.id])
    assert ids(library.search("heron", filters=filters)) == []


PATHS = (
    "docs/a.md",
    "docs/x/y/a.md",
    "a.md",
    "axbyc/d1",
    "q/abc/r/s/d2",
    "a/x1/z",
    "b/q/xyz/z",
    "aa",
    "x/aXa",
    "docs/",
)
EXPECTED = {
    "docs/*.md": "docs/a.md",
    "docs/**/*.md": "docs/a.md docs/x/y/a.md",
    "**/*.md": "docs/a.md docs/x/y/a.md a.md",
    "**/a*b*c*/**/d?": "axbyc/d1 q/abc/r/s/d2",
    "[ab]*/**/x[!y]*/*": "a/x1/z",
    "**/**/**/*a*a*": "aa x/aXa",
    "*": "a.md aa",
    "**": " ".join(PATHS),
}


@pytest.mark.spec("B5")
def test_globs(memory: Memory) -> None:
    memory.add_many([NewItem(path, path=path) for path in PATHS])
    for glob, expected in EXPECTED.items():
        found = {item.path for item in memory.list(Filters(path=glob))}
        assert found == set(expected.split()), glob


@pytest.mark.spec("B5", "B4")
def test_a_glob_with_many_wildcards_is_matched_quickly(memory: Memory) -> None:
    """A regular expression would backtrack exponentially and block every other thread."""
    memory.add_many([NewItem("heron", path="a" * 200), NewItem("otter", path="a/" * 100 + "y")])
    for glob in ("*a" * 30 + "b", "**/" * 40 + "x", "**a" * 30 + "b", "a*" * 200 + "/b"):
        assert memory.count(Filters(path=glob)) == 0
    assert memory.count(Filters(path="*a" * 30)) == 1

"""Filters act inside every retriever, so a filtered search finds all matching items."""

from datetime import timedelta

import pytest
from conformance_subjects import NOW, NS, RETRIEVERS, add, item, search, unit

from fourfold.model import NO_FILTERS, Filters, MetadataTest

pytestmark = pytest.mark.spec("B5")

MANY, FEW = 300, 15
QUERY = "Mietvertrag A, Mietvertrag B, Mietvertrag C"


def numbered(n: int):
    """Items that every retriever ranks by ascending number; the filters pass the highest numbers."""
    rare = n >= MANY - FEW
    return item(
        "Mietvertrag " + "Wort " * n,
        title=f"Mietvertrag {'ABC'[n // 100]}",  # below the limit of a hub
        key=f"n{n}",
        tags=("Mietvertrag", *(("Selten", "auch") if rare else ())),
        kind="wanted" if rare else "common",
        language="de" if rare else "en",
        created_at=NOW + timedelta(seconds=n),
        path=f"{'deep/rare' if rare else 'plain'}/{n}.md",
        metadata={"n": n, "rare": rare, "word": "ja" if rare else "nein", "list": [rare]},
        vector=unit(MANY, n),
    )


FIRST = NOW + timedelta(seconds=MANY - FEW)
ALONE = {
    "all tags": Filters(tags=("SELTEN", "auch")),
    "any tag": Filters(tags=("selten", "nirgends"), any_tag=True),
    "created from": Filters(created_from=FIRST),
    "kind": Filters(kind="wanted"),
    "language": Filters(language="de"),
    "path": Filters(path="deep/**"),
    "path, one folder": Filters(path="*/rare/???.md"),
    "metadata number": Filters(metadata=(MetadataTest("n", "gte", MANY - FEW),)),
    "metadata truth": Filters(metadata=(MetadataTest("rare", "eq", True),)),
    "metadata text": Filters(metadata=(MetadataTest("word", "eq", "ja"),)),
    "metadata text below": Filters(metadata=(MetadataTest("word", "lt", "k"),)),
    "metadata list": Filters(metadata=(MetadataTest("list", "eq", [True]),)),
    "all at once": Filters(
        tags=("selten",),
        created_from=FIRST,
        created_to=NOW + timedelta(days=1),
        kind="wanted",
        language="de",
        path="**/*.md",
        metadata=(MetadataTest("n", "gte", 100), MetadataTest("n", "lt", MANY), MetadataTest("rare", "eq", True)),
    ),
}


def test_every_filter_in_every_retriever_finds_all_that_pass(store):
    ids = add(store, *map(numbered, range(MANY)))
    for what, filters in ALONE.items():
        assert store.ids(NS, filters) == ids[-FEW:], what
        for name in RETRIEVERS:
            found = search(store, name, QUERY, vector=unit(1, 0), filters=filters)
            assert found == ids[-FEW:], (what, name)


def test_the_walk_from_items_keeps_to_the_filters(store):
    center, near, far = add(
        store,
        item("Mitte nennt den Rand", title="Mitte"),
        item("Hier steht nichts", title="Rand", kind="wanted"),
        item("Auch die Mitte wird genannt", kind="common"),
    )
    everything = store.item_links(NS, [center], NO_FILTERS)
    assert {link.item for link in everything} == {near, far}
    assert {link.item for link in store.item_links(NS, [center], Filters(kind="wanted"))} == {near}


def test_a_filter_that_nothing_passes_finds_nothing(store):
    add(store, numbered(1))
    for filters in (
        Filters(kind="nirgends"),
        Filters(tags=("Mietvertrag", "nirgends")),
        Filters(created_to=NOW - timedelta(days=1)),
        Filters(metadata=(MetadataTest("absent", "eq", 1),)),
    ):
        for name in RETRIEVERS:
            assert search(store, name, "Mietvertrag", vector=unit(1, 0), filters=filters) == []


@pytest.mark.parametrize(
    ("value", "test", "passes"),
    [
        (1, MetadataTest("m", "eq", 1.0), True),
        (1, MetadataTest("m", "eq", True), False),
        (True, MetadataTest("m", "eq", 1), False),
        (True, MetadataTest("m", "eq", True), True),
        ("1", MetadataTest("m", "eq", 1), False),
        ("10", MetadataTest("m", "lt", "9"), True),
        (10, MetadataTest("m", "lt", 9), False),
        (2.5, MetadataTest("m", "gte", 2), True),
        (None, MetadataTest("m", "eq", None), True),
        (0, MetadataTest("m", "eq", None), False),
        ({"b": 1, "a": "ä"}, MetadataTest("m", "eq", {"a": "ä", "b": 1}), True),
        ([1, 2], MetadataTest("m", "eq", [2, 1]), False),
        (10**30, MetadataTest("m", "gte", 10**29), True),
        (1, MetadataTest("m", "lt", 10**400), True),
        ("x", MetadataTest('m" or 1=1 --', "eq", "x"), False),
    ],
)
def test_metadata_compares_like_with_like(store, value, test, passes):
    (id,) = add(store, item("text", metadata={"m": value}))
    assert store.ids(NS, Filters(metadata=(test,))) == [id] * passes


def test_bounds_in_time_are_inclusive(store):
    (id,) = add(store, item("text", created_at=NOW))
    tick = timedelta(microseconds=1)
    assert store.ids(NS, Filters(created_from=NOW, created_to=NOW)) == [id]
    assert store.ids(NS, Filters(created_from=NOW + tick)) == []
    assert store.ids(NS, Filters(created_to=NOW - tick)) == []


def test_filters_follow_every_change(store):
    (id,) = add(store, item("Mietvertrag", tags=("a",), key="k"))
    assert search(store, "keyword", "Mietvertrag", filters=Filters(tags=("b",))) == []
    add(store, item("Mietvertrag", tags=("b",), key="k"))
    assert search(store, "keyword", "Mietvertrag", filters=Filters(tags=("b",))) == [id]
    assert search(store, "keyword", "Mietvertrag", filters=Filters(tags=("a",))) == []


def test_a_glob_without_a_root_matches_absolute_paths_from_any_folder(store):
    ids = add(store, *(item(path, path=path) for path in ("/home/me/docs/a.md", "C:/docs/a.md", "docs/a.md")))
    assert store.ids(NS, Filters(path="docs/*.md")) == ids
    assert store.ids(NS, Filters(path="/home/*/docs/*")) == ids[:1]
    assert store.ids(NS, Filters(path="C:/**")) == ids[1:2]

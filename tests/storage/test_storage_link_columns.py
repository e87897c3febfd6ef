"""Columns of links and tags in memory give the same answers as the tables, and are not used after a change."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fourfold import ItemPatch, Memory, NewItem
from fourfold.index.link_state import LinkRows, LinkState
from fourfold.limits import CANDIDATES, HUB
from fourfold.model import NO_FILTERS, Filters
from fourfold.ranking.connections import INSTEAD_OF_NAMES, rank_by_links, rank_by_shared_tags
from fourfold.storage.sqlite.link_columns import LinkCache
from fourfold.storage.sqlite.store import SqliteStore
from fourfold.storage.sqlite.tuning import DEFAULT

ITEMS = 320
EAGER = replace(DEFAULT, columns_after_searches=1, columns_pause=0.0)
FILTERS = (NO_FILTERS, Filters(kind="odd"), Filters(kind="none"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """Items with titles, mentions and tags, some of which are hubs."""
    store = SqliteStore(tmp_path_factory.mktemp("links") / "store", tuning=EAGER)
    rng = random.Random(5)
    memory = Memory.open(store, embedder="none", background=False)
    memory.add_many([item(number, rng) for number in range(ITEMS)])
    memory.add_edges([edge(number, rng) for number in range(900)])
    memory.add_edges([("Page 7", "near", f"Page {number}", 0.5) for number in range(HUB + 40)])
    memory.index()
    yield store
    memory.close()


def item(number: int, rng: random.Random) -> NewItem:
    named = ", ".join(f"Page {rng.randrange(ITEMS)}" for _ in range(rng.randrange(4)))
    famous = "Harbour Master" if number % 2 else ""
    tags = {f"tag {rng.randrange(60)}" for _ in range(rng.randrange(4))} | ({"common"} if number % 2 else set())
    title = "Harbour Master" if number == 3 else f"Page {number}"
    return NewItem(f"Text {number} {named} {famous}", title=title, tags=tuple(tags), kind="odd" if number % 3 else None)


def edge(number: int, rng: random.Random) -> tuple[str, str, str, float]:
    ends = rng.randrange(ITEMS), rng.randrange(ITEMS)
    weight = rng.choice([0.25, 0.5, 0.75, rng.uniform(0.01, 1.0)])
    return f"Page {ends[0]}", f"relation {number % 3}", f"Page {ends[1]}", weight


def columns(store: SqliteStore) -> LinkState:
    with store.snapshot("default") as at:
        cache = at.caches.links
        _ = at.links  # triggers a build
    cache.settle()
    with store.snapshot("default") as at:
        assert at.links is not None
        return at.links


def test_walks_and_shared_tags_equal_those_of_the_tables(store: SqliteStore) -> None:
    links, rng = columns(store), random.Random(6)
    with store.snapshot("default") as at:
        ids = sorted(at.rows.ids(NO_FILTERS))
        compared = 0
        for _ in range(60):
            starts = {rng.choice(ids): rng.choice([0.1, 0.35, rng.random()]) for _ in range(rng.randrange(1, 14))}
            starts |= {10**9: 0.5}
            filters = rng.choice(FILTERS)
            allowed = at.allowed(filters)
            factor = rng.choice([1.0, INSTEAD_OF_NAMES])
            walked = rank_by_links(starts, at.graph.item_links(list(starts), filters), mentions=factor)
            shared = rank_by_shared_tags(starts, at.tags.shared(list(starts), filters))
            for found, expected in (
                (links.walk(starts, allowed, CANDIDATES, factor), walked),
                (links.shared(starts, allowed, CANDIDATES), shared),
            ):
                assert found.ids.tolist() == expected.ids.tolist()
                assert found.scores == pytest.approx(expected.scores, abs=1e-9)
                compared += len(found)
    assert compared > 1000


def test_named_nodes_and_their_links_equal_those_of_the_tables(store: SqliteStore) -> None:
    links = columns(store)
    names = [f"page {number}" for number in range(ITEMS)] + ["harbour master", "nothing", ""]
    with store.snapshot("default") as at:
        before, at.caches.links = at.caches.links, LinkCache(at.caches.database, DEFAULT)
        try:
            known = at.graph.named(names)
            assert at.links is None
            assert {name: sorted(nodes) for name, nodes in known.items()} == links.named(names)
            assert links.named([]) == {}
            for nodes in ([known["page 7"][0], known["harbour master"][0]], [known["page 1"][0]], [10**9], []):
                assert sorted(links.node_links(nodes)) == sorted(at.graph.node_links(nodes, NO_FILTERS))
        finally:
            at.caches.links.close()
            at.caches.links = before


@pytest.mark.parametrize("change", ["tag", "edge", "item", "removal", "vector"])
def test_columns_are_not_used_after_a_change_of_links_or_tags(tmp_path: Path, change: str) -> None:
    store = SqliteStore(tmp_path / "store", tuning=EAGER)
    memory = Memory.open(store, embedder="none", background=False)
    first, second = memory.add_many(
        [NewItem("one", title="One", tags=("a",)), NewItem("two", title="Two", tags=("a",))]
    )
    before = columns(store)
    match change:
        case "tag":
            memory.update(second.id, ItemPatch(add_tags=("b",), remove_tags=("a",)))
        case "edge":
            memory.add_edges([("One", "near", "Two", 1.0)])
        case "item":
            memory.add(NewItem("three", tags=("a",)))
        case "removal":
            memory.forget([first.id])
        case _:
            memory.add(NewItem("two", title="Two", vector=[1.0, 0.0]))
    with store.snapshot("default") as at:
        assert at.links is (before if change == "vector" else None)
        expected = at.tags.rank_shared({second.id: 1.0}, NO_FILTERS, 10)
        walked = at.graph.walk({second.id: 1.0}, NO_FILTERS, 10)
    after = columns(store)
    assert after.shared({second.id: 1.0}, None, 10) == expected
    assert after.walk({second.id: 1.0}, None, 10) == walked
    memory.close()


def test_links_found_later_invalidate_the_columns(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store", tuning=EAGER)
    memory = Memory.open(store, embedder="none", background=False)
    (page,) = memory.add_many([NewItem("a page", title="Copenhagen")])
    with store.snapshot("default") as at:
        before = at.last_change
    store.maintenance.publish("default", everything=True)
    with store.transaction("default") as tx:
        tx.link_rows.postpone(["copenhagen"])
    store.maintenance.publish("default", everything=True)
    with store.snapshot("default") as at:
        assert at.last_change > before
        assert at.rows.get([page.id])
    memory.close()


def test_a_namespace_with_too_many_rows_has_no_columns(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store", tuning=replace(EAGER, max_column_rows=1))
    memory = Memory.open(store, embedder="none", background=False)
    memory.add_many([NewItem("one", tags=("a", "b"))])
    for _ in range(3):
        with store.snapshot("default") as at:
            assert at.links is None
        at.caches.links.settle()
    memory.close()


def test_a_store_can_be_closed_while_columns_are_built(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store", tuning=EAGER)
    memory = Memory.open(store, embedder="none", background=False)
    memory.add_many([NewItem(f"text {number}", tags=("a",)) for number in range(3000)])
    memory.search("text")
    memory.close()


def test_rows_with_dangling_references_are_refused() -> None:
    none = np.empty((2, 0), np.int64)
    rows = LinkRows(
        items=np.array([1]),
        nodes=np.array([5]),
        counts=np.ones((3, 1), np.int64),
        names=none,
        owned=np.array([[5], [2]]),
        mentions=none,
        edges=none,
        weights=np.empty(0),
        tags=(),
        tagged=none,
    )
    with pytest.raises(ValueError, match="missing"):
        LinkState(rows)
    empty = LinkState(replace(rows, owned=none))
    assert empty.walk({1: 1.0}, None, 10).ids.tolist() == empty.shared({1: 1.0}, None, 10).ids.tolist() == []
    assert (empty.named(["a name"]), empty.node_links([5, 6])) == ({}, [])

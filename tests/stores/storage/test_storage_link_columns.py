"""Links and tags in memory give what the tables give, also after changes."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fourfold import ItemPatch, Memory, NewItem, limits
from fourfold.index.link_state import LinkRows, LinkState
from fourfold.limits import CANDIDATES, HUB
from fourfold.model import NO_FILTERS, Filters
from fourfold.ranking.connections import INSTEAD_OF_NAMES, rank_by_links, rank_by_shared_tags
from fourfold.storage.sql import graph
from fourfold.storage.sqlite.database import DEFAULT
from fourfold.storage.sqlite.links import LinkCache, node_links, tag_uses
from fourfold.storage.sqlite.store import SqliteStore

EAGER = replace(DEFAULT, columns_after_searches=1, columns_pause=0.0)
FILTERS = (NO_FILTERS, Filters(kind="odd"), Filters(kind="none"))


def settle(cache: LinkCache) -> None:
    """Waits for a build that is running."""
    if cache._building is not None:
        cache._building.done.wait()


def columns(store: SqliteStore) -> LinkState:
    with store.snapshot("default") as at:
        cache = at.caches.links
        _ = at.links  # triggers a build
    settle(cache)
    with store.snapshot("default") as at:
        assert at.links is not None
        return at.links


class Writer:
    """Random changes of items, tags, nodes and edges."""

    def __init__(self, memory: Memory, seed: int) -> None:
        self.memory, self.rng, self.ids = memory, random.Random(seed), list[int]()

    def item(self) -> NewItem:
        names = ["Ada", "Blue Folder", "Zurich", *(f"Page {number}" for number in range(14))]
        text = f"Text {self.rng.random()} about {self.rng.choice(names)} and {self.rng.choice(names)}"
        tags = self.rng.sample(["a", "b", "c", "aa", "zz", f"tag {self.rng.randrange(20)}"], self.rng.randrange(4))
        return NewItem(
            text, title=self.rng.choice([*names, "", ""]), tags=tuple(tags), kind=self.rng.choice(["odd", None])
        )

    def change(self) -> None:
        memory, rng = self.memory, self.rng
        pages = [f"Page {rng.randrange(16)}" for _ in range(2)]
        match rng.randrange(9):
            case 0 | 1 | 2:
                self.ids += [item.id for item in memory.add_many([self.item() for _ in range(rng.randrange(1, 4))])]
            case 3 if self.ids:
                memory.forget([self.ids.pop(rng.randrange(len(self.ids)))])
            case 4 if self.ids:
                new = self.item()
                memory.update(rng.choice(self.ids), ItemPatch(title=new.title, text=new.text))
            case 5 if self.ids:
                memory.update(rng.choice(self.ids), ItemPatch(add_tags=("a", "new"), remove_tags=("b",)))
            case 6:
                memory.add_edges([(pages[0], "near", pages[1], rng.choice([0.5, 0.5, rng.random()]))])
            case 7:
                node = rng.choice([*pages, "Ada", "Zurich"])
                memory.remove_node(node) if rng.random() < 0.3 else memory.add_node(node, aliases=(f"{node} too",))
            case _:
                memory.remove_edge(pages[0], "near", pages[1])


def require_the_tables(store: SqliteStore, rng: random.Random) -> int:
    """Compares all that the columns say with the tables; returns the length of their tail."""
    with store.snapshot("default") as at:
        links = at.links
        ids = at.rows.ids(NO_FILTERS)
        names = ["ada", "blue folder", "zurich", "ada too", "nothing", "", *(f"page {number}" for number in range(16))]
        known = graph.named_nodes(at.db, at.ns.id, names)
        assert links.named(names) == {name: sorted(nodes) for name, nodes in known.items()}
        for nodes in known.values():
            assert sorted(links.node_links(nodes)) == sorted(node_links(at.db, nodes))
        filters = rng.choice(FILTERS)
        allowed = at.allowed(filters)
        named = ["a", "b", "c", "aa", "new", "zz", *(f"tag {number}" for number in range(20))]
        for limit in (2, 200):
            assert links.tag_uses(named, allowed, limit) == tag_uses(at.db, at.ns.id, named, filters, limit)
        for _ in range(3):
            starts = {10**9: 0.5} | {item: rng.random() for item in rng.sample(ids, min(len(ids), 5))}
            factor = rng.choice([1.0, INSTEAD_OF_NAMES])
            walked = rank_by_links(starts, at.graph.item_links(list(starts), filters), mentions=factor)
            shared = rank_by_shared_tags(starts, at.tags.shared(list(starts), filters))
            for found, expected in (
                (links.walk(starts, allowed, CANDIDATES, factor), walked),
                (links.shared(starts, allowed, CANDIDATES), shared),
            ):
                assert found.ids.tolist() == expected.ids.tolist()
                assert found.scores == pytest.approx(expected.scores, abs=1e-9)
        return len(links.tail)


@pytest.mark.parametrize("hub", [3, HUB])
@pytest.mark.parametrize(("seed", "changes"), [(1, 60), (2, 60), pytest.param(3, 2000, marks=pytest.mark.soak)])
def test_columns_with_a_tail_equal_the_tables(tmp_path, monkeypatch, hub, seed, changes):
    monkeypatch.setattr(limits, "HUB", hub)
    store = SqliteStore(tmp_path / "store", tuning=EAGER)
    memory = Memory.open(store, embedder="none", background=False)
    writer = Writer(memory, seed)
    writer.ids = [item.id for item in memory.add_many([writer.item() for _ in range(25)])]
    memory.add_edges([(f"Page {number}", "near", f"Page {number + 1}", 0.5) for number in range(12)])
    columns(store)
    longest = 0
    for _ in range(changes):
        writer.change()
        longest = max(longest, require_the_tables(store, writer.rng))
    assert longest > 30
    memory.close()


def test_a_change_of_vectors_leaves_the_columns_as_they_are(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store", tuning=EAGER)
    memory = Memory.open(store, embedder="none", background=False)
    memory.add(NewItem("two", title="Two", tags=("a",)))
    before = columns(store)
    memory.add(NewItem("two", title="Two", vector=[1.0, 0.0]))
    with store.snapshot("default") as at:
        assert at.links is before
    memory.close()


def test_columns_of_a_namespace_without_tags_and_names_follow_its_first_ones(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store", tuning=EAGER)
    memory = Memory.open(store, embedder="none", background=False)
    first = memory.add(NewItem("plain"))
    columns(store)
    second = memory.add(NewItem("second", title="Second", tags=("work",)))
    memory.update(first.id, ItemPatch(add_tags=("work",)))
    assert require_the_tables(store, random.Random(1)) > 0
    with store.snapshot("default") as at:
        assert at.tags.rank_shared({first.id: 1.0}, NO_FILTERS, 10).ids.tolist() == [second.id]
    memory.close()


def test_a_long_tail_is_built_into_columns(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store", tuning=replace(EAGER, columns_tail=3))
    memory = Memory.open(store, embedder="none", background=False)
    memory.add(NewItem("one", title="One", tags=("a",)))
    columns(store)
    memory.add_many([NewItem(f"text {number}", title=f"Title {number}", tags=("a",)) for number in range(4)])
    assert len(columns(store).tail) == 0
    memory.close()


def test_links_found_later_are_in_the_tail_of_the_columns(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store", tuning=EAGER)
    memory = Memory.open(store, embedder="none", background=False)
    page, trip = memory.add_many([NewItem("a page", title="Copenhagen"), NewItem("a trip to Copenhagen")])
    store.maintenance.publish("default", everything=True)
    with store.transaction("default") as tx:
        tx.link_rows.change_mentions(sorted(tx.link_rows.mentions([trip.id])), [])
        tx.link_rows.postpone(["copenhagen"])
    before = columns(store)
    assert before.walk({trip.id: 1.0}, None, 10).ids.tolist() == []
    store.maintenance.publish("default", everything=True)
    with store.snapshot("default") as at:
        assert at.graph.walk({trip.id: 1.0}, NO_FILTERS, 10).ids.tolist() == [page.id]
        assert trip.id in at.links.tail.items
    memory.close()


def test_a_namespace_with_too_many_rows_has_no_columns(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store", tuning=replace(EAGER, max_column_rows=1))
    memory = Memory.open(store, embedder="none", background=False)
    memory.add_many([NewItem("one", tags=("a", "b"))])
    for _ in range(3):
        with store.snapshot("default") as at:
            assert at.links is None
        settle(at.caches.links)
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
        tag_ids=(),
        tagged=none,
    )
    with pytest.raises(ValueError, match="missing"):
        LinkState(rows)
    empty = LinkState(replace(rows, owned=none))
    assert empty.walk({1: 1.0}, None, 10).ids.tolist() == empty.shared({1: 1.0}, None, 10).ids.tolist() == []
    assert (empty.named(["a name"]), empty.node_links([5, 6])) == ({}, [])

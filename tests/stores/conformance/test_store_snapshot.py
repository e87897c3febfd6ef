"""A snapshot is one moment of a namespace; a transaction is stored as a whole or not at all."""

import threading
from typing import Any, cast

import pytest
from conformance_subjects import LATER, NOW, NS, add, item, search, unit
from store_calls import StoreCalls

from fourfold import Hit, HybridSearch, Plan, Query, Ranking
from fourfold.engine.retrievers import GraphRetriever, KeywordRetriever, SemanticRetriever, TagRetriever
from fourfold.errors import InvalidVector
from fourfold.model import NO_FILTERS, Edge, Filters, Space
from fourfold.storage.protocols import Snapshot, Tags, Vectors, Words
from fourfold.storage.sql.graph import GraphReader
from fourfold.storage.values import NewNode, NewRaw, Size, TagUse


def everything(snapshot: Snapshot) -> list[object]:
    """One answer from every facet."""
    return [
        snapshot.size,
        snapshot.rows.count(NO_FILTERS),
        snapshot.rows.ids(NO_FILTERS),
        [hit.id for hit in snapshot.words.match("Vertrag", 9, NO_FILTERS).hits],
        [hit.id for hit in snapshot.vectors.begin_nearest(unit(1, 0), 9, NO_FILTERS)().hits],
        [
            link.item
            for nodes in snapshot.graph.named(["atlantis"]).values()
            for link in snapshot.graph.node_links(nodes, NO_FILTERS)
        ],
        [use.item for use in snapshot.tags.uses(["ort"], NO_FILTERS, 9)],
        dict(snapshot.tags.counts()),
        [pending[0] for pending in snapshot.pending(9)],
    ]


@pytest.mark.spec("B6")
def test_snapshot_does_not_see_what_is_committed_after_its_first_read(store: StoreCalls) -> None:
    add(store, item("Der Vertrag", title="Atlantis", tags=("Ort",), vector=unit(1, 1)), "pending")

    def write() -> None:
        add(store, item("Der zweite Vertrag über Atlantis", tags=("Ort",), vector=unit(1, 0)), "pending too")

    writer = threading.Thread(target=write)
    with store.snapshot(NS) as snapshot:
        before = everything(snapshot)
        writer.start()
        writer.join(2)  # in some stores writers wait for readers
        assert everything(snapshot) == before
    writer.join()
    with store.snapshot(NS) as snapshot:
        assert snapshot.size == Size(4, 2)
        assert all(now != then for now, then in zip(everything(snapshot), before, strict=True))


def test_snapshot_says_whether_the_namespace_exists(store: StoreCalls) -> None:
    for exists in (False, True):
        with store.snapshot(NS) as snapshot:
            assert (snapshot.exists, snapshot.space) == (exists, None)
        add(store, "text")


def test_ids_and_count_agree_under_filters(store: StoreCalls) -> None:
    ids = add(store, *(item(f"text {number}", kind="even" if number % 2 == 0 else None) for number in range(7)))
    even = Filters(kind="even")
    assert (store.count(NS, NO_FILTERS), store.count(NS, even)) == (7, 4)
    assert store.ids(NS, even) == ids[::2]
    assert store.ids(NS, even, [ids[3], ids[4], ids[0], 10**6, -1]) == [ids[0], ids[4]]
    assert store.ids(NS, NO_FILTERS, []) == []
    assert store.count("nowhere", NO_FILTERS) == 0


# ---------------------------------------------------------------- transactions


@pytest.mark.spec("S1.8")
def test_writes_of_one_transaction_are_committed_together(store: StoreCalls) -> None:
    with store.transaction(NS) as transaction:
        raw = transaction.raw.add(NewRaw("said", None, None, {}, NOW))
        (stored,) = transaction.items.put([item("insight", source_ids=(raw.id,))], NOW)
        transaction.vectors.set_space(Space("model", 2))
        transaction.vectors.put(Space("model", 2), [(stored.id, "", "insight", unit(1, 0))])
        transaction.graph.add_nodes([NewNode("Ada", item=stored.id)])
        transaction.graph.add_edges([Edge("Ada", "knows", "Bert", 1.0)])
    assert store.get(NS, [stored.id]) == {stored.id: stored}
    assert (store.size(NS), store.space(NS)) == (Size(1, 1), Space("model", 2))
    assert [near.node.name for near in store.neighbors(NS, "Ada", None, 1, "out", None)] == ["Bert"]
    assert search(store, "semantic", vector=unit(1, 0)) == [stored.id]
    assert store.check() == []


@pytest.mark.spec("S1.8")
def test_transaction_whose_block_raises_stores_nothing(store: StoreCalls) -> None:
    (kept,) = add(store, item("kept", key="k", tags=("t",)))
    with pytest.raises(ZeroDivisionError), store.transaction(NS) as transaction:
        transaction.items.put([item("changed", key="k"), item("new", title="Atlantis", vector=unit(1, 0))], LATER)
        transaction.raw.add(NewRaw("said", None, None, {}, NOW))
        transaction.graph.add_edges([Edge("Ada", "knows", "Bert", 1.0)])
        raise ZeroDivisionError
    assert store.get(NS, [kept])[kept].text == "kept"
    assert (store.size(NS), store.space(NS), store.tag_counts(NS)) == (Size(1, 0), None, {"t": 1})
    assert (store.nodes(NS, "", 9, 0), list(store.list_raw(NS, None, None, 9, 0))) == ([], [])
    assert search(store, "keyword", "changed new") == search(store, "graph", "Atlantis") == []
    (after,) = add(store, item("after", title="Atlantis"))
    assert search(store, "graph", "Atlantis") == [after]
    assert store.check() == []


@pytest.mark.spec("S1.8")
def test_error_in_the_second_write_undoes_the_first(store: StoreCalls) -> None:
    with pytest.raises(InvalidVector), store.transaction(NS) as transaction:
        transaction.items.put([item("two numbers", vector=unit(1, 0))], NOW)
        transaction.items.put([item("three numbers", vector=unit(1, 0, 0))], NOW)
    assert (store.namespaces(), store.check()) == ({}, [])


# ---------------------------------------------------------------- limits of reads


@pytest.mark.spec("S5.2")
def test_tag_uses_are_those_of_the_items_with_the_most_and_rarest_tags(store: StoreCalls) -> None:
    tags = [("common", "even"), ("common",)] * 5
    ids = add(store, *(item(f"text {number}", tags=some) for number, some in enumerate(tags)))
    both = [use for id in ids[::2] for use in (TagUse(id, "common", 10), TagUse(id, "even", 5))]
    assert store.tag_uses(NS, ["common", "even"], NO_FILTERS, limit=3) == both[:6]
    assert store.tag_uses(NS, ["common", "even"], NO_FILTERS, limit=6) == sorted([*both, TagUse(ids[1], "common", 10)])
    assert store.tag_uses(NS, ["common"], NO_FILTERS, limit=2) == [TagUse(id, "common", 10) for id in ids[:2]]
    every = search(store, "tags", "common even", limit=10)
    for limit in (1, 4, 7):
        assert search(store, "tags", "common even", limit=limit) == every[:limit]


def test_retrievers_of_one_snapshot_run_in_the_thread_that_opened_it(store: StoreCalls) -> None:
    """A connection serves one thread at a time; an injected retriever runs in another thread."""
    add(store, item("Der Vertrag", title="Atlantis", tags=("ort",), vector=unit(1, 1)), "Vertrag in Atlantis")
    threads = dict[str, int]()

    class Noting:
        def __init__(self, facet: object, name: str) -> None:
            self._facet, self._name = facet, name

        def __getattr__(self, attribute: str) -> object:
            threads[self._name] = threading.get_ident()
            return getattr(self._facet, attribute)

    class Own:
        name = "own"

        def search(self, query: Query, limit: int) -> Ranking:
            threads[self.name] = threading.get_ident()
            return Ranking((Hit(1, 1.0),))

    plan = Plan("mine", ("semantic", "keyword", "graph", "tags", "own"), "rrf", k=60, top_k=5, weights={})
    query = Query(NS, "Vertrag Atlantis Ort", vector=unit(1, 0))
    with store.snapshot(NS) as snapshot:
        facets = {name: Noting(getattr(snapshot, name), name) for name in ("vectors", "words", "graph", "tags")}
        built_in = [
            SemanticRetriever(cast("Vectors", facets["vectors"])),
            KeywordRetriever(cast("Words", facets["words"])),
            GraphRetriever(cast("GraphReader[Any]", facets["graph"])),
            TagRetriever(cast("Tags", facets["tags"])),
        ]
        found = HybridSearch([*built_in, Own()]).run(query, plan)
    assert found.degraded == ()
    assert set(found.rankings) == {"semantic", "keyword", "graph", "tags", "own"}
    assert {threads.pop(name) for name in facets} == {threading.get_ident()}
    assert threads["own"] != threading.get_ident()

"""Nothing of one namespace, no row and no statistic, ever reaches another."""

import pytest
from conformance_operations import VECTORS
from conformance_subjects import NOW, NS, add, edit, exported, item, unit

from fourfold.errors import NotFound, StorageFull
from fourfold.model import NO_FILTERS, Edge, Space
from fourfold.storage.sql.rows import BLOCK
from fourfold.storage.values import NewNode

pytestmark = pytest.mark.spec("B15")

TEXTS = ("Der Mietvertrag für das Haus", "The lease of the house", "Sonnenschein über Köln", "Versicherung und Haus")
OTHER = "other"


def answers(store):
    queries = ("Vertrag Haus", "the house", "Sonne Köln", "Versicherungsfall")
    words = [store.match(NS, query, 9, NO_FILTERS) for query in queries]
    links = [store.node_links(NS, [name], NO_FILTERS) for name in ("haus", "köln", "koeln")]
    near = store.nearest(NS, unit(1, 0), 9, NO_FILTERS)
    return words, [sorted(found) for found in links], near, store.tag_counts(NS), store.size(NS)


def test_a_thousand_items_elsewhere_change_no_ranking_and_no_score(store):
    mine = [item(text, title=f"Haus {n}", tags=("haus",), vector=unit(n, 1)) for n, text in enumerate(TEXTS)]
    add(store, *mine)
    before = answers(store)
    words = ("Haus", "Vertrag", "Miete", "house", "lease", "Sonne", "Versicherung", "Köln", "the", "der")
    theirs = [
        item(
            f"{words[n % 10]} {words[n % 7]} {n}",
            title="Haus" if n % 50 == 0 else "",
            tags=("haus",),
            vector=VECTORS[n % 5],
        )
        for n in range(1000)
    ]
    store.put(OTHER, theirs, NOW)
    assert answers(store) == before
    assert store.namespaces() == {NS: 4, OTHER: 1000}


def test_items_of_another_namespace_do_not_exist(store):
    (mine,) = add(store, item("Mein Text", title="Mein Titel", key="k", tags=("t",), vector=unit(1, 0)))
    assert store.get(OTHER, [mine]) == {}
    assert store.find_keys(OTHER, ["k"]) == {}
    (theirs,) = store.put(OTHER, [item("Ihr Text", key="k", vector=unit(1, 2, 3))], NOW)
    assert theirs.id != mine
    assert store.forget(OTHER, [mine]) == 0
    assert store.word_scores(OTHER, "Text", [mine, theirs.id]).hits[0].id == theirs.id
    assert store.cosines(OTHER, unit(1, 0, 0), [mine]) == store.cosines(OTHER, unit(1, 0, 0), [])
    assert store.item_links(OTHER, [mine], NO_FILTERS) == []
    with pytest.raises(NotFound):
        store.neighbors(OTHER, "Mein Titel", None, 1, "both", None)
    with pytest.raises(NotFound):
        store.add_nodes(OTHER, [NewNode("X", item=mine)])


def test_links_stay_inside_a_namespace(store):
    page, note = add(store, item("x", title="Atlantis"), "Nach Atlantis")
    theirs = store.put(OTHER, [item("x", title="Atlantis"), item("Auch nach Atlantis")], NOW)
    store.add_edges(OTHER, [Edge("Atlantis", "lies in", "Meer", 1.0)])
    assert [near.node.name for near in store.neighbors(OTHER, "Atlantis", None, 1, "out", None)] == ["Meer"]
    assert store.neighbors(NS, "Atlantis", None, 1, "out", None) == []
    assert {link.item for link in store.node_links(NS, ["atlantis"], NO_FILTERS)} == {page, note}
    store.forget(OTHER, [theirs[0].id])
    assert {link.item for link in store.node_links(NS, ["atlantis"], NO_FILTERS)} == {page, note}


def test_a_name_removed_here_hides_no_other_even_if_another_namespace_has_it(store):
    store.put(OTHER, [item("x", title="New York City")], NOW)
    city, state = add(store, item("c", title="New York City"), item("s", title="New York"))
    store.forget(NS, [city])
    (note,) = add(store, "A week in New York City")
    assert {link.item for link in store.item_links(NS, [note], NO_FILTERS)} == {state}


def test_raw_records_of_another_namespace_are_not_sources(store):
    record = store.add_raw(OTHER, "said", None, None, {}, NOW)
    with pytest.raises(NotFound):
        add(store, item("text", source_ids=(record.id,)))
    assert store.get_raw(NS, [record.id]) == {}
    assert store.namespaces() == {OTHER: 0}


def test_every_namespace_has_its_own_space(store):
    store.set_space(NS, Space("one", 2))
    store.set_space(OTHER, Space("two", 3))
    assert (store.space(NS), store.space(OTHER)) == (Space("one", 2), Space("two", 3))
    (mine,) = add(store, item("text", vector=unit(1, 0)))
    store.reset_space(OTHER, Space("three", 4))
    edit(store, mine, add_tags=("t",))
    assert store.size(NS).vectors == 1


def given(store, namespace: str) -> tuple[int, int, int]:
    """The ids of a new item, raw record and node."""
    (stored,) = store.put(namespace, [item(f"text {store.size(namespace)}")], NOW)
    record = store.add_raw(namespace, "said", None, None, {}, NOW)
    (node,) = store.add_nodes(namespace, [NewNode(f"Node {stored.id}")])
    return stored.id, record.id, node.id


@pytest.mark.spec("B15")
def test_ids_reveal_nothing_about_other_namespaces(store):
    assert given(store, NS) == (1, 1, 1)
    first = given(store, OTHER)
    for _ in range(5):
        given(store, NS)
    second = given(store, OTHER)
    assert [b - a for a, b in zip(first, second, strict=True)] == [1, 1, 1]
    assert len({id for ids in (first, second) for id in ids} & set(range(1, 100))) == 0
    store.forget(OTHER, [second[0]])
    store.remove_node(OTHER, f"Node {second[0]}", None)
    third = given(store, OTHER)
    assert [b - a for a, b in zip(second, third, strict=True)] == [1, 1, 1]
    assert store.check() == []


@pytest.mark.spec("B9", "B15")
def test_each_namespace_continues_its_own_ids_after_a_load(store, empty):
    given(empty, NS)
    before = given(empty, "a namespace that is sorted first")
    records = exported(empty)
    store.load(records)
    assert given(store, NS) == (2, 2, 2)
    after = given(store, "a namespace that is sorted first")
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 1]
    fresh = given(store, OTHER)
    assert not {id // BLOCK for id in fresh} & {id // BLOCK for id in (*before, 1)}


@pytest.mark.spec("B9", "B15")
def test_namespaces_that_shared_a_counter_get_their_own(store, empty):
    """Older versions assigned ids from one counter for all namespaces."""
    empty.put(NS, [item("mine")], NOW)
    empty.put(OTHER, [item("theirs")], NOW)
    records = exported(empty)
    store.load({**record, "id": 2} if record.get("text") == "theirs" else record for record in records)
    assert (store.ids(NS, NO_FILTERS), store.ids(OTHER, NO_FILTERS)) == ([1], [2])
    new = {store.put(namespace, [item("new")], NOW)[0].id for namespace in (NS, OTHER, "third")}
    assert len({id // BLOCK for id in new}) == 3
    assert store.check() == []


def test_a_namespace_without_free_ids_raises_an_error(store, empty):
    empty.put(NS, [item("the last one")], NOW)
    records = exported(empty)
    store.load({**record, "id": BLOCK - 1} if record["type"] == "item" else record for record in records)
    with pytest.raises(StorageFull, match="ids"):
        add(store, "one more")
    assert store.check() == []

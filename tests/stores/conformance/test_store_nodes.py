"""Browsing the graph: the list of nodes, and one node with its items, mentions and edges."""

import pytest
from conformance_subjects import NS, add, item

from fourfold.errors import Ambiguous, NotFound
from fourfold.model import Edge, NodeSummary
from fourfold.storage.values import NewNode
from fourfold.text.entities import normal_name


def filled(store) -> list[int]:
    ids = add(
        store,
        item("Postgres with two replicas", title="Kestrel"),
        item("Takes orders, and asks Kestrel", title="Checkout"),
        item("Kestrel was down; Checkout, too"),
    )
    store.add_nodes(NS, [NewNode("Müller", "person", ("Boss", "Herr Müller"), {"since": 2020})])
    edges = [
        ("Checkout", "uses", "Kestrel", 0.5),
        ("Müller", "owns", "Kestrel", 1.0),
        ("Kestrel", "is", "Database", 0.5),
    ]
    store.add_edges(NS, [Edge(*edge) for edge in edges])
    return ids


@pytest.mark.spec("S4.1")
def test_nodes_are_listed_with_their_counts(store):
    filled(store)
    assert store.nodes(NS, "", 10, 0) == [
        NodeSummary("Kestrel", "entity", 1, 2, 3),
        NodeSummary("Checkout", "entity", 1, 1, 1),
        NodeSummary("Database", "entity", 0, 0, 1),
        NodeSummary("Müller", "person", 0, 0, 1),
    ]
    assert [node.name for node in store.nodes(NS, "", 2, 1)] == ["Checkout", "Database"]
    assert [node.name for node in store.nodes(NS, normal_name("KEST"), 10, 0)] == ["Kestrel"]
    assert [node.name for node in store.nodes(NS, normal_name("mueller"), 10, 0)] == ["Müller"]
    assert [node.name for node in store.nodes(NS, normal_name("boss"), 10, 0)] == ["Müller"]
    assert store.nodes(NS, "%", 10, 0) == store.nodes("nowhere", "", 10, 0) == []


@pytest.mark.spec("S4.1")
def test_the_nodes_of_an_item_are_its_own_and_those_that_it_mentions(store):
    kestrel, checkout, outage = filled(store)
    assert [each.name for each in nodes_of(store, kestrel)] == ["Kestrel"]
    assert nodes_of(store, checkout) == store.nodes(NS, "", 2, 0)
    assert [each.name for each in nodes_of(store, outage)] == ["Kestrel", "Checkout"]
    assert nodes_of(store, outage + 1) == []
    with store.snapshot(NS) as snapshot:
        graph = snapshot.graph
        among = [node for nodes in graph.named(["kestrel", "database"]).values() for node in nodes]
        assert [each.name for each in graph.nodes("", 9, 0, among)] == ["Kestrel", "Database"]
        assert [each.name for each in graph.nodes("data", 9, 0, among)] == ["Database"]
        assert [each.name for each in graph.nodes("", 9, 1, among)] == ["Database"]
        assert graph.nodes("", 9, 0, []) == []


def nodes_of(store, item: int) -> list[NodeSummary]:
    with store.snapshot(NS) as snapshot:
        return snapshot.graph.nodes("", 10, 0, snapshot.graph.nodes_of(item))


@pytest.mark.spec("S4.1")
def test_a_node_is_shown_with_its_items_mentions_and_edges_by_weight(store):
    kestrel, checkout, outage = filled(store)
    found = store.node_view(NS, "kestrel", None, 10)
    assert (found.node.name, found.node.label, found.node.aliases) == ("Kestrel", "entity", ())
    assert (found.items, found.mentions) == ((kestrel,), (checkout, outage))
    assert found.edges == (
        Edge("Müller", "owns", "Kestrel", 1.0),
        Edge("Checkout", "uses", "Kestrel", 0.5),
        Edge("Kestrel", "is", "Database", 0.5),
    )
    few = store.node_view(NS, "Kestrel", None, 1)
    assert (few.items, few.mentions, few.edges) == ((kestrel,), (checkout,), found.edges[:1])
    person = store.node_view(NS, "Boss", None, 10).node
    assert (person.name, person.aliases, person.properties) == ("Müller", ("Boss", "Herr Müller"), {"since": 2020})


def test_an_unknown_or_ambiguous_node_raises_an_error(store):
    filled(store)
    store.add_nodes(NS, [NewNode("Kestrel", "bird")])
    with pytest.raises(NotFound, match="no node 'Nobody'"):
        store.node_view(NS, "Nobody", None, 10)
    with pytest.raises(NotFound, match="no node 'Kestrel'"):
        store.node_view("nowhere", "Kestrel", None, 10)
    with pytest.raises(Ambiguous):
        store.node_view(NS, "Kestrel", None, 10)
    assert store.node_view(NS, "Kestrel", "bird", 10).edges == ()


def test_status_counts_mentions_and_edges_separately(store):
    filled(store)
    facts = store.status()["namespaces"][NS]
    assert (facts["nodes"], facts["edges"], facts["mentions"]) == (4, 3, 3)

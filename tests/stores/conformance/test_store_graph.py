"""Nodes and edges."""

import pytest
from conformance_subjects import NS, add, item, search

from fourfold.errors import Ambiguous, InvalidItem, NotFound
from fourfold.limits import HUB
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Edge, Filters
from fourfold.storage.values import NewNode

pytestmark = pytest.mark.spec("S4.1")


def near(store, name, depth=1, direction="both", relation=None):
    found = store.neighbors(NS, name, None, depth, direction, relation)
    return [(step.node.name, step.relation, step.distance, round(step.weight, 6)) for step in found]


def test_a_node_is_unique_by_folded_name_and_label(store):
    first, second = store.add_nodes(NS, [NewNode("Müller AG", aliases=("MAG",)), NewNode("MUELLER  ag", "firm")])
    (again,) = store.add_nodes(NS, [NewNode("mueller ag", aliases=("Die Müllers", "mag"), properties={"size": 3})])
    assert (first.id == again.id, first.id == second.id) == (True, False)
    assert (again.name, again.label, again.aliases, again.properties) == (
        "Müller AG",
        "entity",
        ("Die Müllers", "MAG"),
        {"size": 3},
    )
    (more,) = store.add_nodes(NS, [NewNode("Müller AG", properties={"city": "Köln"})])
    assert more.properties == {"size": 3, "city": "Köln"}


def test_an_ambiguous_name_is_an_error_that_lists_the_labels(store):
    store.add_nodes(NS, [NewNode("Mercury", "planet"), NewNode("Mercury", "metal")])
    with pytest.raises(Ambiguous, match="metal, planet"):
        store.neighbors(NS, "mercury", None, 1, "both", None)
    with pytest.raises(Ambiguous):
        store.add_edges(NS, [Edge("Mercury", "orbits", "Sun", 1.0)])
    with pytest.raises(NotFound):
        store.neighbors(NS, "Sun", None, 1, "both", None)
    assert store.neighbors(NS, "Mercury", "planet", 1, "both", None) == []


def test_names_mean_nodes_that_earlier_edges_of_the_same_call_made(store):
    store.add_nodes(NS, [NewNode("Mercury", "planet")])
    store.add_edges(NS, [Edge("Zorn", "knows", "Anna", 0.5), Edge("ZORN", "likes", "Bert", 0.25)])
    assert near(store, "Zorn") == [("Anna", "knows", 1, 0.5), ("Bert", "likes", 1, 0.25)]
    with pytest.raises(Ambiguous, match="metal, planet"):
        store.add_edges(NS, [Edge("Mercury#metal", "is", "liquid", 1.0), Edge("Mercury", "is", "hot", 1.0)])
    store.add_edges(NS, [Edge("a", "r", "b", 0.5), Edge("a", "r", "b", 0.75)])
    assert near(store, "a") == [("b", "r", 1, 0.75)]


@pytest.mark.spec("S4.1")
@pytest.mark.parametrize("name", ["C#", "PR#12", "Issue #7", "a#0\x1b"])
def test_a_number_sign_without_a_label_after_it_belongs_to_the_name(store, name):
    store.add_edges(NS, [Edge("Hub", "names", name, 1.0)])
    assert [node.node.name for node in store.neighbors(NS, "Hub", None, 1, "both", None)] == [name]


@pytest.mark.spec("S4.1")
def test_an_ambiguous_name_is_told_apart_by_its_label_everywhere(store):
    memory = Memory(store.store, None, NS, background=False)
    store.add_nodes(NS, [NewNode("Mercury", "planet"), NewNode("Mercury", "metal"), NewNode("C#", "language")])
    with pytest.raises(Ambiguous) as raised:
        memory.path("Mercury", "C#")
    assert raised.value.remedy == "Write Mercury#metal or Mercury#planet"
    memory.add_edge("Mercury#planet", "orbits", "Sun#star", 0.5)
    memory.add_edge("mercury#metal", "melts in", "C#", 0.25)
    assert near(store, "Mercury#planet") == [("Sun", "orbits", 1, 0.5)]
    assert near(store, "C##language") == [("Mercury", "melts in", 1, 0.25)]
    assert [node.node.label for node in memory.neighbors("Mercury", label="planet")] == ["star"]
    assert memory.path("Mercury#planet", "C#") == []
    assert [edge.relation for edge in memory.path("Mercury#metal", "C#")] == ["melts in"]
    assert memory.remove_edge("Mercury#planet", "orbits", "Sun") is True
    assert memory.remove_node("Mercury#planet") is True
    assert near(store, "Mercury") == [("C#", "melts in", 1, 0.25)]
    with pytest.raises(NotFound, match="with the label 'god'"):
        memory.neighbors("Mercury#god")
    with pytest.raises(InvalidItem):
        memory.add_edge("!#god", "is", "Mercury")


@pytest.mark.spec("S4.1")
def test_a_hash_that_belongs_to_a_name_is_escaped_where_it_could_be_a_label(store):
    memory = Memory(store.store, None, NS, background=False)
    memory.add_node("api#search")
    memory.add_edge("api\\#search", "needs", "Issue #5")
    assert near(store, "api\\#search") == [("Issue #5", "needs", 1, 1.0)]
    assert near(store, "issue #5") == [("api#search", "needs", 1, 1.0)]
    with pytest.raises(NotFound, match="label 'search'") as raised:
        memory.neighbors("api#search")
    assert "\\#" in raised.value.remedy
    assert [one.node.name for one in memory.neighbors("api#search", label="entity")] == ["Issue #5"]


def test_an_alias_of_two_nodes_with_one_label_is_told_apart_by_their_names(store):
    store.add_nodes(NS, [NewNode("Ada", aliases=("The Countess",)), NewNode("Bea", aliases=("The Countess",))])
    with pytest.raises(Ambiguous) as raised:
        near(store, "the countess")
    assert "own name" in raised.value.remedy


def test_a_name_comes_before_an_alias(store):
    store.add_nodes(NS, [NewNode("Python"), NewNode("Monty", aliases=("Python",))])
    store.add_edges(NS, [Edge("Python", "runs on", "Linux", 1.0), Edge("Monty", "made", "Films", 1.0)])
    assert near(store, "python") == [("Linux", "runs on", 1, 1.0)]


def test_an_alias_leads_to_its_node(store):
    store.add_nodes(NS, [NewNode("Kubernetes", aliases=("K8s",))])
    store.add_edges(NS, [Edge("k8s", "part of", "Plattform", 0.5)])
    assert near(store, "Kubernetes") == [("Plattform", "part of", 1, 0.5)]


def test_storing_an_edge_again_sets_its_weight(store):
    store.add_edges(NS, [Edge("A1", "knows", "B1", 0.3), Edge("A1", "likes", "B1", 0.2)])
    store.add_edges(NS, [Edge("a1", "knows", "b1", 0.9)])
    assert near(store, "A1") == [("B1", "knows", 1, 0.9)]
    assert near(store, "A1", relation="likes") == [("B1", "likes", 1, 0.2)]


def test_neighbors_by_depth_direction_and_relation(store):
    edges = [
        ("Ada", "knows", "Bob", 0.5),
        ("Bob", "knows", "Cid", 0.5),
        ("Dora", "likes", "Ada", 1.0),
        ("Ada", "knows", "Eve", 0.8),
    ]
    store.add_edges(NS, [Edge(*edge) for edge in edges])
    assert near(store, "Ada") == [("Dora", "likes", 1, 1.0), ("Eve", "knows", 1, 0.8), ("Bob", "knows", 1, 0.5)]
    assert near(store, "Ada", direction="out") == [("Eve", "knows", 1, 0.8), ("Bob", "knows", 1, 0.5)]
    assert near(store, "Ada", direction="in") == [("Dora", "likes", 1, 1.0)]
    assert near(store, "Ada", relation="likes") == [("Dora", "likes", 1, 1.0)]
    assert near(store, "Cid", depth=2, direction="in") == [("Bob", "knows", 1, 0.5), ("Ada", "knows", 2, 0.25)]
    assert [name for name, *_ in near(store, "Cid", depth=5)] == ["Bob", "Ada", "Dora", "Eve"]


def test_a_neighbor_has_the_best_weight_of_its_shortest_paths(store):
    edges = [("S", "a", "X", 0.9), ("S", "a", "Y", 0.5), ("X", "b", "T", 0.1), ("Y", "b", "T", 0.8)]
    store.add_edges(NS, [Edge(*edge) for edge in edges])
    assert near(store, "S", depth=2)[-1] == ("T", "b", 2, 0.4)


def test_a_path_is_a_shortest_way_in_either_direction(store):
    edges = [
        Edge("A", "to", "B", 1.0),
        Edge("C", "to", "B", 0.5),
        Edge("C", "to", "D", 1.0),
        Edge("A", "far", "X", 1.0),
    ]
    store.add_edges(NS, edges)
    assert store.path(NS, "a", "d", 10) == edges[:3]
    assert store.path(NS, "A", "D", 2) == []
    assert store.path(NS, "A", "A", 5) == []
    with pytest.raises(NotFound):
        store.path(NS, "A", "Nobody", 5)


def test_removing_a_node_removes_its_edges(store):
    store.add_edges(NS, [Edge("A", "to", "B", 1.0), Edge("B", "to", "C", 1.0)])
    assert (store.remove_node(NS, "b", None), store.remove_node(NS, "b", None)) == (True, False)
    assert near(store, "A") == near(store, "C") == []


def test_removing_an_edge(store):
    store.add_edges(NS, [Edge("A", "to", "B", 1.0), Edge("A", "and", "B", 0.5)])
    assert (store.remove_edge(NS, "a", "to", "b"), store.remove_edge(NS, "A", "to", "B")) == (True, False)
    assert near(store, "A") == [("B", "and", 1, 0.5)]
    assert not store.remove_edge(NS, "A", "to", "Nobody")


def test_a_node_with_an_unknown_item_is_refused(store):
    with pytest.raises(NotFound):
        store.add_nodes(NS, [NewNode("Good"), NewNode("Bad", item=7)])
    assert store.namespaces() == {}


def test_a_node_has_the_id_of_its_item(store):
    first, second = add(store, "one text", "another text")
    nodes = store.add_nodes(NS, [NewNode("Thing", item=second), NewNode("Thing", item=first), NewNode("Bare")])
    assert [node.item_id for node in nodes] == [first, first, None]


@pytest.mark.spec("S4.2")
def test_the_query_leads_to_items_of_its_entities_and_of_their_neighbors(store):
    ada, bob, far = add(store, "first", "second", "third")
    store.add_nodes(
        NS,
        [NewNode("Ada Lovelace", aliases=("Countess",), item=ada), NewNode("Bob", item=bob), NewNode("Far", item=far)],
    )
    store.add_edges(NS, [Edge("Ada Lovelace", "knows", "Bob", 0.5), Edge("Bob", "knows", "Far", 1.0)])
    assert search(store, "graph", "what does ada lovelace know?") == [ada, bob]
    assert search(store, "graph", "who knew the COUNTESS") == [ada, bob]
    links = store.node_links(NS, ["ada lovelace"], NO_FILTERS)
    assert sorted(link[1:] for link in links) == sorted([(ada, "own", 1.0, 1), (bob, "edge", 0.5, 2)])


@pytest.mark.spec("S4.2")
def test_the_longest_name_wins(store):
    york, city = add(store, "a", "b")
    store.add_nodes(NS, [NewNode("York", item=york), NewNode("New York City", item=city)])
    assert search(store, "graph", "in new york city") == [city]
    assert search(store, "graph", "in york") == [york]


@pytest.mark.spec("S4.2")
def test_a_name_of_too_many_items_leads_nowhere(store):
    many = [item(f"text {n}", title="Notiz", kind="few" if n < 3 else None) for n in range(HUB + 1)]
    stored = add(store, *many)
    assert search(store, "graph", "Notiz") == []
    assert search(store, "graph", "Notiz", filters=Filters(kind="few")) == []
    store.forget(NS, stored[-1:])
    assert search(store, "graph", "Notiz") == stored[:-1]


@pytest.mark.spec("S4.2")
def test_a_walk_continues_from_items(store):
    ada, bob = add(store, item("first", title="Ada"), item("second", title="Bob", kind="note"))
    store.add_edges(NS, [Edge("Ada", "knows", "Bob", 0.5)])
    assert store.item_links(NS, [ada], NO_FILTERS) == [(ada, bob, "edge", 0.5, 1)]
    assert store.item_links(NS, [bob], NO_FILTERS) == [(bob, ada, "edge", 0.5, 1)]
    assert store.item_links(NS, [bob], Filters(kind="note")) == []


@pytest.mark.spec("S4.2")
def test_the_degree_of_a_link_counts_the_links_at_both_ends(store):
    """An edge counts the edges of both nodes and the items of the target; a mention its sources and targets."""
    ada, bob, again = add(store, item("first", title="Ada"), item("a", title="Bob"), item("b", title="Bob"))
    store.add_edges(NS, [Edge("Ada", "knows", "Bob", 0.5), Edge("Ada", "knows", "Eve", 1.0)])
    store.add_edges(NS, [Edge("Bob", "knows", each, 1.0) for each in ("Eve", "Bob")])
    edges = {link.item: link.degree for link in store.item_links(NS, [ada], NO_FILTERS)}
    assert edges == {bob: 2 * 3 * 2, again: 2 * 3 * 2}
    notes = add(store, "Meet Bob.", "Ask Bob.", "Pay Bob.")
    found = store.item_links(NS, [notes[0], bob], NO_FILTERS)
    degrees = {(link.source, link.item): link.degree for link in found if link.kind != "edge"}
    assert degrees == dict.fromkeys([*((notes[0], page) for page in (bob, again)), *((bob, note) for note in notes)], 6)


def test_the_relations_of_nodes_are_their_heaviest_edges_in_each_direction(store):
    many = [Edge(f"Reader {n}", "reads", "Book", 1.0 if n < HUB else 0.5) for n in range(HUB + 1)]
    store.add_edges(NS, [*many, Edge("Ada", "wrote", "Book", 0.25), Edge("Book", "cites", "Ada", 0.75)])
    found = store.relations(NS, ["ada"])
    assert [edge[1::2] + edge[4:] for edge in found] == [("cites", 0.75, False), ("wrote", 0.25, True)]
    of_book = store.relations(NS, ["book", "ada"])
    assert {edge.weight for edge in of_book if edge.relation == "reads"} == {1.0}
    assert len(of_book) == len(found) + HUB + 1
    assert store.relations(NS, ["nobody"]) == []


@pytest.mark.parametrize("direction", ["both", "out", "in"])
@pytest.mark.parametrize("relation", [None, "mentions", "knows"])
def test_pages_of_neighbours_are_parts_of_the_whole_list(store, direction, relation):
    """At distance 1 the database selects the page, at greater distances the walk does."""
    store.add_edges(
        NS,
        [
            *(Edge("Hub", "knows", f"Node {n}", (n % 7 + 1) / 10) for n in range(30)),
            *(Edge(f"Node {n}", "likes", "Hub", (n % 5 + 1) / 10) for n in range(0, 30, 2)),
            *(Edge("Hub", "admires", f"Node {n}", (n % 7 + 1) / 10) for n in range(0, 30, 3)),
            Edge("Hub", "knows", "Hub", 0.5),
            Edge("Node 3", "knows", "Far", 0.5),
        ],
    )
    add(store, item("The Hub is described here", title="About"), item("Node 4 and Node 5", title="Hub"))
    for depth in (1, 2):
        whole = store.neighbors(NS, "Hub", None, depth, direction, relation)
        assert (whole.total, whole.has_more) == (len(whole), False)
        pages = [store.neighbors(NS, "Hub", None, depth, direction, relation, 7, start) for start in range(0, 42, 7)]
        assert [near for page in pages for near in page] == whole
        assert {page.total for page in pages} == {len(whole)}
        assert [page.has_more for page in pages] == [page.offset + 7 < len(whole) for page in pages]

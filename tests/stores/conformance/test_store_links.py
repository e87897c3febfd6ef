"""Titles, headings and aliases become nodes, and texts that name them are linked to them automatically."""

import pytest
from conformance_subjects import NOW, NS, add, edit, item, search

from fourfold.errors import NotFound
from fourfold.model import NO_FILTERS, Edge, ItemPatch
from fourfold.storage.values import NewNode

pytestmark = pytest.mark.spec("B11")


def mentions(store, id):
    """The items that an item mentions in its text."""
    links = store.item_links(NS, [id], NO_FILTERS)
    return sorted(link.item for link in links if link.kind == "mentions")


def test_a_mention_of_a_title_is_an_edge(store):
    page, note = add(store, item("Alles Wichtige", title="Projekt Adler"), "Morgen beginnt das Projekt Adler.")
    assert mentions(store, note) == [page]
    assert store.item_links(NS, [page], NO_FILTERS) == [(page, note, "mentioned-by", 1.0, 1)]
    assert search(store, "graph", "Projekt Adler") == [page, note]


def test_a_title_is_known_without_its_bracket_too(store):
    note, planet = add(store, "We saw Mercury rise.", item("The smallest.", title="Mercury (planet)"))
    assert mentions(store, note) == [planet]
    (metal,) = add(store, item("A liquid.", title="Mercury (element)"))
    (full,) = add(store, "Mercury (planet) is not Mercury (element).")
    assert (mentions(store, note), mentions(store, full)) == ([planet, metal], [planet, metal])
    assert search(store, "graph", "How heavy is Mercury?") == [planet, metal, note]
    edit(store, planet, title="Venus (planet)")
    assert (mentions(store, note), search(store, "graph", "Venus")) == ([metal], [planet])


def test_items_stored_before_the_title_existed_point_to_it_too(store):
    (note,) = add(store, "Morgen beginnt das Projekt Adler in Köln, sagt Müller.")
    (page,) = add(store, item("Alles Wichtige", title="projekt adler"))
    (town,) = add(store, item("Am Rhein", title="Koeln"))
    assert mentions(store, note) == [page, town]
    (person,) = add(store, item("Chef", title="Herr Müller"))
    store.add_nodes(NS, [NewNode("Herr Müller", aliases=("Müller",))])
    assert mentions(store, note) == [page, town, person]


def test_an_umlaut_is_found_in_a_text_of_any_language(store):
    (note,) = add(store, "The meeting with Müller and with the Café Français was moved to the next week.")
    stored = add(store, item("a", title="Mueller"), item("b", title="cafe francais"))
    assert mentions(store, note) == stored


def test_mentions_are_removed_with_their_title(store):
    page, note = add(store, item("Text", title="Atlantis"), "Die Reise nach Atlantis")
    store.forget(NS, [page])
    assert (search(store, "graph", "Atlantis"), store.item_links(NS, [note], NO_FILTERS)) == ([], [])
    (again,) = add(store, item("Ein neuer Text", title="Atlantis"))
    assert mentions(store, note) == [again]
    edit(store, again, title="Utopia")
    assert mentions(store, note) == []
    edit(store, note, text="Die Reise nach Utopia")
    assert mentions(store, note) == [again]


def test_a_title_that_several_items_have_stays_until_the_last_is_gone(store):
    first, second, note = add(store, item("a", title="Berlin"), item("b", title="Berlin"), "Wir sind in Berlin")
    assert mentions(store, note) == [first, second]
    store.forget(NS, [first])
    assert mentions(store, note) == [second]


def test_the_longest_name_is_linked_whichever_was_stored_first(store):
    (note,) = add(store, "A week in New York City")
    (city,) = add(store, item("c", title="New York City"))
    (state,) = add(store, item("s", title="New York"))
    assert mentions(store, note) == [city]
    store.forget(NS, [city])
    assert mentions(store, note) == [state]
    (city,) = add(store, item("c", title="New York City"))
    assert mentions(store, note) == [city]
    store.remove_node(NS, "New York City", None)
    assert mentions(store, note) == [state]


def test_headings_are_nodes_too(store):
    page, note = add(store, "# Einleitung\nText\n## Der Große Plan\nText", "Siehe Der Große Plan")
    assert mentions(store, note) == [page]


def test_comments_in_code_are_not_nodes(store):
    script = item("# home directory\nHOME=/srv", title="deluser.conf", kind="code")
    _, note = add(store, script, "Remove the home directory")
    assert mentions(store, note) == []
    assert search(store, "graph", "Which home directory?") == []


def test_headings_follow_a_change_of_the_kind(store):
    (note,) = add(store, "The home directory")
    for kind, found in (("code", False), ("markdown", True), ("code", False)):
        (page,) = add(store, item("# home directory\nHOME=/srv", key="page", kind=kind))
        assert mentions(store, note) == [page] * found


@pytest.mark.parametrize(
    "link", ["[[go]]", "[[go|the language]]", "[read this](notes/go.md)", "[Go](x.md)", "[[notes/Go.md]]"]
)
@pytest.mark.parametrize("page_first", [True, False])
def test_a_written_link_leads_to_any_name_now_or_later(store, link, page_first):
    """An explicit link also leads to a name that is too short or too common for a mention."""
    page, note = item("The language", title="Go"), item(f"More in {link} and we go home")
    stored = [add(store, new)[0] for new in ((page, note) if page_first else (note, page))]
    page_id, note_id = stored if page_first else stored[::-1]
    assert mentions(store, note_id) == [page_id]


def test_a_common_word_is_not_a_mention(store):
    _, note = add(store, item("x", title="Go"), "Now we Go home, it is the end")
    assert mentions(store, note) == []


def test_an_item_does_not_mention_itself(store):
    (id,) = add(store, item("Atlantis ist hier, Atlantis [[Atlantis]]", title="Atlantis"))
    assert store.item_links(NS, [id], NO_FILTERS) == []
    other, _ = add(store, "Der Text nennt Utopia", item("x", title="Utopia"))
    store.add_nodes(NS, [NewNode("Utopia", item=other)])
    assert mentions(store, other) == []


def test_explicit_nodes_and_their_aliases_are_mentioned_too(store):
    (note,) = add(store, "We moved to K8s last week")
    (page,) = add(store, "About containers")
    store.add_nodes(NS, [NewNode("Kubernetes", aliases=("K8s",), item=page)])
    assert mentions(store, note) == [page]


def test_a_node_with_an_edge_outlives_its_title(store):
    (page,) = add(store, item("x", title="Atlantis"))
    store.add_edges(NS, [Edge("Atlantis", "lies in", "Meer", 1.0)])
    store.forget(NS, [page])
    assert [near.node.name for near in store.neighbors(NS, "Atlantis", None, 1, "both", None)] == ["Meer"]


def test_mentions_are_edges_of_the_graph(store):
    add(store, item("Wir besuchen Atlantis", title="Reise"), item("x", title="Atlantis"))
    (near,) = store.neighbors(NS, "Reise", None, 1, "out", "mentions")
    assert (near.node.name, near.relation, near.weight) == ("Atlantis", "mentions", 1.0)
    assert store.path(NS, "Atlantis", "Reise", 3) == [Edge("Reise", "mentions", "Atlantis", 1.0)]


def test_links_off_makes_no_nodes_and_no_edges(store):
    page, note = add(store, item("x", title="Atlantis"), "Nach Atlantis [[Atlantis]]", links=False)
    with pytest.raises(NotFound):
        store.neighbors(NS, "Atlantis", None, 1, "both", None)
    store.add_nodes(NS, [NewNode("Atlantis", item=page)])
    assert store.item_links(NS, [page, note], NO_FILTERS) == []
    (linked,) = add(store, "Auch nach Atlantis", links=True)
    assert mentions(store, linked) == [page]


def test_a_text_stored_again_with_links_off_loses_its_links(store):
    page, note = add(store, item("x", title="Atlantis", key="a"), "Nach Atlantis")
    edit(store, note, text="Wieder nach Atlantis", links=False)
    assert mentions(store, note) == []
    edit(store, page, text="y", links=False)
    with pytest.raises(NotFound):
        store.neighbors(NS, "Atlantis", None, 1, "both", None)


def test_many_titles_at_once_are_found_in_older_items_after_maintenance(store):
    (note,) = add(store, "Kapitel Sieben und Kapitel Vierzig und [[kapitel neun]]")
    numbers = ["Sieben", "Vierzig", "Neun", *(f"Nummer{n}" for n in range(60))]
    stored = add(store, *(item(f"Text {n}", title=f"Kapitel {n}") for n in numbers))
    store.publish(NS)
    assert mentions(store, note) == stored[:3]
    (late,) = add(store, "Dann Kapitel Nummer7")
    assert mentions(store, late) == [stored[10]]


@pytest.mark.parametrize("committed", [False, True], ids=["new namespace", "with older items"])
def test_writes_of_one_transaction_link_to_each_other_like_separate_ones(store, committed):
    """Texts are written before the items, nodes and edges that they name."""
    if committed:
        add(store, "An older note about Projekt Adler and Dr. Klenk and the Rheinhalle.")
    with store.transaction(NS, names=True) as tx:
        (note,) = tx.items.put([item("Projekt Adler meets Dr. Klenk in the Rheinhalle.")], NOW)
        (page,) = tx.items.put([item("All about it", title="Projekt Adler")], NOW)
        (gone,) = tx.items.put([item("Projekt Adler again")], NOW)
        (other,) = tx.items.put([item("nothing yet")], NOW)
        tx.items.patch(other.id, ItemPatch(text="Dr. Klenk was there"), NOW)
        tx.items.forget([gone.id])
        tx.graph.add_nodes([NewNode("Dr. Klenk", item=page.id)])
        (hall,) = tx.items.put([item("A hall", title="Rheinhalle")], NOW)
    assert mentions(store, note.id) == [page.id, page.id, hall.id]
    assert mentions(store, other.id) == [page.id]
    assert mentions(store, gone.id) == []


def test_a_text_replaced_in_one_transaction_has_the_mentions_of_its_final_text(store):
    add(store, "something older")
    with store.transaction(NS, names=True) as tx:
        (note,) = tx.items.put([item("Projekt Adler")], NOW)
        (page,) = tx.items.put([item("All about it", title="Projekt Adler")], NOW)
        tx.items.patch(note.id, ItemPatch(text="Projekt Bussard"), NOW)
        (second,) = tx.items.put([item("The other one", title="Projekt Bussard")], NOW)
    assert mentions(store, note.id) == [second.id]
    with store.transaction(NS, names=True) as tx:
        tx.items.patch(page.id, ItemPatch(title="Projekt Condor"), NOW)
        (last,) = tx.items.put([item("Projekt Condor and Projekt Bussard")], NOW)
        tx.items.forget([second.id])
    assert (mentions(store, note.id), mentions(store, last.id)) == ([], [page.id])

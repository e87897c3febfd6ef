"""B11: titles, headings and aliases become nodes, and texts that name them point to them, by themselves."""

from __future__ import annotations

import pytest
from conformance_subjects import NS, add, edit, item, search

from fourfold.errors import NotFound
from fourfold.model import NO_FILTERS, Edge
from fourfold.stores.base import NewNode

pytestmark = pytest.mark.spec("B11")


async def mentions(store, id):
    """The items that an item points to by its text."""
    links = await store.item_links(NS, [id], NO_FILTERS)
    return sorted(link.item for link in links if link.kind == "mentions")


async def test_a_mention_of_a_title_is_an_edge(store):
    page, note = await add(store, item("Alles Wichtige", title="Projekt Adler"), "Morgen beginnt das Projekt Adler.")
    assert await mentions(store, note) == [page]
    assert await store.item_links(NS, [page], NO_FILTERS) == [(page, note, "mentioned-by", 1.0, 1)]
    assert await search(store, "graph", "Projekt Adler") == [page, note]


async def test_a_title_is_known_without_its_bracket_too(store):
    note, planet = await add(store, "We saw Mercury rise.", item("The smallest.", title="Mercury (planet)"))
    assert await mentions(store, note) == [planet]
    (metal,) = await add(store, item("A liquid.", title="Mercury (element)"))
    (full,) = await add(store, "Mercury (planet) is not Mercury (element).")
    assert (await mentions(store, note), await mentions(store, full)) == ([planet, metal], [planet, metal])
    assert await search(store, "graph", "How heavy is Mercury?") == [planet, metal, note]
    await edit(store, planet, title="Venus (planet)")
    assert (await mentions(store, note), await search(store, "graph", "Venus")) == ([metal], [planet])


async def test_items_stored_before_the_title_existed_point_to_it_too(store):
    (note,) = await add(store, "Morgen beginnt das Projekt Adler in Köln, sagt Müller.")
    (page,) = await add(store, item("Alles Wichtige", title="projekt adler"))
    (town,) = await add(store, item("Am Rhein", title="Koeln"))
    assert await mentions(store, note) == [page, town]
    (person,) = await add(store, item("Chef", title="Herr Müller"))
    await store.add_nodes(NS, [NewNode("Herr Müller", aliases=("Müller",))])
    assert await mentions(store, note) == [page, town, person]


async def test_an_umlaut_is_found_in_a_text_of_any_language(store):
    (note,) = await add(store, "The meeting with Müller and with the Café Français was moved to the next week.")
    stored = await add(store, item("a", title="Mueller"), item("b", title="cafe francais"))
    assert await mentions(store, note) == stored


async def test_mentions_go_with_their_title(store):
    page, note = await add(store, item("Text", title="Atlantis"), "Die Reise nach Atlantis")
    await store.forget(NS, [page])
    assert (await search(store, "graph", "Atlantis"), await store.item_links(NS, [note], NO_FILTERS)) == ([], [])
    (again,) = await add(store, item("Ein neuer Text", title="Atlantis"))
    assert await mentions(store, note) == [again]
    await edit(store, again, title="Utopia")
    assert await mentions(store, note) == []
    await edit(store, note, text="Die Reise nach Utopia")
    assert await mentions(store, note) == [again]


async def test_a_title_that_several_items_have_stays_until_the_last_is_gone(store):
    first, second, note = await add(store, item("a", title="Berlin"), item("b", title="Berlin"), "Wir sind in Berlin")
    assert await mentions(store, note) == [first, second]
    await store.forget(NS, [first])
    assert await mentions(store, note) == [second]


async def test_the_longest_name_is_meant_whatever_came_first(store):
    (note,) = await add(store, "A week in New York City")
    (city,) = await add(store, item("c", title="New York City"))
    (state,) = await add(store, item("s", title="New York"))
    assert await mentions(store, note) == [city]
    await store.forget(NS, [city])
    assert await mentions(store, note) == [state]
    (city,) = await add(store, item("c", title="New York City"))
    assert await mentions(store, note) == [city]
    await store.remove_node(NS, "New York City", None)
    assert await mentions(store, note) == [state]


async def test_headings_are_nodes_too(store):
    page, note = await add(store, "# Einleitung\nText\n## Der Große Plan\nText", "Siehe Der Große Plan")
    assert await mentions(store, note) == [page]


async def test_comments_in_code_are_not_nodes(store):
    script = item("# home directory\nHOME=/srv", title="deluser.conf", kind="code")
    _, note = await add(store, script, "Remove the home directory")
    assert await mentions(store, note) == []
    assert await search(store, "graph", "Which home directory?") == []


async def test_headings_follow_a_change_of_the_kind(store):
    (note,) = await add(store, "The home directory")
    for kind, found in (("code", False), ("markdown", True), ("code", False)):
        (page,) = await add(store, item("# home directory\nHOME=/srv", key="page", kind=kind))
        assert await mentions(store, note) == [page] * found


@pytest.mark.parametrize(
    "link", ["[[go]]", "[[go|the language]]", "[read this](notes/go.md)", "[Go](x.md)", "[[notes/Go.md]]"]
)
@pytest.mark.parametrize("page_first", [True, False])
async def test_a_written_link_leads_to_any_name_now_or_later(store, link, page_first):
    """Even to one that is too short or too common to be seen as a mention."""
    page, note = item("The language", title="Go"), item(f"More in {link} and we go home")
    stored = [(await add(store, new))[0] for new in ((page, note) if page_first else (note, page))]
    page_id, note_id = stored if page_first else stored[::-1]
    assert await mentions(store, note_id) == [page_id]


async def test_a_common_word_is_no_mention(store):
    _, note = await add(store, item("x", title="Go"), "Now we Go home, it is the end")
    assert await mentions(store, note) == []


async def test_an_item_does_not_mention_itself(store):
    (id,) = await add(store, item("Atlantis ist hier, Atlantis [[Atlantis]]", title="Atlantis"))
    assert await store.item_links(NS, [id], NO_FILTERS) == []
    other, _ = await add(store, "Der Text nennt Utopia", item("x", title="Utopia"))
    await store.add_nodes(NS, [NewNode("Utopia", item=other)])
    assert await mentions(store, other) == []


async def test_explicit_nodes_and_their_aliases_are_mentioned_too(store):
    (note,) = await add(store, "We moved to K8s last week")
    (page,) = await add(store, "About containers")
    await store.add_nodes(NS, [NewNode("Kubernetes", aliases=("K8s",), item=page)])
    assert await mentions(store, note) == [page]


async def test_a_node_with_an_edge_outlives_its_title(store):
    (page,) = await add(store, item("x", title="Atlantis"))
    await store.add_edges(NS, [Edge("Atlantis", "lies in", "Meer", 1.0)])
    await store.forget(NS, [page])
    assert [near.node.name for near in await store.neighbors(NS, "Atlantis", None, 1, "both", None)] == ["Meer"]


async def test_mentions_are_edges_of_the_graph(store):
    await add(store, item("Wir besuchen Atlantis", title="Reise"), item("x", title="Atlantis"))
    (near,) = await store.neighbors(NS, "Reise", None, 1, "out", "mentions")
    assert (near.node.name, near.relation, near.weight) == ("Atlantis", "mentions", 1.0)
    assert await store.path(NS, "Atlantis", "Reise", 3) == [Edge("Reise", "mentions", "Atlantis", 1.0)]


async def test_links_off_makes_no_nodes_and_no_edges(store):
    page, note = await add(store, item("x", title="Atlantis"), "Nach Atlantis [[Atlantis]]", links=False)
    with pytest.raises(NotFound):
        await store.neighbors(NS, "Atlantis", None, 1, "both", None)
    await store.add_nodes(NS, [NewNode("Atlantis", item=page)])
    assert await store.item_links(NS, [page, note], NO_FILTERS) == []
    (linked,) = await add(store, "Auch nach Atlantis", links=True)
    assert await mentions(store, linked) == [page]


async def test_a_text_stored_anew_with_links_off_loses_its_links(store):
    page, note = await add(store, item("x", title="Atlantis", key="a"), "Nach Atlantis")
    await edit(store, note, text="Wieder nach Atlantis", links=False)
    assert await mentions(store, note) == []
    await edit(store, page, text="y", links=False)
    with pytest.raises(NotFound):
        await store.neighbors(NS, "Atlantis", None, 1, "both", None)


async def test_many_titles_at_once_are_found_in_older_items_after_maintenance(store):
    (note,) = await add(store, "Kapitel Sieben und Kapitel Vierzig und [[kapitel neun]]")
    numbers = ["Sieben", "Vierzig", "Neun", *(f"Nummer{n}" for n in range(60))]
    stored = await add(store, *(item(f"Text {n}", title=f"Kapitel {n}") for n in numbers))
    await store.maintain(NS)
    assert await mentions(store, note) == stored[:3]
    (late,) = await add(store, "Dann Kapitel Nummer7")
    assert await mentions(store, late) == [stored[10]]

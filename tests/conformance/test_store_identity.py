"""B10: what makes two items one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from conformance_subjects import LATER, NOW, NS, add, edit, item, one, unit

from fourfold.errors import NotFound
from fourfold.model import Filters
from fourfold.stores.base import Space

pytestmark = pytest.mark.spec("B10")


async def test_the_same_text_gives_the_same_item_back_with_the_tags_of_both(store):
    (first,) = await add(store, item("Der Router steht im Keller", tags=("Netz",), kind="note"))
    (again,) = await add(store, item("  Der Router steht im Keller\n", tags=("netz", "Haus"), kind="task"), now=LATER)
    assert again == first
    found = await one(store, first)
    assert (found.tags, found.kind, found.text) == (("Haus", "Netz"), "note", "Der Router steht im Keller")
    assert (found.created_at, found.updated_at) == (NOW, NOW)


async def test_composed_and_decomposed_letters_are_the_same_text(store):
    assert await add(store, "Stra\u00dfe nach K\u00f6ln") == await add(store, "Stra\u00dfe nach Ko\u0308ln")


async def test_a_key_identifies_an_item_whatever_its_text(store):
    (first,) = await add(store, item("old words", key="k", tags=("a",), metadata={"n": 1}, kind="note", path="a.md"))
    (again,) = await add(store, item("new words", key="k", tags=("b",), metadata={"m": 2}), now=LATER)
    assert again == first
    found = await one(store, first)
    assert (found.text, found.tags, found.metadata, found.kind, found.path) == (
        "new words",
        ("b",),
        {"m": 2},
        None,
        None,
    )
    assert (found.created_at, found.updated_at) == (NOW, LATER)
    assert await store.find_keys(NS, ["k", "other"]) == {"k": first}


async def test_a_path_and_a_chunk_identify_an_item(store):
    first, second = await add(store, item("one", path="a.md"), item("two", path="a.md", chunk_index=1))
    for text in ("uno", "eins", "one"):
        assert await add(store, item(text, path="a.md"), item("two", path="a.md", chunk_index=1)) == [first, second]
    assert ((await one(store, first)).chunk_index, (await one(store, second)).chunk_index) == (0, 1)


async def test_items_of_different_identity_may_have_one_text(store):
    same = [item("same"), item("same", key="k"), item("same", path="a.md"), item("same", path="b.md")]
    assert len(set(await add(store, *same))) == 4


async def test_an_item_with_a_key_is_not_found_by_its_path(store):
    (keyed,) = await add(store, item("keyed", key="k", path="a.md"))
    (unkeyed,) = await add(store, item("unkeyed", path="a.md"))
    assert keyed != unkeyed


async def test_a_title_alone_is_an_identity(store):
    first, other = await add(store, item(title="Router"), item("Router"))
    assert first != other
    assert await add(store, item(title=" Router ")) == [first]


async def test_the_same_item_twice_in_one_call_is_one(store):
    a, b, c = await add(store, item("old", key="k"), item("new", key="k"), item("new"))
    assert a == b != c
    assert (await one(store, a)).text == "new"
    assert (await store.size(NS)).items == 2


async def test_in_one_call_what_comes_later_counts_wherever_the_first_was_stored(store):
    (old,) = await add(store, item("old", key="old", title="Harbour"))
    ids = await add(
        store,
        item("first", key="k", title="Lighthouse", tags=("a",), vector=unit(1, 0)),
        item("beside the Lighthouse", key="other"),
        item("new", key="old", title="Quay", vector=unit(0, 1)),
        item("beside the Beacon", key="k", title="Tower", tags=("b",), vector=unit(0, 1)),
        item("the Tower and the Quay", key="last"),
    )
    assert (ids[2], ids[0], len(set(ids))) == (old, ids[3], 4)
    last = await one(store, ids[0])
    assert (last.text, last.title, last.tags) == ("beside the Beacon", "Tower", ("b",))
    found = await store.nearest(NS, unit(0, 1), 10, Filters())
    assert {hit.id for hit in found.hits if hit.score == 1} == {ids[0], old}
    named = {
        near.node.name for name in ("Tower", "Quay") for near in await store.neighbors(NS, name, None, 1, "in", None)
    }
    assert not named  # an untitled text mentions them, which makes no edge between nodes
    links = {link.item for link in await store.node_links(NS, ["tower", "quay"], Filters())}
    assert links == {ids[0], old, ids[4]}
    with pytest.raises(NotFound):
        await store.neighbors(NS, "Lighthouse", None, 1, "both", None)


async def test_storing_again_keeps_created_at_and_updated_at_moves_with_the_text_only(store):
    past = NOW - timedelta(days=9)
    (id,) = await add(store, item("text", key="k", created_at=past))
    assert ((await one(store, id)).created_at, (await one(store, id)).updated_at) == (past, past)
    await add(store, item("text", key="k", tags=("new",), metadata={"n": 1}, created_at=NOW), now=LATER)
    await edit(store, id, add_tags=("more",), metadata={"m": 2})
    assert ((await one(store, id)).created_at, (await one(store, id)).updated_at) == (past, past)
    await edit(store, id, title="A title")
    assert ((await one(store, id)).created_at, (await one(store, id)).updated_at) == (past, LATER)


async def test_an_edited_text_is_the_identity_from_then_on(store):
    (id,) = await add(store, "before")
    await edit(store, id, text="after")
    assert await add(store, "after") == [id]
    assert await add(store, "before") != [id]


async def test_of_two_items_edited_into_one_text_the_oldest_has_it(store):
    first, second = await add(store, "one", "two")
    await edit(store, first, text="same")
    await edit(store, second, text="same")
    assert await add(store, "same") == [first]
    assert await add(store, "one") not in ([first], [second])
    await edit(store, first, text="another")
    assert await add(store, "same") == [second]


async def test_vectors_are_dropped_only_when_the_embedded_text_changed(store):
    (id,) = await add(store, item("text", key="k", vector=unit(1, 0)))
    await add(store, item("text", key="k", tags=("t",), metadata={"n": 1}, kind="note"))
    await edit(store, id, add_tags=("u",))
    assert await store.waiting(NS, 9) == []
    await edit(store, id, title="Title")
    assert await store.waiting(NS, 9) == [(id, "Title", "text")]
    await store.put_vectors(NS, Space("given", 2), [(id, "Title", "text", unit(0, 1))])
    await add(store, item("other", title="Title", key="k"))
    assert await store.waiting(NS, 9) == [(id, "Title", "other")]


async def test_a_vector_belongs_to_the_text_that_it_came_with(store):
    (id, _) = await add(store, item("old", key="k", vector=unit(1, 0)), item("new", key="k"))
    assert await store.waiting(NS, 9) == [(id, "", "new")]


async def test_an_id_is_never_given_twice(store):
    first, second = await add(store, "one", "two")
    await store.forget(NS, [second])
    assert await add(store, "two") == [second + 1]
    assert first < second

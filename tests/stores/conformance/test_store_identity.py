"""The identity of items: key, path and chunk, or text."""

from datetime import timedelta

import pytest
from conformance_subjects import LATER, NOW, NS, add, edit, item, one, unit

from fourfold.errors import NotFound
from fourfold.model import Filters, Space

pytestmark = pytest.mark.spec("B10")


def test_the_same_text_gives_the_same_item_back_with_the_tags_of_both(store):
    (first,) = add(store, item("Der Router steht im Keller", tags=("Netz",), kind="note"))
    (again,) = add(store, item("  Der Router steht im Keller\n", tags=("netz", "Haus"), kind="task"), now=LATER)
    assert again == first
    found = one(store, first)
    assert (found.tags, found.kind, found.text) == (("Haus", "Netz"), "note", "Der Router steht im Keller")
    assert (found.created_at, found.updated_at) == (NOW, NOW)


def test_composed_and_decomposed_letters_are_the_same_text(store):
    assert add(store, "Stra\u00dfe nach K\u00f6ln") == add(store, "Stra\u00dfe nach Ko\u0308ln")


def test_a_key_identifies_an_item_whatever_its_text(store):
    (first,) = add(store, item("old words", key="k", tags=("a",), metadata={"n": 1}, kind="note", path="a.md"))
    (again,) = add(store, item("new words", key="k", tags=("b",), metadata={"m": 2}), now=LATER)
    assert again == first
    found = one(store, first)
    assert (found.text, found.tags, found.metadata, found.kind, found.path) == (
        "new words",
        ("b",),
        {"m": 2},
        None,
        None,
    )
    assert (found.created_at, found.updated_at) == (NOW, LATER)
    assert store.find_keys(NS, ["k", "other"]) == {"k": first}


def test_a_path_and_a_chunk_identify_an_item(store):
    first, second = add(store, item("one", path="a.md"), item("two", path="a.md", chunk_index=1))
    for text in ("uno", "eins", "one"):
        assert add(store, item(text, path="a.md"), item("two", path="a.md", chunk_index=1)) == [first, second]
    assert (one(store, first).chunk_index, one(store, second).chunk_index) == (0, 1)


def test_items_of_different_identity_may_have_one_text(store):
    same = [item("same"), item("same", key="k"), item("same", path="a.md"), item("same", path="b.md")]
    assert len(set(add(store, *same))) == 4


def test_an_item_with_a_key_is_not_found_by_its_path(store):
    (keyed,) = add(store, item("keyed", key="k", path="a.md"))
    (unkeyed,) = add(store, item("unkeyed", path="a.md"))
    assert keyed != unkeyed


def test_a_title_alone_is_an_identity(store):
    first, other = add(store, item(title="Router"), item("Router"))
    assert first != other
    assert add(store, item(title=" Router ")) == [first]


def test_the_same_item_twice_in_one_call_is_one(store):
    a, b, c = add(store, item("old", key="k"), item("new", key="k"), item("new"))
    assert a == b != c
    assert one(store, a).text == "new"
    assert store.size(NS).items == 2


def test_the_later_of_two_equal_items_in_one_call_counts(store):
    (old,) = add(store, item("old", key="old", title="Harbour"))
    ids = add(
        store,
        item("first", key="k", title="Lighthouse", tags=("a",), vector=unit(1, 0)),
        item("beside the Lighthouse", key="other"),
        item("new", key="old", title="Quay", vector=unit(0, 1)),
        item("beside the Beacon", key="k", title="Tower", tags=("b",), vector=unit(0, 1)),
        item("the Tower and the Quay", key="last"),
    )
    assert (ids[2], ids[0], len(set(ids))) == (old, ids[3], 4)
    last = one(store, ids[0])
    assert (last.text, last.title, last.tags) == ("beside the Beacon", "Tower", ("b",))
    found = store.nearest(NS, unit(0, 1), 10, Filters())
    assert {hit.id for hit in found.hits if hit.score == 1} == {ids[0], old}
    named = {near.node.name for name in ("Tower", "Quay") for near in store.neighbors(NS, name, None, 1, "in", None)}
    assert not named  # mentions in an untitled text make no edge between nodes
    links = {link.item for link in store.node_links(NS, ["tower", "quay"], Filters())}
    assert links == {ids[0], old, ids[4]}
    with pytest.raises(NotFound):
        store.neighbors(NS, "Lighthouse", None, 1, "both", None)


def test_storing_again_keeps_created_at_and_updated_at_moves_with_the_text_only(store):
    past = NOW - timedelta(days=9)
    (id,) = add(store, item("text", key="k", created_at=past))
    assert (one(store, id).created_at, one(store, id).updated_at) == (past, past)
    add(store, item("text", key="k", tags=("new",), metadata={"n": 1}, created_at=NOW), now=LATER)
    edit(store, id, add_tags=("more",), metadata={"m": 2})
    assert (one(store, id).created_at, one(store, id).updated_at) == (past, past)
    edit(store, id, title="A title")
    assert (one(store, id).created_at, one(store, id).updated_at) == (past, LATER)


def test_an_edited_text_is_the_identity_from_then_on(store):
    (id,) = add(store, "before")
    edit(store, id, text="after")
    assert add(store, "after") == [id]
    assert add(store, "before") != [id]


def test_the_oldest_of_two_items_with_one_text_owns_its_identity(store):
    first, second = add(store, "one", "two")
    edit(store, first, text="same")
    edit(store, second, text="same")
    assert add(store, "same") == [first]
    assert add(store, "one") not in ([first], [second])
    edit(store, first, text="another")
    assert add(store, "same") == [second]


def test_vectors_are_dropped_only_when_the_embedded_text_changed(store):
    (id,) = add(store, item("text", key="k", vector=unit(1, 0)))
    add(store, item("text", key="k", tags=("t",), metadata={"n": 1}, kind="note"))
    edit(store, id, add_tags=("u",))
    assert store.pending(NS, 9) == []
    edit(store, id, title="Title")
    assert store.pending(NS, 9) == [(id, "Title", "text")]
    store.put_vectors(NS, Space("given", 2), [(id, "Title", "text", unit(0, 1))])
    add(store, item("other", title="Title", key="k"))
    assert store.pending(NS, 9) == [(id, "Title", "other")]


def test_a_vector_belongs_to_the_text_that_it_came_with(store):
    (id, _) = add(store, item("old", key="k", vector=unit(1, 0)), item("new", key="k"))
    assert store.pending(NS, 9) == [(id, "", "new")]


def test_an_id_is_never_given_twice(store):
    first, second = add(store, "one", "two")
    store.forget(NS, [second])
    assert add(store, "two") == [second + 1]
    assert first < second

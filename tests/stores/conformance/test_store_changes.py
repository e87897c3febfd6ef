"""Edited and forgotten items are so for every retriever."""

from datetime import timedelta

import pytest
from conformance_subjects import LATER, NOW, NS, RETRIEVERS, add, edit, item, one, search, unit

from fourfold.errors import NotFound
from fourfold.model import NO_FILTERS, Filters, ItemPatch


def everywhere(store, text, vector):
    return {name: search(store, name, text, vector=vector) for name in RETRIEVERS}


@pytest.mark.spec("B6")
@pytest.mark.spec("B13")
def test_an_edit_reaches_every_retriever(store):
    other = item("Nothing of the kind", vector=unit(0, 0, 1))
    id, _ = add(store, item("about", title="Alpha", tags=("alpha",), vector=unit(1, 0, 0)), other)
    edit(store, id, title="Omega", text="Ganz anders", add_tags=("omega",), remove_tags=("ALPHA",))
    store.put_vectors(NS, store.space(NS), [(id, "Omega", "Ganz anders", unit(0, 1, 0))])
    old, new = [
        everywhere(store, text, vector) for text, vector in (("alpha", unit(1, 0, 0)), ("omega", unit(0, 1, 0)))
    ]
    assert {name: found for name, found in old.items() if name != "semantic"} == {
        "keyword": [],
        "graph": [],
        "tags": [],
    }
    assert {name: found[0] for name, found in new.items()} == dict.fromkeys(RETRIEVERS, id)
    assert store.cosines(NS, unit(1, 0, 0), [id]).hits == ((id, 0.0),)


@pytest.mark.spec("B6")
def test_between_an_edit_and_its_new_vector_the_item_has_none(store):
    id, other = add(store, item("alt", vector=unit(1, 0)), item("anders", vector=unit(0, 1)))
    edit(store, id, text="neu")
    found = store.nearest(NS, unit(1, 0), 9, NO_FILTERS)
    assert ([hit.id for hit in found.hits], found.pending) == ([other], 1)
    assert store.cosines(NS, unit(1, 0), [id, other]).hits == ((other, 0.0),)


@pytest.mark.spec("B6")
@pytest.mark.spec("B13")
def test_forgetting_leaves_nothing(store):
    secret = item("Das Geheimnis von Atlantis", title="Atlantis", key="k", tags=("atlantis",), vector=unit(1, 0))
    id, other = add(store, secret, item("Ein Buch erwähnt Atlantis nur", vector=unit(0, 1)))
    assert store.forget(NS, [id, 999, id]) == 1
    assert everywhere(store, "atlantis", unit(1, 0)) == {
        "semantic": [other],
        "keyword": [other],
        "graph": [],
        "tags": [],
    }
    assert store.get(NS, [id]) == {}
    assert (store.find_keys(NS, ["k"]), store.tag_counts(NS)) == ({}, {})
    assert store.item_links(NS, [id, other], NO_FILTERS) == []
    assert store.word_scores(NS, "atlantis", [id]).hits == ()
    assert store.cosines(NS, unit(1, 0), [id]).hits == ()
    assert (store.ids(NS, NO_FILTERS), store.size(NS).items) == ([other], 1)
    with pytest.raises(NotFound):
        store.neighbors(NS, "Atlantis", None, 1, "both", None)
    assert store.check() == []


@pytest.mark.spec("B6")
def test_removed_items_do_not_influence_scores(store):
    kept = [item("Vertrag über ein Haus", key="a"), item("Ein Haus am See", key="b"), item("Mietvertrag", key="c")]
    add(store, *kept)
    before = [store.match(NS, text, 9, NO_FILTERS) for text in ("Vertrag", "Haus")]
    extra = [item(f"Vertrag Nummer {n} mit Klausel und Bürge", key=f"x{n}", language="de") for n in range(9)]
    gone = add(store, *extra)
    store.match(NS, "Vertrag", 9, NO_FILTERS)
    store.forget(NS, gone)
    assert [store.match(NS, text, 9, NO_FILTERS) for text in ("Vertrag", "Haus")] == before


@pytest.mark.spec("B13")
def test_a_patch_changes_what_it_names_and_nothing_else(store):
    (id,) = add(store, item("text", title="Title", tags=("a", "b"), metadata={"x": 1, "y": 2}, kind="note"))
    before = one(store, id)
    edit(store, id, add_tags=("c",), remove_tags=("A",), metadata={"x": None, "z": [3]})
    after = one(store, id)
    assert (after.tags, after.metadata) == (("b", "c"), {"y": 2, "z": [3]})
    assert (after.title, after.text, after.kind, after.language) == ("Title", "text", "note", before.language)


@pytest.mark.spec("B13")
def test_an_unknown_item_cannot_be_patched(store):
    with pytest.raises(NotFound):
        store.patch(NS, 7, ItemPatch(text="x"), LATER)
    assert store.namespaces() == {}


@pytest.mark.spec("S1.9")
def test_an_edit_into_another_language_is_found_as_that_language(store):
    (id,) = add(store, "The contracts were signed")
    edit(store, id, text="Die Verträge wurden gekündigt und die Schlüssel zurückgegeben")
    assert one(store, id).language == "de"
    assert search(store, "keyword", "Schluessel") == [id]


@pytest.mark.spec("B13")
def test_the_list_is_newest_first_filtered_and_paged(store):
    times = [NOW - timedelta(days=days) for days in (3, 1, 2, 1)]
    new = [item(f"note {n}", created_at=at, kind=f"kind{n % 2}") for n, at in enumerate(times)]
    a, b, c, d = add(store, *new)
    pages = [[found.id for found in store.list(NS, NO_FILTERS, 2, offset)] for offset in (0, 2, 4)]
    assert pages == [[d, b], [c, a], []]
    assert [found.id for found in store.list(NS, Filters(kind="kind1"), 9, 0)] == [d, b]


def test_ids_out_of_range_are_unknown(store):
    (id,) = add(store, "text")
    huge = [2**80, -(2**80), 0, -1, id]
    assert list(store.get(NS, huge)) == [id]
    assert store.get_raw(NS, huge) == {}
    assert store.forget(NS, huge[:-1]) == 0
    with pytest.raises(NotFound):
        add(store, item("more", source_ids=(2**80,)))

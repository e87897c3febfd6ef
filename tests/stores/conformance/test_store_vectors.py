"""One vector space per namespace; vectors of another dimension are refused, and nothing is written."""

import pytest
from conformance_subjects import NOW, NS, add, ids, item, unit

from fourfold.errors import InvalidVector, NotFound, SpaceMismatch
from fourfold.model import NO_FILTERS, Space
from fourfold.storage.values import Size

ONE, OTHER = Space("model one", 2), Space("model two", 3)


@pytest.mark.spec("B8")
def test_the_first_given_vector_fixes_the_space(store):
    assert store.space(NS) is None
    add(store, item("text", vector=unit(1, 2, 3)))
    assert store.space(NS) == Space("given", 3)


@pytest.mark.spec("B8")
@pytest.mark.spec("S1.5")
def test_a_vector_of_another_dimension_is_refused_and_nothing_is_written(store):
    add(store, item("first", vector=unit(1, 2)))
    with pytest.raises(InvalidVector):
        add(store, item("second", title="Second", vector=unit(2, 1)), item("third", vector=unit(1, 2, 3)))
    assert store.size(NS) == Size(1, 1)
    assert ids(store.match(NS, "second", 9, NO_FILTERS)) == []
    with pytest.raises(NotFound):
        store.neighbors(NS, "Second", None, 1, "both", None)
    with pytest.raises(InvalidVector):
        store.nearest(NS, unit(1, 2, 3), 9, NO_FILTERS)
    assert store.check() == []


@pytest.mark.spec("B8")
def test_a_refused_first_vector_does_not_fix_the_space(store):
    with pytest.raises(InvalidVector):
        add(store, item("first", vector=unit(1, 2)), item("second", vector=unit(1, 2, 3)))
    assert (store.space(NS), store.namespaces()) == (None, {})


@pytest.mark.spec("B8")
def test_another_model_is_refused(store):
    store.set_space(NS, ONE)
    store.set_space(NS, ONE)
    (id,) = add(store, "text")
    with pytest.raises(SpaceMismatch):
        store.set_space(NS, OTHER)
    with pytest.raises(SpaceMismatch):
        store.put_vectors(NS, OTHER, [(id, "", "text", unit(1, 2, 3))])
    assert (store.space(NS), store.size(NS)) == (ONE, Size(1, 0))


@pytest.mark.spec("B8")
def test_a_new_space_queues_every_item_for_a_new_vector(store):
    one, two = add(store, item("one", vector=unit(1, 0)), item("two", vector=unit(0, 1)))
    store.reset_space(NS, OTHER)
    assert (store.space(NS), store.size(NS)) == (OTHER, Size(2, 0))
    assert store.pending(NS, 9) == [(two, "", "two"), (one, "", "one")]
    assert store.nearest(NS, unit(1, 0, 0), 9, NO_FILTERS).pending == 2
    store.put_vectors(NS, OTHER, [(two, "", "two", unit(1, 0, 0))])
    store.reset_space(NS, OTHER)  # setting the same space again changes nothing
    found = store.nearest(NS, unit(1, 0, 0), 9, NO_FILTERS)
    assert (ids(found), found.pending) == ([two], 1)


@pytest.mark.spec("B3")
def test_of_the_newest_items_the_shortest_are_first_in_the_queue_for_vectors(store, monkeypatch):
    a, b, c, d = add(store, item("a"), item("b", title="T"), item("c", vector=unit(1, 0)), item("d"))
    assert store.pending(NS, 9) == [(d, "", "d"), (a, "", "a"), (b, "T", "b")]
    assert store.pending(NS, 1) == [(d, "", "d")]
    monkeypatch.setattr("fourfold.storage.sql.namespaces._NEWEST", 2)
    assert store.pending(NS, 2) == [(d, "", "d"), (b, "T", "b")]
    found = store.nearest(NS, unit(1, 0), 9, NO_FILTERS)
    assert (ids(found), found.pending) == ([c], 3)


@pytest.mark.spec("B3")
def test_status_estimates_how_long_the_queue_takes(store):
    texts = [f"text number {number}" for number in range(30)]
    stored = add(store, *map(item, texts))
    assert store.status()["namespaces"][NS]["embedding_seconds"] is None
    made = [(id, "", text, unit(1, 0)) for id, text in zip(stored, texts, strict=True)]
    store.put_vectors(NS, Space("model", 2), made[:3], seconds=50.0)
    assert store.status()["namespaces"][NS]["embedding_seconds"] is None  # too few to tell
    store.put_vectors(NS, Space("model", 2), made[3:13], seconds=10.0)
    characters = [sum(map(len, part)) for part in (texts[3:13], texts[13:])]
    expected = 10 * characters[1] / characters[0]
    assert store.status()["namespaces"][NS]["embedding_seconds"] == pytest.approx(expected, abs=0.1)
    store.put_vectors(NS, Space("model", 2), made[13:], seconds=10.0)
    assert store.status()["namespaces"][NS]["embedding_seconds"] == 0


@pytest.mark.spec("B3")
def test_a_refused_text_is_not_pending_until_it_changes_or_is_retried(store):
    a, b = add(store, item("a", key="a"), item("b"))
    assert store.queues() == [NS]
    store.reject(NS, (a, "", "an older text"), "not this one")
    store.reject(NS, (a, "", "a"), "too strange")
    assert store.pending(NS, 9) == [(b, "", "b")]
    assert store.pending(NS, 9, [a]) == [(a, "", "a")]  # queued again explicitly
    assert store.size(NS).pending == 2
    store.reject(NS, (b, "", "b"), "this one too")
    assert (store.queues(), store.pending(NS, 9)) == ([], [])
    add(store, item("another a", key="a"))
    assert (store.queues(), store.pending(NS, 9)) == ([NS], [(a, "", "another a")])
    store.retry_rejected(NS)
    assert store.pending(NS, 9) == [(b, "", "b"), (a, "", "another a")]


@pytest.mark.spec("B8")
def test_a_vector_for_an_outdated_text_is_skipped(store):
    space = Space("model", 2)
    a, b = add(store, item("a", key="a"), item("b"))
    made = [(a, "", "a", unit(1, 0)), (b, "", "b", unit(0, 1)), (999, "", "x", unit(1, 1))]
    add(store, item("changed", key="a"))
    assert store.put_vectors(NS, space, made) == 1
    assert store.pending(NS, 9) == [(a, "", "changed")]
    assert store.size(NS) == Size(2, 1)


@pytest.mark.spec("S1.1")
def test_nearest_first_by_cosine(store):
    vectors = [unit(1, 0), unit(1, 1), unit(0, 1), unit(-1, 0)]
    stored = add(store, *(item(f"n{n}", vector=vector) for n, vector in enumerate(vectors)))
    found = store.nearest(NS, unit(1, 0), 9, NO_FILTERS)
    assert ids(found) == stored
    assert [hit.score for hit in found.hits] == pytest.approx([1, 0.5**0.5, 0, -1], abs=1e-6)
    assert found.background.mean == pytest.approx(0.5**0.5 / 4, abs=1e-6)


@pytest.mark.spec("B8")
def test_namespaces_whose_vectors_are_replaced_are_queued(store):
    store.put_vectors(NS, Space("older-2/abc", 2), [(add(store, item("one"))[0], "", "one", unit(1, 0))])
    store.put("other", [item("other", vector=unit(1, 0))], NOW)
    assert store.queues() == []
    assert store.queues(("older-1/", "older-2/")) == [NS]
    assert store.queues(("older-%/", "lder-2/", "OLDER-2/")) == []


@pytest.mark.spec("S1.5")
def test_a_new_space_does_not_touch_items_of_another_namespace(store):
    add(store, item("mine", vector=unit(1, 0)))
    store.put("other", [item("other", vector=unit(1, 0))], NOW)
    store.reset_space(NS, Space("later", 2))
    assert (store.size(NS), store.size("other")) == (Size(1, 0), Size(1, 1))
    assert store.check() == []

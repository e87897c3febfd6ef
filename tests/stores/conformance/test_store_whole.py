"""Raw records, export, check and repair of whole stores."""

import pytest
from conformance_subjects import LATER, NOW, NS, add, edit, exported, item, one, reloaded, search, unit

from fourfold.errors import NotFound, RequestError
from fourfold.model import NO_FILTERS, Edge
from fourfold.storage.sql.portable import renumbered
from fourfold.storage.values import NewNode, Size


@pytest.mark.spec("S1.7")
def test_raw_records_are_stored_and_referred_to(store):
    first = store.add_raw(NS, "Was kostet das?", "Ada", "s1", {"turn": 1}, NOW)
    second = store.add_raw(NS, "Zu viel.", None, None, {}, LATER)
    assert (first.content, first.speaker, first.session_id, first.metadata, first.created_at) == (
        "Was kostet das?",
        "Ada",
        "s1",
        {"turn": 1},
        NOW,
    )
    (id,) = add(store, item("Ada fragt nach dem Preis", source_ids=(second.id, first.id)))
    assert one(store, id).source_ids == (second.id, first.id)
    assert store.get_raw(NS, [first.id, second.id, 99]) == {first.id: first, second.id: second}


@pytest.mark.spec("S1.7")
def test_the_same_text_from_another_source_keeps_both_sources(store):
    a, b = [store.add_raw(NS, text, None, None, {}, NOW).id for text in ("a", "b")]
    (id,) = add(store, item("Erkenntnis", source_ids=(b,)))
    add(store, item("Erkenntnis", source_ids=(a, b)))
    assert one(store, id).source_ids == (b, a)


@pytest.mark.spec("S1.7")
@pytest.mark.spec("S1.8")
def test_unknown_sources_are_refused_and_nothing_is_written(store):
    (known,) = add(store, item("known", key="k", tags=("t",)))
    with pytest.raises(NotFound, match="4711"):
        add(store, item("changed", title="New", key="k"), item("new", tags=("u",)), item("bad", source_ids=(4711,)))
    assert one(store, known).text == "known"
    assert (store.size(NS), store.tag_counts(NS)) == (Size(1, 0), {"t": 1})
    assert search(store, "keyword", "changed new bad") == search(store, "graph", "New") == []
    assert store.check() == []


def test_forgetting_an_item_keeps_its_originals(store):
    record = store.add_raw(NS, "said", None, None, {}, NOW)
    (id,) = add(store, item("insight", source_ids=(record.id,)))
    store.forget(NS, [id])
    assert store.get_raw(NS, [record.id]) == {record.id: record}


@pytest.mark.spec("B9")
def test_loading_an_export_reproduces_the_store(store, empty):
    full_life(store)
    records = reloaded(store, empty)
    assert empty.match(NS, "Atlantis Reise", 9, NO_FILTERS) == store.match(NS, "Atlantis Reise", 9, NO_FILTERS)
    assert empty.check() == []
    (fresh,) = add(empty, "something new")
    assert fresh not in {record["id"] for record in records if record["type"] == "item"}
    with pytest.raises(RequestError):
        empty.load(records)


@pytest.mark.spec("B9")
def test_a_loaded_store_continues_linking(store, empty):
    full_life(store)
    records = exported(store)
    empty.load(records)
    (note,) = add(empty, "Noch einmal Atlantis")
    (page,) = add(empty, item("z", title="later page"))
    found = {link.item for link in empty.item_links(NS, [page, note], NO_FILTERS)}
    assert found == {2, 3}, "the page named Atlantis, and the item with a link to the later page"


def test_an_exported_namespace_fills_an_empty_one_beside_others(store, empty):
    full_life(store)
    store.put("other", [item("not exported")], NOW)
    records = exported(store, NS)
    assert {record.get("namespace", record.get("name")) for record in records} == {NS}
    for target in (empty, store):
        target.put("there before", [item("Atlantis", source_ids=())], NOW)
        target.load_namespace(iter(records), "second")
        again = exported(target, "second")
        assert [*counted_from_one(again)] == [*counted_from_one(records)]
        found = target.match("second", "Atlantis Reise", 9, NO_FILTERS)
        assert [hit.score for hit in found.hits] == [
            hit.score for hit in store.match(NS, "Atlantis Reise", 9, NO_FILTERS).hits
        ]
        (journey,) = (each for each in target.get("second", [hit.id for hit in found.hits]).values() if each.path)
        assert [each.content for each in target.get_raw("second", journey.source_ids).values()] == ["said"]
        assert target.check() == []
        with pytest.raises(RequestError, match="not empty"):
            target.load_namespace(records, "second")
        whole = exported(store)
        with pytest.raises(RequestError, match="several namespaces"):
            target.load_namespace(whole, "third")
        assert "third" not in target.namespaces()


def counted_from_one(records):
    last = {"raw": 0, "items": 0, "nodes": 0}

    def new_ids(table, count):
        last[table] += count
        return range(last[table] - count + 1, last[table] + 1)

    return renumbered(records, "any", new_ids)


def full_life(store):
    """Records of every kind: item 1 is forgotten, 2 is titled Atlantis, 3 links to a later page, 4 has links off."""
    record = store.add_raw(NS, "said", "Ada", None, {"n": 1}, NOW)
    gone, _, note, _ = add(
        store,
        "Weg damit",
        item("x", title="Atlantis", key="k", tags=("Ort",), metadata={"a": [1]}, vector=unit(1, 2)),
        item("Die Reise [[later page]]", source_ids=(record.id,), path="a.md", chunk_index=2, kind="note"),
        "Wird neu",
    )
    store.forget(NS, [gone])
    edit(store, note, title="Reise nach Atlantis")
    edit(store, note + 1, text="Atlantis ohne Links", links=False)
    store.add_nodes(NS, [NewNode("Meer", "place", ("See",), {"deep": True}, note)])
    store.add_edges(NS, [Edge("Atlantis", "lies in", "Meer", 0.5)])


@pytest.mark.spec("B13")
def test_namespaces_and_sizes(store):
    add(store, "one", item("two", vector=unit(1, 0)))
    store.put("another", [item("three")], NOW)
    assert store.namespaces() == {"another": 1, NS: 2}
    assert (store.size(NS), store.size("nowhere")) == (Size(2, 1), Size(0, 0))
    status = store.status()["namespaces"][NS]
    assert (status["items"], status["vectors"], status["pending_vectors"]) == (2, 1, 1)


@pytest.mark.spec("B9")
def test_check_finds_nothing_and_repair_changes_no_answer(store):
    full_life(store)
    before = store.match(NS, "Atlantis Reise", 9, NO_FILTERS), store.nearest(NS, unit(1, 0), 9, NO_FILTERS)
    assert store.check() == []
    store.repair()
    assert store.check() == []
    after = store.match(NS, "Atlantis Reise", 9, NO_FILTERS), store.nearest(NS, unit(1, 0), 9, NO_FILTERS)
    assert after == before


# ---------------------------------------------------------------- raw records


OTHER = "other"


def keep(store, *said: tuple[str, str | None, str | None], namespace: str = NS) -> list[int]:
    """Stores records of (content, speaker, session); returns their ids."""
    return [store.add_raw(namespace, *each, {"turn": 1}, NOW).id for each in said]


@pytest.mark.spec("C6", "S1.7")
def test_records_are_listed_newest_first_by_session_and_speaker(store):
    ids = keep(store, ("one", "Ada", "s1"), ("two", "Bob", "s1"), ("three", "Ada", "s2"), ("four", None, None))
    keep(store, ("elsewhere", "Ada", "s1"), namespace=OTHER)
    page = store.list_raw(NS, None, None, 10, 0)
    assert [record.id for record in page] == ids[::-1]
    assert (page[-1].content, page[-1].speaker, page[-1].session_id, page[-1].metadata) == (
        "one",
        "Ada",
        "s1",
        {"turn": 1},
    )
    assert (page.total, page.has_more) == (4, False)
    some = store.list_raw(NS, None, None, 2, 1)
    assert ([record.content for record in some], some.total, some.has_more) == (["three", "two"], 4, True)
    for session, speaker, expected in (
        ("s1", None, ["two", "one"]),
        (None, "Ada", ["three", "one"]),
        ("s1", "Ada", ["one"]),
        ("s3", None, []),
    ):
        found = store.list_raw(NS, session, speaker, 10, 0)
        assert ([record.content for record in found], found.total) == (expected, len(expected))
    nowhere = store.list_raw("nowhere", None, None, 10, 0)
    assert (list(nowhere), nowhere.total, nowhere.has_more) == ([], 0, False)


@pytest.mark.spec("C6", "S1.7")
def test_records_are_forgotten_all_or_none(store):
    one, two, three = keep(store, ("one", None, None), ("two", None, None), ("three", None, None))
    for wrong in ([one, 99], [2**63 - 1], [0]):
        with pytest.raises(NotFound, match="no raw record"):
            store.forget_raw(NS, wrong)
    with pytest.raises(NotFound):
        store.forget_raw("nowhere", [one])
    assert store.forget_raw(NS, []) == 0
    assert len(store.list_raw(NS, None, None, 10, 0)) == 3
    assert store.forget_raw(NS, [one, two, one]) == 2
    assert [record.id for record in store.list_raw(NS, None, None, 10, 0)] == [three]
    (again,) = keep(store, ("four", None, None))
    assert again > three  # ids are never reused


@pytest.mark.spec("C6", "S1.7")
def test_a_record_that_is_a_source_is_forgotten_only_by_force(store):
    one, two, free = keep(store, ("We meet on Monday", "Maria", None), ("At ten", "Maria", None), ("Fine", "Tom", None))
    insight, other = add(
        store, item("Meeting on Monday at ten", source_ids=(one, two)), item("another note", source_ids=(one,))
    )
    with pytest.raises(RequestError, match=f"raw record {one} is a source of item {insight}, {other}") as refused:
        store.forget_raw(NS, [free, one])
    assert "force" in refused.value.remedy
    assert len(store.get_raw(NS, [one, two, free])) == 3
    assert store.forget_raw(NS, [one], force=True) == 1
    found = store.get(NS, [insight, other])
    assert (found[insight].source_ids, found[other].source_ids) == ((two,), ())
    assert store.check() == []
    assert store.forget(NS, [insight]) == 1
    assert store.forget_raw(NS, [two]) == 1

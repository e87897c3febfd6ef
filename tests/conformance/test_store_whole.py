"""Raw records, the store as a whole, and the exact store in Memory's hands."""

from __future__ import annotations

import pytest
from conformance_subjects import LATER, NOW, NS, add, edit, ids, item, make, one, search, unit

from fourfold.config import Settings
from fourfold.errors import NotFound, RequestError
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Edge, NewItem
from fourfold.stores.base import NewNode, Size
from fourfold.stores.memory import MemoryStore


@pytest.mark.spec("S1.7")
async def test_raw_records_are_kept_and_pointed_to(store):
    first = await store.add_raw(NS, "Was kostet das?", "Ada", "s1", {"turn": 1}, NOW)
    second = await store.add_raw(NS, "Zu viel.", None, None, {}, LATER)
    assert (first.content, first.speaker, first.session_id, first.metadata, first.created_at) == (
        "Was kostet das?",
        "Ada",
        "s1",
        {"turn": 1},
        NOW,
    )
    (id,) = await add(store, item("Ada fragt nach dem Preis", source_ids=(second.id, first.id)))
    assert (await one(store, id)).source_ids == (second.id, first.id)
    assert await store.get_raw(NS, [first.id, second.id, 99]) == {first.id: first, second.id: second}


@pytest.mark.spec("S1.7")
async def test_the_same_text_from_another_source_points_to_both(store):
    a, b = [(await store.add_raw(NS, text, None, None, {}, NOW)).id for text in ("a", "b")]
    (id,) = await add(store, item("Erkenntnis", source_ids=(b,)))
    await add(store, item("Erkenntnis", source_ids=(a, b)))
    assert (await one(store, id)).source_ids == (b, a)


@pytest.mark.spec("S1.7")
@pytest.mark.spec("S1.8")
async def test_unknown_sources_are_refused_and_nothing_is_written(store):
    (known,) = await add(store, item("known", key="k", tags=("t",)))
    with pytest.raises(NotFound, match="4711"):
        await add(
            store, item("changed", title="New", key="k"), item("new", tags=("u",)), item("bad", source_ids=(4711,))
        )
    assert (await one(store, known)).text == "known"
    assert (await store.size(NS), await store.tag_counts(NS)) == (Size(1, 0), {"t": 1})
    assert await search(store, "keyword", "changed new bad") == await search(store, "graph", "New") == []
    assert await store.check() == []


async def test_forgetting_an_item_keeps_its_originals(store):
    record = await store.add_raw(NS, "said", None, None, {}, NOW)
    (id,) = await add(store, item("insight", source_ids=(record.id,)))
    await store.forget(NS, [id])
    assert await store.get_raw(NS, [record.id]) == {record.id: record}


@pytest.mark.spec("B9")
async def test_an_export_makes_an_empty_store_the_same_store(store, folder):
    await full_life(store)
    records = []
    await store.export(records.append)
    for kind in ("memory", "sqlite"):
        copy = make(kind, folder.with_name("copy"))
        await copy.load(records)
        again = []
        await copy.export(again.append)
        assert again == records
        assert await copy.match(NS, "Atlantis Reise", 9, NO_FILTERS) == await store.match(
            NS, "Atlantis Reise", 9, NO_FILTERS
        )
        assert await copy.check() == []
        (fresh,) = await add(copy, "something new")
        assert fresh not in {record["id"] for record in records if record["type"] == "item"}
        with pytest.raises(RequestError):
            await copy.load(records)
        await copy.close()


@pytest.mark.spec("B9")
async def test_a_loaded_store_goes_on_linking(store, folder):
    await full_life(store)
    records = []
    await store.export(records.append)
    copy = make("sqlite", folder.with_name("copy"))
    await copy.load(records)
    (note,) = await add(copy, "Noch einmal Atlantis")
    (page,) = await add(copy, item("z", title="later page"))
    found = {link.item for link in await copy.item_links(NS, [page, note], NO_FILTERS)}
    assert found == {2, 3}, "the page that Atlantis is, and the item whose link waited for its page"
    await copy.close()


async def full_life(store):
    """Something of everything: ids 1 to 4, of which 1 is gone, 2 owns Atlantis, 3 links ahead, 4 is not linked."""
    record = await store.add_raw(NS, "said", "Ada", None, {"n": 1}, NOW)
    gone, _, note, _ = await add(
        store,
        "Weg damit",
        item("x", title="Atlantis", key="k", tags=("Ort",), metadata={"a": [1]}, vector=unit(1, 2)),
        item("Die Reise [[later page]]", source_ids=(record.id,), path="a.md", chunk_index=2, kind="note"),
        "Wird neu",
    )
    await store.forget(NS, [gone])
    await edit(store, note, title="Reise nach Atlantis")
    await edit(store, note + 1, text="Atlantis ohne Links", links=False)
    await store.add_nodes(NS, [NewNode("Meer", "place", ("See",), {"deep": True}, note)])
    await store.add_edges(NS, [Edge("Atlantis", "lies in", "Meer", 0.5)])


@pytest.mark.spec("B13")
async def test_namespaces_and_sizes(store):
    await add(store, "one", item("two", vector=unit(1, 0)))
    await store.put("another", [item("three")], NOW)
    assert await store.namespaces() == {"another": 1, NS: 2}
    assert (await store.size(NS), await store.size("nowhere")) == (Size(2, 1), Size(0, 0))
    status = (await store.status())["namespaces"][NS]
    assert (status["items"], status["vectors"], status["pending_vectors"]) == (2, 1, 1)


@pytest.mark.spec("B9")
async def test_check_finds_nothing_and_repair_changes_no_answer(store):
    await full_life(store)
    before = await store.match(NS, "Atlantis Reise", 9, NO_FILTERS), await store.nearest(NS, unit(1, 0), 9, NO_FILTERS)
    assert await store.check() == []
    await store.repair()
    assert await store.check() == []
    after = await store.match(NS, "Atlantis Reise", 9, NO_FILTERS), await store.nearest(NS, unit(1, 0), 9, NO_FILTERS)
    assert after == before


async def test_a_store_in_memory_cannot_be_backed_up(folder):
    with pytest.raises(RequestError):
        await MemoryStore().backup(folder)


async def test_the_store_in_memory_is_enough_for_a_memory():
    async with Memory(MemoryStore(), None, "default", Settings()) as memory:
        await memory.add(NewItem("The router's password is in the blue folder", tags=("office",)))
        response = await memory.search("router password")
    assert [result.item.tags for result in response.results] == [("office",)]
    assert ids(await memory.store.match("default", "password", 9, NO_FILTERS)) == [1]

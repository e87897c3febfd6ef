"""Nothing of one namespace, no row and no statistic, ever reaches another."""

from __future__ import annotations

import pytest
from conformance_operations import VECTORS
from conformance_subjects import NOW, NS, add, edit, item, unit

from fourfold.errors import NotFound, StorageFull
from fourfold.model import NO_FILTERS, Edge
from fourfold.storage.id_blocks import BLOCK
from fourfold.stores.base import NewNode, Space
from fourfold.stores.memory.store import MemoryStore

pytestmark = pytest.mark.spec("B15")

TEXTS = ("Der Mietvertrag für das Haus", "The lease of the house", "Sonnenschein über Köln", "Versicherung und Haus")
OTHER = "other"


async def answers(store):
    queries = ("Vertrag Haus", "the house", "Sonne Köln", "Versicherungsfall")
    words = [await store.match(NS, query, 9, NO_FILTERS) for query in queries]
    links = [await store.node_links(NS, [name], NO_FILTERS) for name in ("haus", "köln", "koeln")]
    near = await store.nearest(NS, unit(1, 0), 9, NO_FILTERS)
    return words, [sorted(found) for found in links], near, await store.tag_counts(NS), await store.size(NS)


async def test_a_thousand_items_elsewhere_change_no_ranking_and_no_score(store):
    mine = [item(text, title=f"Haus {n}", tags=("haus",), vector=unit(n, 1)) for n, text in enumerate(TEXTS)]
    await add(store, *mine)
    before = await answers(store)
    words = ("Haus", "Vertrag", "Miete", "house", "lease", "Sonne", "Versicherung", "Köln", "the", "der")
    theirs = [
        item(
            f"{words[n % 10]} {words[n % 7]} {n}",
            title="Haus" if n % 50 == 0 else "",
            tags=("haus",),
            vector=VECTORS[n % 5],
        )
        for n in range(1000)
    ]
    await store.put(OTHER, theirs, NOW)
    assert await answers(store) == before
    assert await store.namespaces() == {NS: 4, OTHER: 1000}


async def test_items_of_another_namespace_do_not_exist(store):
    (mine,) = await add(store, item("Mein Text", title="Mein Titel", key="k", tags=("t",), vector=unit(1, 0)))
    assert await store.get(OTHER, [mine]) == {}
    assert await store.find_keys(OTHER, ["k"]) == {}
    (theirs,) = await store.put(OTHER, [item("Ihr Text", key="k", vector=unit(1, 2, 3))], NOW)
    assert theirs.id != mine
    assert await store.forget(OTHER, [mine]) == 0
    assert (await store.match_scores(OTHER, "Text", [mine, theirs.id])).hits[0].id == theirs.id
    assert await store.similarities(OTHER, unit(1, 0, 0), [mine]) == await store.similarities(OTHER, unit(1, 0, 0), [])
    assert await store.item_links(OTHER, [mine], NO_FILTERS) == []
    with pytest.raises(NotFound):
        await store.neighbors(OTHER, "Mein Titel", None, 1, "both", None)
    with pytest.raises(NotFound):
        await store.add_nodes(OTHER, [NewNode("X", item=mine)])


async def test_links_stay_inside_a_namespace(store):
    page, note = await add(store, item("x", title="Atlantis"), "Nach Atlantis")
    theirs = await store.put(OTHER, [item("x", title="Atlantis"), item("Auch nach Atlantis")], NOW)
    await store.add_edges(OTHER, [Edge("Atlantis", "lies in", "Meer", 1.0)])
    assert [near.node.name for near in await store.neighbors(OTHER, "Atlantis", None, 1, "out", None)] == ["Meer"]
    assert await store.neighbors(NS, "Atlantis", None, 1, "out", None) == []
    assert {link.item for link in await store.node_links(NS, ["atlantis"], NO_FILTERS)} == {page, note}
    await store.forget(OTHER, [theirs[0].id])
    assert {link.item for link in await store.node_links(NS, ["atlantis"], NO_FILTERS)} == {page, note}


async def test_a_name_that_is_gone_here_shadows_no_other_even_if_it_lives_elsewhere(store):
    await store.put(OTHER, [item("x", title="New York City")], NOW)
    city, state = await add(store, item("c", title="New York City"), item("s", title="New York"))
    await store.forget(NS, [city])
    (note,) = await add(store, "A week in New York City")
    assert {link.item for link in await store.item_links(NS, [note], NO_FILTERS)} == {state}


async def test_raw_records_of_another_namespace_are_no_sources(store):
    record = await store.add_raw(OTHER, "said", None, None, {}, NOW)
    with pytest.raises(NotFound):
        await add(store, item("text", source_ids=(record.id,)))
    assert await store.get_raw(NS, [record.id]) == {}
    assert await store.namespaces() == {OTHER: 0}


async def test_every_namespace_has_its_own_space(store):
    await store.set_space(NS, Space("one", 2))
    await store.set_space(OTHER, Space("two", 3))
    assert (await store.space(NS), await store.space(OTHER)) == (Space("one", 2), Space("two", 3))
    (mine,) = await add(store, item("text", vector=unit(1, 0)))
    await store.reset_space(OTHER, Space("three", 4))
    await edit(store, mine, add_tags=("t",))
    assert (await store.size(NS)).vectors == 1


async def given(store, namespace: str) -> tuple[int, int, int]:
    """The ids of a new item, raw record and node."""
    (stored,) = await store.put(namespace, [item(f"text {await store.size(namespace)}")], NOW)
    record = await store.add_raw(namespace, "said", None, None, {}, NOW)
    (node,) = await store.add_nodes(namespace, [NewNode(f"Node {stored.id}")])
    return stored.id, record.id, node.id


@pytest.mark.spec("B15")
async def test_ids_say_nothing_about_what_other_namespaces_store(store):
    assert await given(store, NS) == (1, 1, 1)
    first = await given(store, OTHER)
    for _ in range(5):
        await given(store, NS)
    second = await given(store, OTHER)
    assert [b - a for a, b in zip(first, second, strict=True)] == [1, 1, 1]
    assert len({id for ids in (first, second) for id in ids} & set(range(1, 100))) == 0
    await store.forget(OTHER, [second[0]])
    await store.remove_node(OTHER, f"Node {second[0]}", None)
    third = await given(store, OTHER)
    assert [b - a for a, b in zip(second, third, strict=True)] == [1, 1, 1]
    assert await store.check() == []


@pytest.mark.spec("B9", "B15")
async def test_namespaces_go_on_counting_for_themselves_after_a_load(store):
    source = MemoryStore()
    await given(source, NS)
    before = await given(source, "a namespace that is sorted first")
    records: list = []
    await source.export(records.append)
    await store.load(records)
    assert await given(store, NS) == (2, 2, 2)
    after = await given(store, "a namespace that is sorted first")
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 1]
    fresh = await given(store, OTHER)
    assert not {id // BLOCK for id in fresh} & {id // BLOCK for id in (*before, 1)}


@pytest.mark.spec("B9", "B15")
async def test_namespaces_that_shared_one_count_go_apart(store):
    """As older versions wrote them: one count for all namespaces."""
    source = MemoryStore()
    source._counters.blocks |= {NS: 0, OTHER: 0}
    await source.put(NS, [item("mine")], NOW)
    source._counters.last[OTHER, "items"] = 1
    await source.put(OTHER, [item("theirs")], NOW)
    records: list = []
    await source.export(records.append)
    assert [record["id"] for record in records if record["type"] == "item"] in ([1, 2], [2, 1])
    await store.load(records)
    new = {(await store.put(namespace, [item("new")], NOW))[0].id for namespace in (NS, OTHER, "third")}
    assert len({id // BLOCK for id in new}) == 3
    assert await store.check() == []


async def test_a_namespace_without_ids_left_says_so(store):
    source = MemoryStore()
    source._counters.blocks[NS] = 0
    source._counters.last[NS, "items"] = BLOCK - 2
    await source.put(NS, [item("the last one")], NOW)
    records: list = []
    await source.export(records.append)
    await store.load(records)
    with pytest.raises(StorageFull, match="ids"):
        await add(store, "one more")
    assert await store.check() == []

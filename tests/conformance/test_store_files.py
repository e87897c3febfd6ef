"""Files and their chunks, on every store."""

from __future__ import annotations

from typing import Any

import pytest
from conformance_subjects import LATER, NOW, NS, item, search, unit

from fourfold.model import NO_FILTERS, Filters
from fourfold.stores.base import FileState, FileUpdate, Space, Store
from fourfold.stores.chunks import continued

PATH = "/notes/garden.md"


def state(path: str = PATH, digest: str = "d1", skipped: str = "") -> FileState:
    return FileState(path, 10, 1_700_000_000_123_456_789, digest, skipped)


def update(*texts: str, path: str = PATH, moved_from: str | None = None, **fields: Any) -> FileUpdate:
    chunks = [item(text, path=path, chunk_index=number, **fields) for number, text in enumerate(texts)]
    return FileUpdate(state(path), chunks, moved_from)


async def stored(store: Store, path: str = PATH) -> dict[str, int]:
    found = await store.chunks(NS, path, 0, 1000)
    assert [chunk.chunk_index for chunk in found] == list(range(len(found)))
    return {chunk.text: chunk.id for chunk in found}


@pytest.mark.spec("S3.1")
async def test_a_file_is_its_chunks_and_its_state(store: Store) -> None:
    await store.put_files(NS, [update("beans", "peas"), update("oak", path="/other/tree.md")], NOW)
    assert list(await stored(store)) == ["beans", "peas"]
    assert await store.files(NS, "/notes/") == {PATH: state()}
    assert set(await store.files(NS, "/")) == {PATH, "/other/tree.md"}
    assert await store.files("elsewhere", "/") == {}
    assert len(await search(store, "keyword", "beans")) == 1


@pytest.mark.spec("S3.1")
async def test_an_insertion_leaves_the_other_chunks_their_ids_and_vectors(store: Store) -> None:
    await store.put_files(NS, [update("beans", "peas", "leek")], NOW)
    before = await stored(store)
    waiting = await store.waiting(NS, 10)
    space = Space("test", 2)
    await store.put_vectors(NS, space, [(*row, unit(1, 2)) for row in waiting])
    await store.put_files(NS, [update("radish", "beans", "chard", "leek")], LATER)
    after = await stored(store)
    assert list(after) == ["radish", "beans", "chard", "leek"]
    assert (after["beans"], after["leek"]) == (before["beans"], before["leek"])
    assert before["peas"] in (after["radish"], after["chard"])
    assert {text for _, _, text in await store.waiting(NS, 10)} == {"radish", "chard"}
    assert await search(store, "keyword", "peas") == []


@pytest.mark.spec("S3.1")
async def test_what_a_file_no_longer_holds_goes(store: Store) -> None:
    await store.put_files(NS, [update("beans", "peas", "leek")], NOW)
    kept = (await stored(store))["leek"]
    await store.put_files(NS, [update("leek")], LATER)
    assert await stored(store) == {"leek": kept}
    await store.put_files(NS, [FileUpdate(state(skipped="binary"), ())], LATER)
    assert await stored(store) == {}
    assert await store.files(NS, PATH) == {PATH: state(skipped="binary")}
    assert (await store.size(NS)).items == 0


async def test_a_state_alone_leaves_the_chunks(store: Store) -> None:
    await store.put_files(NS, [update("beans")], NOW)
    before = await stored(store)
    await store.put_files(NS, [FileUpdate(state(digest="d2"), None)], LATER)
    assert await stored(store) == before
    assert FileState._make((await store.files(NS, PATH))[PATH]).digest == "d2"


@pytest.mark.spec("S3.1")
async def test_a_moved_file_keeps_its_items(store: Store) -> None:
    await store.put_files(NS, [update("beans", "peas")], NOW)
    before = await stored(store)
    await store.put_files(NS, [update("beans", "peas", path="/notes/new.md", moved_from=PATH)], LATER)
    assert await stored(store, "/notes/new.md") == before
    assert await stored(store) == {}
    assert set(await store.files(NS, "/")) == {"/notes/new.md"}


async def test_a_move_onto_a_known_file_leaves_one_of_them(store: Store) -> None:
    await store.put_files(NS, [update("beans"), update("beans", path="/notes/new.md")], NOW)
    there = await stored(store, "/notes/new.md")
    await store.put_files(NS, [update("beans", path="/notes/new.md", moved_from=PATH)], LATER)
    assert await stored(store, "/notes/new.md") == there
    assert (await store.size(NS)).items == 1


async def test_forgotten_files_are_gone(store: Store) -> None:
    await store.put_files(NS, [update("beans", "peas"), update("oak", path="/other/tree.md")], NOW)
    assert await store.forget_files(NS, [PATH, "/never/was.md"]) == 2
    assert set(await store.files(NS, "/")) == {"/other/tree.md"}
    assert await search(store, "keyword", "beans oak") == list((await stored(store, "/other/tree.md")).values())
    assert await store.forget_files("elsewhere", [PATH]) == 0


async def test_forgetting_a_chunk_forgets_the_state(store: Store) -> None:
    """So that the next run looks into the file again."""
    await store.put_files(NS, [update("beans", "peas")], NOW)
    await store.forget(NS, [(await stored(store))["peas"]])
    assert await store.files(NS, "/") == {}


async def test_an_item_with_a_key_is_nobodys_chunk(store: Store) -> None:
    (mine,) = await store.put(NS, [item("my own remark", key="remark", path=PATH)], NOW)
    await store.put_files(NS, [update("beans")], NOW)
    await store.put_files(NS, [update("peas")], LATER)
    await store.forget(NS, [mine.id])
    assert set(await store.files(NS, "/")) == {PATH}
    assert list(await stored(store)) == ["peas"]


@pytest.mark.spec("B12")
async def test_neighbouring_chunks_come_in_order(store: Store) -> None:
    await store.put_files(NS, [update("zero", "one", "two", "three")], NOW)
    await store.put_files(NS, [update("new", "zero", "one", "two", "three")], NOW)
    assert [chunk.text for chunk in await store.chunks(NS, PATH, 1, 3)] == ["zero", "one", "two"]
    assert await store.chunks(NS, "/nowhere", 0, 9) == []


@pytest.mark.spec("S3.6")
async def test_files_are_found_by_their_name(store: Store) -> None:
    other = "/other/Garden.md"
    await store.put_files(NS, [update("beans", "peas"), update("oak", path=other), update("x", path="/a/b.md")], NOW)
    first, second = [list((await stored(store, path)).values()) for path in (PATH, other)]
    pairs = [(id, PATH) for id in first] + [(id, other) for id in second]
    assert await store.named_chunks(NS, ["garden.md", "none.md"], NO_FILTERS) == pairs
    assert await store.named_chunks(NS, ["garden.md"], Filters(path="/other/*")) == pairs[2:]
    assert await store.named_chunks(NS, [], NO_FILTERS) == []


@pytest.mark.spec("B11")
async def test_aliases_are_names(store: Store) -> None:
    told = item("See [[the plot]].")
    await store.put(NS, [told], NOW)
    chunk = item("beans", title="Garden", path=PATH, chunk_index=0, metadata={"aliases": ["The Plot", "Beds"]})
    await store.put_files(NS, [FileUpdate(state(), [chunk])], NOW)
    (garden,) = (await stored(store)).values()
    assert await search(store, "graph", "what about the plot?") == [garden, 1]
    renamed = item("beans", title="Garden", path=PATH, chunk_index=0, metadata={"aliases": ["Allotment"]})
    await store.put_files(NS, [FileUpdate(state(), [renamed])], LATER)
    assert await search(store, "graph", "what about the plot?") == []
    assert await search(store, "graph", "what about the Allotment?") == [garden]


@pytest.mark.spec("B9")
async def test_an_export_holds_the_files(store: Store) -> None:
    await store.put_files(NS, [update("beans"), FileUpdate(state("/notes/x.png", skipped="binary"))], NOW)
    records: list[Any] = []
    await store.export(records.append)
    known = await store.files(NS, "/")
    await store.forget_files(NS, list(known))
    assert await store.files(NS, "/") == {}
    await store.load(records)
    assert await store.files(NS, "/") == known


def test_chunks_go_on_by_text_then_in_order() -> None:
    old = [(1, "t", "a"), (2, "t", "b"), (3, "t", "a"), (4, "t", "c")]
    new = [item(text, title="t") for text in ("x", "a", "a", "y", "z")]
    assert continued(old, new) == ([2, 1, 3, 4, None], [])
    assert continued(old, new[1:2]) == ([1], [2, 3, 4])
    assert continued(old, [item("c", title="other"), item("new", title="t")]) == ([4, 1], [2, 3])

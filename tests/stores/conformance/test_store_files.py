"""Files and their chunks, on every store."""

from typing import Any

import pytest
from conformance_subjects import LATER, NOW, NS, exported, item, search, unit
from store_calls import StoreCalls

from fourfold.model import NO_FILTERS, Filters, Space
from fourfold.storage.sql.origins import continued
from fourfold.storage.values import FileState, FileUpdate

PATH = "/notes/garden.md"


def state(path: str = PATH, digest: str = "d1", skipped: str = "") -> FileState:
    return FileState(path, 10, 1_700_000_000_123_456_789, digest, skipped)


def update(*texts: str, path: str = PATH, moved_from: str | None = None, **fields: Any) -> FileUpdate:
    chunks = [item(text, path=path, chunk_index=number, **fields) for number, text in enumerate(texts)]
    return FileUpdate(state(path), chunks, moved_from)


def stored(store: StoreCalls, path: str = PATH) -> dict[str, int]:
    found = store.chunks(NS, path, 0, 1000)
    assert [chunk.chunk_index for chunk in found] == list(range(len(found)))
    return {chunk.text: chunk.id for chunk in found}


@pytest.mark.spec("S3.1")
def test_a_file_is_its_chunks_and_its_state(store: StoreCalls) -> None:
    store.put_files(NS, [update("beans", "peas"), update("oak", path="/other/tree.md")], NOW)
    assert list(stored(store)) == ["beans", "peas"]
    assert store.files(NS, "/notes/") == {PATH: state()}
    assert set(store.files(NS, "/")) == {PATH, "/other/tree.md"}
    assert store.files("elsewhere", "/") == {}
    assert len(search(store, "keyword", "beans")) == 1


@pytest.mark.spec("S3.1")
def test_an_insertion_leaves_the_other_chunks_their_ids_and_vectors(store: StoreCalls) -> None:
    store.put_files(NS, [update("beans", "peas", "leek")], NOW)
    before = stored(store)
    waiting = store.pending(NS, 10)
    space = Space("test", 2)
    store.put_vectors(NS, space, [(*row, unit(1, 2)) for row in waiting])
    store.put_files(NS, [update("radish", "beans", "chard", "leek")], LATER)
    after = stored(store)
    assert list(after) == ["radish", "beans", "chard", "leek"]
    assert (after["beans"], after["leek"]) == (before["beans"], before["leek"])
    assert before["peas"] in (after["radish"], after["chard"])
    assert {text for _, _, text in store.pending(NS, 10)} == {"radish", "chard"}
    assert search(store, "keyword", "peas") == []


@pytest.mark.spec("S3.1")
def test_chunks_that_a_file_no_longer_has_are_removed(store: StoreCalls) -> None:
    store.put_files(NS, [update("beans", "peas", "leek")], NOW)
    kept = stored(store)["leek"]
    store.put_files(NS, [update("leek")], LATER)
    assert stored(store) == {"leek": kept}
    store.put_files(NS, [FileUpdate(state(skipped="binary"), ())], LATER)
    assert stored(store) == {}
    assert store.files(NS, PATH) == {PATH: state(skipped="binary")}
    assert store.size(NS).items == 0


def test_a_state_alone_leaves_the_chunks(store: StoreCalls) -> None:
    store.put_files(NS, [update("beans")], NOW)
    before = stored(store)
    store.put_files(NS, [FileUpdate(state(digest="d2"), None)], LATER)
    assert stored(store) == before
    assert FileState._make(store.files(NS, PATH)[PATH]).digest == "d2"


@pytest.mark.spec("S3.1")
def test_a_moved_file_keeps_its_items(store: StoreCalls) -> None:
    store.put_files(NS, [update("beans", "peas")], NOW)
    before = stored(store)
    store.put_files(NS, [update("beans", "peas", path="/notes/new.md", moved_from=PATH)], LATER)
    assert stored(store, "/notes/new.md") == before
    assert stored(store) == {}
    assert set(store.files(NS, "/")) == {"/notes/new.md"}


def test_a_move_onto_a_known_file_leaves_one_of_them(store: StoreCalls) -> None:
    store.put_files(NS, [update("beans"), update("beans", path="/notes/new.md")], NOW)
    there = stored(store, "/notes/new.md")
    store.put_files(NS, [update("beans", path="/notes/new.md", moved_from=PATH)], LATER)
    assert stored(store, "/notes/new.md") == there
    assert store.size(NS).items == 1


def test_forgotten_files_are_gone(store: StoreCalls) -> None:
    store.put_files(NS, [update("beans", "peas"), update("oak", path="/other/tree.md")], NOW)
    assert store.forget_files(NS, [PATH, "/never/was.md"]) == 2
    assert set(store.files(NS, "/")) == {"/other/tree.md"}
    assert search(store, "keyword", "beans oak") == list(stored(store, "/other/tree.md").values())
    assert store.forget_files("elsewhere", [PATH]) == 0


def test_forgetting_a_chunk_forgets_the_state(store: StoreCalls) -> None:
    """Without its state, the next run reads the file again."""
    store.put_files(NS, [update("beans", "peas")], NOW)
    store.forget(NS, [stored(store)["peas"]])
    assert store.files(NS, "/") == {}


def test_an_item_with_a_key_is_not_a_chunk(store: StoreCalls) -> None:
    (mine,) = store.put(NS, [item("my own remark", key="remark", path=PATH)], NOW)
    store.put_files(NS, [update("beans")], NOW)
    store.put_files(NS, [update("peas")], LATER)
    store.forget(NS, [mine.id])
    assert set(store.files(NS, "/")) == {PATH}
    assert list(stored(store)) == ["peas"]


@pytest.mark.spec("B12")
def test_neighbouring_chunks_come_in_order(store: StoreCalls) -> None:
    store.put_files(NS, [update("zero", "one", "two", "three")], NOW)
    store.put_files(NS, [update("new", "zero", "one", "two", "three")], NOW)
    assert [chunk.text for chunk in store.chunks(NS, PATH, 1, 3)] == ["zero", "one", "two"]
    assert store.chunks(NS, "/nowhere", 0, 9) == []


@pytest.mark.spec("S3.6")
def test_files_are_found_by_their_name(store: StoreCalls) -> None:
    other = "/other/Garden.md"
    store.put_files(NS, [update("beans", "peas"), update("oak", path=other), update("x", path="/a/b.md")], NOW)
    first, second = [list(stored(store, path).values()) for path in (PATH, other)]
    pairs = [(id, PATH) for id in first] + [(id, other) for id in second]
    assert store.named_chunks(NS, ["garden.md", "none.md"], NO_FILTERS) == pairs
    assert store.named_chunks(NS, ["garden.md"], Filters(path="/other/*")) == pairs[2:]
    assert store.named_chunks(NS, [], NO_FILTERS) == []


def test_a_snapshot_says_whether_files_are_indexed(store: StoreCalls) -> None:
    for paths in ([], [PATH]):
        store.put_files(NS, [update("beans", path=path) for path in paths], NOW)
        with store.snapshot(NS) as snapshot:
            assert snapshot.has_files == bool(paths)


@pytest.mark.spec("B11")
def test_aliases_are_names(store: StoreCalls) -> None:
    told = item("See [[the plot]].")
    store.put(NS, [told], NOW)
    chunk = item("beans", title="Garden", path=PATH, chunk_index=0, metadata={"aliases": ["The Plot", "Beds"]})
    store.put_files(NS, [FileUpdate(state(), [chunk])], NOW)
    (garden,) = stored(store).values()
    assert search(store, "graph", "what about the plot?") == [garden, 1]
    renamed = item("beans", title="Garden", path=PATH, chunk_index=0, metadata={"aliases": ["Allotment"]})
    store.put_files(NS, [FileUpdate(state(), [renamed])], LATER)
    assert search(store, "graph", "what about the plot?") == []
    assert search(store, "graph", "what about the Allotment?") == [garden]


@pytest.mark.spec("B9")
def test_an_export_holds_the_files(store: StoreCalls) -> None:
    store.put_files(NS, [update("beans"), FileUpdate(state("/notes/x.png", skipped="binary"))], NOW)
    records = exported(store)
    known = store.files(NS, "/")
    store.forget_files(NS, list(known))
    assert store.files(NS, "/") == {}
    store.load(records)
    assert store.files(NS, "/") == known


def test_chunks_keep_their_ids_by_text_then_by_order() -> None:
    old = [(1, "t", "a"), (2, "t", "b"), (3, "t", "a"), (4, "t", "c")]
    new = [item(text, title="t") for text in ("x", "a", "a", "y", "z")]
    assert continued(old, new) == ([2, 1, 3, 4, None], [])
    assert continued(old, new[1:2]) == ([1], [2, 3, 4])
    assert continued(old, [item("c", title="other"), item("new", title="t")]) == ([4, 1], [2, 3])

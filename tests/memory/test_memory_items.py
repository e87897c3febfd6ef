"""Storing, changing, browsing and forgetting: identity, originals, links, and what is refused."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from concurrently import results
from engine_support import DIMENSION, Opener, WordEmbedder, ids, notes, row_counts, texts

from fourfold import limits
from fourfold.config import Settings
from fourfold.errors import (
    Conflict,
    InvalidArgument,
    InvalidItem,
    InvalidQuery,
    InvalidSetting,
    InvalidVector,
    NotFound,
    RequestError,
    StoreUnavailable,
)
from fourfold.memory import Memory
from fourfold.model import Filters, ItemPatch, MetadataTest, NewItem

# ---------------------------------------------------------------- sources


@pytest.mark.spec("S1.7")
def test_insights_point_back_to_the_dialogue_they_come_from(memory: Memory) -> None:
    turns = [
        memory.add_raw("I prefer tea", "Anna", "session 1", {"turn": 1}),
        memory.add_raw("Noted: tea", "assistant", "session 1"),
    ]
    assert turns[0].speaker == "Anna"
    assert dict(turns[0].metadata) == {"turn": 1}
    insight = memory.add(NewItem("Anna prefers tea", source_ids=(turns[1].id, turns[0].id)), wait=True)
    assert insight.source_ids == (turns[1].id, turns[0].id)
    found = memory.search("what does Anna drink").results[0].item
    assert found.source_ids == insight.source_ids
    originals = memory.get_raw(found.source_ids)
    assert [record.content for record in originals] == ["Noted: tea", "I prefer tea"]


@pytest.mark.spec("S1.7", "S1.8")
@pytest.mark.parametrize("unknown", [7, 0, -1, 2**63, 2**80])
def test_unknown_source_ids_are_refused_and_nothing_is_written(memory: Memory, tmp_path: Path, unknown: int) -> None:
    raw = memory.add_raw("the original")
    before = row_counts(tmp_path / "store")
    with pytest.raises(NotFound, match=f"no raw record {unknown}"):
        memory.add_many([NewItem("first"), NewItem("second", source_ids=(raw.id, unknown), tags=("new",))])
    assert row_counts(tmp_path / "store") == before


# ---------------------------------------------------------------- refused items and calls

BAD_ITEMS: list[tuple[type[RequestError], NewItem]] = [
    (InvalidItem, NewItem("")),
    (InvalidItem, NewItem(" \n\t ", title="  ")),
    (InvalidItem, NewItem("a\x00b")),
    (InvalidItem, NewItem("half \ud83d of a pair")),
    (InvalidItem, NewItem("text", title="\udfff")),
    (InvalidItem, NewItem("x" * 10_000_000)),
    (InvalidItem, NewItem("x", title="y" * limits.ITEM_BYTES)),
    (InvalidItem, NewItem("ä" * (limits.ITEM_BYTES // 2) + "x")),
    (InvalidItem, NewItem("x", tags=tuple(f"tag{number}" for number in range(100_000)))),
    (InvalidItem, NewItem("x", tags=tuple(f"tag{number}" for number in range(limits.TAGS + 1)))),
    (InvalidItem, NewItem("x", tags=("",))),
    (InvalidItem, NewItem("x", tags=("a\x00",))),
    (InvalidItem, NewItem("x", tags=("\ud800",))),
    (InvalidItem, NewItem("x", tags="office")),  # type: ignore[arg-type]
    (InvalidItem, NewItem("x", tags=(5,))),  # type: ignore[arg-type]
    (InvalidItem, NewItem("x", key="")),
    (InvalidItem, NewItem("x", key="k" * (limits.NAME_BYTES + 1))),
    (InvalidItem, NewItem("x", kind="\x00")),
    (InvalidItem, NewItem("x", metadata={"n": float("nan")})),
    (InvalidItem, NewItem("x", metadata={"n": float("inf")})),
    (InvalidItem, NewItem("x", metadata={"n": {1, 2}})),
    (InvalidItem, NewItem("x", metadata={"n": "\ud800"})),
    (InvalidItem, NewItem("x", metadata={"n": "x" * limits.METADATA_BYTES})),
    (InvalidItem, NewItem("x", metadata=["ab"])),  # type: ignore[arg-type]
    (InvalidItem, NewItem("x", path="p", chunk_index=-1)),
    (InvalidItem, NewItem("x", path="p", chunk_index=2**70)),
    (InvalidItem, NewItem("x", path="p", chunk_index="1")),  # type: ignore[arg-type]
    (InvalidItem, NewItem("x", created_at="yesterday")),  # type: ignore[arg-type]
    (InvalidItem, NewItem("x", created_at=datetime.min.replace(tzinfo=timezone(timedelta(hours=5))))),
    (InvalidItem, NewItem("x", source_ids=tuple(range(1, limits.SOURCES + 2)))),
    (InvalidItem, NewItem("x", source_ids=("1",))),  # type: ignore[arg-type]
    (InvalidItem, NewItem(5)),  # type: ignore[arg-type]
    (InvalidVector, NewItem("x", vector=[float("nan")] * DIMENSION)),
    (InvalidVector, NewItem("x", vector=[float("inf")] * DIMENSION)),
    (InvalidVector, NewItem("x", vector=[0.0] * DIMENSION)),
    (InvalidVector, NewItem("x", vector=[1e38] * DIMENSION)),
    (InvalidVector, NewItem("x", vector=[1.0] * (DIMENSION + 1))),
    (InvalidVector, NewItem("x", vector=[])),
    (InvalidVector, NewItem("x", vector=["1"] * DIMENSION)),  # type: ignore[list-item]
    (InvalidVector, NewItem("x", vector=[[1.0] * DIMENSION])),  # type: ignore[list-item]
    (InvalidVector, NewItem("x", vector=[1.0] * (limits.VECTOR_DIMENSIONS + 1))),
]


@pytest.mark.spec("B10", "S1.8")
@pytest.mark.parametrize(("error", "item"), BAD_ITEMS, ids=range(len(BAD_ITEMS)))
def test_a_batch_with_an_invalid_item_is_refused_as_a_whole(
    memory: Memory, tmp_path: Path, error: type[RequestError], item: NewItem
) -> None:
    before = row_counts(tmp_path / "store")
    with pytest.raises(error) as raised:
        memory.add_many([NewItem("a good one", tags=("good",)), item])
    assert raised.value.remedy
    assert row_counts(tmp_path / "store") == before
    memory.add("a good one", wait=True)
    assert texts(memory.search("good")) == ["a good one"]


Call = Callable[[Memory], Any]
BAD_CALLS: dict[str, tuple[type[RequestError], Call]] = {
    "get": (NotFound, lambda memory: memory.get([1, 999])),
    "get huge": (NotFound, lambda memory: memory.get([2**80])),
    "get negative": (NotFound, lambda memory: memory.get([-(2**80)])),
    "get key": (NotFound, lambda memory: memory.get(["key:nothing"])),
    "get surrogate": (NotFound, lambda memory: memory.get(["key:\ud800"])),
    "get word": (NotFound, lambda memory: memory.get(["nothing"])),
    "forget": (NotFound, lambda memory: memory.forget([1, 999])),
    "forget all": (InvalidQuery, lambda memory: memory.forget_matching(Filters())),
    "update": (NotFound, lambda memory: memory.update(999, ItemPatch(text="x"))),
    "update empty": (InvalidItem, lambda memory: memory.update(1, ItemPatch(text=" ", title=""))),
    "update NUL": (InvalidItem, lambda memory: memory.update(1, ItemPatch(text="\x00"))),
    "update tags": (
        InvalidItem,
        lambda memory: memory.update(1, ItemPatch(add_tags=tuple(map(str, range(limits.TAGS))))),
    ),
    "update metadata": (InvalidItem, lambda memory: memory.update(1, ItemPatch(metadata={"a": "x" * 60_000}))),
    "update size": (InvalidItem, lambda memory: memory.update(1, ItemPatch(title="x" * limits.ITEM_BYTES))),
    "list 0": (InvalidQuery, lambda memory: memory.list(limit=0)),
    "list 1001": (InvalidQuery, lambda memory: memory.list(limit=1001)),
    "list offset": (InvalidQuery, lambda memory: memory.list(offset=-1)),
    "list huge offset": (InvalidQuery, lambda memory: memory.list(offset=2**80)),
    "list half": (InvalidArgument, lambda memory: memory.list(limit=1.5)),  # type: ignore[arg-type]
    "filter surrogate": (InvalidQuery, lambda memory: memory.list(Filters(tags=("\ud800",)))),
    "filter NUL": (InvalidQuery, lambda memory: memory.search("x", filters=Filters(kind="\x00"))),
    "filter tags": (InvalidQuery, lambda memory: memory.count(Filters(tags=tuple(map(str, range(100_000)))))),
    "filter op": (InvalidQuery, lambda memory: memory.count(Filters(metadata=(MetadataTest("a", "like", 1),)))),  # type: ignore[arg-type]
    "filter NaN": (
        InvalidQuery,
        lambda memory: memory.count(Filters(metadata=(MetadataTest("a", "eq", float("nan")),))),
    ),
    "edge weight": (InvalidItem, lambda memory: memory.add_edge("A", "knows", "B", 1.5)),
    "edge NaN": (InvalidItem, lambda memory: memory.add_edge("A", "knows", "B", float("nan"))),
    "edge word": (InvalidArgument, lambda memory: memory.add_edge("A", "knows", "B", "1")),  # type: ignore[arg-type]
    "edge huge": (InvalidItem, lambda memory: memory.add_edge("A", "knows", "B", 10**400)),
    "edges": (InvalidItem, lambda memory: memory.add_edges([("A", "knows", "B", 1.0), ("B", "", "C", 1.0)])),
    "node empty": (InvalidItem, lambda memory: memory.add_node("")),
    "node marks": (InvalidItem, lambda memory: memory.add_node("???")),
    "node NUL": (InvalidItem, lambda memory: memory.add_node("a\x00")),
    "node item": (NotFound, lambda memory: memory.add_node("New", item=999)),
    "neighbors": (NotFound, lambda memory: memory.neighbors("Nobody")),
    "neighbors surrogate": (InvalidItem, lambda memory: memory.neighbors("\ud800")),
    "neighbors deep": (InvalidQuery, lambda memory: memory.neighbors("Known", depth=6)),
    "neighbors half": (InvalidArgument, lambda memory: memory.neighbors("Known", depth=1.5)),  # type: ignore[arg-type]
    "neighbors direction": (InvalidArgument, lambda memory: memory.neighbors("Known", direction="up")),  # type: ignore[arg-type]
    "path": (NotFound, lambda memory: memory.path("Known", "Nobody")),
    "path deep": (InvalidQuery, lambda memory: memory.path("Known", "Known", 11)),
    "raw empty": (InvalidItem, lambda memory: memory.add_raw(" ")),
    "raw NUL": (InvalidItem, lambda memory: memory.add_raw("\x00")),
    "get raw": (NotFound, lambda memory: memory.get_raw([999])),
    "get raw huge": (NotFound, lambda memory: memory.get_raw([2**80])),
    "why": (NotFound, lambda memory: memory.why(999, "x")),
    "reembed": (RequestError, lambda memory: memory.reembed()),
}


@pytest.mark.spec("S1.8", "B13")
@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_wrong_call_is_refused_and_changes_nothing(opened: Opener, tmp_path: Path, name: str) -> None:
    memory = opened(embedder="none")
    memory.add(NewItem("good", title="Known", tags=("t",), metadata={"old": "y" * 6_000}))
    before = row_counts(tmp_path / "store")
    error, call = BAD_CALLS[name]
    with pytest.raises(error) as raised:
        call(memory)
    assert raised.value.message
    assert raised.value.remedy
    assert row_counts(tmp_path / "store") == before
    assert texts(memory.search("good")) == ["good"]


def test_the_largest_item_is_accepted(memory: Memory) -> None:
    tags = tuple(f"tag{number}" for number in range(limits.TAGS))
    item = memory.add(NewItem("x" * limits.ITEM_BYTES, tags=tags, key="k" * limits.NAME_BYTES))
    assert len(item.text) == limits.ITEM_BYTES
    assert len(item.tags) == limits.TAGS


def test_merging_tags_does_not_exceed_the_limit(memory: Memory) -> None:
    memory.add(NewItem("same text", tags=tuple(f"a{number}" for number in range(40))))
    with pytest.raises(InvalidItem, match="64 tags"):
        memory.add(NewItem("same text", tags=tuple(f"b{number}" for number in range(40))))
    assert len(memory.get([1])[0].tags) == 40


def test_calls_of_a_closed_memory_raise_and_it_can_be_closed_again(opened: Opener) -> None:
    memory = opened()
    memory.add("heron")
    memory.close()
    memory.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        memory.add("otter")


# ---------------------------------------------------------------- identity


@pytest.mark.spec("B10")
@pytest.mark.parametrize("identity", [{"key": "k"}, {"path": "docs/a.md", "chunk_index": 3}, {"path": "docs/a.md"}])
def test_storing_under_the_same_identity_replaces_and_keeps_id_and_created_at(
    memory: Memory, identity: dict[str, Any]
) -> None:
    born = datetime(2024, 1, 1, tzinfo=UTC)
    first = memory.add(NewItem("old heron", tags=("old",), metadata={"v": 1}, created_at=born, **identity))
    memory.add_node("Bird", item=first.id)
    again = memory.add(NewItem("new otter", tags=("new",), metadata={"w": 2}, **identity), wait=True)
    assert again.id == first.id
    assert (again.text, again.tags, dict(again.metadata)) == ("new otter", ("new",), {"w": 2})
    assert again.created_at == born
    assert again.updated_at > born
    assert memory.count() == 1
    assert ids(memory.search("Bird", only=["graph"])) == [first.id]
    assert ids(memory.search("otter", only=["keyword"])) == [first.id]
    assert ids(memory.search("heron", only=["keyword"])) == []


@pytest.mark.spec("B10")
def test_the_same_text_without_a_key_is_the_same_item_with_both_tags(memory: Memory) -> None:
    first = memory.add(NewItem("Caf\u00e9 opens at nine", tags=("a", "Both")))
    again = memory.add(NewItem("  Cafe\u0301 opens at nine\n", tags=("b", "both")))
    assert again.id == first.id
    assert again.tags == ("Both", "a", "b")
    keyed = memory.add(NewItem("Caf\u00e9 opens at nine", key="another"))
    assert keyed.id != first.id


@pytest.mark.spec("B10")
def test_a_title_alone_is_an_item(memory: Memory) -> None:
    item = memory.add(NewItem(title="Tower Clock"), wait=True)
    assert ids(memory.search("tower clock")) == [item.id]
    assert memory.add(NewItem(title="Tower Clock")).id == item.id


@pytest.mark.spec("B10")
def test_items_are_embedded_again_only_if_the_embedded_text_changed(opened: Opener) -> None:
    embedder = WordEmbedder()
    memory = opened(embedder=embedder, background=False)
    item = memory.add(NewItem("heron", key="h"), wait=True)
    assert embedder.texts == ["heron"]
    memory.add(NewItem("heron", key="h", tags=("bird",), metadata={"n": 1}), wait=True)
    memory.update(item.id, ItemPatch(add_tags=("grey",), metadata={"n": 2}))
    memory.embed_pending()
    assert embedder.texts == ["heron"]
    memory.add(NewItem("otter", key="h"), wait=True)
    memory.update(item.id, ItemPatch(title="Lutra"))
    memory.embed_pending()
    assert embedder.texts == ["heron", "otter", "Lutra\notter"]


# ---------------------------------------------------------------- links


@pytest.mark.spec("B11")
def test_titles_links_and_mentions_become_edges_also_for_older_items(memory: Memory) -> None:
    mention = memory.add("We met at the Blue Lagoon in May")
    link = memory.add("See [[Blue Lagoon]] and [the map](maps/lagoon.md)")
    place = memory.add(NewItem("Open from ten", title="Blue Lagoon"))
    assert set(ids(memory.search("blue lagoon", only=["graph"]))) == {mention.id, link.id, place.id}
    assert ids(memory.search("blue lagoon", only=["graph"]))[0] == place.id
    memory.update(mention.id, ItemPatch(text="We met at the harbour"))
    assert mention.id not in ids(memory.search("blue lagoon", only=["graph"]))
    memory.forget([place.id])
    assert ids(memory.search("blue lagoon", only=["graph"])) == []


def test_every_node_that_a_query_names_is_in_its_analysis(memory: Memory) -> None:
    """Names that others contain, aliases, and names behind the first hundreds of candidates."""
    memory.add_edges([("gate1", "is near", f"gate1{number}", 1.0) for number in range(8)])
    memory.add_edges([(f"gate1{number}", "is near", f"gate1{number + 1}", 1.0) for number in range(7)])
    memory.add_node("gate1", "road")
    memory.add_node("Harbour", aliases=("port",))
    assert [(node.name, node.label) for node in memory.analyze("gate1").names] == [
        ("gate1", "entity"),
        ("gate1", "road"),
    ]
    assert [node.name for node in memory.analyze("gate15 and gate10").names] == ["gate15", "gate10"]
    assert [node.name for node in memory.analyze("the port").names] == ["Harbour"]
    words = " ".join(f"word{number}" for number in range(20))
    assert [node.name for node in memory.analyze(f"{words} gate17").names] == ["gate17"]


def test_the_nodes_of_an_item_are_listed_however_long_its_text_is(memory: Memory) -> None:
    words = " ".join(f"word{number}" for number in range(2000))
    item = memory.add(NewItem(f"{words} at Kestrel, which is beside the Port", title="Outage"))
    other = memory.add(NewItem("nothing", key="other"))
    memory.add_node("Harbour", aliases=("port",))
    memory.add_edge("Kestrel", "is near", "Hawk")
    assert [node.name for node in memory.nodes(item=item.id)] == ["Kestrel", "Harbour", "Outage"]
    assert [node.name for node in memory.nodes("out", item=item.id)] == ["Outage"]
    assert [node.name for node in memory.nodes(item=item.id, limit=1, offset=1)] == ["Harbour"]
    assert memory.nodes(item="key:other") == []
    with pytest.raises(NotFound, match=f"no item {other.id + 1}"):
        memory.nodes(item=other.id + 1)


@pytest.mark.spec("B11")
def test_links_off_makes_no_nodes(opened: Opener, tmp_path: Path) -> None:
    memory = opened(settings=Settings(links=False))
    memory.add(NewItem("# Heading\n[[Wiki Link]]", title="Blue Lagoon"))
    memory.add("We met at the Blue Lagoon")
    assert row_counts(tmp_path / "store")["nodes"] == 0
    assert ids(memory.search("Blue Lagoon", only=["graph"])) == []
    memory.add_node("Blue Lagoon", item=1)  # explicit edges still count
    assert ids(memory.search("Blue Lagoon", only=["graph"])) == [1]


# ---------------------------------------------------------------- updating, listing, forgetting


@pytest.mark.spec("B13", "B6")
def test_update_changes_what_it_names_and_every_index_follows(memory: Memory) -> None:
    item = memory.add(NewItem("grey heron", tags=("a", "b"), metadata={"x": 1, "y": 2}), wait=True)
    changed = memory.update(
        item.id, ItemPatch(text="brown otter", add_tags=("c",), remove_tags=("A",), metadata={"x": None, "z": 3})
    )
    assert (changed.text, changed.tags, dict(changed.metadata)) == ("brown otter", ("b", "c"), {"y": 2, "z": 3})
    memory.embed_pending()
    assert ids(memory.search("heron", only=["keyword"])) == []
    assert ids(memory.search("otter", only=["keyword"])) == [item.id]
    similar = memory.search("brown otter", only=["semantic"])
    assert similar.results[0].contributions[0].raw == pytest.approx(1.0)
    assert ids(memory.search("a", filters=Filters(tags=("a",)))) == []
    assert ids(memory.search("otter", filters=Filters(tags=("c",)))) == [item.id]


@pytest.mark.spec("B13")
def test_list_is_newest_first_and_paged(memory: Memory) -> None:
    day = datetime(2025, 1, 1, tzinfo=UTC)
    items = [replace(item, created_at=day + timedelta(days=n % 7)) for n, item in enumerate(notes(30))]
    memory.add_many(items)
    pages = [item for offset in range(0, 30, 8) for item in memory.list(limit=8, offset=offset)]
    assert [(item.created_at, item.id) for item in pages] == sorted(
        ((item.created_at, item.id) for item in pages), reverse=True
    )
    assert len({item.id for item in pages}) == 30


@pytest.mark.spec("B13")
def test_namespaces_are_listed_and_forgetting_by_path_counts_first(opened: Opener) -> None:
    memory = opened()
    memory.add_many([NewItem(f"chunk {n}", path=f"docs/{n % 2}.md", chunk_index=n) for n in range(6)])
    opened(namespace="private").add("mine")
    assert memory.namespaces() == [("default", 6), ("private", 1)]
    old = Filters(path="docs/1*")
    assert memory.count(old) == 3
    assert memory.forget_matching(old) == 3
    assert memory.namespaces() == [("default", 3), ("private", 1)]


@pytest.mark.spec("B13")
def test_a_dry_run_counts_what_will_go_and_removes_nothing(memory: Memory) -> None:
    for value in ("Bonn", "Rome", "Oslo"):
        memory.add(NewItem(f"Maria lives in {value}", subject="Maria", attribute="address", tags=("home",)))
    home = Filters(tags=("home",))
    planned = memory.forget_matching(home, dry_run=True)
    assert planned == memory.forget_matching(home, dry_run=True) == 3
    assert memory.forget_matching(home) == planned
    note = memory.add("a note").id
    assert memory.forget([note, note], dry_run=True) == 1
    assert memory.forget([note, note]) == 1


def test_items_that_stop_matching_before_they_are_removed_stay(memory: Memory) -> None:
    kept = memory.add(NewItem("kept", tags=("old",)))
    with concurrent.futures.ThreadPoolExecutor() as pool, memory.store.transaction(memory.namespace) as tx:
        removing = pool.submit(memory.forget_matching, Filters(tags=("old",)))
        assert not concurrent.futures.wait([removing], timeout=0.2).done
        tx.items.patch(kept.id, ItemPatch(remove_tags=("old",), add_tags=("new",)), datetime.now(UTC))
    assert removing.result() == 0
    assert memory.count() == 1


@pytest.mark.parametrize("fact", [False, True])
def test_two_undos_of_one_state_succeed_once(memory: Memory, fact: bool) -> None:
    names: dict[str, Any] = {"subject": "Maria", "attribute": "home"} if fact else {"key": "home"}
    for value in ("Bonn", "Rome", "Oslo"):
        known = memory.add(NewItem(f"Maria lives in {value}", **names))
    known = memory.get([known.id])[0]
    undo = partial(memory.undo, known.id, expected=known)
    with concurrent.futures.ThreadPoolExecutor() as pool, memory.store.transaction(memory.namespace):
        waiting = [pool.submit(undo) for _ in range(2)]
        assert not concurrent.futures.wait(waiting, timeout=0.3).done
    failed = [each.exception() for each in waiting if each.exception() is not None]
    assert [type(error) for error in failed] == [Conflict]
    with pytest.raises(Conflict):
        undo()
    assert [item.text[-4:] for item in memory.list()] == ["Rome"]


def test_an_item_that_is_superseded_while_its_change_waits_is_not_changed(memory: Memory) -> None:
    old = memory.add(NewItem("Maria lives in Bonn", subject="Maria", attribute="home"))
    new = NewItem("Maria lives in Rome", subject="Maria", attribute="home", source="user", language="en")
    with concurrent.futures.ThreadPoolExecutor() as pool, memory.store.transaction(memory.namespace) as tx:
        waiting = pool.submit(memory.update, old.id, ItemPatch(title="Home"))
        assert not concurrent.futures.wait([waiting], timeout=0.2).done
        tx.items.put([new], datetime.now(UTC))
    assert isinstance(waiting.exception(), Conflict)


def test_adding_from_many_threads_at_once_stores_every_item(memory: Memory) -> None:
    results(*(partial(memory.add, item) for item in notes(40)))
    assert memory.count() == 40
    assert memory.check() == []


def test_a_temporary_store_ends_when_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(2):
        with Memory.open(":memory:", embedder=WordEmbedder()) as memory:
            assert memory.count() == 0
            memory.add("The key is in the blue box", wait=True)
            assert memory.within("other").count() == 0
            assert [result.id for result in memory.search("blue key").results] == [1]
            (folder,) = tmp_path.iterdir()
            assert folder.name.startswith("fourfold-")
            assert folder.stat().st_mode & 0o077 == 0
        assert list(tmp_path.iterdir()) == []


LEFT_OPEN = """
import os, sys
from fourfold import Memory, NewItem

memory = Memory.open(":memory:", embedder="none")
memory.add_many([NewItem(f"note {n}") for n in range(1500)])
if hasattr(os, "fork"):
    if (child := os.fork()) == 0:
        sys.exit()
    os.waitpid(child, 0)
memory.index()
memory.add_many([NewItem(f"another note {n}") for n in range(1500)])
print(memory.search("note 7").results[0].item.text)
"""


def test_a_temporary_store_leaves_nothing_behind_when_its_process_exits_without_closing_it(tmp_path: Path) -> None:
    """A forked child that exits does not remove the store of its parent."""
    script = [sys.executable, "-W", "error", "-c", LEFT_OPEN]
    ended = subprocess.run(script, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("note 7\n", "", 0)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_copied_restored_or_typed_into_memory_where_it_would_be_lost(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fourfold.cli.main import main

    monkeypatch.chdir(tmp_path)
    for lost in (
        lambda: memory.move(":memory:", delete_source=True),
        lambda: Memory.restore("backup", ":memory:"),
        lambda: Memory.open(settings=Settings(store=":memory:", embedder="none")),
    ):
        with pytest.raises(InvalidSetting, match="in :memory:"):
            lost()
    assert memory.count() == 0
    with pytest.raises(SystemExit) as ended:
        main(["--store", ":memory:", "add", "x"])
    assert ended.value.code
    assert not (tmp_path / ":memory:").exists()

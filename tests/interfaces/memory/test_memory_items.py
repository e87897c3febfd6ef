"""Storing, changing, browsing and forgetting: identity, originals, links, and what is refused."""

import concurrent.futures
import math
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from engine_support import DIMENSION, Opener, WordEmbedder, ids, row_counts, texts

from fourfold import Filters, ItemPatch, Memory, MetadataTest, NewItem, Settings, limits
from fourfold.errors import (
    Conflict,
    InvalidArgument,
    InvalidItem,
    InvalidQuery,
    InvalidSetting,
    InvalidVector,
    NotFound,
    RequestError,
)

# ---------------------------------------------------------------- refused items and calls

BAD_ITEMS: list[tuple[type[RequestError], NewItem]] = [
    *((InvalidItem, NewItem(**fields)) for fields in (  # type: ignore[arg-type]
        {"text": ""}, {"text": " \n\t ", "title": "  "}, {"text": "a\x00b"}, {"text": "half \ud83d of a pair"},
        {"text": "text", "title": "\udfff"}, {"text": "x" * 10_000_000}, {"text": "ä" * (limits.ITEM_BYTES // 2) + "x"},
        {"text": "x", "title": "y" * limits.ITEM_BYTES}, {"text": 5},
    )),
    *((InvalidItem, NewItem("x", **fields)) for fields in (  # type: ignore[arg-type]
        *({"tags": tuple(f"tag{number}" for number in range(count))} for count in (100_000, limits.TAGS + 1)),
        {"tags": ("",)}, {"tags": ("a\x00",)}, {"tags": ("\ud800",)}, {"tags": "office"}, {"tags": (5,)},
        {"key": ""}, {"key": "k" * (limits.NAME_BYTES + 1)}, {"kind": "\x00"}, {"metadata": ["ab"]},
        *({"metadata": {"n": n}} for n in (math.nan, math.inf, {1, 2}, "\ud800", "x" * limits.METADATA_BYTES)),
        *({"path": "p", "chunk_index": index} for index in (-1, 2**70, "1")),
        {"created_at": "yesterday"}, {"created_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))},
        {"source_ids": tuple(range(1, limits.SOURCES + 2))}, {"source_ids": ("1",)},
    )),
    *((InvalidVector, NewItem("x", vector=vector)) for vector in (
        [math.nan] * DIMENSION, [math.inf] * DIMENSION, [0.0] * DIMENSION, [1e38] * DIMENSION, [1.0] * (DIMENSION + 1),
        [], ["1"] * DIMENSION, [[1.0] * DIMENSION], [1.0] * (limits.VECTOR_DIMENSIONS + 1),
    )),
]  # fmt: skip


@pytest.mark.spec("B10", "S1.8")
def test_a_batch_with_an_invalid_item_is_refused_as_a_whole(memory: Memory, tmp_path: Path):
    before = row_counts(tmp_path / "store")
    for error, item in BAD_ITEMS:
        with pytest.raises(error) as raised:
            memory.add_many([NewItem("a good one", tags=("good",)), item])
        assert raised.value.remedy
        assert row_counts(tmp_path / "store") == before
    memory.add("a good one", wait=True)
    assert texts(memory.search("good")) == ["a good one"]


class Call:
    """A call of a method of Memory."""

    def __init__(self, method: str, *args: Any, **options: Any) -> None:
        self.method, self.args, self.options = method, args, options

    def __call__(self, memory: Memory) -> Any:
        return getattr(memory, self.method)(*self.args, **self.options)

    def __str__(self) -> str:
        return self.method


BAD_CALLS: dict[type[RequestError], list[Call]] = {
    NotFound: [
        *(Call("get", ids) for ids in ([1, 999], [2**80], [-(2**80)], ["key:nothing"], ["key:\ud800"], ["nothing"])),
        Call("forget", [1, 999]), Call("update", 999, ItemPatch(text="x")), Call("why", 999, "x"),
        Call("add_node", "New", item=999), Call("neighbors", "Nobody"), Call("path", "Known", "Nobody"),
        Call("get_raw", [999]), Call("get_raw", [2**80]),
    ],
    InvalidItem: [
        *(Call("update", 1, patch) for patch in (
            ItemPatch(text=" ", title=""), ItemPatch(text="\x00"), ItemPatch(title="x" * limits.ITEM_BYTES),
            ItemPatch(add_tags=tuple(map(str, range(limits.TAGS)))), ItemPatch(metadata={"a": "x" * 60_000}),
        )),
        *(Call("add_edge", "A", "knows", "B", weight) for weight in (1.5, math.nan, 10**400)),
        Call("add_edges", [("A", "knows", "B", 1.0), ("B", "", "C", 1.0)]), Call("neighbors", "\ud800"),
        *(Call("add_node", name) for name in ("", "???", "a\x00")), Call("add_raw", " "), Call("add_raw", "\x00"),
    ],
    InvalidQuery: [
        Call("forget_matching", Filters()), Call("list", limit=0), Call("list", limit=1001), Call("list", offset=-1),
        Call("list", offset=2**80), Call("list", Filters(tags=("\ud800",))),
        Call("search", "x", filters=Filters(kind="\x00")), Call("count", Filters(tags=tuple(map(str, range(100_000))))),
        Call("count", Filters(metadata=(MetadataTest("a", "like", 1),))),  # type: ignore[arg-type]
        Call("count", Filters(metadata=(MetadataTest("a", "eq", math.nan),))),
        Call("neighbors", "Known", depth=6), Call("path", "Known", "Known", 11),
    ],
    InvalidArgument: [
        Call("list", limit=1.5), Call("add_edge", "A", "knows", "B", "1"), Call("neighbors", "Known", depth=1.5),
        Call("neighbors", "Known", direction="up"),
    ],
    RequestError: [Call("reembed")],
}  # fmt: skip


@pytest.mark.spec("S1.8", "B13")
def test_a_wrong_call_is_refused_and_changes_nothing(opened: Opener, tmp_path: Path):
    memory = opened(embedder="none")
    memory.add(NewItem("good", title="Known", tags=("t",), metadata={"old": "y" * 6_000}))
    before = row_counts(tmp_path / "store")
    for error, call in [(error, call) for error, calls in BAD_CALLS.items() for call in calls]:
        with pytest.raises(error) as raised:
            call(memory)
        assert raised.value.message
        assert raised.value.remedy
        assert row_counts(tmp_path / "store") == before, str(call)
    assert texts(memory.search("good")) == ["good"]


def test_the_largest_item_is_accepted(memory: Memory) -> None:
    tags = tuple(f"tag{number}" for number in range(limits.TAGS))
    item = memory.add(NewItem("x" * limits.ITEM_BYTES, tags=tags, key="k" * limits.NAME_BYTES))
    assert len(item.text) == limits.ITEM_BYTES
    assert len(item.tags) == limits.TAGS


# ---------------------------------------------------------------- links


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


def test_nothing_is_copied_restored_or_typed_into_memory_where_it_would_be_lost(memory, tmp_path, monkeypatch):
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

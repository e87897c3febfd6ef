"""Files deleted, renamed or replaced while a process has the store open: calls raise, and no write is confirmed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_support import WordEmbedder, notes
from trust_client_work import Client

from fourfold.errors import FourfoldError
from fourfold.memory import Memory
from fourfold.model import ItemPatch, NewItem

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows does not rename or delete files that are open")

SECRET = "the phantom crosses the courtyard"

CALLS: dict[str, Callable[[Memory], Any]] = {
    "add": lambda memory: memory.add(SECRET),
    "add_many": lambda memory: memory.add_many(notes(80, SECRET)),
    "update": lambda memory: memory.update("key:first", ItemPatch(text=SECRET)),
    "forget": lambda memory: memory.forget(["key:first"]),
    "edge": lambda memory: memory.add_edge("Keeper", "guards", "Lighthouse"),
    "search": lambda memory: memory.search("heron"),
    "list": lambda memory: memory.list(),
    "count": lambda memory: memory.count(),
    "get": lambda memory: memory.get(["key:first"]),
    "check": lambda memory: memory.check(),
    "index": lambda memory: memory.index(),
}


def fill(memory: Memory) -> int:
    memory.add(NewItem("the first note of the heron", key="first"))
    memory.add_many(notes(40), wait=True)
    assert memory.search("heron").results
    return memory.count()


def every_call(memory: Memory) -> dict[str, str]:
    """Maps each call to the error that it raised, or to what it returned."""
    raised: dict[str, str] = {}
    for name, call in CALLS.items():
        try:
            raised[name] = f"returned {call(memory)!r}"
        except FourfoldError as error:
            raised[name] = type(error).__name__ if error.remedy else f"{type(error).__name__} without a remedy"
    return raised


def delete(store: Path, other: Path) -> None:
    shutil.rmtree(store)


def rename(store: Path, other: Path) -> None:
    store.rename(store.with_name("renamed"))


def replace_by_another_store(store: Path, other: Path) -> None:
    store.rename(store.with_name("renamed"))
    other.rename(store)


def put_back_an_older_copy(store: Path, other: Path) -> None:
    store.with_name("backup.db").replace(store / "fourfold.db")


def delete_the_write_ahead_log(store: Path, other: Path) -> None:
    (store / "fourfold.db-wal").unlink()


HAPPENINGS = [delete, rename, replace_by_another_store, put_back_an_older_copy, delete_the_write_ahead_log]


def texts(folder: Path) -> set[str]:
    with Memory.open(folder, embedder=WordEmbedder(), background=False) as memory:
        assert memory.check() == []
        return {item.text for item in memory.list(limit=1000)}


@pytest.mark.spec("B9")
@pytest.mark.parametrize("happening", HAPPENINGS, ids=lambda happening: happening.__name__)
def test_calls_raise_after_the_store_was_replaced_and_no_write_is_confirmed(
    tmp_path: Path, happening: Callable[[Path, Path], None]
) -> None:
    store, other = tmp_path / "store", tmp_path / "other"
    with Memory.open(other, embedder=WordEmbedder(), background=False) as memory:
        memory.add("what the other store holds")
    client = Client(store)
    try:
        held = client.ask(fill)
        assert held == 41
        with Memory.open(store, embedder=WordEmbedder(), background=False) as memory:
            memory.backup(tmp_path / "backup.db")
        happening(store, other)
        assert client.ask(every_call) == dict.fromkeys(CALLS, "StoreReplaced")
        client.stop()
    finally:
        client.kill()
    if happening is delete:
        assert not store.exists()
    if happening in (rename, replace_by_another_store):
        assert len(texts(tmp_path / "renamed")) == held
    if happening is replace_by_another_store:
        assert texts(store) == {"what the other store holds"}
    for folder in tmp_path.iterdir():
        for path in (path for path in folder.rglob("*") if path.is_file()):
            assert SECRET.encode() not in path.read_bytes() or happening is delete_the_write_ahead_log, path


def test_a_store_that_was_moved_back_can_be_used_again(tmp_path: Path) -> None:
    store, renamed = tmp_path / "store", tmp_path / "renamed"
    client = Client(store)
    try:
        held = client.ask(fill)
        store.rename(renamed)
        assert set(client.ask(every_call).values()) == {"StoreReplaced"}
        renamed.rename(store)
        assert client.ask(fill) == held
        client.stop()
    finally:
        client.kill()
    assert len(texts(store)) == held

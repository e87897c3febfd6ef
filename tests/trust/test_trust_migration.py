"""Stores of every older schema open and get a backup; stores that are replaced while they are open."""

import os
import random
import shutil
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
import trust_child
from engine_support import WordEmbedder, notes
from trust_client_work import Client

from fourfold import FourfoldError, ItemPatch, Memory, NewItem
from fourfold.errors import StorageFull
from fourfold.storage.sqlite import schema
from fourfold.storage.sqlite.schema import copy_to

STORES = Path(__file__).parent / "stores"
OLD = sorted(STORES.glob("schema-*.zip"))

FIRST = {"router settings": 7, "Tower Clock": 9, "grauer Schrank": 8, "kitchen key": 6}
"""Queries and the id of the first hit, recorded when the store was made."""


@pytest.fixture(params=OLD, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with zipfile.ZipFile(request.param) as stored:
        stored.extractall(tmp_path / "store")
    return tmp_path / "store"


ADDED = (
    "pruned", "refused", "occurred_at", "expires_at", "source", "subject", "attribute", "fact", "valid_from",
    "superseded_at", "supersedes", "version_of", "spans", "windows",
)  # fmt: skip
"""Columns that a migration adds."""


def table(path: Path, name: str) -> list[Any]:
    db = apsw.Connection(str(path))
    try:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
        chosen = ", ".join(column for column in columns if column not in ADDED)
        return db.execute(f"SELECT {chosen} FROM {name} ORDER BY 1, 2").fetchall()
    finally:
        db.close()


def version(path: Path) -> int:
    db = apsw.Connection(str(path))
    try:
        return int(db.pragma("user_version"))
    finally:
        db.close()


TABLES = [
    "items", "item_tags", "vectors", "waiting", "nodes", "names", "edges", "mentions", "raw", "sources", "changes",
]  # fmt: skip


@pytest.mark.spec("B9")
def test_an_older_store_opens_with_all_its_contents_and_gets_a_backup(old: Path) -> None:
    before = version(old / "fourfold.db")
    rows = {name: table(old / "fourfold.db", name) for name in TABLES}
    memory = Memory.open(old, embedder=WordEmbedder(), background=False)
    try:
        assert version(old / "fourfold.db") == schema.VERSION
        assert {name: table(old / "fourfold.db", name) for name in TABLES} == rows
        assert memory.check() == []
        for query, first in FIRST.items():
            response = memory.search(query)
            assert response.results[0].id == first
            assert [lack.pending for lack in response.degraded] == [1]
        assert memory.embed_pending() == 1
        assert memory.check() == []
    finally:
        memory.close()
    backup = schema.backup_path(old / "fourfold.db", before)
    assert version(backup) == before
    assert {name: table(backup, name) for name in TABLES} == rows
    assert backup.stat().st_mode & 0o077 == 0


@pytest.mark.spec("B9")
def test_the_backup_before_a_migration_can_be_restored(old: Path, tmp_path: Path) -> None:
    before = version(old / "fourfold.db")
    Memory.open(old, embedder=WordEmbedder()).close()
    Memory.restore(schema.backup_path(old / "fourfold.db", before), tmp_path / "again")
    with Memory.open(tmp_path / "again", embedder=WordEmbedder()) as memory:
        assert memory.check() == []
        assert memory.search("Tower Clock").results[0].id == 9


def test_without_space_for_the_backup_the_old_store_is_unchanged(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: apsw.Connection, target: Path) -> None:
        copy_to(source, target)
        target.unlink()
        raise apsw.FullError("database or disk is full")

    before, rows = version(old / "fourfold.db"), table(old / "fourfold.db", "items")
    with monkeypatch.context() as patched:
        patched.setattr("fourfold.storage.sqlite.schema.copy_to", full)
        with pytest.raises(StorageFull):
            Memory.open(old, embedder=WordEmbedder())
    assert (version(old / "fourfold.db"), table(old / "fourfold.db", "items")) == (before, rows)
    with Memory.open(old, embedder=WordEmbedder()) as memory:
        assert memory.check() == []


def open_slowly(folder: Path, seed: int, parts: Any) -> None:
    """Opens a store, slowing down each part of its migration and reporting when a part begins."""
    slow = random.Random(seed)
    copy, connection = copy_to, apsw.Connection

    def part() -> None:
        parts.send("begun")
        time.sleep(slow.random() / 50)

    def slow_copy(source: apsw.Connection, target: Path) -> None:
        part()
        copy(source, target)
        part()

    class Slow(connection):
        def execute(self, statements: Any, *args: Any, **kwargs: Any) -> Any:
            if "ALTER" in str(statements) or statements == "COMMIT":
                part()
            return super().execute(statements, *args, **kwargs)

    schema.copy_to = slow_copy
    apsw.Connection = Slow
    Memory.open(folder, embedder=WordEmbedder(), background=False).close()


@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=pytest.mark.soak)])
def test_a_kill_during_a_migration_leaves_the_old_or_the_new_schema(old: Path, tmp_path: Path, kills: int) -> None:
    before = version(old / "fourfold.db")
    rows = {name: table(old / "fourfold.db", name) for name in TABLES}
    chance = random.Random(5)
    found = {before: 0, schema.VERSION: 0}
    for kill in range(kills):
        folder = tmp_path / str(kill)
        folder.mkdir()
        (folder / "fourfold.db").write_bytes((old / "fourfold.db").read_bytes())
        trust_child.kill_after(kill % 8, chance, open_slowly, folder)
        found[version(folder / "fourfold.db")] += 1
        assert {name: table(folder / "fourfold.db", name) for name in TABLES} == rows
        trust_child.run(open_and_check, folder)
    print(f"{kills} kills inside a migration: {found[before]} left the old schema, {found[schema.VERSION]} the new")
    assert all(found.values())


def open_and_check(folder: Path) -> None:
    with Memory.open(folder, embedder=WordEmbedder(), background=False) as memory:
        assert memory.check() == []


# ---------------------------------------------------------------- files replaced while a store is open


posix = pytest.mark.skipif(os.name == "nt", reason="Windows does not rename or delete files that are open")
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


@posix
@pytest.mark.spec("B9")
@pytest.mark.parametrize("happening", HAPPENINGS, ids=lambda happening: happening.__name__)
def test_calls_raise_after_the_store_was_replaced_and_no_write_is_confirmed(tmp_path, happening):
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


@posix
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

"""What is in the files of a store: nothing forgotten or expired after a purge, owner only, whole backups."""

import os
import re
import shutil
import stat
import time
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trust_child
from engine_support import WordEmbedder, files_with, notes
from trust_vfs import FULL, IO_ERRORS, FaultyDisk, open_store, prepare

from fourfold import FourfoldError, ItemPatch, Memory, NewItem, owner_only
from fourfold.engine import maintenance
from fourfold.errors import StorageFull, StoreBusy, StoreUnavailable
from fourfold.evaluation.bench import CachedEmbedder
from fourfold.storage.sqlite import database, schema
from fourfold.storage.sqlite.database import Tuning
from fourfold.storage.sqlite.store import SqliteStore

# ---------------------------------------------------------------- purge


CANARY = "zxcanary"
"""A word that occurs in every part of the items that are forgotten."""


def canaries() -> list[NewItem]:
    return [
        NewItem(
            f"The {CANARY} word {number} stands in a text of the Wasserturm{CANARY}",
            title=f"{CANARY} title {number}",
            key=f"{CANARY}-{number}",
            tags=(f"{CANARY}tag{number}",),
            metadata={"secret": f"{CANARY} {number}"},
            language="de" if number % 2 else "en",
        )
        for number in range(30)
    ]


def stored_and_forgotten(memory: Memory) -> None:
    memory.add_many(notes(200), wait=True)
    kept = memory.add(f"a text that lost its {CANARY}", wait=True)
    added = memory.add_many(canaries(), wait=True)
    memory.add_edge("Old Town", "has", "Water Gate")
    memory.index()
    memory.update(kept.id, ItemPatch(text="a text that lost its word"))
    memory.forget([version.id for version in memory.history(kept.id)[1:]])
    memory.forget([item.id for item in added])
    memory.index()


@pytest.mark.spec("B9")
def test_purge_leaves_no_byte_of_forgotten_items(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "store", embedder=WordEmbedder())
    stored_and_forgotten(memory)
    schema.backup_path(tmp_path / "store" / "fourfold.db", 1).write_text(f"an older store with its {CANARY}")
    assert files_with(tmp_path / "store", CANARY)
    done = memory.repair(purge=True)
    assert any("forgotten" in line for line in done)
    assert any("before-schema-2.db" in line for line in done)
    assert files_with(tmp_path / "store", CANARY) == []
    assert memory.check() == []
    assert memory.count() == 201
    assert memory.search("heron").degraded == ()
    memory.close()
    assert files_with(tmp_path / "store", CANARY) == []


def searching(folder: Path, pipe: Any) -> None:
    """Opens the store and searches it when told to through the pipe."""
    with Memory.open(folder, embedder=WordEmbedder()) as memory:
        memory.search(CANARY)
        pipe.send("ready")
        pipe.recv()
        response = memory.search("the heron met", top_k=100)
        assert memory.check() == []
        pipe.send(
            (len(response.results), [result.item.text for result in response.results if CANARY in str(asdict(result))])
        )


def test_purge_works_while_another_process_has_the_store_open(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", embedder=WordEmbedder()) as memory:
        stored_and_forgotten(memory)
        mine, theirs = trust_child.context().Pipe()
        child = trust_child.start(searching, tmp_path / "store", theirs)
        assert mine.recv() == "ready"
        memory.repair(purge=True)
        assert files_with(tmp_path / "store", CANARY) == []
        mine.send("go on")
        count, canary = mine.recv()
        child.join()
        assert child.exitcode == 0
        assert (count, canary) == (100, [])
    assert files_with(tmp_path / "store", CANARY) == []


def test_purge_reports_a_reader_that_never_ends_and_loses_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store", tuning=Tuning(busy_seconds=0.2))
    with Memory.open(store, embedder=WordEmbedder()) as memory:
        stored_and_forgotten(memory)
        reader = database.Database(tmp_path / "store" / "fourfold.db")
        with reader.read() as db:
            db.execute("SELECT count(*) FROM items").fetchall()
            with pytest.raises(StoreBusy) as raised:
                memory.repair(purge=True)
            assert raised.value.remedy
        reader.close()
        assert memory.check() == []
        memory.repair(purge=True)
        assert files_with(tmp_path / "store", CANARY) == []


# ---------------------------------------------------------------- expired items


EXPIRED = "zxcanary"


@pytest.fixture
def memory(either: Path | str) -> Iterator[Memory]:
    with Memory.open(either, embedder=WordEmbedder(), background=False) as opened:
        yield opened


def store_expired(memory: Memory) -> list[int]:
    """Items with tags, versions, superseded values and vectors that expired an hour ago, beside one that stays."""
    past = datetime.now(UTC) - timedelta(hours=1)
    fact = {"subject": "door", "attribute": "code"}
    memory.add("The heron stays", wait=True)
    gone = [
        memory.add(NewItem(f"The {CANARY} is here", tags=(f"{CANARY}tag",), expires_at=past), wait=True).id,
        memory.add(NewItem(f"The {CANARY} code was old", expires_at=past, **fact), wait=True).id,
        memory.add(NewItem(f"The {CANARY} code is new", expires_at=past, **fact), wait=True).id,
        memory.add(NewItem(f"{CANARY} of another name", title=f"{CANARY} title", expires_at=past), wait=True).id,
    ]
    memory.update(gone[0], ItemPatch(f"The {CANARY} moved"))
    memory.index()
    return gone


def shown(memory: Memory) -> list[str]:
    found = {result.item.text for result in memory.search(f"{CANARY} code heron", top_k=50).results}
    found |= {item.text for item in memory.list()}
    assert memory.count() == len(memory.list())
    return sorted(found)


@pytest.mark.spec("C15")
def test_expired_items_are_hidden_at_once_and_repair_removes_every_trace(memory: Memory) -> None:
    gone = store_expired(memory)
    assert shown(memory) == ["The heron stays"]
    done = memory.repair(purge=True)
    assert any("removed 4 expired items" in line for line in done), done
    records: list[dict[str, Any]] = []
    memory.store.portable.export(records.append)
    assert EXPIRED not in repr(records)
    assert [id for id in gone if exists(memory, id)] == []
    assert memory.check() == []
    assert shown(memory) == ["The heron stays"]


def exists(memory: Memory, id: int) -> bool:
    with memory.store.snapshot(memory.namespace) as snapshot:
        return bool(snapshot.rows.get([id])) or bool(snapshot.rows.versions([id]))


@pytest.mark.spec("C15")
def test_a_purge_leaves_no_byte_of_expired_items_in_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with Memory.open(folder, embedder=WordEmbedder(), background=False) as memory:
        store_expired(memory)
        assert files_with(folder, EXPIRED)
        memory.repair(purge=True)
        assert files_with(folder, EXPIRED) == []
    assert files_with(folder, EXPIRED) == []


@pytest.mark.spec("C15")
def test_maintenance_removes_expired_items_and_no_others(memory: Memory) -> None:
    gone = store_expired(memory)
    later = memory.add(NewItem("It ends tomorrow", expires_at=datetime.now(UTC) + timedelta(days=1))).id
    assert maintenance.remove_expired(memory.store, memory.namespace, datetime.now(UTC)) == len(gone)
    assert maintenance.remove_expired(memory.store, memory.namespace, datetime.now(UTC)) == 0
    assert sorted(item.text for item in memory.list()) == ["It ends tomorrow", "The heron stays"]
    assert memory.get([later])[0].expires_at is not None
    assert memory.check() == []


@pytest.mark.spec("C15")
def test_an_item_that_is_renewed_before_it_is_removed_stays(memory: Memory) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    first = memory.add(NewItem("The offer is open", expires_at=past)).id
    assert memory.add("The offer is open").id == first
    assert maintenance.remove_expired(memory.store, memory.namespace, datetime.now(UTC)) == 0
    assert [item.id for item in memory.list()] == [first]


@pytest.mark.spec("C15")
def test_the_background_thread_removes_what_has_expired(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", embedder="none", background=False) as memory:
        store_expired(memory)
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        until = time.monotonic() + 60
        while is_expiring(memory):
            assert time.monotonic() < until, "expired items are still stored"
            memory.add("something to do")  # wakes the thread


def is_expiring(memory: Memory) -> bool:
    with memory.store.snapshot(memory.namespace) as snapshot:
        return snapshot.hidden.expiring


# ---------------------------------------------------------------- owner only


OLD_STORES = sorted((Path(__file__).parent / "stores").glob("schema-*.zip"))
BEFOREHAND = ("store", "out", "old")


def loose(root: Path) -> dict[str, str]:
    """Files that are not 0600 and folders that are not 0700, except those that existed before."""
    found: dict[str, str] = {}
    for path in root.rglob("*"):
        name, mode = str(path.relative_to(root)), path.lstat().st_mode
        if name not in BEFOREHAND and stat.S_IMODE(mode) != (0o700 if stat.S_ISDIR(mode) else 0o600):
            found[name] = oct(stat.S_IMODE(mode))
    return found


def work_without_umask(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The loose files while a store is open, and after every operation that writes files."""
    os.umask(0)
    embedder = CachedEmbedder(WordEmbedder(), root / "caches" / "vectors")
    with Memory.open(SqliteStore(root / "store", tuning=Tuning(exact_rows=200)), embedder=embedder) as memory:
        memory.add_many(notes(1200), wait=True)
        memory.index()
        memory.forget([item.id for item in memory.list(limit=1)])
        memory.add_many([*notes(300, "later"), NewItem("one more", title="Tower Clock", tags=("t",))], wait=True)
        memory.index()
        assert memory.search("heron").degraded == ()
        while_open = {name: mode for name, mode in loose(root).items() if not name.startswith("old/")}
        memory.export(root / "out" / "store.jsonl")
        memory.backup(root / "out" / "backup.db")
    Memory.restore(root / "out" / "backup.db", root / "made" / "anew")
    with Memory.open(root / "old", embedder=WordEmbedder(), background=False) as memory:
        memory.repair()
    embedder.close()
    return while_open, loose(root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """World-readable folders, and an older store with world-readable files."""
    root = tmp_path / "root"
    for name in BEFOREHAND:
        (root / name).mkdir(parents=True)
    with zipfile.ZipFile(OLD_STORES[0]) as stored:
        stored.extractall(root / "old")
    for path in (root, *root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    return root


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.spec("B9")
def test_files_of_stores_backups_exports_and_caches_are_owner_only(root: Path) -> None:
    while_open, afterwards = trust_child.run(work_without_umask, root)
    assert while_open == {}
    assert afterwards == {}
    names = {path.name for path in root.rglob("*")}
    assert {"fourfold.db", "lease", "manifest.json", "terms", "faiss", "vectors-3.db"} <= names
    assert {"store.jsonl", "backup.db"} <= names
    assert any(name.startswith("before-schema") for name in names)


CREATING = re.compile(
    r"""\bopen\([^)]*["']r?b?[wax+]b?\+?["']|\.(mkdir|touch|write_text|write_bytes)\(|\bO_CREAT\b|makedirs\(|FileHandler"""
)
# The last two create a member of an archive, and log the change of an item.
HARMLESS = re.compile(r"\bowner_only\.|\bos\.devnull\b|\barchive\.open\(|\.touch\(.*, Change\.")
ELSEWHERE = {"owner_only.py": "the one place", "mcp/stdio.py": "opens descriptors that exist"}


def test_files_are_created_in_one_module_only() -> None:
    package = Path(owner_only.__file__).parent
    found = {
        f"{path.relative_to(package)}: {line.strip()}"
        for path in package.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if CREATING.search(line) and not HARMLESS.search(line) and str(path.relative_to(package)) not in ELSEWHERE
    }
    assert found == set()


# ---------------------------------------------------------------- backups


def failing_backups(folder: Path) -> tuple[int, set[str]]:
    """Fails each write of a backup in turn; returns the number of failed backups and the files they left."""
    disk, failed, left = FaultyDisk(), 0, set[str]()
    target = folder / "backups"
    prepare(folder / "store")
    with open_store(folder / "store") as memory:
        for call in count(1):
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            disk.fail(call, IO_ERRORS if call % 2 else FULL, sticky=True)
            raised = _error_of(memory, target / "b")
            disk.heal()
            if raised is None:
                return failed, left
            assert isinstance(raised, StorageFull | StoreUnavailable), repr(raised)
            failed += 1
            left |= {path.name for path in target.iterdir()}
    raise AssertionError


def _error_of(memory: Memory, target: Path) -> FourfoldError | None:
    try:
        memory.backup(target)
    except FourfoldError as error:
        return error
    return None


@pytest.mark.spec("B9")
def test_a_backup_that_fails_leaves_no_file(fast_folder: Path) -> None:
    failed, left = trust_child.run(failing_backups, fast_folder)
    assert failed > 10
    assert left == set()


@pytest.mark.spec("B9")
def test_remains_of_a_killed_backup_do_not_enter_the_next_one(tmp_path: Path) -> None:
    prepare(tmp_path / "store")
    with open_store(tmp_path / "store") as memory:
        memory.backup(tmp_path / "whole")
        (tmp_path / "b.part").write_bytes((tmp_path / "whole").read_bytes()[:8192])
        for name in ("b.part-journal", "b.part-wal", "b.part-shm"):
            (tmp_path / name).write_bytes(b"left behind" * 1000)
        memory.backup(tmp_path / "b")
    assert {path.name for path in tmp_path.glob("b*")} == {"b"}
    Memory.restore(tmp_path / "b", tmp_path / "restored")
    with open_store(tmp_path / "restored") as memory:
        assert memory.check() == []

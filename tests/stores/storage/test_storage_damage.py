"""A store that cannot be opened, read or written raises a typed error with a remedy and loses nothing."""

import os
import random
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import apsw
import pytest
from engine_support import Opener, WordEmbedder, notes, row_counts, scored, texts

from fourfold import FourfoldError, ItemPatch, Memory, NewItem, SearchResponse
from fourfold.errors import DamagedStore, InvalidSetting, NewerSchema, WorldError
from fourfold.storage.sqlite import schema


def make(folder: Path, count: int = 400) -> None:
    with Memory.open(folder, embedder=WordEmbedder()) as memory:
        memory.add_many(notes(count), wait=True)
        memory.add(NewItem("one more", title="Tower Clock", tags=("t",)))


@pytest.mark.spec("B9")
def test_a_store_of_a_newer_schema_is_refused_and_left_alone(opened: Opener, tmp_path: Path) -> None:
    make(tmp_path / "store", 5)
    db = apsw.Connection(str(tmp_path / "store" / "fourfold.db"))
    db.pragma("user_version", 99)
    db.close()
    before = row_counts(tmp_path / "store")
    with pytest.raises(NewerSchema, match="99") as raised:
        opened()
    assert raised.value.remedy
    assert raised.value.exit_code == 4
    assert row_counts(tmp_path / "store") == before
    db = apsw.Connection(str(tmp_path / "store" / "fourfold.db"))
    assert db.pragma("user_version") == 99
    db.pragma("user_version", schema.VERSION)
    db.close()
    assert opened().count() == 6


@pytest.mark.spec("B9")
@pytest.mark.parametrize("damage", ["empty", "missing", "another store's", "another program's"])
def test_a_database_that_lost_everything_is_damage_and_not_an_empty_store(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "store"
    with Memory.open(folder, embedder="none", background=False) as memory:
        memory.add_many([NewItem(f"note {number}") for number in range(20)])
        memory.index()
    for file in folder.glob("fourfold.db*"):
        file.unlink()
    if damage == "empty":
        (folder / "fourfold.db").touch()
    elif damage == "another store's":
        Memory.open(tmp_path / "other", embedder="none", background=False).close()
        shutil.copy(tmp_path / "other" / "fourfold.db", folder)
    elif damage == "another program's":
        db = apsw.Connection(str(folder / "fourfold.db"))
        db.execute("CREATE TABLE theirs (a)")
        db.close()
    for _ in range(2):
        with pytest.raises(DamagedStore) as raised:
            Memory.open(folder, embedder="none", background=False)
        assert "backup" in raised.value.remedy
    if damage == "another program's":
        db = apsw.Connection(str(folder / "fourfold.db"))
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
        db.close()
    else:
        shutil.rmtree(folder / "index")
        with Memory.open(folder, embedder="none", background=False) as memory:
            assert memory.count() == 0


@pytest.mark.spec("B9")
def test_a_store_that_a_newer_version_migrates_is_not_written_by_a_process_that_has_it_open(opened, tmp_path):
    memory = opened(background=False)
    memory.add("before")
    db = apsw.Connection(str(tmp_path / "store" / "fourfold.db"))
    db.pragma("user_version", 99)
    with pytest.raises(NewerSchema, match="99"):
        memory.add("after")
    assert memory.count() == 1
    db.pragma("user_version", schema.VERSION)
    db.close()
    memory.add("after")
    assert memory.count() == 2


@pytest.mark.parametrize("years", [-40, -1, 1, 40])
def test_a_clock_that_jumps_loses_nothing(opened: Opener, monkeypatch: pytest.MonkeyPatch, years: int) -> None:
    memory = opened()
    old = memory.add(NewItem("the heron at the pond", tags=("bird",)), wait=True)
    jumped = datetime.now(UTC) + timedelta(days=365 * years)
    monkeypatch.setattr("fourfold.engine.item_methods.now", lambda: jumped)
    monkeypatch.setattr("fourfold.memory.now", lambda: jumped)
    new = memory.add(NewItem("the heron at the gate", tags=("bird",)), wait=True)
    changed = memory.update(old.id, ItemPatch(text="the heron at the lake"))
    assert changed.created_at == old.created_at
    assert changed.updated_at == jumped
    for preset in ("auto", "memories"):
        response = memory.search("heron", preset=preset)
        assert {result.item.id for result in response.results} == {old.id, new.id}
        assert all(result.score > 0 and 0 < result.recency <= 1 for result in response.results)
    assert memory.check() == []
    assert memory.forget([old.id, new.id]) == 2


@pytest.mark.parametrize("place", ["file", "file/below", "file/below/further"])
def test_a_path_that_cannot_be_a_folder_is_refused(opened: Opener, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(WorldError) as raised:
        opened(place)
    assert raised.value.remedy
    assert raised.value.exit_code == 3
    assert (tmp_path / "file").read_text() == "precious"


def test_a_folder_in_place_of_the_database_is_refused(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "store" / "fourfold.db").mkdir(parents=True)
    with pytest.raises(WorldError) as raised:
        opened()
    assert raised.value.remedy


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_refused(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(WorldError) as raised:
        opened("locked/store")
    assert raised.value.remedy


def test_a_database_that_became_read_only_is_reported_and_can_still_be_searched(opened: Opener, tmp_path: Path) -> None:
    memory = opened()
    memory.add_many(notes(5), wait=True)
    memory.store.database._writer.pragma("query_only", True)  # type: ignore[attr-defined]
    before = row_counts(tmp_path / "store")
    with pytest.raises(WorldError) as raised:
        memory.add("heron")
    assert raised.value.remedy
    assert memory.search("heron").results
    memory.store.database._writer.pragma("query_only", False)  # type: ignore[attr-defined]
    assert row_counts(tmp_path / "store") == before
    memory.add("works again")
    assert memory.count() == 6


@pytest.mark.parametrize("content", [b"", b"no database" * 1000, b"SQLite format 3\x00" + b"\xff" * 8000])
def test_a_file_that_is_not_a_database_is_refused(opened: Opener, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "fourfold.db").write_bytes(content)
    if not content:  # an empty file is an empty database
        assert opened().count() == 0
        return
    with pytest.raises(DamagedStore) as raised:
        opened()
    assert raised.value.remedy
    assert raised.value.exit_code == 4
    assert (tmp_path / "store" / "fourfold.db").read_bytes()[:11] == content[:11]


def overwrite(folder: Path, *tables: str) -> None:
    """Overwrites every page of these tables or indexes with 0xA5, except the first page of the file."""
    path = folder / "fourfold.db"
    db = apsw.Connection(str(path))
    size = db.pragma("page_size")
    pages = [page for name, page in db.execute("SELECT name, pageno FROM dbstat") if name in tables and page > 1]
    db.close()
    assert pages
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * size)
            file.write(b"\xa5" * size)


TABLES = ["items", "vectors", "changes", "namespaces", "tags", "names", "items_by_time", "sqlite_schema", "settings"]


@pytest.mark.spec("B9", "S2.6")
@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_database_is_an_error_and_never_an_empty_result(opened: Opener, tmp_path: Path, table: str) -> None:
    make(tmp_path / "store")
    shutil.rmtree(tmp_path / "store" / "index", ignore_errors=True)
    shutil.copy(tmp_path / "store" / "fourfold.db", tmp_path / "sound.db")
    overwrite(tmp_path / "store", table)
    damaged = (tmp_path / "store" / "fourfold.db").read_bytes()
    try:
        memory = opened(background=False)
    except DamagedStore:
        assert (tmp_path / "store" / "fourfold.db").read_bytes() == damaged
    else:
        assert memory.check() != []
        with pytest.raises(DamagedStore) as raised:
            memory.repair()
        assert "fourfold" in raised.value.remedy
        for query in ("the heron met the otter", "Tower Clock", "t"):
            with suppress(DamagedStore):
                response = memory.search(query, top_k=100)
                assert response.results or response.degraded
                assert response.degraded or table in ("tags", "names", "items_by_time")
        with suppress(DamagedStore):
            memory.add("a new one")
        memory.close()
    Memory.restore(tmp_path / "sound.db", tmp_path / "again")
    again = opened("again")
    assert again.check() == []
    assert texts(again.search("Tower Clock"))[0] == "one more"


def asked(memory: Memory) -> dict[str, object]:
    """The answers of calls that read all tables; of those that fail, the error. Only typed ones are expected."""
    calls: dict[str, Callable[[], object]] = {
        **{query: partial(memory.search, query, top_k=20) for query in ("the heron met the otter", "Tower Clock", "t")},
        "filtered": lambda: memory.search("heron", filters={"metadata.n": 3}),
        "list": lambda: memory.list(limit=1000),
        "tags": memory.tags,
        "nodes": lambda: memory.nodes(limit=1000),
        "neighbors": lambda: list(memory.neighbors("Tower Clock", 2)),
        "raw": lambda: list(memory.list_raw()),
        "history": lambda: memory.history(1),
    }
    answers: dict[str, object] = {}
    for name, call in calls.items():
        try:
            answer = call()
            answers[name] = (scored(answer), answer.degraded) if isinstance(answer, SearchResponse) else answer
        except DamagedStore as error:
            answers[name] = error
    return answers


def lively(folder: Path) -> None:
    """A published store with rows in every table that a search reads."""
    with Memory.open(folder, embedder=WordEmbedder(), background=False) as memory:
        memory.add_many([replace(note, metadata={"n": n}) for n, note in enumerate(notes(200))], wait=True)
        memory.add(NewItem("one more", title="Tower Clock", tags=("t",)), wait=True)
        memory.add_edge("Tower Clock", "stands on", "the hill")
        memory.update(1, ItemPatch(text="the heron at the Tower Clock"), wait=True)
        memory.add_raw("what was said")
        memory.index()


@pytest.mark.spec("B9")
@pytest.mark.parametrize("count", [12, pytest.param(400, marks=pytest.mark.soak)])
def test_a_changed_byte_is_an_error_and_never_another_answer(tmp_path: Path, count: int) -> None:
    lively(tmp_path / "store")
    with Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False) as memory:
        expected = asked(memory)
    content = (tmp_path / "store" / "fourfold.db").read_bytes()
    for seed in range(count):
        chance = random.Random(seed)
        changed = bytearray(content)
        place = chance.choice([at for at in chance.sample(range(100, len(content)), 1000) if content[at]])
        changed[place] ^= chance.randrange(1, 256)
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(tmp_path / "store", tmp_path / "run")
        (tmp_path / "run" / "fourfold.db").write_bytes(changed)
        try:
            memory = Memory.open(tmp_path / "run", embedder=WordEmbedder(), background=False)
        except DamagedStore:
            continue
        with memory:
            for name, answer in asked(memory).items():
                is_named = isinstance(answer, DamagedStore) or (isinstance(answer, tuple) and answer[1])
                assert is_named or answer == expected[name], f"seed {seed}: {name}"
            assert memory.check(), f"seed {seed}"
            with suppress(DamagedStore):
                assert any("changed bytes" in line for line in memory.repair()), f"seed {seed}"
                left = memory.check()  # a vector may have NaN now, and metadata may not be JSON
                assert all(re.search(": (item|raw|version) |cannot be read", line) for line in left), f"seed {seed}"


@pytest.mark.spec("B9")
def test_changed_bytes_are_named_and_repair_keeps_what_can_be_read(opened: Opener, tmp_path: Path) -> None:
    lively(tmp_path / "store")
    path = tmp_path / "store" / "fourfold.db"
    content = path.read_bytes()
    place = content.rindex(b"one more")
    path.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
    memory = opened(background=False)
    with pytest.raises(DamagedStore, match="changed") as raised:
        memory.get([201])
    assert "repair" in raised.value.remedy
    assert [line for line in memory.check() if "table items" in line and "to 201" in line]
    other = opened(background=False)
    with other.store.snapshot("default"):  # a reader of another process does not keep repair from telling what it did
        assert [line for line in memory.repair() if "table items" in line and "to 201" in line]
    assert memory.check() == []
    assert memory.get([201])[0].text == "\N{REPLACEMENT CHARACTER}ne more"
    assert memory.count() == 201


def killed(folder: Path, count: int) -> None:
    """Stores items one by one in a process that ends without closing the store."""
    program = (
        "import os, sys\nfrom fourfold import Memory\n"
        "memory = Memory.open(sys.argv[1], embedder='none', background=False)\n"
        "for number in range(int(sys.argv[2])):\n    memory.add(f'heron {number}')\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(folder), str(count)], check=True)


@pytest.mark.spec("B9")
@pytest.mark.parametrize("count", [40, pytest.param(400, marks=pytest.mark.soak)])
def test_changed_bytes_of_the_log_lose_no_confirmed_write_silently(opened: Opener, tmp_path: Path, count: int) -> None:
    killed(tmp_path / "store", 12)
    shutil.copytree(tmp_path / "store", tmp_path / "whole")
    log = tmp_path / "store" / "fourfold.db-wal"
    content, damaged = log.read_bytes(), 0
    frame = 24 + 8192
    for seed in range(count):
        chance = random.Random(seed)
        shutil.rmtree(tmp_path / "store")
        shutil.copytree(tmp_path / "whole", tmp_path / "store", ignore=shutil.ignore_patterns("*-shm"))
        ends = (32, 32 + chance.randrange(len(content) // frame) * frame + 24, len(content))  # headers are changed, too
        place = (
            chance.randrange(ends[seed % 3] - 24, ends[seed % 3]) if seed % 3 < 2 else chance.randrange(len(content))
        )
        changed = bytearray(content)
        changed[place] ^= chance.randrange(1, 256)
        log.write_bytes(changed)
        try:
            memory = opened(background=False)
        except DamagedStore:
            damaged += 1
            with suppress(DamagedStore):  # nothing was stored before the damage
                shutil.rmtree(tmp_path / "again", ignore_errors=True)
                Memory.restore(tmp_path / "store" / "fourfold.db", tmp_path / "again")
                again = opened("again", background=False)
                assert again.check() == []
                assert again.count() < 12
                again.close()
            assert log.read_bytes() == changed
        else:  # nothing was lost but the last commit, which a power loss may have torn
            assert memory.count() >= 11, f"seed {seed}"
            assert memory.check() == []
            memory.close()
    assert damaged > count // 4


def test_a_log_that_was_cut_off_in_its_last_commit_is_no_damage(opened: Opener, tmp_path: Path) -> None:
    killed(tmp_path / "store", 5)
    (tmp_path / "store" / "fourfold.db-shm").unlink()
    log = tmp_path / "store" / "fourfold.db-wal"
    log.write_bytes(log.read_bytes()[:-5000])
    memory = opened(background=False)
    assert memory.count() == 4
    assert memory.check() == []


@pytest.mark.spec("B9")
def test_text_that_is_not_utf8_is_named_in_a_store_without_checksums(opened: Opener, tmp_path: Path) -> None:
    with zipfile.ZipFile(Path(__file__).parents[2] / "trust" / "stores" / "schema-8.zip") as stored:
        stored.extractall(tmp_path / "store")
    memory = opened(background=False)
    item = memory.list()[0]
    memory.close()
    db = apsw.Connection(str(tmp_path / "store" / "fourfold.db"))
    assert db.reserve_bytes() == 0
    db.execute("UPDATE items SET text = CAST(x'61ff62' AS TEXT) WHERE id = ?", (item.id,))
    db.close()
    memory = opened(background=False)
    with pytest.raises(DamagedStore):
        memory.get([item.id])
    assert memory.check() == ["database: items: a text is not UTF-8"]
    assert "repaired: items: a text is not UTF-8" in memory.repair()
    assert memory.check() == []
    assert memory.get([item.id])[0].text == "a\N{REPLACEMENT CHARACTER}b"


def test_a_store_with_checksums_is_refused_where_they_cannot_be_kept(tmp_path: Path) -> None:
    lively(tmp_path / "store")
    content = (tmp_path / "store" / "fourfold.db").read_bytes()
    program = (
        "import apsw, sys; apsw.__file__ = '/nowhere/apsw'\n"
        "from fourfold import Memory\n"
        "Memory.open(sys.argv[1], embedder='none', background=False)"
    )
    refused = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "store")], capture_output=True, text=True, check=False
    )
    assert "StoreUnavailable" in refused.stderr
    assert "wheel" in refused.stderr
    assert (tmp_path / "store" / "fourfold.db").read_bytes() == content
    made = subprocess.run([sys.executable, "-c", program, str(tmp_path / "plain")], capture_output=True, check=False)
    assert made.returncode == 0
    with Memory.open(tmp_path / "plain", embedder="none", background=False) as memory:
        memory.add("a note")
        assert memory.check() == []


@pytest.mark.spec("B9")
def test_repair_corrects_wrong_counters(opened: Opener, tmp_path: Path) -> None:
    make(tmp_path / "store", 20)
    db = apsw.Connection(str(tmp_path / "store" / "fourfold.db"))
    db.execute("UPDATE namespaces SET items = 7, vectors = 3")
    db.execute("DELETE FROM vectors WHERE item = 4")
    db.close()
    memory = opened(background=False)
    assert memory.check() != []
    assert memory.repair()
    assert memory.check() == []
    assert memory.namespaces() == [("default", 21)]
    assert memory.embed_pending() >= 1
    assert memory.search("heron").degraded == ()


def test_an_unknown_embedder_is_refused_before_anything_is_created(opened: Opener, tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting):
        opened(embedder="word2vec")
    with pytest.raises(FourfoldError):
        opened(namespace=" ")
    assert not (tmp_path / "store").exists()


@pytest.mark.spec("B9")
def test_a_row_with_damaged_json_is_reported_as_damage(opened: Opener, tmp_path: Path) -> None:
    make(tmp_path / "store", 5)
    db = apsw.Connection(str(tmp_path / "store" / "fourfold.db"))
    db.execute("UPDATE items SET metadata = char(0) WHERE id = 3")
    db.close()
    memory = opened()
    with pytest.raises(DamagedStore) as raised:
        memory.get([3])
    assert raised.value.remedy
    assert memory.get([2])[0].id == 2


@pytest.mark.spec("B9")
def test_a_version_that_lacks_fields_is_damage_and_goes_with_its_item(opened: Opener, tmp_path: Path) -> None:
    lively(tmp_path / "store")
    db = apsw.Connection(str(tmp_path / "store" / "fourfold.db"))
    db.execute("UPDATE versions SET record = json_remove(record, '$.metadata')")
    (version,) = (id for (id,) in db.execute("SELECT id FROM versions"))
    db.close()
    memory = opened(background=False)
    for call in (lambda: memory.history(1), lambda: memory.undo(1)):
        with pytest.raises(DamagedStore, match=f"version {version} of item 1") as raised:
            call()
        assert "forget item 1" in raised.value.remedy
    assert memory.check() == [f"namespace default: version {version}: it does not have the fields of an item"]
    assert memory.forget([1]) == 1
    assert memory.check() == []


@pytest.mark.spec("B9")
def test_a_log_that_was_removed_after_a_kill_is_damage_and_never_an_older_store(opened: Opener, tmp_path: Path) -> None:
    with opened() as memory:
        memory.add("heron")
    killed(tmp_path / "store", 3)
    (tmp_path / "store" / "fourfold.db-wal").unlink()
    with pytest.raises(DamagedStore, match=r"fourfold\.db-wal is missing"):
        opened()
    (tmp_path / "store" / "fourfold.db-shm").unlink()  # as the remedy says
    assert opened().count() == 1


@pytest.mark.spec("B9")
def test_pipes_in_place_of_files_are_damage_and_nobody_waits_for_them(opened: Opener, tmp_path: Path) -> None:
    with opened() as memory:
        memory.add_many([NewItem(f"heron {number}") for number in range(50)])
        memory.embed_pending()
        memory.index()
    index = tmp_path / "store" / "index"
    files = [path for path in index.rglob("*") if path.is_file() and path.name != "lease"]
    assert {"manifest.json", "vectors", "terms"} <= {path.name for path in files}
    for path in files:
        shutil.copytree(tmp_path / "store", tmp_path / "piped")
        pipe = tmp_path / "piped" / path.relative_to(tmp_path / "store")
        pipe.unlink()
        os.mkfifo(pipe)
        with opened("piped") as memory:
            assert len(memory.search("heron").results) == 10, path
        shutil.rmtree(tmp_path / "piped")
    os.mkfifo(tmp_path / "store" / "fourfold.db-wal")
    with pytest.raises(WorldError):
        opened()

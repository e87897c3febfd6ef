"""SQLite's write-ahead log is reset regularly, and links are made in short transactions, since other writers wait."""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import apsw
import pytest
from engine_support import Opener, ids, notes

from fourfold import Memory, NewItem
from fourfold.index import publish
from fourfold.storage.sql import linking
from fourfold.storage.sqlite.database import Connection, Database, Tuning
from fourfold.storage.sqlite.namespaces import SqliteLinkRows, read_namespace

KILOBYTE = 1000
LIMIT = 500 * KILOBYTE
WRITES = 150
EACH = 50 * KILOBYTE


@pytest.fixture
def retry_seconds() -> float:
    return 10.0


@pytest.fixture
def store(tmp_path: Path, retry_seconds: float) -> Iterator[Database]:
    """A database with a low limit for its write-ahead log, and a table to fill."""
    opened = Database(tmp_path / "fourfold.db", Tuning(wal_bytes=LIMIT, wal_retry_seconds=retry_seconds))
    with opened.write() as db:
        db.execute("CREATE TABLE filled (data BLOB)")
    yield opened
    opened.close()


def fill(store: Database, writes: int) -> int:
    """Fills the table; returns the maximum size of the log."""
    longest = 0
    for _ in range(writes):
        with store.write() as db:
            db.execute("INSERT INTO filled VALUES (zeroblob(?))", (EACH,))
        longest = max(longest, log_size(store))
    return longest


def log_size(store: Database) -> int:
    return Path(f"{store.path}-wal").stat().st_size


def filled(db: apsw.Connection) -> int:
    return db.execute("SELECT count(*) FROM filled").get


_COUNTING = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT count(*) FROM n"


@contextmanager
def read_all_the_time(store: Database) -> Iterator[None]:
    """Reads in several threads, so that there is almost always an open snapshot."""
    over = threading.Event()

    def reading() -> None:
        while not over.is_set():
            with store.read() as db:
                filled(db)
                db.execute(_COUNTING).fetchall()

    threads = [threading.Thread(target=reading) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(60)


@pytest.mark.parametrize("retry_seconds", [0.0])
def test_the_log_stays_short_while_readers_overlap(store: Database) -> None:
    with read_all_the_time(store):
        assert fill(store, WRITES) < WRITES * EACH / 2
    with store.read() as db:
        assert filled(db) == WRITES


def test_a_long_read_keeps_its_snapshot_and_blocks_no_write(store: Database) -> None:
    begun, over = threading.Event(), threading.Event()
    seen: list[int] = []

    def staying() -> None:
        with store.read() as db:
            seen.append(filled(db))
            begun.set()
            over.wait(60)
            seen.append(filled(db))

    thread = threading.Thread(target=staying)
    thread.start()
    assert begun.wait(60)
    longest = fill(store, WRITES)
    over.set()
    thread.join(60)
    assert seen == [0, 0]
    assert longest > WRITES * EACH  # the reset failed, and is not retried for a while
    store._wal_retry_at = 0.0
    fill(store, 2)
    assert log_size(store) < LIMIT


def test_writes_succeed_when_the_log_cannot_be_reset(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def stat(self) -> Any:
            raise PermissionError("the disk is gone")

    monkeypatch.setattr(store, "_wal", Failing())
    fill(store, WRITES // 5)
    with store.read() as db:
        assert filled(db) == WRITES // 5


@pytest.mark.spec("B7")
def test_processes_that_create_a_store_at_the_same_time_all_open_it(tmp_path: Path) -> None:
    """Without a retry, about one in twenty openings failed with "database is locked"."""
    together = threading.Barrier(4)

    def make(_: int) -> None:
        for number in range(40):
            together.wait(60)
            Database(tmp_path / f"{number}.db").close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(make, range(4))) == [None] * 4


# ---------------------------------------------------------------- long reads


def outside(store: Database, called: list[str], work: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the call with an assertion that no snapshot is open."""

    def noted(*args: Any) -> Any:
        called.append(threading.current_thread().name)
        assert not store.has_readers()
        return work(*args)

    return noted


def test_no_snapshot_is_held_while_an_index_is_written(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, called = opened(background=False), list[str]()
    memory.add_many(notes(100), wait=True)
    for of, name in ((publish.text_index, "write_postings"), (publish, "row_sums"), (publish, "term_columns")):
        monkeypatch.setattr(of, name, outside(memory.store.database, called, getattr(of, name)))
    memory.index()
    assert len(called) == 3
    assert memory.check() == []


def test_items_changed_while_an_index_is_written_are_found_as_they_are(opened, monkeypatch):
    """The row of a changed item may be newer than the last change that the index claims to contain."""
    memory, other = opened(background=False), opened(background=False)
    memory.add_many([NewItem(note.text, key=f"k{n}") for n, note in enumerate(notes(100))], wait=True)
    begun, continues = threading.Event(), threading.Event()
    changed = publish._changed

    def waiting(*args: Any) -> Any:
        found = changed(*args)
        begun.set()
        continues.wait(60)
        return found

    monkeypatch.setattr(publish, "_changed", waiting)
    publishing = threading.Thread(target=memory.store.indexes.publisher.publish, args=(1,))  # type: ignore[attr-defined]
    publishing.start()
    assert begun.wait(60)
    other.add(NewItem("a quince instead of a heron", key="k0"))
    other.forget(["key:k1"])
    continues.set()
    publishing.join(60)
    assert [r.item.text for r in memory.search("quince").results][:1] == ["a quince instead of a heron"]
    scores = [[(r.id, r.score) for r in m.search("heron at gate 5").results] for m in (memory, other)]
    assert scores[0] == scores[1]
    assert memory.check() == []


def test_names_are_looked_up_outside_of_any_snapshot(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, called = opened(embedder="none", background=False), list[str]()
    memory.add_many([NewItem(f"Number {n} belongs to project Heron{n % 50}") for n in range(600)])
    memory.index()
    memory.search("project")
    store: Any = memory.store
    monkeypatch.setattr(store, "may_mention", outside(store.database, called, store.may_mention))
    memory.add_many([NewItem(f"a bird, the {n}th", title=f"Heron{n}") for n in range(linking.AT_ONCE + 8)])
    memory.index()
    assert len(called) == linking.AT_ONCE + 8
    assert memory.check() == []


def test_names_are_made_searchable_outside_of_any_snapshot(opened, tmp_path, monkeypatch):
    opened(embedder="none").add(NewItem("a bird", title="Heron"))
    alone, called = Database(tmp_path / "store" / "fourfold.db", Tuning()), list[str]()

    @contextmanager
    def reading() -> Iterator[SqliteLinkRows]:
        with alone.read() as db:
            yield SqliteLinkRows(db, read_namespace(db, 1))

    linker = linking.Linker()
    monkeypatch.setattr(linking, "NameFinder", outside(alone, called, linking.NameFinder))
    linker.read_names(reading)
    alone.close()
    assert len(called) == 1


def test_transactions_that_link_become_shorter_where_they_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    written, clock = list[int](), [0.0]

    class Slow:
        def read_names(self, _: object) -> None: ...

        def mention_again(self, _: object, items: Sequence[int]) -> None:
            written.append(len(items))
            clock[0] += len(items) * (0.01 if sum(written) < 1500 else 0.0001)

    monkeypatch.setattr(linking, "monotonic", lambda: clock[0])
    linking._link_again(Slow(), list(range(4000)), nullcontext, nullcontext)  # type: ignore[arg-type]
    assert sum(written) == 4000
    assert max(written[3:20]) * 0.01 <= 2 * linking._LONGEST_SECONDS
    assert max(written) == linking._WRITTEN_ITEMS


def test_a_load_that_goes_on_does_not_make_linking_read_all_names_again_and_again(opened, monkeypatch):
    memory = opened(embedder="none", background=False)
    titles = [NewItem(f"a bird, the {n}th", title=f"Heron{n}") for n in range(3000)]
    memory.add_many([NewItem(f"Number {n} belongs to project Heron{n}") for n in range(3000)])
    memory.add_many(titles)
    read, linked = list[int](), list[Any]()
    names, change = SqliteLinkRows.names, SqliteLinkRows.change_mentions

    def noting(rows: SqliteLinkRows) -> Any:
        read.append(1)
        return names(rows)

    def renaming(rows: SqliteLinkRows, *pairs: Any) -> None:
        linked.append(pairs)
        rows.ns.names += 1  # as a writer of another process would
        change(rows, *pairs)

    monkeypatch.setattr(SqliteLinkRows, "names", noting)
    monkeypatch.setattr(SqliteLinkRows, "change_mentions", renaming)
    memory.index()
    assert len(linked) >= 12
    assert len(read) < len(linked) / 2
    assert memory.node("Heron2999").mentions == (3000,)


# ---------------------------------------------------------------- links to many new names


OLDER_ITEMS = 1200
NAMES = linking.AT_ONCE + 8
ROWS_PER_ITEM = 3
"""A mention, and what triggers count."""


def linked_later(memory: Memory) -> None:
    """Older items that refer to names which come later, in one call."""
    memory.add_many([NewItem(f"note {n} refers to [[Heron Station {n % NAMES}]]") for n in range(OLDER_ITEMS)])
    memory.add_many([NewItem(f"station {n}", title=f"Heron Station {n}") for n in range(NAMES)])


@pytest.fixture
def memory(opened: Opener) -> Memory:
    return opened(embedder="none", background=False)


def test_no_transaction_links_very_many_items(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[int] = []
    write = Database.write

    @contextmanager
    def counted(self: Database) -> Generator[Connection]:
        with write(self) as db:
            before = db.total_changes()
            yield db
            changed.append(db.total_changes() - before)

    linked_later(memory)
    monkeypatch.setattr(Database, "write", counted)
    memory.index()
    assert sum(changed) >= OLDER_ITEMS
    assert max(changed) <= linking._WRITTEN_ITEMS * ROWS_PER_ITEM
    assert memory.check() == []


def test_names_are_read_outside_of_transactions(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    database: Any = memory.store.database  # type: ignore[attr-defined]
    inside: list[bool] = []
    names = SqliteLinkRows.names

    def noted(self: SqliteLinkRows) -> Iterator[str]:
        inside.append(database._writer.in_transaction)
        return names(self)

    linked_later(memory)
    monkeypatch.setattr(SqliteLinkRows, "names", noted)
    memory.index()
    assert inside
    assert not any(inside)


def test_no_snapshot_reads_very_many_names(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot of minutes keeps the write-ahead log from being reset: 840 MB were seen with a million names."""
    asked: list[tuple[SqliteLinkRows, int]] = []

    def noted(read: Any) -> Any:
        def reading(self: SqliteLinkRows, keys: Any) -> Any:
            asked.append((self, len(keys)))
            return read(self, keys)

        return reading

    for name in ("names_of", "pointing"):
        monkeypatch.setattr(SqliteLinkRows, name, noted(getattr(SqliteLinkRows, name)))
    names = linking._PAGE_ITEMS + 8
    memory.add_many([NewItem(f"station {n}", title=f"Heron Station {n}") for n in range(names)])
    memory.index()
    memory.add_many([NewItem(f"We met at Heron Station {n}") for n in range(names)])
    assert memory.node(f"Heron Station {names - 1}").mentions == (2 * names,), "one write, several pages"
    assert max(count for _, count in asked) <= linking._PAGE_ITEMS
    assert len({id(rows) for rows, _ in asked}) > 1


def test_a_writer_that_does_not_know_many_names_looks_up_those_of_its_texts(opened, monkeypatch):
    one, other = (opened(embedder="none", background=False) for _ in range(2))
    titles = [f"Heron Station {n}" for n in range(linking._READ_NAMES + 1)]
    one.add_many([NewItem(f"about {title}", title=title) for title in titles])
    monkeypatch.setattr(SqliteLinkRows, "names", None)
    texts = [NewItem(f"note {n} is about Heron Station {n}") for n in range(linking.AT_ONCE + 8)]
    note = other.add_many(texts)[-1]
    assert note.id in ids(other.search(f"Heron Station {linking.AT_ONCE + 7}", only=["graph"]))

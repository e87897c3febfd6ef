"""Links to many new names are made in short transactions, since other writers wait for each."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from engine_support import Opener, ids

from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.storage.sql import linking
from fourfold.storage.sqlite.database import Connection, Database
from fourfold.storage.sqlite.namespaces import SqliteLinkRows

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
    assert max(count for _, count in asked) <= linking._PAGE_ITEMS
    assert len({rows for rows, _ in asked}) > 1


def test_a_writer_that_does_not_know_many_names_looks_up_those_of_its_texts(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (opened(embedder="none", background=False) for _ in range(2))
    titles = [f"Heron Station {n}" for n in range(linking._READ_NAMES + 1)]
    one.add_many([NewItem(f"about {title}", title=title) for title in titles])
    monkeypatch.setattr(SqliteLinkRows, "names", None)
    texts = [NewItem(f"note {n} is about Heron Station {n}") for n in range(linking.AT_ONCE + 8)]
    note = other.add_many(texts)[-1]
    assert note.id in ids(other.search(f"Heron Station {linking.AT_ONCE + 7}", only=["graph"]))

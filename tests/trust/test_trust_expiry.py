"""Expired items are shown nowhere; maintenance and `repair` remove them, and a purge leaves no byte of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import postgres_servers
import pytest
from engine_support import WordEmbedder

from fourfold.engine import maintenance
from fourfold.memory import Memory
from fourfold.model import ItemPatch, NewItem

pytestmark = pytest.mark.spec("C15")

CANARY = "zxcanary"


@pytest.fixture(params=["sqlite", "postgres"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    place = tmp_path / "store" if request.param == "sqlite" else postgres_servers.fresh()
    with Memory.open(place, embedder=WordEmbedder(), background=False) as opened:
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


def test_expired_items_are_hidden_at_once_and_repair_removes_every_trace(memory: Memory) -> None:
    gone = store_expired(memory)
    assert shown(memory) == ["The heron stays"]
    done = memory.repair(purge=True)
    assert any("removed 4 expired items" in line for line in done), done
    records: list[dict[str, Any]] = []
    memory.store.portable.export(records.append)
    assert CANARY not in repr(records)
    assert [id for id in gone if exists(memory, id)] == []
    assert memory.check() == []
    assert shown(memory) == ["The heron stays"]


def exists(memory: Memory, id: int) -> bool:
    with memory.store.snapshot(memory.namespace) as snapshot:
        return bool(snapshot.rows.get([id])) or bool(snapshot.rows.versions([id]))


def test_a_purge_leaves_no_byte_of_expired_items_in_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with Memory.open(folder, embedder=WordEmbedder(), background=False) as memory:
        store_expired(memory)
        assert files_with_canary(folder)
        memory.repair(purge=True)
        assert files_with_canary(folder) == []
    assert files_with_canary(folder) == []


def files_with_canary(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if CANARY.encode() in path.read_bytes().lower()]


def test_maintenance_removes_expired_items_and_no_others(memory: Memory) -> None:
    gone = store_expired(memory)
    later = memory.add(NewItem("It ends tomorrow", expires_at=datetime.now(UTC) + timedelta(days=1))).id
    assert maintenance.remove_expired(memory.store, memory.namespace, datetime.now(UTC)) == len(gone)
    assert maintenance.remove_expired(memory.store, memory.namespace, datetime.now(UTC)) == 0
    assert sorted(item.text for item in memory.list()) == ["It ends tomorrow", "The heron stays"]
    assert memory.get([later])[0].expires_at is not None
    assert memory.check() == []


def test_an_item_that_is_renewed_before_it_is_removed_stays(memory: Memory) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    first = memory.add(NewItem("The offer is open", expires_at=past)).id
    assert memory.add("The offer is open").id == first
    assert maintenance.remove_expired(memory.store, memory.namespace, datetime.now(UTC)) == 0
    assert [item.id for item in memory.list()] == [first]


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

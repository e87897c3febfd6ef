"""`repair --purge` removes forgotten content from every file of the store, even while other processes have it open."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import trust_child
from engine_support import WordEmbedder, notes

from fourfold.errors import StoreBusy
from fourfold.memory import Memory
from fourfold.model import ItemPatch, NewItem
from fourfold.storage.sqlite import database, schema
from fourfold.storage.sqlite.database import Tuning
from fourfold.storage.sqlite.store import SqliteStore

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


def found_in(folder: Path) -> list[str]:
    """The files that contain the canary word."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [str(path.relative_to(folder)) for path in files if CANARY.encode() in path.read_bytes().lower()]


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
    assert found_in(tmp_path / "store")
    done = memory.repair(purge=True)
    assert any("forgotten" in line for line in done)
    assert any("before-schema-2.db" in line for line in done)
    assert found_in(tmp_path / "store") == []
    assert memory.check() == []
    assert memory.count() == 201
    assert memory.search("heron").degraded == ()
    memory.close()
    assert found_in(tmp_path / "store") == []


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
        assert found_in(tmp_path / "store") == []
        mine.send("go on")
        count, canary = mine.recv()
        child.join()
        assert child.exitcode == 0
        assert (count, canary) == (100, [])
    assert found_in(tmp_path / "store") == []


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
        assert found_in(tmp_path / "store") == []

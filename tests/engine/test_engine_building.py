"""Indexes that another process writes: the same files, and this process where no other one can."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_support import Opener, ids, notes

from fourfold import child_process
from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.stores.sqlite import files, indexes

COUNT = 60


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Little is much here; the processes that were started."""
    processes: list[subprocess.Popen[bytes]] = []

    class Watched(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            processes.append(self)

    monkeypatch.setattr(indexes, "APART_AT", 20)
    monkeypatch.setattr(subprocess, "Popen", Watched)
    return processes


def generation(memory: Memory, kind: str) -> list[str]:
    folder: Path = memory.store.folder  # type: ignore[attr-defined]
    return sorted(path.name for path in folder.glob(f"index/*/{kind}/g*"))


async def test_another_process_writes_what_this_one_then_searches(
    opened: Opener, started: list[subprocess.Popen[bytes]]
) -> None:
    memory = await opened()
    await memory.add_many(notes(COUNT), wait=True)
    before = ids(await memory.search("heron at gate 5"))
    await memory.index()
    assert [process.returncode for process in started] == [0]
    assert generation(memory, "text")
    assert generation(memory, "vectors")
    state = memory.store._indexes._texts[1].state  # type: ignore[attr-defined]
    assert len(state.published) == COUNT
    assert not len(state.tail)
    assert ids(await memory.search("heron at gate 5")) == before
    assert await memory.check() == []


@pytest.mark.parametrize("end", ["killed", "not found", "fails"])
async def test_where_the_other_process_cannot_this_one_does_it(
    opened: Opener, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    memory = await opened()
    await memory.add_many(notes(COUNT), wait=True)
    before = ids(await memory.search("heron at gate 5"))
    if end == "not found":
        monkeypatch.setattr(sys, "executable", str(Path(sys.executable).parent / "python-that-is-not-there"))
    else:
        last = "os.kill(os.getpid(), signal.SIGKILL)" if end == "killed" else "sys.exit(3)"
        monkeypatch.setattr(child_process, "_BOOTSTRAP", f"import os, signal, sys; print('text', flush=True); {last}")
    await memory.index()
    codes = [process.returncode for process in started]
    assert codes == {"killed": [-signal.SIGKILL], "fails": [3], "not found": []}[end]
    state = memory.store._indexes._texts[1].state  # type: ignore[attr-defined]
    assert len(state.published) == COUNT
    assert ids(await memory.search("heron at gate 5")) == before
    assert await memory.check() == []


@pytest.mark.spec("B11")
async def test_names_of_a_bulk_load_are_looked_for_by_another_process(
    opened: Opener, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = await opened(embedder="none")
    await memory.add_many([NewItem(f"Number {n} belongs to project Heron{n % 50}") for n in range(100)])
    await memory.index()
    started.clear()
    monkeypatch.setattr("fourfold.stores.sqlite.links.is_long", lambda *_: True)
    await memory.add_many([NewItem(f"a bird, the {n}th", title=f"Heron{n}") for n in range(50)])
    await memory.index()
    assert any("links" in process.args for process in started)  # type: ignore[operator]
    near = await memory.neighbors("Heron7")
    found = await memory.search("Heron7")
    assert any(line.source == "graph" for result in found.results for line in result.contributions), near
    assert await memory.check() == []


async def until_published(memory: Memory, rows: int) -> None:
    """Waits for another process to have published so many."""
    folder: Path = memory.store.folder  # type: ignore[attr-defined]
    async with asyncio.timeout(30):
        while True:
            manifests = [files.read_manifest(folder / "index" / "1" / kind) for kind in ("text", "vectors")]
            if all(manifest is not None and manifest.rows >= rows for manifest in manifests):
                return
            await asyncio.sleep(0.02)


@pytest.fixture
def loading(started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """A load begins with few items, is published again after as few, and never pauses."""
    monkeypatch.setattr(indexes, "_EARLY_AT", 30)
    monkeypatch.setattr(indexes, "_AGAIN_AT", 30)
    monkeypatch.setattr("fourfold.upkeep._QUIET_SECONDS", 600.0)
    monkeypatch.setattr("fourfold.upkeep._LONGEST_WAIT", 600.0)
    return started


def vectored(first: int, count: int) -> list[NewItem]:
    return [NewItem(f"bird number {n} at the gate", key=f"{n}", vector=[1.0, n]) for n in range(first, first + count)]


async def test_one_process_publishes_a_load_while_it_goes_on(
    opened: Opener, loading: list[subprocess.Popen[bytes]]
) -> None:
    memory = await opened(embedder="none")
    for first in range(0, 120, 40):
        await memory.add_many(vectored(first, 40))
        await until_published(memory, first + 40)
    assert len(loading) == 1
    assert loading[0].poll() is None
    await memory.add_many(vectored(120, 10))
    await memory.add_many(vectored(0, 5))
    assert ids(await memory.search("bird number 127", only=("keyword",)))[0] == 128
    await memory.index()
    assert [process.returncode for process in loading] == [0]
    state = memory.store._indexes._texts[1].state  # type: ignore[attr-defined]
    assert len(state.published.live) == 130
    assert await memory.check() == []


async def test_a_load_that_ends_with_its_process_is_published_all_the_same(
    opened: Opener, loading: list[subprocess.Popen[bytes]]
) -> None:
    memory = await opened(embedder="none")
    await memory.add_many(vectored(0, 40))
    await until_published(memory, 40)
    await memory.add_many(vectored(40, 20))
    assert loading[0].stdin is not None
    loading[0].stdin.close()  # as when this process were killed
    await until_published(memory, 60)
    await memory.close()
    assert [process.returncode for process in loading] == [0]


async def test_who_needs_the_builder_does_not_wait_for_the_end_of_a_load(
    opened: Opener, loading: list[subprocess.Popen[bytes]]
) -> None:
    memory = await opened(embedder="none")
    await memory.add_many(vectored(0, 40))
    async with asyncio.timeout(60):
        assert await memory.check() == []
    assert len(loading) == 1
    await memory.add_many(vectored(40, 40))
    await memory.within("another").add_many(vectored(0, 40))
    async with asyncio.timeout(60):
        await memory.close()
    assert all(process.returncode == 0 for process in loading)

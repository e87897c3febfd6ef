"""Indexes that another process writes: the same files, and this process where no other one can."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_support import Opener, ids, notes

from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.stores.sqlite import building, indexes

COUNT = 60


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """Little is much here; the processes that were started."""
    processes: list[subprocess.Popen[str]] = []

    class Watched(subprocess.Popen[str]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            processes.append(self)

    monkeypatch.setattr(indexes, "APART_AT", 20)
    monkeypatch.setattr(building.subprocess, "Popen", Watched)
    return processes


def generation(memory: Memory, kind: str) -> list[str]:
    folder: Path = memory.store.folder  # type: ignore[attr-defined]
    return sorted(path.name for path in folder.glob(f"index/*/{kind}/g*"))


async def test_another_process_writes_what_this_one_then_searches(
    opened: Opener, started: list[subprocess.Popen[str]]
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
    opened: Opener, started: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    memory = await opened()
    await memory.add_many(notes(COUNT), wait=True)
    before = ids(await memory.search("heron at gate 5"))
    if end == "not found":
        monkeypatch.setattr(building.sys, "executable", str(Path(sys.executable).parent / "python-that-is-not-there"))
    else:
        last = "os.kill(os.getpid(), signal.SIGKILL)" if end == "killed" else "sys.exit(3)"
        monkeypatch.setattr(building, "_START", f"import os, signal, sys; print('text', flush=True); {last}")
    await memory.index()
    codes = [process.returncode for process in started]
    assert codes == {"killed": [-signal.SIGKILL], "fails": [3], "not found": []}[end]
    state = memory.store._indexes._texts[1].state  # type: ignore[attr-defined]
    assert len(state.published) == COUNT
    assert ids(await memory.search("heron at gate 5")) == before
    assert await memory.check() == []


@pytest.mark.spec("B11")
async def test_names_of_a_bulk_load_are_looked_for_by_another_process(
    opened: Opener, started: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
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

"""Indexes are written by a child process, or by this process if the child fails."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from concurrently import begin
from engine_support import Opener, eventually, ids, notes

from fourfold import Memory, NewItem, child_process
from fourfold.index import segment_files
from fourfold.storage.values import Pace

COUNT = 60


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tuning: dict[str, Any]) -> list[subprocess.Popen[bytes]]:
    """Publishes in a child from few changes on; lists the processes that were started."""
    processes: list[subprocess.Popen[bytes]] = []

    class Watched(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            processes.append(self)

    tuning["child_at_changes"] = 20
    monkeypatch.setattr(subprocess, "Popen", Watched)
    return processes


def generation(memory: Memory, kind: str) -> list[str]:
    folder: Path = memory.store.folder  # type: ignore[attr-defined]
    return sorted(path.name for path in folder.glob(f"index/*/{kind}/g*"))


def test_a_child_process_writes_the_index_that_this_one_searches(opened, started):
    memory = opened()
    memory.add_many(notes(COUNT), wait=True)
    before = ids(memory.search("heron at gate 5"))
    memory.index()
    assert [process.returncode for process in started] == [0]
    assert generation(memory, "text")
    assert generation(memory, "vectors")
    state = memory.store.indexes._texts[1].state  # type: ignore[attr-defined]
    assert len(state.published) == COUNT
    assert not len(state.tail)
    assert ids(memory.search("heron at gate 5")) == before
    assert memory.check() == []


@pytest.mark.parametrize("end", ["killed", "not found", "fails"])
def test_this_process_publishes_if_the_child_fails(opened, started, monkeypatch, end):
    memory = opened()
    memory.add_many(notes(COUNT), wait=True)
    before = ids(memory.search("heron at gate 5"))
    if end == "not found":
        monkeypatch.setattr(sys, "executable", str(Path(sys.executable).parent / "python-that-is-not-there"))
    else:
        last = "os.kill(os.getpid(), signal.SIGKILL)" if end == "killed" else "sys.exit(3)"
        monkeypatch.setattr(child_process, "_BOOTSTRAP", f"import os, signal, sys; print('text', flush=True); {last}")
    memory.index()
    codes = [process.returncode for process in started]
    assert codes == {"killed": [-signal.SIGKILL], "fails": [3], "not found": []}[end]
    state = memory.store.indexes._texts[1].state  # type: ignore[attr-defined]
    assert len(state.published) == COUNT
    assert ids(memory.search("heron at gate 5")) == before
    assert memory.check() == []


@pytest.mark.spec("B11")
def test_names_of_a_bulk_load_are_linked_by_a_child_process(opened, started, monkeypatch):
    memory = opened(embedder="none")
    memory.add_many([NewItem(f"Number {n} belongs to project Heron{n % 50}") for n in range(100)])
    memory.index()
    started.clear()
    monkeypatch.setattr("fourfold.storage.sqlite.namespaces.is_long", lambda *_: True)
    memory.add_many([NewItem(f"a bird, the {n}th", title=f"Heron{n}") for n in range(50)])
    memory.index()
    assert any("links" in process.args for process in started)  # type: ignore[operator]
    near = memory.neighbors("Heron7")
    found = memory.search("Heron7")
    assert any(line.source == "graph" for result in found.results for line in result.contributions), near
    assert memory.check() == []


def until_published(memory: Memory, rows: int) -> None:
    """Waits until another process has published this many rows."""
    folder: Path = memory.store.folder  # type: ignore[attr-defined]

    def published() -> bool:
        manifests = [segment_files.read_manifest(folder / "index" / "1" / kind) for kind in ("text", "vectors")]
        return all(manifest is not None and manifest.rows >= rows for manifest in manifests)

    eventually(published)


@pytest.fixture
def loading(started: list[subprocess.Popen[bytes]], tuning: dict[str, Any]) -> list[subprocess.Popen[bytes]]:
    """Lowers the limits of a bulk load to a few items, and disables publication after a pause."""
    pace = Pace(quiet_seconds=600.0, longest_wait_seconds=600.0)
    tuning |= {"load_at_items": 30, "load_every_changes": 30, "pace": pace}
    return started


def vectored(first: int, count: int) -> list[NewItem]:
    return [NewItem(f"bird number {n} at the gate", key=f"{n}", vector=[1.0, n]) for n in range(first, first + count)]


def test_one_child_publishes_a_load_while_it_runs(opened: Opener, loading: list[subprocess.Popen[bytes]]) -> None:
    memory = opened(embedder="none")
    for first in range(0, 120, 40):
        memory.add_many(vectored(first, 40))
        until_published(memory, first + 40)
    assert len(loading) == 1
    assert loading[0].poll() is None
    memory.add_many(vectored(120, 10))
    memory.add_many(vectored(0, 5))
    assert ids(memory.search("bird number 127", only=("keyword",)))[0] == 128
    memory.index()
    assert [process.returncode for process in loading] == [0]
    state = memory.store.indexes._texts[1].state  # type: ignore[attr-defined]
    assert len(state.published.live) == 130
    assert memory.check() == []


def test_a_load_that_is_published_as_it_is_written_is_not_interrupted_by_the_timer(opened, loading):
    memory = opened(embedder="none")
    memory.add_many(vectored(0, 40))
    until_published(memory, 40)
    assert not memory.store.maintenance.publish("default", amid_writes=True)
    assert loading[0].poll() is None
    assert memory.store.maintenance.publish("default")
    assert [process.wait(60) for process in loading] == [0]


def test_a_large_index_run_is_published_while_it_runs(opened, loading, tmp_path):
    """Chunks of files count as a bulk load, like added items, and are published without a timer."""
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(40):
        (notes / f"{number}.md").write_text(f"# Bird {number}\n\nIt sits at gate {number}.\n")
    memory = opened(embedder="none")
    memory.index_folders([notes])
    folder: Path = memory.store.folder  # type: ignore[attr-defined]
    eventually(lambda: (found := segment_files.read_manifest(folder / "index" / "1" / "text")) and found.rows >= 40)
    assert sum(process.poll() is None for process in loading) == 1  # the process that read the files has ended


def test_a_load_is_published_even_if_its_process_ends(opened: Opener, loading: list[subprocess.Popen[bytes]]) -> None:
    memory = opened(embedder="none")
    memory.add_many(vectored(0, 40))
    until_published(memory, 40)
    memory.add_many(vectored(40, 20))
    loading[0].stdin.close()  # as if this process had been killed
    until_published(memory, 60)
    memory.close()
    assert [process.returncode for process in loading] == [0]


def test_other_publications_do_not_wait_for_the_end_of_a_load(opened, loading):
    memory = opened(embedder="none")
    memory.add_many(vectored(0, 40))
    assert begin(memory.check).result(60) == []
    eventually(lambda: len(loading) == 1)
    memory.add_many(vectored(40, 40))
    memory.within("another").add_many(vectored(0, 40))
    begin(memory.close).result(60)
    assert all(process.returncode == 0 for process in loading)

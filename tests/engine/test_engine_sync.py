"""SyncMemory: the same methods without await, from scripts, threads and inside a running event loop."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from engine_support import WordEmbedder, texts

from fourfold.errors import NotFound, WorldError
from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.sync import SyncMemory

ROOT = Path(__file__).parents[2]


def test_from_a_plain_script(tmp_path: Path) -> None:
    script = """
import sys
from fourfold import NewItem, SyncMemory
with SyncMemory.open(sys.argv[1], embedder="none") as memory:
    memory.add(NewItem("The heron stands in the river", tags=("bird",)))
    print(memory.search("heron").results[0].item.text, memory.tags(), memory.namespace)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == "The heron stands in the river [('bird', 1)] default\n"


def test_from_many_threads(tmp_path: Path) -> None:
    with SyncMemory.open(tmp_path / "store", embedder=WordEmbedder()) as memory, ThreadPoolExecutor(4) as pool:
        stored = list(pool.map(lambda number: memory.add(f"heron {number}", wait=True).id, range(12)))
        assert len(set(stored)) == 12
        counts = set(pool.map(lambda _: len(memory.search("heron", top_k=100).results), range(8)))
        assert counts == {12}


def test_inside_a_thread(tmp_path: Path) -> None:
    found: list[list[str]] = []

    def work() -> None:
        with SyncMemory.open(tmp_path / "store", embedder=WordEmbedder()) as memory:
            memory.add("heron", wait=True)
            found.append(texts(memory.search("heron")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [["heron"]]


async def test_inside_a_running_event_loop(tmp_path: Path) -> None:
    with SyncMemory.open(tmp_path / "store", embedder=WordEmbedder()) as memory:
        assert memory.add("heron").text == "heron"
        async with await Memory.open(tmp_path / "store", embedder="none") as other:
            assert await other.count() == 1


def test_errors_come_through_and_closing_twice_is_harmless(tmp_path: Path) -> None:
    memory = SyncMemory.open(tmp_path / "store", embedder="none")
    with pytest.raises(NotFound):
        memory.get([7])
    memory.add(NewItem("heron"))
    memory.close()
    memory.close()
    (tmp_path / "file").write_text("x")
    before = threading.active_count()
    with pytest.raises(WorldError):
        SyncMemory.open(tmp_path / "file" / "store", embedder="none")
    assert threading.active_count() == before


def test_every_method_of_memory_is_there(tmp_path: Path) -> None:
    with SyncMemory.open(tmp_path / "store", embedder="none") as memory:
        for name, method in inspect.getmembers(Memory, inspect.iscoroutinefunction):
            if not name.startswith("_") and name != "open":
                assert hasattr(memory, name), f"add `{name} = _blocking(Memory.{name})` to SyncMemory"
                blocking = getattr(memory, name)
                assert not inspect.iscoroutinefunction(blocking), name
                assert blocking.__doc__ == method.__doc__ or name == "close"

"""AsyncMemory: every method of Memory as a coroutine; blocking work never runs on the event loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from engine_support import WordEmbedder, texts

from fourfold import AsyncMemory, Memory, NewItem
from fourfold.errors import NotFound, WorldError
from fourfold.storage.protocols import Snapshot, Transaction
from fourfold.storage.sqlite.store import TemporaryStore

ROOT = Path(__file__).parents[2]


# ---------------------------------------------------------------- AsyncMemory


class Slow(TemporaryStore):
    """A store in which every call waits until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()
        self.released = threading.Event()

    def _wait(self) -> None:
        self.waiting.set()
        assert self.released.wait(60)

    @contextmanager
    def snapshot(self, namespace: str, **options: Any) -> Iterator[Snapshot]:  # type: ignore[override]
        self._wait()
        with super().snapshot(namespace, **options) as snapshot:
            yield snapshot

    @contextmanager
    def transaction(self, namespace: str, **options: Any) -> Iterator[Transaction]:  # type: ignore[override]
        self._wait()
        with super().transaction(namespace, **options) as transaction:
            yield transaction


CALLS = {
    "search": lambda memory: memory.search("heron"),
    "add": lambda memory: memory.add("heron"),
    "list": lambda memory: memory.list(),
    "count": lambda memory: memory.count(),
    "why": lambda memory: memory.why("key:heron", "heron"),
    "nodes": lambda memory: memory.nodes(),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_slow_store_does_not_delay_a_concurrent_coroutine(name: str) -> None:
    store = Slow()
    store.released.set()
    memory = await AsyncMemory.open(store, embedder="none", background=False)
    await memory.add(NewItem("heron", key="heron"))
    store.released.clear()
    store.waiting.clear()
    call = asyncio.create_task(CALLS[name](memory))
    turns = 0
    while not store.waiting.is_set():
        await asyncio.sleep(0)
    for _ in range(1000):  # the loop runs while the store blocks
        await asyncio.sleep(0)
        turns += 1
    assert not call.done()
    assert turns == 1000
    store.released.set()
    await call
    await memory.close()


async def test_calls_of_one_memory_run_concurrently() -> None:
    store = Slow()
    memory = await AsyncMemory.open(store, embedder="none", background=False)
    calls = [asyncio.create_task(memory.count()) for _ in range(8)]
    await asyncio.to_thread(store.waiting.wait, 60)
    store.released.set()
    assert await asyncio.gather(*calls) == [0] * 8
    await memory.close()


METHODS = [
    name
    for name, method in inspect.getmembers(Memory, callable)
    if not name.startswith("_") and name not in ("within", "troubles")
]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_memory_is_a_coroutine_with_the_same_signature(name: str) -> None:
    assert hasattr(AsyncMemory, name), f"add {name} to AsyncMemory"
    blocking, waiting = getattr(Memory, name), getattr(AsyncMemory, name)
    assert inspect.iscoroutinefunction(waiting)
    assert not inspect.iscoroutinefunction(blocking)
    if name not in ("open", "close"):
        assert inspect.signature(waiting) == inspect.signature(blocking)
        assert waiting.__doc__ == blocking.__doc__


async def test_views_of_other_namespaces_share_the_store() -> None:
    async with await AsyncMemory.open(":memory:", embedder="none") as memory:
        other = memory.within("other")
        await other.add("heron")
        assert (memory.namespace, other.namespace) == ("default", "other")
        assert await memory.namespaces() == [("other", 1)]
        assert (await memory.count(), await other.count()) == (0, 1)
        assert memory.troubles() == {}


async def test_errors_of_a_call_reach_the_awaiting_coroutine(tmp_path: Path) -> None:
    async with await AsyncMemory.open(tmp_path / "store", embedder="none") as memory:
        with pytest.raises(NotFound):
            await memory.get([7])
    await memory.close()  # closing twice is harmless
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorldError):
        await AsyncMemory.open(tmp_path / "file" / "store", embedder="none")


# ---------------------------------------------------------------- Memory


def test_memory_from_a_plain_script(tmp_path: Path) -> None:
    script = """
import sys
from fourfold import Memory, NewItem
with Memory.open(sys.argv[1], embedder="none") as memory:
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


def test_memory_from_many_threads(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", embedder=WordEmbedder()) as memory, ThreadPoolExecutor(4) as pool:
        stored = list(pool.map(lambda number: memory.add(f"heron {number}", wait=True).id, range(12)))
        assert len(set(stored)) == 12
        counts = set(pool.map(lambda _: len(memory.search("heron", top_k=100).results), range(8)))
        assert counts == {12}


def test_memory_in_a_thread_other_than_the_main_one(tmp_path: Path) -> None:
    found: list[list[str]] = []

    def work() -> None:
        with Memory.open(tmp_path / "store", embedder=WordEmbedder()) as memory:
            memory.add("heron", wait=True)
            found.append(texts(memory.search("heron")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [["heron"]]


async def test_both_memories_share_a_store_inside_an_event_loop(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", embedder=WordEmbedder()) as memory:
        assert memory.add("heron").text == "heron"
        async with await AsyncMemory.open(tmp_path / "store", embedder="none") as other:
            assert await other.count() == 1


def test_closing_twice_is_harmless_and_a_failed_open_leaves_no_thread(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "store", embedder="none")
    memory.add(NewItem("heron"))
    memory.close()
    memory.close()
    (tmp_path / "file").write_text("x")
    before = threading.active_count()
    with pytest.raises(WorldError):
        Memory.open(tmp_path / "file" / "store", embedder="none")
    assert threading.active_count() == before

"""A forked child that uses its parent's memory gets an error at once, and the parent keeps working."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from concurrently import begin

from fourfold import BaseEmbedder, Memory, NewItem

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

BLOCKING = """
import os, sys
from fourfold import Memory
from fourfold.errors import StoreUnavailable

with Memory.open(sys.argv[1], embedder="none") as memory:
    memory.add("written before the fork")
    memory.search("written")
    child = os.fork()
    if child == 0:
        calls = [("search", "written"), ("add", "x"), ("status",), ("get", [1]), ("check",)]
        for name, *arguments in calls:
            try:
                getattr(memory, name)(*arguments)
            except StoreUnavailable as error:
                print("refused", "after the fork" in error.remedy, flush=True)
        memory.close()
        with Memory.open(sys.argv[1], embedder="none") as own:
            own.add("written by the child")
        sys.exit(0)
    os.waitpid(child, 0)
    memory.add("written by the parent")
    found = memory.search("written").results
    print(len(found), memory.check(), flush=True)
"""

ASYNC = """
import asyncio, os, sys
from fourfold import AsyncMemory
from fourfold.errors import StoreUnavailable

async def refused(memory):
    try:
        await memory.search("written")
    except StoreUnavailable:
        print("refused", flush=True)
    await memory.close()

loop = asyncio.new_event_loop()
memory = loop.run_until_complete(AsyncMemory.open(sys.argv[1], embedder="none", background=False))
loop.run_until_complete(memory.add("written before the fork"))
child = os.fork()
if child == 0:
    asyncio.new_event_loop().run_until_complete(refused(memory))
    os._exit(0)
os.waitpid(child, 0)
print(len(loop.run_until_complete(memory.search("written")).results), flush=True)
loop.run_until_complete(memory.close())
"""


def run(script: str, store: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, str(store)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_forked_child_is_refused_at_once_and_the_parent_continues(tmp_path: Path) -> None:
    assert run(BLOCKING, tmp_path / "store") == ["refused True"] * 5 + ["3 []"]


def test_a_forked_child_is_refused_by_the_async_memory_too(tmp_path: Path) -> None:
    assert run(ASYNC, tmp_path / "store") == ["refused", "1"]


class Lengths(BaseEmbedder):
    name, dimension = "lengths", 2

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, len(text)] for text in texts]


def test_a_callback_may_call_the_memory(tmp_path: Path) -> None:
    counts: list[int] = []
    with Memory.open(tmp_path / "store", embedder=Lengths(), background=False) as memory:
        memory.add("a")
        assert begin(lambda: memory.embed_pending(lambda done, total: counts.append(memory.count()))).result(60) == 1
        assert counts == [1]
        assert memory.search("a", only=["semantic"]).results


def test_threads_share_one_memory(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", embedder="none") as memory:

        def work(number: int) -> None:
            memory.add(NewItem(f"thread {number}", key=str(number)))
            assert memory.search(f"thread {number}").results

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert memory.count() == 8

"""Cancelling: whatever was interrupted, wherever, the next call works and nothing is half there."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from engine_support import Opener, WordEmbedder, notes, texts

from fourfold.errors import StoreUnavailable, TimedOut
from fourfold.memory import Memory
from fourfold.model import Filters, ItemPatch, NewItem, SearchResponse


async def cancelled_after(steps: int, work: Awaitable[Any]) -> bool:
    """Cancels the work after so many turns of the event loop; whether it was still at it."""
    task = asyncio.ensure_future(work)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


CALLS: dict[str, Callable[[Memory, int], Awaitable[Any]]] = {
    "search": lambda memory, n: memory.search(f"the heron met the otter at gate {n}"),
    "memories": lambda memory, n: memory.search(f"heron {n}", preset="memories"),
    "add": lambda memory, n: memory.add_many([NewItem(f"new {n} {m}", tags=(f"t{m}",)) for m in range(3)]),
    "add and wait": lambda memory, n: memory.add_many([NewItem(f"new {n} {m}") for m in range(3)], wait=True),
    "update": lambda memory, n: memory.update(1, ItemPatch(text=f"changed {n}", add_tags=("c",))),
    "forget": lambda memory, n: memory.forget([n + 2]),
    "edge": lambda memory, n: memory.add_edge(f"Anna {n}", "knows", f"Karl {n}"),
    "index": lambda memory, n: memory.index(),
    "embed": lambda memory, n: memory.embed_pending(),
}


@pytest.mark.spec("S1.8", "B6")
@pytest.mark.parametrize("name", CALLS)
async def test_after_a_cancelled_call_the_next_one_works(opened: Opener, name: str) -> None:
    memory = await opened()
    await memory.add_many(notes(30), wait=True)
    steps = random.Random(name).sample(range(30), 12)
    for number, step in enumerate([0, 1, 2, *steps]):
        await cancelled_after(step, CALLS[name](memory, number))
        assert (await memory.search("otter")).results
    await memory.add("the last one", wait=True)
    assert texts(await memory.search("the last one", only=["semantic"]))[0] == "the last one"
    for number in range(15):  # all of a batch is there, or none
        stored = [item for item in await memory.list(limit=1000) if item.text.startswith(f"new {number} ")]
        assert len(stored) in (0, 3)
    await memory.embed_pending()
    assert await memory.check() == []
    assert (await memory.search("otter")).degraded == ()


async def test_a_cancelled_add_that_took_effect_gets_its_vectors_too(opened: Opener) -> None:
    memory = await opened()
    for step in range(40):
        await cancelled_after(step, memory.add(f"heron {step}"))
    await memory.add("the last one", wait=True)
    await memory.embed_pending()
    assert (await memory.search("heron")).degraded == ()


async def test_a_search_that_is_cancelled_while_the_model_loads_does_not_spoil_the_loading(opened: Opener) -> None:
    loading, go_on = threading.Event(), threading.Event()

    class SlowToLoad(WordEmbedder):
        loads = 0

        def load(self) -> None:
            type(self).loads += 1
            loading.set()
            go_on.wait(60)

    memory = await opened(embedder=SlowToLoad(), background=False)
    await memory.add("heron")
    search = asyncio.create_task(memory.search("heron"))
    await asyncio.to_thread(loading.wait, 60)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    go_on.set()
    await memory.embed_pending()
    response = await memory.search("heron")
    assert response.degraded == ()
    assert SlowToLoad.loads == 1


async def test_re_embedding_can_be_cancelled_and_taken_up_again(opened: Opener) -> None:
    await (await opened()).add_many(notes(150), wait=True)
    first_batch = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Telling(WordEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            loop.call_soon_threadsafe(first_batch.set)
            return super().embed(texts)

    embedder = Telling("other")
    memory = await opened(embedder=embedder, background=False)
    work = asyncio.create_task(memory.reembed())
    await first_batch.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await memory.reembed()
    assert (await memory.search("heron")).degraded == ()
    assert await memory.check() == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_nothing_is_left_open_after_closing(tmp_path: Path) -> None:
    def open_files() -> set[Path]:
        gc.collect()
        descriptors = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return {target for target in (path.readlink() for path in descriptors) if target.is_relative_to(tmp_path)}

    for _ in range(3):
        async with await Memory.open(tmp_path / "store", embedder=WordEmbedder()) as memory:
            await memory.add_many(notes(20), wait=True)
            await memory.index()
            await cancelled_after(3, memory.search("heron"))
            await asyncio.gather(*(memory.search("heron") for _ in range(5)))
            assert open_files()
    assert open_files() == set()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fourfold") and not thread.daemon]


@pytest.mark.spec("S2.6")
async def test_a_read_that_takes_too_long_is_ended_and_its_thread_is_free_again(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = await opened(background=False)
    await memory.add_many([NewItem(f"text {n}", path=f"folder/{n}.md") for n in range(400)])
    looked_at: list[str] = []

    def slowly(glob: str, path: str) -> bool:
        looked_at.append(path)
        time.sleep(0.01)
        return True

    with monkeypatch.context() as slow:
        slow.setattr("fourfold.stores.sqlite.database.matches", slowly)
        slow.setattr("fourfold.limits.READ_SECONDS", 0.05)
        for _ in range(10):  # more than there are threads
            with pytest.raises(TimedOut) as raised:
                await memory.list(Filters(path="folder/*"), limit=1000)
            assert raised.value.remedy
        seen = -1
        while seen != (seen := len(looked_at)):
            await asyncio.sleep(0.1)
    assert seen < 2000  # of 4000, had each gone on to its end
    assert len(await memory.list(Filters(path="folder/*"), limit=1000)) == 400


@pytest.mark.spec("S1.8", "S2.6")
async def test_a_search_that_waits_for_the_model_when_the_memory_closes_is_told_so(opened: Opener) -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Slow(WordEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            asked.set()
            go_on.wait(60)
            return super().embed(texts)

    memory = await opened(embedder=Slow(), background=False)
    searches = [asyncio.create_task(memory.search("heron")) for _ in range(2)]
    await asyncio.to_thread(asked.wait, 60)
    await asyncio.sleep(0.05)  # the second one is queued behind the first
    closing = asyncio.create_task(memory.close())
    await asyncio.sleep(0.05)
    go_on.set()
    await closing
    first, second = await asyncio.gather(*searches, return_exceptions=True)
    assert isinstance(first, SearchResponse | StoreUnavailable)
    assert isinstance(second, StoreUnavailable)
    with pytest.raises(StoreUnavailable, match="closed"):
        await memory.search("heron")

"""After a cancelled or interrupted call, the next call works and no write is partial."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from concurrently import begin, outcomes, results
from engine_support import Opener, WordEmbedder, notes, texts

from fourfold import AsyncMemory, Memory
from fourfold.errors import StoreUnavailable, TimedOut
from fourfold.model import Filters, ItemPatch, NewItem
from fourfold.retrieval import SearchResponse

CALLS: dict[str, Callable[[Any, int], Any]] = {
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
"""Calls of Memory and of AsyncMemory."""


def assert_sound(memory: Memory) -> None:
    memory.add("the last one", wait=True)
    assert texts(memory.search("the last one", only=["semantic"]))[0] == "the last one"
    for number in range(18):  # a batch is stored completely or not at all
        stored = [item for item in memory.list(limit=1000) if item.text.startswith(f"new {number} ")]
        assert len(stored) in (0, 3)
    memory.embed_pending()
    assert memory.check() == []
    assert memory.search("otter").degraded == ()


# ---------------------------------------------------------------- AsyncMemory is cancelled


@pytest.fixture
async def notebook(tmp_path: Path) -> AsyncIterator[AsyncMemory]:
    async with await AsyncMemory.open(tmp_path / "store", embedder=WordEmbedder()) as memory:
        yield memory


async def cancelled_after(steps: int, work: Any) -> bool:
    """Cancels the work after this many iterations of the event loop; returns whether it was still running."""
    task = asyncio.ensure_future(work)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


@pytest.mark.spec("S1.8", "B6")
@pytest.mark.parametrize("name", CALLS)
async def test_after_a_cancelled_call_the_next_one_works(notebook: AsyncMemory, name: str) -> None:
    await notebook.add_many(notes(30), wait=True)
    steps = random.Random(name).sample(range(300), 12)
    for number, step in enumerate([0, 1, 2, *steps]):
        await cancelled_after(step, CALLS[name](notebook, number))
        assert (await notebook.search("otter")).results
    await asyncio.to_thread(assert_sound, notebook._memory)


async def test_an_item_of_a_cancelled_add_that_took_effect_is_embedded(notebook: AsyncMemory) -> None:
    for step in range(40):
        await cancelled_after(step, notebook.add(f"heron {step}"))
    await notebook.add("the last one", wait=True)
    await notebook.embed_pending()
    assert (await notebook.search("heron")).degraded == ()


async def test_cancelling_a_search_while_the_model_loads_does_not_break_the_loading(tmp_path: Path) -> None:
    loading, go_on = threading.Event(), threading.Event()

    class SlowToLoad(WordEmbedder):
        loads = 0

        def load(self) -> None:
            type(self).loads += 1
            loading.set()
            assert go_on.wait(60)

    async with await AsyncMemory.open(tmp_path, embedder=SlowToLoad(), background=False) as memory:
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


async def test_re_embedding_can_be_cancelled_and_repeated(tmp_path: Path) -> None:
    async with await AsyncMemory.open(tmp_path, embedder=WordEmbedder()) as memory:
        await memory.add_many(notes(150), wait=True)
    first_batch, cancelled = threading.Event(), threading.Event()

    class Telling(WordEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            first_batch.set()
            cancelled.wait(60)  # otherwise the call may end before it is cancelled
            return super().embed(texts)

    async with await AsyncMemory.open(tmp_path, embedder=Telling("other"), background=False) as memory:
        work = asyncio.create_task(memory.reembed())
        await asyncio.to_thread(first_batch.wait, 60)
        work.cancel()
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await work
        await memory.reembed()
        assert (await memory.search("heron")).degraded == ()
        assert await memory.check() == []


# ---------------------------------------------------------------- Memory is interrupted


@pytest.fixture
def interrupting() -> Iterator[Callable[[float], None]]:
    """Simulates Ctrl-C after some seconds: KeyboardInterrupt wherever this thread is then. 0 cancels it."""
    armed = False

    def interrupt(_: int, frame: FrameType | None) -> None:
        if not armed:  # a signal that another thread received may arrive late
            return
        if frame is not None and frame.f_code.co_name == "gc_callback":  # of Hypothesis, where Python ignores errors
            signal.setitimer(signal.ITIMER_REAL, 0.0001)
            return
        raise KeyboardInterrupt

    def press_after(seconds: float) -> None:
        nonlocal armed
        armed = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, interrupt)
    yield press_after
    press_after(0)
    signal.signal(signal.SIGALRM, before)


def seconds(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # Ctrl-C between `open` and `with`; it is closed anyway
@pytest.mark.spec("S1.8", "B6")
@pytest.mark.parametrize("name", CALLS)
def test_after_ctrl_c_the_next_call_works(memory: Memory, name: str, interrupting: Callable[[float], None]) -> None:
    memory.add_many(notes(30), wait=True)
    chance = random.Random(name)
    took = min(seconds(partial(CALLS[name], memory, number)) for number in range(3))
    interrupted = 0
    for number in range(3, 18):
        try:
            try:
                interrupting(chance.uniform(0.02, 0.9) * took)
                CALLS[name](memory, number)
            finally:
                interrupting(0)
        except KeyboardInterrupt:
            interrupted += 1
        assert memory.search("otter").results
    assert interrupted
    assert_sound(memory)


def test_ctrl_c_during_re_embedding_leaves_a_queue_that_can_be_drained(
    opened: Opener, interrupting: Callable[[float], None]
) -> None:
    opened().add_many(notes(150), wait=True)

    class Interrupting(WordEmbedder):
        calls = 0

        def embed(self, texts: Sequence[str]) -> Any:
            self.calls += 1
            if self.calls == 3:
                raise KeyboardInterrupt
            return super().embed(texts)

    memory = opened(embedder=Interrupting("other"), background=False)
    with pytest.raises(KeyboardInterrupt):
        memory.reembed()
    memory.reembed()
    assert memory.search("heron").degraded == ()
    assert memory.check() == []


# ---------------------------------------------------------------- closing and deadlines


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_no_file_is_open_after_closing(tmp_path: Path) -> None:
    def open_files() -> set[Path]:
        gc.collect()
        descriptors = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return {target for target in (path.readlink() for path in descriptors) if target.is_relative_to(tmp_path)}

    before = set(threading.enumerate())
    for _ in range(3):
        async with await AsyncMemory.open(tmp_path / "store", embedder=WordEmbedder()) as memory:
            await memory.add_many(notes(20), wait=True)
            await memory.index()
            await cancelled_after(3, memory.search("heron"))
            await asyncio.gather(*(memory.search("heron") for _ in range(5)))
            assert open_files()
    assert open_files() == set()
    new = [thread for thread in threading.enumerate() if thread.name.startswith("fourfold") and thread not in before]
    assert not [thread for thread in new if not thread.daemon]


@pytest.mark.spec("S2.6")
def test_a_read_past_its_deadline_is_ended(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = opened(background=False)
    memory.add_many([NewItem(f"text {n}", path=f"folder/{n}.md") for n in range(400)])
    looked_at: list[str] = []

    def slowly(glob: str, path: str) -> bool:
        looked_at.append(path)
        time.sleep(0.01)
        return True

    with monkeypatch.context() as slow:
        slow.setattr("fourfold.storage.sqlite.database.matches", slowly)
        slow.setattr("fourfold.limits.READ_SECONDS", 0.05)
        for _ in range(3):
            with pytest.raises(TimedOut) as raised:
                memory.list(Filters(path="folder/*"), limit=1000)
            assert raised.value.remedy
    assert len(looked_at) < 600  # of 1200, if every read had run to its end
    assert len(memory.list(Filters(path="folder/*"), limit=1000)) == 400


@pytest.mark.spec("S1.8", "S2.6")
def test_a_search_that_waits_for_the_model_ends_with_an_error_when_the_memory_closes(opened: Opener) -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Slow(WordEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            asked.set()
            assert go_on.wait(60)
            return super().embed(texts)

    memory = opened(embedder=Slow(), background=False)
    first = begin(partial(memory.search, "heron"))
    assert asked.wait(60)
    second = begin(partial(memory.search, "heron"))
    time.sleep(0.05)  # the second search is queued behind the first
    closing = begin(memory.close)
    time.sleep(0.05)
    go_on.set()
    closing.result(60)
    found = first.exception(60) or first.result()
    assert isinstance(found, SearchResponse | StoreUnavailable)
    assert isinstance(second.exception(60), StoreUnavailable)
    with pytest.raises(StoreUnavailable, match="closed"):
        memory.search("heron")


def test_searches_of_many_threads_end_when_the_memory_closes(opened: Opener) -> None:
    memory = opened()
    memory.add_many(notes(30), wait=True)
    ends = outcomes(*[partial(memory.search, "heron")] * 8, memory.close)
    assert all(isinstance(end, SearchResponse | StoreUnavailable) for end in ends[:8])
    assert results(lambda: opened().search("heron").degraded) == [()]

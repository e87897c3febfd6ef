"""Calls in threads, coroutines and forked children; cancelled, interrupted and closed in between."""

import asyncio
import gc
import inspect
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from concurrently import begin, results
from engine_support import Opener, WordEmbedder, notes, texts

from fourfold import AsyncMemory, BaseEmbedder, Filters, Memory, NewItem, SearchResponse
from fourfold.errors import NotFound, StoreUnavailable, TimedOut, WorldError
from fourfold.storage.protocols import Snapshot, Transaction
from fourfold.storage.sqlite.store import TemporaryStore

# ---------------------------------------------------------------- AsyncMemory and threads


ROOT = Path(__file__).parents[3]


# ---------------------------------------------------------------- AsyncMemory


class SlowStore(TemporaryStore):
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


WAITING = {
    "search": lambda memory: memory.search("heron"),
    "add": lambda memory: memory.add("heron"),
    "list": lambda memory: memory.list(),
    "count": lambda memory: memory.count(),
    "why": lambda memory: memory.why("key:heron", "heron"),
    "nodes": lambda memory: memory.nodes(),
}


@pytest.mark.parametrize("name", WAITING)
async def test_a_slow_store_does_not_delay_a_concurrent_coroutine(name: str) -> None:
    store = SlowStore()
    store.released.set()
    memory = await AsyncMemory.open(store, embedder="none", background=False)
    await memory.add(NewItem("heron", key="heron"))
    store.released.clear()
    store.waiting.clear()
    call = asyncio.create_task(WAITING[name](memory))
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
    store = SlowStore()
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


def test_closing_twice_is_harmless_and_a_failed_open_leaves_no_thread(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "store", embedder="none")
    memory.add(NewItem("heron"))
    memory.close()
    memory.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        memory.add("otter")
    (tmp_path / "file").write_text("x")
    before = threading.active_count()
    with pytest.raises(WorldError):
        Memory.open(tmp_path / "file" / "store", embedder="none")
    assert threading.active_count() == before


# ---------------------------------------------------------------- forks


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    ("script", "lines"),
    [(BLOCKING, ["refused True"] * 5 + ["3 []"]), (ASYNC, ["refused", "1"])],
    ids=["blocking", "async"],
)
def test_a_forked_child_is_refused_at_once_and_the_parent_continues(script, lines, tmp_path):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (0, lines), done.stderr


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
    memory = begin(lambda: Memory.open(tmp_path / "store", embedder=WordEmbedder())).result(60)

    def work(number: int) -> int:
        found = memory.add(NewItem(f"thread {number}", key=str(number)), wait=True)
        assert texts(memory.search(f"thread {number}", only=["keyword"]))[0] == f"thread {number}"
        return found.id

    assert len(set(results(*(partial(work, number) for number in range(12))))) == memory.count() == 12
    counts = results(*[lambda: len(memory.search("thread", top_k=100).results)] * 8)
    assert (set(counts), memory.check()) == ({12}, [])
    memory.close()


# ---------------------------------------------------------------- cancelled and interrupted calls


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

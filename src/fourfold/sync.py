"""Memory for scripts and notebooks: the same methods, without await."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from fourfold.config import Settings
from fourfold.errors import RequestError
from fourfold.memory import Memory
from fourfold.processes import Owner

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Memory, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncMemory, P], T]:
    """The method of Memory, with its parameters and its result, waiting until it is done."""

    @wraps(method)
    def call(self: SyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._done(method.__name__, method(self._memory, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return call


def _opening(method: Callable[P, Coroutine[Any, Any, Memory]]) -> Callable[P, SyncMemory]:
    """A function that opens a memory in an event loop of its own."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> SyncMemory:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="fourfold-loop", daemon=True)
        thread.start()
        try:
            return SyncMemory(_wait(loop, method(*args, **kwargs)), loop, thread)
        except BaseException:
            _stop(loop, thread)
            raise

    return call


def _alone(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The function, run in an event loop that ends with it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return asyncio.run(function(*args, **kwargs))

    return call


class SyncMemory:
    """Every method of Memory, blocking until it is done. It runs in an event loop of its own, in a thread of its own.

    with SyncMemory.open("notes") as memory:
        memory.add("The router's password is in the blue folder")
        print(memory.search("network access").results[0].item.text)

    Threads may share it. A forked child, and a callback of one of its methods, may not use it.
    """

    def __init__(self, memory: Memory, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        self._memory = memory
        self._loop = loop
        self._thread = thread
        self._owner = Owner()

    open = staticmethod(_opening(Memory.open))
    restore = staticmethod(_alone(Memory.restore))

    # storing
    add = _blocking(Memory.add)
    add_many = _blocking(Memory.add_many)
    update = _blocking(Memory.update)
    get = _blocking(Memory.get)
    around = _blocking(Memory.around)
    list = _blocking(Memory.list)
    count = _blocking(Memory.count)
    forget = _blocking(Memory.forget)
    forget_matching = _blocking(Memory.forget_matching)
    unknown_names = _blocking(Memory.unknown_names)
    add_raw = _blocking(Memory.add_raw)
    get_raw = _blocking(Memory.get_raw)
    list_raw = _blocking(Memory.list_raw)
    forget_raw = _blocking(Memory.forget_raw)
    sources = _blocking(Memory.sources)
    # searching
    search = _blocking(Memory.search)
    why = _blocking(Memory.why)
    # vectors and files
    embed_pending = _blocking(Memory.embed_pending)
    reembed = _blocking(Memory.reembed)
    index_folders = _blocking(Memory.index_folders)
    index = _blocking(Memory.index)
    # graph
    add_node = _blocking(Memory.add_node)
    add_edge = _blocking(Memory.add_edge)
    add_edges = _blocking(Memory.add_edges)
    nodes = _blocking(Memory.nodes)
    node = _blocking(Memory.node)
    neighbors = _blocking(Memory.neighbors)
    path = _blocking(Memory.path)
    remove_node = _blocking(Memory.remove_node)
    remove_edge = _blocking(Memory.remove_edge)
    # the whole
    tags = _blocking(Memory.tags)
    kinds = _blocking(Memory.kinds)
    metadata_keys = _blocking(Memory.metadata_keys)
    namespaces = _blocking(Memory.namespaces)
    status = _blocking(Memory.status)
    check = _blocking(Memory.check)
    repair = _blocking(Memory.repair)
    backup = _blocking(Memory.backup)
    export = _blocking(Memory.export)
    move = _blocking(Memory.move)
    import_file = _blocking(Memory.import_file)

    @property
    def namespace(self) -> str:
        return self._memory.namespace

    @property
    def settings(self) -> Settings:
        return self._memory.settings

    def within(self, namespace: str) -> SyncMemory:
        """The same store, acting on another namespace. It shares everything with this object, and closes with it."""
        return SyncMemory(self._memory.within(namespace), self._loop, self._thread)

    def troubles(self) -> dict[str, str]:
        """What goes wrong in the background, with the reason; searches say it in their notes."""
        return self._memory.troubles()

    def close(self) -> None:
        """Closes the memory. In a forked child it does nothing: what is open belongs to the parent."""
        if self._loop.is_closed() or not self._owner.is_here:
            return
        try:
            _wait(self._loop, self._memory.close())
        finally:
            _stop(self._loop, self._thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _done(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        """What the work gives; refused where nobody would do it."""
        try:
            self._owner.check()
            if threading.current_thread() is self._thread:
                raise RequestError(
                    f"{name} was called from a callback of this memory, which waits for the callback",
                    "Call it after the method that took the callback has returned",
                )
        except BaseException:
            work.close()
            raise
        return _wait(self._loop, work)


def _wait(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    _wait(loop, loop.shutdown_default_executor())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()

"""Memory for scripts and notebooks: the same methods, without await."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from fourfold.errors import RequestError
from fourfold.memory import Memory
from fourfold.processes import Owner

T = TypeVar("T")


class SyncMemory:
    """Every method of Memory, blocking until it is done. It runs in an event loop of its own, in a thread of its own.

    with SyncMemory.open("notes") as memory:
        memory.add("The router's password is in the blue folder")
        print(memory.search("network access").results[0].item.text)
    """

    def __init__(self, memory: Memory, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        self._memory = memory
        self._owner = Owner()
        self._loop = loop
        self._thread = thread

    @classmethod
    def open(cls, *args: Any, **kwargs: Any) -> Self:
        """Takes what Memory.open takes."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="fourfold-loop", daemon=True)
        thread.start()
        try:
            return cls(_wait(loop, Memory.open(*args, **kwargs)), loop, thread)
        except BaseException:
            _stop(loop, thread)
            raise

    @staticmethod
    def restore(source: str | Path, store: str | Path | None = None) -> None:
        """Puts a backup into a folder that holds no store yet."""
        asyncio.run(Memory.restore(source, store))

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._memory, name)
        return self._blocking(attribute) if inspect.iscoroutinefunction(attribute) else attribute

    def _blocking(self, method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> T:
            self._owner.check()
            if threading.current_thread() is self._thread:
                raise RequestError(
                    f"{method.__name__} was called from a callback of this memory, which waits for the callback",
                    "Call it after the method that took the callback has returned",
                )
            return _wait(self._loop, method(*args, **kwargs))

        return call

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


def _wait(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    _wait(loop, loop.shutdown_default_executor())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()

"""Threads, and waits for them, that Ctrl-C cannot leave locked.

KeyboardInterrupt may follow any call in the main thread. Event, Condition, Future, Queue and ThreadPoolExecutor take
their locks in Python code; an interrupt inside of it leaves the lock taken, and every later call waits forever. Here a
lock is taken by a `with` statement on a lock of C, which is entered as a whole, or it belongs to one waiting thread.
"""

from __future__ import annotations

import _thread
import atexit
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, Generic, TypeVar, cast
from weakref import WeakSet

from fourfold.errors import WorldError

T = TypeVar("T")

_RECHECK_SECONDS = 1.0
"""Waiting threads look at their flags this often: Ctrl-C may have kept `set` from waking one."""


class Flag:
    """Is set once, and can be waited for."""

    def __init__(self) -> None:
        self.is_set = False
        self.waiting: deque[threading.Lock] = deque()
        """A lock of each waiting thread, which its release wakes."""

    def set(self) -> None:
        self.is_set = True
        while self.waiting:
            with suppress(IndexError, RuntimeError):  # another thread has woken that one
                self.waiting.popleft().release()

    def wait(self, seconds: float | None = None) -> bool:
        """Returns whether the flag was set in time."""
        return wait_for_any(self, seconds=seconds)


def wait_for_any(*flags: Flag, seconds: float | None = None) -> bool:
    """Returns whether one of the flags was set in time."""
    until = math.inf if seconds is None else time.monotonic() + seconds
    own = threading.Lock()
    own.acquire()
    try:
        for flag in flags:
            flag.waiting.append(own)
        while not any([flag.is_set for flag in flags]):  # noqa: C419  an interrupted generator swallows Ctrl-C
            left = until - time.monotonic()
            if left <= 0:
                return False
            own.acquire(timeout=min(left, _RECHECK_SECONDS))
        return True
    finally:
        for flag in flags:
            with suppress(ValueError):
                flag.waiting.remove(own)


class Task(Generic[T]):
    """A call that runs in another thread."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call: Callable[[], T] | None = call
        self._result: T | None = None
        self._error: BaseException | None = None
        self.done = Flag()

    def run(self) -> None:
        """In the thread."""
        try:
            if self._call is not None:
                self._result = self._call()
        except BaseException as error:  # noqa: BLE001  raised again by `result`
            self._error = error
        finally:
            self._call = None
            self.done.set()
            del self  # the traceback of an error refers to this frame

    def fail(self, error: BaseException) -> None:
        """Instead of `run`."""
        self._call, self._error = None, error
        self.done.set()

    def result(self, seconds: float | None = None) -> T:
        """What the call returned or raised; TimeoutError if it has not ended in time."""
        if not self.done.wait(seconds):
            raise TimeoutError
        try:
            if self._error is not None:
                raise self._error
            return cast("T", self._result)
        finally:
            del self


NO_THREAD: Final = "can't start new thread"
"""What Python says if the system starts no more threads."""


def no_thread() -> WorldError:
    return WorldError("the system starts no more threads", "Raise the limit of processes (ulimit -u)")


def start(call: Callable[[], T], name: str) -> Task[T]:
    """Runs the call in a daemon thread of its own. The task has failed if the system starts no more threads."""
    task = Task(call)
    try:
        _thread.start_new_thread(_launch, (task, name))
    except RuntimeError:
        task.fail(no_thread())
    return task


def _launch(task: Task[T], name: str) -> None:
    """In a thread that ends at once, because Thread.start waits for an Event; if that one is the last, it does it."""
    try:
        threading.Thread(target=task.run, name=name, daemon=True).start()
    except RuntimeError:
        task.run()


class Workers:
    """At most `count` threads, started when they are needed, that run calls in their order.

    If the system starts no more threads, those that run do the work; if none does, the call has failed.
    """

    def __init__(self, count: int, name: str) -> None:
        self.count = count
        self._name = name
        self._calls: SimpleQueue[Task[object] | None] = SimpleQueue()
        self._changing = threading.Lock()
        self._threads: list[Task[None]] = []
        self._unfinished = 0
        """Calls that have not ended. Ctrl-C may make it too large, which only starts a thread early."""
        self._closed = False
        _open_workers.add(self)

    def submit(self, call: Callable[[], T]) -> Task[T]:
        task = Task(call)
        with self._changing:
            if self._closed:
                raise RuntimeError("these threads were ended")
            if len(self._threads) < min(self.count, self._unfinished + 1):
                thread = start(self._work, self._name)
                if not thread.done.is_set:  # it runs, since only closing ends it
                    self._threads.append(thread)
                elif not self._threads:
                    task.fail(no_thread())
                    return task
            self._unfinished += 1
            self._calls.put(cast("Task[object]", task))
        return task

    def _work(self) -> None:
        while (task := self._calls.get()) is not None:
            task.run()
            del task  # its result must not live until the next call
            with self._changing:
                self._unfinished -= 1
        self._calls.put(None)  # for the others, one of which Ctrl-C may have kept out of the list

    def forget_threads(self) -> None:
        """In a forked child, which has none of them."""
        self._threads.clear()
        self._changing = threading.Lock()

    def close(self) -> None:
        """Waits for all calls that were submitted."""
        with self._changing:
            self._closed = True
            threads = list(self._threads)
        self._calls.put(None)
        for thread in threads:
            thread.done.wait()


_open_workers: WeakSet[Workers] = WeakSet()


def _forget_threads() -> None:
    for workers in list(_open_workers):
        workers.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


@atexit.register
def _close_workers() -> None:
    """Native code in a daemon thread must not outlive the interpreter."""
    for workers in list(_open_workers):
        workers.close()

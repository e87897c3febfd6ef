"""Calls that run in threads at the same time."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any


def outcomes(*calls: Callable[[], Any]) -> list[Any]:
    """The result or the error of each call; all of them start together."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        start.wait()
        try:
            return call()
        except Exception as error:  # noqa: BLE001 (the caller asserts which errors came)
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def results(*calls: Callable[[], Any]) -> list[Any]:
    """The result of each call; the first error is raised when all have ended."""
    found = outcomes(*calls)
    for outcome in found:
        if isinstance(outcome, Exception):
            raise outcome
    return found


def begin(call: Callable[[], Any]) -> Future[Any]:
    """Starts a call in a thread of its own; `result(seconds)` waits for it."""
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # noqa: BLE001 (raised again by `result`)
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


def interrupted(step: int, call: Callable[[], Any]) -> bool:
    """Raises KeyboardInterrupt where CPython does, at this step; False if the call ended before.

    CPython handles signals when a function begins and when a call of C code has returned.
    """
    left = step

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        left -= event in ("call", "c_return")
        if left < 0:
            raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def every_interruption(call: Callable[[], Any]) -> Iterator[int]:
    """Interrupts the call at its first step, its second, and so on up to its end; yields after each."""
    step = 0
    while interrupted(step, call):
        yield step
        step += 1
    assert step > 3

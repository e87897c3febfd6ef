"""Calls that run in threads at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
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

"""Turns is a FIFO semaphore with a maximum wait: a few searches run at a time."""

from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace

import pytest
from concurrently import begin
from engine_support import eventually

from fourfold import scheduling
from fourfold.scheduling import Turns


class Entered:
    """Threads that each hold a turn until told to end, listed in the order of their turns."""

    def __init__(self, turns: Turns, count: int, seconds: float = 60.0) -> None:
        self.order: list[int] = []
        self.ends = [threading.Event() for _ in range(count)]
        self._turns = turns
        self._seconds = seconds
        self.calls = []
        for number in range(count):
            self.calls.append(begin(lambda number=number: self._enter(number)))
            eventually(lambda number=number: len(turns._waiting) + len(self.order) > number)

    def _enter(self, number: int) -> None:
        with self._turns.turn(self._seconds):
            self.order.append(number)
            assert self.ends[number].wait(60)

    def end(self, *numbers: int) -> None:
        for number in numbers:
            self.ends[number].set()
        for number in numbers:
            self.calls[number].result(60)


def test_a_limited_number_enters_and_the_others_follow_in_order() -> None:
    entered = Entered(Turns(2), 5)
    assert entered.order == [0, 1]
    entered.end(1)
    eventually(lambda: len(entered.order) == 3)
    entered.end(0)
    eventually(lambda: len(entered.order) == 4)
    entered.end(2)
    eventually(lambda: len(entered.order) == 5)
    assert entered.order == [0, 1, 2, 3, 4]
    entered.end(3, 4)


def test_a_caller_proceeds_without_a_turn_after_the_maximum_wait() -> None:
    turns = Turns(1)
    entered = Entered(turns, 3, 0.01)
    eventually(lambda: len(entered.order) == 3)
    entered.end(0, 1, 2)
    with turns.turn(60) as granted, turns.turn(0) as second:
        assert (granted, second) == (True, False)  # callers without a turn release none


def test_a_turn_is_released_by_a_block_that_raises() -> None:
    turns = Turns(1)
    with pytest.raises(ZeroDivisionError), turns.turn(60):
        raise ZeroDivisionError
    begin(turns.turn(60).__enter__).result(10)


def test_ctrl_c_while_waiting_for_a_turn_takes_none() -> None:
    turns = Turns(1)
    with turns.turn(60):
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt), turns.turn(60):
            raise AssertionError("a second turn was granted")
    assert not turns._waiting
    begin(turns.turn(60).__enter__).result(10)


def test_ctrl_c_that_arrives_with_the_turn_releases_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        """A lock that is granted and then interrupted before the waiting thread can continue."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self.release = self._lock.release

        def acquire(self, timeout: float = -1) -> bool:
            assert self._lock.acquire(timeout=timeout)
            if timeout > 0:
                raise KeyboardInterrupt
            return True

    turns = Turns(1)
    holding = turns.turn(60)
    holding.__enter__()
    with monkeypatch.context() as patched:
        patched.setattr(scheduling, "threading", SimpleNamespace(Lock=Interrupted))
        waiting = begin(turns.turn(60).__enter__)
        eventually(lambda: turns._waiting)
    holding.__exit__(None, None, None)
    assert isinstance(waiting.exception(60), KeyboardInterrupt)
    begin(turns.turn(60).__enter__).result(10)

"""A few searches at a time; the others in order, and none for long behind slow ones."""

from __future__ import annotations

import asyncio

import pytest

from fourfold.turns import Turns


async def inside(turns: Turns, name: int, log: list[int], end: asyncio.Event) -> None:
    async with turns.turn():
        log.append(name)
        await end.wait()


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_few_go_at_once_and_the_others_in_order() -> None:
    turns, log = Turns(2, 60.0), list[int]()
    ends = [asyncio.Event() for _ in range(5)]
    tasks = [asyncio.create_task(inside(turns, number, log, end)) for number, end in enumerate(ends)]
    await settled()
    assert log == [0, 1]
    ends[1].set()
    await settled()
    assert log == [0, 1, 2]
    ends[0].set()
    ends[2].set()
    await settled()
    assert log == [0, 1, 2, 3, 4]
    for end in ends:
        end.set()
    await asyncio.gather(*tasks)


async def test_nobody_waits_for_long_behind_slow_ones() -> None:
    turns, log, end = Turns(1, 0.01), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(inside(turns, number, log, end)) for number in range(3)]
    async with asyncio.timeout(10):
        while len(log) < 3:
            await asyncio.sleep(0.005)
    end.set()
    await asyncio.gather(*tasks)
    assert log == [0, 1, 2]


@pytest.mark.parametrize("waiting", [False, True])
async def test_one_that_is_cancelled_or_fails_takes_no_turn_with_it(waiting: bool) -> None:
    turns, log, end = Turns(1, 60.0), list[int](), asyncio.Event()
    first = asyncio.create_task(inside(turns, 0, log, end))
    second = asyncio.create_task(inside(turns, 1, log, end))
    await settled()
    (second if waiting else first).cancel()
    await settled()
    end.set()
    await asyncio.gather(first, second, return_exceptions=True)
    with pytest.raises(ZeroDivisionError):
        async with turns.turn():
            raise ZeroDivisionError
    async with asyncio.timeout(10), turns.turn():
        log.append(2)
    assert log == ([0, 2] if waiting else [0, 1, 2])

"""A move that is killed leaves no copy of the store behind, and the same call completes it."""

from __future__ import annotations

import signal
from pathlib import Path

import postgres_servers
import pytest
import trust_child
from trust_move_work import move_and_die

from fourfold.errors import StoreNotEmpty
from fourfold.memory import Memory
from fourfold.model import NewItem

ITEMS = 6000
"""Enough items for a load to take more than one batch."""


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, fast_folder: Path) -> Path | str:
    return fast_folder / "copy" if request.param == "sqlite" else postgres_servers.fresh()


@pytest.mark.spec("B9")
@pytest.mark.parametrize("reports", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in (6, 8))])
def test_a_killed_move_leaves_nothing_in_the_temporary_folder_and_is_completed_by_the_next(
    fast_folder: Path, target: Path | str, reports: int
) -> None:
    temporary = fast_folder / "temporary"
    temporary.mkdir()
    with Memory.open(fast_folder / "store", embedder="none", background=False) as memory:
        memory.add_many([NewItem(f"A secret of number {number}") for number in range(ITEMS)])
        child = trust_child.start(move_and_die, fast_folder / "store", target, temporary, reports)
        child.join()
        assert child.exitcode == -signal.SIGKILL
        assert list(temporary.iterdir()) == []
        with Memory.open(target, embedder="none", background=False) as copy:
            moved = memory.move(copy.store)
            assert moved.counts["item"] == ITEMS
            assert copy.check() == []
            assert memory.move(copy.store) == moved
            memory.add("one more")
            with pytest.raises(StoreNotEmpty):
                memory.move(copy.store)

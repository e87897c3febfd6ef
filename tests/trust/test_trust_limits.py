"""Limits and results of writes while other processes change the same item."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import postgres_servers
import pytest
import trust_child
from trust_limits_work import add_often, crowd, forget_often

from fourfold import limits
from fourfold.memory import Memory
from fourfold.model import NewItem

WRITERS = 4


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    return tmp_path / "store" if request.param == "sqlite" else postgres_servers.fresh()


def concurrently(*calls: tuple[Callable[..., Any], *tuple[Any, ...]]) -> list[Any]:
    """Runs each call in a process of its own, all at the same time; returns their results."""
    with ThreadPoolExecutor(len(calls)) as threads:
        return [done.result() for done in [threads.submit(trust_child.run, *call) for call in calls]]


@pytest.mark.spec("B7")
@pytest.mark.parametrize("rounds", [30, pytest.param(500, marks=pytest.mark.soak)])
def test_processes_that_change_one_item_keep_its_limits(where: Path | str, rounds: int) -> None:
    with Memory.open(where, embedder="none", background=False) as memory:
        item = memory.add(NewItem("contested", tags=("tag",))).id
        refused = concurrently(*((crowd, where, item, who, rounds) for who in range(WRITERS)))
        assert sum(refused) > 0
        assert memory.check() == []
        assert len(memory.get([item])[0].tags) <= limits.TAGS


@pytest.mark.spec("B7")
@pytest.mark.parametrize("rounds", [60, pytest.param(1500, marks=pytest.mark.soak)])
def test_add_returns_the_item_while_another_process_forgets_it(where: Path | str, rounds: int) -> None:
    wrong, *gone = concurrently((add_often, where, rounds), (forget_often, where), (forget_often, where))
    assert wrong == []
    assert sum(gone) > 0

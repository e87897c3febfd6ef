"""A kill while near-duplicates are merged, or while a merge is undone, loses no item."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import trust_child

from fourfold.memory import Memory
from fourfold.model import NewItem

PAIRS = 30


def text(number: int, end: str) -> str:
    return f"The key of room {number} is in the blue box{end}"


def merge_and_restore(folder: Path, seed: int, begun: Any) -> None:
    """Merges pairs and undoes the merges, until killed."""
    chance = random.Random(seed)
    with Memory.open(folder, embedder="none", background=False) as memory:
        begun.send("begun")
        while True:
            kept = 2 * chance.randrange(PAIRS) + 1
            if memory.get([kept + 1])[0].version_of is None:
                memory.merge(kept, [kept + 1])
            else:
                memory.undo(kept, to=kept + 1)


@pytest.mark.spec("C15", "B1")
@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.soak)])
def test_a_kill_while_items_are_merged_loses_none(tmp_path: Path, kills: int) -> None:
    chance = random.Random(7)
    with Memory.open(tmp_path, embedder="none", background=False) as memory:
        for number in range(PAIRS):
            memory.add(NewItem(text(number, "")))
            memory.add(NewItem(text(number, "."), key=f"b{2 * number + 1}", tags=("copy",)))
    states = set[bool]()
    for _ in range(kills):
        mine, theirs = trust_child.context().Pipe(duplex=False)
        child = trust_child.start(merge_and_restore, tmp_path, chance.randrange(1 << 30), theirs)
        mine.recv()
        child.join(chance.random() / 2)
        child.kill()
        child.join()
        states |= trust_child.run(found_states, tmp_path)
    assert states == {True, False}


def found_states(folder: Path) -> set[bool]:
    """Which states occur among the pairs (merged or not); asserts that no item is lost."""
    found = set[bool]()
    with Memory.open(folder, embedder="none", background=False) as memory:
        assert memory.check() == []
        listed = {item.id for item in memory.list(limit=1000)}
        for number in range(PAIRS):
            kept, other = memory.get([2 * number + 1, 2 * number + 2])
            merged = other.version_of == kept.id
            assert (kept.text, kept.superseded_at, other.text) == (text(number, ""), None, text(number, "."))
            assert (other.key, other.tags) == (f"b{kept.id}", ("copy",))
            assert merged == (other.id not in listed)
            found.add(merged)
    return found

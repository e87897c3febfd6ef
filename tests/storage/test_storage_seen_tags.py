"""The cache of known tags: words that were never a tag are not looked up, and new tags are found at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fourfold import Memory, NewItem
from fourfold.storage.sqlite import connections


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path, embedder="none", background=False) as memory:
        yield memory


def tagged(memory: Memory, text: str) -> int:
    return memory.search(text).counts["tags"]


def test_a_new_tag_is_found_at_once(memory: Memory) -> None:
    memory.add_many([NewItem("a stork on the roof", tags=("birds",))])
    assert [tagged(memory, text) for text in ("birds", "trains")] == [1, 0]
    memory.add_many([NewItem("a signal at the line", tags=("trains",))])
    assert [tagged(memory, text) for text in ("birds", "trains")] == [1, 1]


def test_a_tag_that_reuses_the_id_of_a_removed_one_is_found(memory: Memory) -> None:
    memory.add_many([NewItem("a stork on the roof", tags=("birds",)), NewItem("a kite", tags=("toys",))])
    assert tagged(memory, "toys") == 1
    memory.forget([2])
    memory.repair(purge=True)  # removes unused tags
    memory.add_many([NewItem("a signal at the line", tags=("trains",))])
    assert [tagged(memory, text) for text in ("trains", "toys", "birds")] == [1, 0, 1]


def test_the_cache_is_off_for_too_many_tags(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_REMEMBERED", 3)
    for number in range(6):
        memory.add_many([NewItem(f"note {number}", tags=(f"tag{number}",))])
        assert [tagged(memory, f"tag{known}") for known in range(number + 1)] == [1] * (number + 1)

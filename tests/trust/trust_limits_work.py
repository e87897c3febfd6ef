"""Work of the processes in the tests of limits: they change one item at the same time."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from fourfold.errors import InvalidItem, NotFound
from fourfold.memory import Memory
from fourfold.model import Item, ItemPatch, NewItem


def crowd(where: Path | str, item: int, who: int, rounds: int) -> int:
    """Adds tags until that is refused, then removes some, and so on; returns the number of refusals."""
    refused = 0
    with Memory.open(where, embedder="none", background=False) as memory:
        for turn in range(rounds):
            tags = tuple(f"tag-{who}-{turn}-{number}" for number in range(9))
            try:
                memory.update(item, ItemPatch(add_tags=tags, metadata={tags[0]: "x" * 9000}))
            except InvalidItem:
                refused += 1
                mine = tuple(tag for tag in memory.get([item])[0].tags if tag.startswith(f"tag-{who}-"))
                gone = {f"tag-{who}-{earlier}-0": None for earlier in range(turn)}
                memory.update(item, ItemPatch(remove_tags=mine[:64], metadata=gone))
    return refused


LAST = "last"
"""The key of the item that is added last."""


def add_often(where: Path | str, rounds: int) -> list[str]:
    """Adds the same text repeatedly; returns the results that differ from what was added."""
    with Memory.open(where, embedder="none", background=False) as memory:
        added = [memory.add(NewItem("a text that comes and goes", tags=("tag",))) for _ in range(rounds)]
        memory.add(NewItem("no more texts come", key=LAST))
    return [repr(item) for item in added if not isinstance(item, Item) or item.tags != ("tag",)]


def forget_often(where: Path | str) -> int:
    """Forgets items until the last one has been added; returns how many it forgot."""
    gone, ended = 0, False
    with Memory.open(where, embedder="none", background=False) as memory:
        while not ended:
            found = memory.list()
            ended = any(item.key == LAST for item in found)
            for item in found:
                if item.key != LAST:
                    with suppress(NotFound):
                        gone += memory.forget([item.id])
    return gone

"""Ids of items, raw records and nodes: unique in a store, counted by each namespace for itself.

A namespace takes its ids from a block of its own, so that they say nothing about what other namespaces store. The first
namespace has the block 0 and the ids 1, 2, 3, ...; an id is never given twice.
"""

from __future__ import annotations

from fourfold.errors import StorageFull

BLOCK = 1_000_000_000
"""Ids of one block. Nine million blocks fit below LARGEST_ID."""

KINDS = ("items", "raw", "nodes")


def block_of(id: int) -> int:
    return id // BLOCK


def bounds(block: int) -> tuple[int, int]:
    """The ids of a block lie between these, which are no ids of it."""
    return block * BLOCK, (block + 1) * BLOCK


def check_room(last: int, count: int) -> None:
    """`last`: what the namespace gave last."""
    if last % BLOCK + count >= BLOCK:
        raise StorageFull("the namespace has used all of its ids", "Store what follows in another namespace")

"""The order of every ranking."""

from __future__ import annotations

from collections.abc import Mapping


def in_order(scores: Mapping[int, float]) -> list[int]:
    """Ids, best first, ties by id."""
    ids = sorted(scores)
    ids.sort(key=scores.__getitem__, reverse=True)
    return ids

"""Places of functions and classes in source code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """Lines first to last, both included, from 1, with the names down to them."""

    names: tuple[str, ...]
    first: int
    last: int


def around(whole: Part, inner: Sequence[Part]) -> list[Part]:
    """The inner parts, and the rest of the whole between them under its own name."""
    parts: list[Part] = []
    done = whole.first - 1
    for part in inner:
        if part.first > done + 1:
            parts.append(Part(whole.names, done + 1, part.first - 1))
        parts.append(part)
        done = part.last
    return [*parts, Part(whole.names, done + 1, whole.last)] if done < whole.last else parts

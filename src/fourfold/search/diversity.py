"""Small answers (B12): not everything from one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from fourfold.errors import InvalidQuery

T = TypeVar("T")


def at_most_per_source(results: Iterable[T], path: Callable[[T], str | None], per_source: int | None) -> Iterator[T]:
    """The results in their order without the surplus of any path; those without a path all stay. None: no limit."""
    taken: Counter[str] = Counter()
    for result in results:
        source = path(result)
        if per_source is None or source is None or taken[source] < per_source:
            yield result
        if source is not None:
            taken[source] += 1


def check_per_source(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidQuery(f"per_source is {value!r}", "It is a whole number from 1 upwards")
    return value

"""Small answers (B12): not everything from one file, and no text twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from fourfold.errors import InvalidQuery
from fourfold.model import Item, Result

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


def each_text_once(results: Iterable[Result]) -> Iterator[Result]:
    """The results in their order without chunks of files whose text an earlier one of another file has."""
    seen: dict[str, str] = {}
    for result in results:
        text, path = shared_text(result.item), result.item.path
        if text is None or path is None or seen.setdefault(text, path) == path:
            yield result


def with_copies(results: Iterable[Result], best: Iterable[Item]) -> list[Result]:
    """The results, each with the locations of its text in other files among the best items, in their order."""
    places: dict[str, dict[str, str]] = {}
    for item in best:
        text = shared_text(item)
        if text is not None and item.path is not None:
            places.setdefault(text, {}).setdefault(item.path, item.location or item.path)
    return [_with_copies(result, places.get(shared_text(result.item) or "", {})) for result in results]


def _with_copies(result: Result, places: Mapping[str, str]) -> Result:
    others = tuple(location for path, location in places.items() if path != result.item.path)
    return replace(result, also_in=others) if others else result


def shared_text(item: Item) -> str | None:
    """What makes chunks of different files copies of each other. None: the item is no chunk, or only a title."""
    return item.text.strip() or None if item.path is not None and item.key is None else None


def check_per_source(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidQuery(f"per_source is {value!r}", "It is a whole number from 1 upwards")
    return value

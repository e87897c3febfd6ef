"""The German words of a namespace, in which compounds are looked up: those of its live rows and no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fourfold.text.compounds import SortedLexicon


class LayeredLexicon:
    """The words of the published rows, without those that went with rows that died since, and the words of the tail.

    It answers as one sorted lexicon of the living would, without sorting the published words at every change.
    """

    def __init__(self, published: SortedLexicon, extinct: frozenset[str], tail: SortedLexicon) -> None:
        self._published: Final = published
        self._extinct: Final = extinct
        self._tail: Final = tail

    def __contains__(self, term: object, /) -> bool:
        return term in self._tail or (term in self._published and term not in self._extinct)

    def starting(self, prefix: str, limit: int) -> Sequence[str]:
        found = self._published.starting(prefix, limit + len(self._extinct)), self._tail.starting(prefix, limit)
        return self._first(*found, limit, str)

    def ending(self, suffix: str, limit: int) -> Sequence[str]:
        found = self._published.ending(suffix, limit + len(self._extinct)), self._tail.ending(suffix, limit)
        return self._first(*found, limit, _reversed)

    def containing(self, part: str, limit: int) -> Sequence[str]:
        found = self._published.containing(part, limit + len(self._extinct)), self._tail.containing(part, limit)
        return self._first(*found, limit, str)

    def _first(
        self, published: Sequence[str], tail: Sequence[str], limit: int, order: Callable[[str], str]
    ) -> Sequence[str]:
        return sorted({*published} - self._extinct | {*tail}, key=order)[:limit]


def _reversed(term: str) -> str:
    return term[::-1]

"""Contributions to results, made when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast, overload

from fourfold.retrieval import Contribution


class LazyContributions(Sequence[Contribution]):
    """The contributions to one result, made when they are first read: most callers read none."""

    __slots__ = ("_made", "_making", "_place")

    def __init__(self, making: Callable[[], Sequence[tuple[Contribution, ...]]], place: int) -> None:
        """`making`: of all results, of which this is the one at `place`."""
        self._making = making
        self._place = place
        self._made: tuple[Contribution, ...] | None = None

    def _lines(self) -> tuple[Contribution, ...]:
        if self._made is None:
            self._made = self._making()[self._place]
        return self._made

    @overload
    def __getitem__(self, index: int) -> Contribution: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Contribution, ...]: ...
    def __getitem__(self, index: int | slice) -> Contribution | tuple[Contribution, ...]:
        return self._lines()[index]

    def __len__(self) -> int:
        return len(self._lines())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._lines() == tuple(cast("Sequence[object]", other))

    def __hash__(self) -> int:
        return hash(self._lines())

    def __repr__(self) -> str:
        return repr(self._lines())

    def __reduce__(self) -> tuple[type, tuple[tuple[Contribution, ...]]]:
        return tuple, (self._lines(),)

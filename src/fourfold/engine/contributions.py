"""Contributions to results, made when they are first read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast, overload

from fourfold.ranking.fusion import Fusion
from fourfold.retrieval import Contribution

if TYPE_CHECKING:
    from fourfold.retrieval import Ints


@dataclass(eq=False)
class Lines:
    """The contributions to some items of a fusion."""

    fusion: Fusion
    ids: Ints

    @cached_property
    def of_all(self) -> Sequence[tuple[Contribution, ...]]:
        return self.fusion.lines(self.ids)


@dataclass(eq=False, repr=False, slots=True)
class LazyContributions(Sequence[Contribution]):
    """The contributions to one result, made when they are first read: most callers read none."""

    lines: Lines
    place: int

    def _lines(self) -> tuple[Contribution, ...]:
        return self.lines.of_all[self.place]

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

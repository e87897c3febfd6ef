"""Scores of items as columns: arrays of ids and numbers, and objects only where they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast, overload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Floats: TypeAlias = NDArray[np.float64]


class Hit(NamedTuple):
    id: int
    score: float


@dataclass(slots=True, eq=False, repr=False)
class Hits(Sequence[Hit]):
    """Hits stored as two arrays, which stay as they are; `Hit` objects are made on access only."""

    ids: Ints
    scores: Floats
    addresses: tuple[int | None, int | None] | None = field(default=None, init=False)
    """Of both arrays, once the kernel has read them."""

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Hit]:
        return map(Hit, self.ids.tolist(), self.scores.tolist())

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Hits: ...
    def __getitem__(self, index: int | slice) -> Hit | Hits:
        if isinstance(index, slice):
            return Hits(self.ids[index], self.scores[index])
        return Hit(int(self.ids[index]), float(self.scores[index]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(cast("Sequence[object]", other))

    def __repr__(self) -> str:
        return f"Hits({list(self)!r})"

    def __reduce__(self) -> tuple[type[Hits], tuple[Ints, Floats]]:
        """Copies have arrays at other addresses."""
        return Hits, (self.ids, self.scores)

    def by_id(self) -> dict[int, float]:
        return dict(zip(self.ids.tolist(), self.scores.tolist(), strict=True))


@dataclass(slots=True, eq=False)
class Numbers(Mapping[int, float]):
    """Numbers by id, stored as columns; a dict is made at the first access. An id's last number counts."""

    columns: tuple[Hits, ...]
    _by_id: dict[int, float] | None = None

    def _found(self) -> dict[int, float]:
        if self._by_id is None:
            self._by_id = {id: number for hits in self.columns for id, number in hits}
        return self._by_id

    def __getitem__(self, id: int) -> float:
        return self._found()[id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

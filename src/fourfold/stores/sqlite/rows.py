"""Rows of an index: each belongs to an item, none is ever changed, some are dead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from fourfold import native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class Rows:
    ids: Ints
    """The item of each row. An item that changed has a later row; only its last can be alive."""
    dead: Flags

    _LASTING: ClassVar = ("_order", "_sorted", "lengths")
    """What was computed and does not change when a row dies."""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def alive(self) -> Flags:
        return ~self.dead

    @cached_property
    def live(self) -> Ints:
        return np.flatnonzero(self.alive)

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.ids, kind="stable")

    @cached_property
    def _sorted(self) -> Ints:
        return self.ids[self._order]

    def find(self, ids: Ints) -> Ints:
        """The live rows of those of these items that have one."""
        return native.find(self._sorted, self._order, self.dead, ids) if len(self) else NONE

    def permitted(self, allowed: Ints | None) -> Ints:
        """The live rows of the allowed items; all live rows if None."""
        return self.live if allowed is None else self.find(allowed)

    def mask(self, allowed: Ints | None) -> Flags:
        """The same as flags."""
        if allowed is None:
            return self.alive
        mask = np.zeros(len(self), np.bool_)
        mask[self.find(allowed)] = True
        return mask

    def without(self, rows: Ints) -> Self:
        if not len(rows):
            return self
        dead = self.dead.copy()
        dead[rows] = True
        fewer = replace(self, dead=dead)
        fewer.__dict__.update({name: self.__dict__[name] for name in self._LASTING if name in self.__dict__})
        return fewer

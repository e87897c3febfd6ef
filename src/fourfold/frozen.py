"""Frozen dataclasses that are made quickly."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from functools import wraps
from operator import attrgetter
from typing import Any, TypeVar, cast, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(kind: type[T]) -> type[T]:
    """A dataclass that is frozen for type checkers only.

    A frozen one assigns each field by a call: an object of eleven fields takes 1.8 us instead of 0.2. For values of
    which every search makes many; what is stored is frozen.
    """
    return dataclass(kind)


def thawed(kind: type[T], *, by_place: bool = False) -> type[T]:
    """A subclass of a frozen dataclass with slots whose fields can be assigned, so that it is made in half of the time.

    An object of it becomes one of `kind` when that is assigned to its `__class__`.
    `by_place`: its constructor takes keyword-only fields by their places, after the others.
    """
    frozen: Any = kind
    ordered: list[Any] = sorted(fields(frozen), key=attrgetter("kw_only")) if by_place else [*fields(frozen)]
    same: list[tuple[str, Any, Any]] = []
    for each in ordered:
        keyword = each.kw_only and not by_place
        again = field(default=each.default, default_factory=each.default_factory, kw_only=keyword)
        same.append((each.name, each.type, again))
    assign = cast("Any", make_dataclass(kind.__name__, same)).__init__
    own = {"__slots__": (), "__init__": assign, "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    return cast("type[T]", type(kind.__name__, (kind,), own))


def quickly_made(kind: type[T]) -> type[T]:
    """Replaces `__init__` of a frozen dataclass with slots by one that takes half of the time.

    The generated one calls `object.__setattr__` for each field. This one lets the new object be an instance of a
    subclass that is not frozen while the fields are assigned. Instances of other subclasses are made as before.
    """
    frozen: Any = kind
    frozen_init = frozen.__init__
    open_kind: Any = thawed(kind)
    thaw, assign = object.__setattr__, open_kind.__init__

    @wraps(frozen_init)
    def init(self: Any, *args: Any, **named: Any) -> None:
        if self.__class__ is not kind:
            frozen_init(self, *args, **named)
            return
        thaw(self, "__class__", open_kind)
        assign(self, *args, **named)
        self.__class__ = kind

    frozen.__init__ = init
    return kind

"""Type checks of the arguments of public methods.

`@checks_arguments` on a class wraps its public methods and its constructor: an argument that does not match its
annotation raises an InvalidArgument that names the parameter and the expected type. `check_fields` does the same for
the fields of a dataclass. Annotations are read at the first call. An object whose `owner` is an `Owner` can be used in
the process that created it only.
"""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from functools import cache, wraps
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from fourfold.errors import InvalidArgument, StoreUnavailable

C = TypeVar("C", bound=type)

_CHECKED_ELEMENTS: Final = 1000
"""Number of elements of a collection that are checked."""
_SHAPES: Final = 256
"""Combinations of types of arguments that a function remembers as fitting."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """An accepted type: a test of a value, and the type's name in messages."""

    fits: Callable[[Any], bool]
    name: str
    types: set[type] = field(default_factory=set[type])
    """Types all of whose values fit, as far as they are known: a quick answer for most values."""


def checks_arguments(kind: C) -> C:
    """Check the arguments of every public method of a class."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, staticmethod):
            setattr(kind, name, staticmethod(_checking(getattr(kind, name), bound=False)))
        elif isinstance(member, classmethod):
            setattr(kind, name, classmethod(_checking(getattr(kind, name).__func__, bound=True)))
        elif isinstance(member, types.FunctionType):
            setattr(kind, name, _checking(member, bound=True, owned=name not in ("__init__", "close")))
    return kind


def _checking(function: Callable[..., Any], *, bound: bool, owned: bool = False) -> Callable[..., Any]:
    """Wrap a function in a check; `bound`: its first parameter is the object (perhaps `owned`) or class."""
    kinds: dict[str, _Kind | None] = {}
    fitting: set[tuple[Any, ...]] = set()

    def check(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if owned and (owner := getattr(args[0], "owner", None)) is not None:
            owner.check()
        shape = (*map(type, args), *kwargs, *map(type, kwargs.values()))
        if shape in fitting:
            return
        if not kinds:
            hints = hints_of(function)
            kinds.update({name: _kind(hints.get(name, Any)) for name in inspect.signature(function).parameters})
        named = [*zip(list(kinds)[bound:], args[bound:], strict=False), *kwargs.items()]
        every: list[tuple[str, _Kind, object]] = [
            (name, kind, value) for name, value in named if (kind := kinds.get(name)) is not None
        ]
        for name, kind, value in every:
            if not kind.fits(value):
                raise _wrong(_spelled(function, args, bound=bound), name, kind, value)
        if len(fitting) < _SHAPES and all(type(value) in kind.types for _, kind, value in every):
            fitting.add(shape)

    @wraps(function)
    def calling(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        return function(*args, **kwargs)

    return calling


def check_fields(value: object, kind: type, error: Callable[[str, str], Exception] = InvalidArgument) -> None:
    """Raise `error` if a value is not of this dataclass, or has a field of the wrong type."""
    if not isinstance(value, kind):
        raise error(f"{_shown(value)} is a {type(value).__name__}", f"Give a {kind.__name__}")
    for name, wanted, default in _field_kinds(kind):
        held = getattr(value, name)
        if held is not default and type(held) not in wanted.types and not wanted.fits(held):
            raise error(f"{name} of {kind.__name__} is {_shown(held)}, a {type(held).__name__}", f"Give {wanted.name}")


@cache
def _field_kinds(kind: type) -> tuple[tuple[str, _Kind, Any], ...]:
    """Name, type and default value of each field, without those that take any value."""
    hints = hints_of(kind)
    kinds = [(field.name, _kind(hints[field.name]), field.default) for field in fields(cast("Any", kind))]
    return tuple((name, wanted, default) for name, wanted, default in kinds if wanted is not None)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _spelled(function: Callable[..., Any], args: tuple[Any, ...], *, bound: bool) -> str:
    """The name of a method as callers write it: with their class, not the one that defines it."""
    if not bound:
        return function.__qualname__
    kind = args[0] if isinstance(args[0], type) else type(args[0])
    return f"{kind.__name__}.{function.__name__}"


def _wrong(called: str, name: str, kind: _Kind, value: object) -> InvalidArgument:
    return InvalidArgument(
        f"{called}: {name} is {_shown(value)}, a {type(value).__name__}", f"Give {kind.name} as {name}"
    )


class Owner:
    """The process that created an object: a forked child has its memory, but not its threads, locks and connections."""

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        return os.getpid() == self._process

    def check(self) -> None:
        """Raise StoreUnavailable in a forked child, which would wait for threads that it does not have."""
        if os.getpid() != self._process:
            what = f"this memory was opened by process {self._process} and is used in its child {os.getpid()}"
            raise StoreUnavailable(what, "Open the store in the child, after the fork")


# ---------------------------------------------------------------- annotations


class Array(Protocol):
    """An array of numbers, from any library."""

    def __array__(self) -> Any: ...


_UNLOADED: Final[Mapping[str, Any]] = {"Vector": Array}
"""Types of names that modules import for type checkers only."""


@cache
def hints_of(function: Callable[..., Any] | type) -> Mapping[str, Any]:
    """Return the annotations; a name that is imported for type checkers only counts as Any."""
    local = dict(_UNLOADED)
    while True:
        try:
            return get_type_hints(function, localns=local)
        except NameError as missing:
            local[str(missing.name)] = Any


def _kind(hint: Any) -> _Kind | None:
    """The type for an annotation; None if it accepts anything."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        either = _either([_kind(part) for part in parts])
        return (
            either
            if either is None or Path not in parts
            else (
                _Kind(
                    lambda value: either.fits(value) and (not isinstance(value, str | Path) or is_nameable(value)),
                    f"{either.name}, without NUL and half surrogate pairs,",
                )
            )
        )
    if origin is Literal:
        return _Kind(lambda value: value in parts, f"one of {', '.join(map(repr, parts))}")
    if origin is not None:
        return _container(origin, parts)
    if hint is None or hint is type(None):
        return _Kind(lambda value: value is None, "None", {type(None)})
    if hint is float:
        return _Kind(
            lambda value: isinstance(value, int | float) and not isinstance(value, bool),
            "a number",
            {int, float},
        )
    if hint is int:
        return _Kind(lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number", {int})
    if not isinstance(hint, type) or hint in (Any, object):
        return None
    if getattr(hint, "_is_protocol", False):
        return _protocol(hint)
    named = {"str": "a string", "bool": "True or False"}.get(hint.__name__, f"a {hint.__name__}")
    return _Kind(lambda value: isinstance(value, hint), named, {hint})


def _either(kinds: Sequence[_Kind | None]) -> _Kind | None:
    restricted = [kind for kind in kinds if kind is not None]
    if len(restricted) < len(kinds):
        return None
    types = set[type]().union(*(kind.types for kind in restricted))

    def fits(value: Any) -> bool:
        fitting = next((kind for kind in restricted if kind.fits(value)), None)
        if fitting is not None:
            types.update(fitting.types)
        return fitting is not None

    return _Kind(fits, " or ".join(kind.name for kind in restricted), types)


def is_nameable(path: str | Path) -> bool:
    """Whether a path is a valid file name: without NUL, and encodable."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _container(origin: Any, parts: tuple[Any, ...]) -> _Kind:
    """The type for a generic annotation: elements of sequences, mappings and tuples are checked too."""
    if origin is Callable:
        return _Kind(callable, "a function")
    if issubclass(origin, tuple) and parts and parts[-1] is not Ellipsis:
        each = [_kind(part) for part in parts]
        name = f"({', '.join('anything' if kind is None else kind.name for kind in each)})"
        return _Kind(lambda value: isinstance(value, tuple | list) and _fit_all(each, cast("Any", value)), name)
    if issubclass(origin, Mapping):
        pair = [_kind(part) for part in parts]
        name = "a mapping" if len(pair) < 2 or pair[1] is None else f"a mapping, each value {pair[1].name}"
        return _Kind(
            lambda value: (type(value) is dict or isinstance(value, Mapping)) and _fit_pairs(pair, cast("Any", value)),
            name,
        )
    element = _kind(parts[0]) if parts and parts[0] is not float else None  # vectors have a check of their own
    name = "a list" if element is None else f"a list, each element {element.name}"
    accepts_sets = origin is tuple or not issubclass(origin, Sequence)
    return _Kind(lambda value: _is_listed(value, element, accepts_sets), name)


def _fit_all(kinds: Sequence[_Kind | None], values: Sequence[Any]) -> bool:
    pairs = zip(kinds, values, strict=False)
    return len(kinds) == len(values) and all(kind is None or kind.fits(value) for kind, value in pairs)


def _fit_pairs(pair: Sequence[_Kind | None], value: Mapping[Any, Any]) -> bool:
    return not value or all(_fit_all(pair, entry) for entry in islice(value.items(), _CHECKED_ELEMENTS))


def _is_listed(value: Any, element: _Kind | None, accepts_sets: bool) -> bool:
    """Whether a value is a sequence whose elements fit; a string is not accepted as a sequence of strings."""
    if isinstance(value, str | bytes | bytearray):
        return False
    is_sequence = type(value) in (list, tuple) or isinstance(value, Sequence)
    if not is_sequence and not (accepts_sets and isinstance(value, AbstractSet | Mapping)):
        return False
    elements = list(islice(cast("Sequence[Any]", value), _CHECKED_ELEMENTS))
    return element is None or element.types.issuperset(map(type, elements)) or all(map(element.fits, elements))


def _protocol(hint: type) -> _Kind:
    """The type of objects with the members of a protocol. Properties are not evaluated, as they may load a model."""
    members = [
        name
        for base in hint.__mro__
        if getattr(base, "_is_protocol", False)
        for name in (*vars(base), *vars(base).get("__annotations__", ()))
        if not name.startswith("_") or name == "__array__"
    ]

    types = set[type]()

    def fits(value: Any) -> bool:
        own = cast("Any", type(value))
        if issubclass(own, type):
            return False
        lacking = [name for name in members if not hasattr(own, name)]
        if not lacking:
            types.add(own)
        return all(hasattr(value, name) for name in lacking)

    name = f"an object with {', '.join(sorted(members))}" if len(members) < 9 else f"a {hint.__name__}"
    return _Kind(fits, name, types)

"""Arguments of public methods, checked against their annotations.

`@checks_arguments` on a class wraps its public methods and its constructor: an argument of the wrong type is an
InvalidArgument that names the parameter and what it takes. `check_fields` does the same for the fields of a value.
Whether a value of the right type is valid is for the method to say. Annotations are read at the first call.
An object with an `Owner` as `owner` can be used by the process that made it only.
"""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from functools import cache, wraps
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from fourfold.errors import InvalidArgument

C = TypeVar("C", bound=type)

_LOOKED_AT: Final = 1000
"""Elements of a sequence; the rest is of the same kind, or found when it is used."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a parameter takes: a test of a value, and its name in messages."""

    fits: Callable[[Any], bool]
    name: str


def checks_arguments(kind: C) -> C:
    """Checks the arguments of every public method of a class."""
    for name, found in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(found, staticmethod):
            setattr(kind, name, staticmethod(_checking(getattr(kind, name), bound=False)))
        elif isinstance(found, classmethod):
            setattr(kind, name, classmethod(_checking(getattr(kind, name).__func__, bound=True)))
        elif isinstance(found, types.FunctionType):
            setattr(kind, name, _checking(found, bound=True, owned=name not in ("__init__", "close")))
    return kind


def _checking(function: Callable[..., Any], *, bound: bool, owned: bool = False) -> Callable[..., Any]:
    """The function behind a check; `bound`: its first parameter is the object or class, which may be `owned`."""
    checks: list[tuple[str, _Kind | None]] = []
    by_name: dict[str, _Kind] = {}

    def check(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if not checks:
            found = _kinds(function)
            by_name.update({name: kind for name, kind in found.items() if kind is not None})
            checks.extend(found.items())
        if owned and (owner := getattr(args[0], "owner", None)) is not None:
            owner.check()
        for (name, kind), value in zip(checks[bound:], args[bound:], strict=False):
            if kind is not None and not kind.fits(value):
                raise _wrong(function, name, kind, value)
        for name, value in kwargs.items():
            kind = by_name.get(name)
            if kind is not None and not kind.fits(value):
                raise _wrong(function, name, kind, value)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def waiting(*args: Any, **kwargs: Any) -> Any:
            check(args, kwargs)
            return await function(*args, **kwargs)

        return waiting

    @wraps(function)
    def calling(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        return function(*args, **kwargs)

    return calling


def check_fields(value: object, kind: type, error: Callable[[str, str], Exception] = InvalidArgument) -> None:
    """Refuses what is not of this dataclass, or has a field of the wrong type."""
    if not isinstance(value, kind):
        raise error(f"{_shown(value)} is a {type(value).__name__}", f"Give a {kind.__name__}")
    for name, wanted in _field_kinds(kind):
        given = getattr(value, name)
        if not wanted.fits(given):
            raise error(
                f"{name} of {kind.__name__} is {_shown(given)}, a {type(given).__name__}", f"Give {wanted.name}"
            )


@cache
def _field_kinds(kind: type) -> tuple[tuple[str, _Kind], ...]:
    hints = _hints(kind)
    kinds = ((field.name, _kind(hints[field.name])) for field in fields(cast("Any", kind)))
    return tuple((name, found) for name, found in kinds if found is not None)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _wrong(function: Callable[..., Any], name: str, kind: _Kind, value: object) -> InvalidArgument:
    return InvalidArgument(
        f"{function.__qualname__}: {name} is {_shown(value)}, a {type(value).__name__}", f"Give {kind.name} as {name}"
    )


# ---------------------------------------------------------------- annotations


class Array(Protocol):
    """An array of numbers, whatever library it comes from."""

    def __array__(self) -> Any: ...


_UNLOADED: Final[Mapping[str, Any]] = {"Vector": Array}
"""Names that modules import for type checkers only."""


def _kinds(function: Callable[..., Any]) -> dict[str, _Kind | None]:
    hints = _hints(function)
    return {name: _kind(hints.get(name, Any)) for name in inspect.signature(function).parameters}


def _hints(function: Callable[..., Any] | type) -> dict[str, Any]:
    """The annotations; a name that is imported for type checkers only means anything."""
    local = dict(_UNLOADED)
    while True:
        try:
            return get_type_hints(function, localns=local)
        except NameError as missing:
            local[str(missing.name)] = Any


def _kind(hint: Any) -> _Kind | None:
    """What fits an annotation; None if anything does."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        either = _either([_kind(part) for part in parts])
        return either if either is None or Path not in parts else _nameable(either)
    if origin is Literal:
        return _Kind(lambda value: value in parts, f"one of {', '.join(map(repr, parts))}")
    if origin is not None:
        return _container(origin, parts)
    if hint is None or hint is type(None):
        return _Kind(lambda value: value is None, "None")
    if hint is float:
        return _Kind(lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number")
    if hint is int:
        return _Kind(lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number")
    if not isinstance(hint, type) or hint in (Any, object):
        return None
    if getattr(hint, "_is_protocol", False):
        return _protocol(hint)
    named = {"str": "a string", "bool": "True or False"}.get(hint.__name__, f"a {hint.__name__}")
    return _Kind(lambda value: isinstance(value, hint), named)


def _either(kinds: Sequence[_Kind | None]) -> _Kind | None:
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None
    return _Kind(lambda value: any(kind.fits(value) for kind in known), " or ".join(kind.name for kind in known))


def is_nameable(path: str | Path) -> bool:
    """Whether the system can name a file so: without NUL, and in its encoding."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _nameable(kind: _Kind) -> _Kind:
    """A path, or something else that fits."""
    return _Kind(
        lambda value: kind.fits(value) and (not isinstance(value, str | Path) or is_nameable(value)),
        f"{kind.name}, without NUL and half surrogate pairs,",
    )


def _container(origin: Any, parts: tuple[Any, ...]) -> _Kind:
    """Sequences with their elements, fixed tuples with each of theirs, and callables; other containers as a whole."""
    if origin is Callable:
        return _Kind(callable, "a function")
    if issubclass(origin, tuple) and parts and parts[-1] is not Ellipsis:
        each = [_kind(part) for part in parts]
        name = f"({', '.join('anything' if kind is None else kind.name for kind in each)})"
        return _Kind(lambda value: isinstance(value, tuple | list) and _fit_all(each, cast("Any", value)), name)
    if issubclass(origin, Mapping):
        pair = [_kind(part) for part in parts]
        name = "a mapping" if len(pair) < 2 or pair[1] is None else f"a mapping, each value {pair[1].name}"
        return _Kind(lambda value: isinstance(value, Mapping) and _fit_pairs(pair, cast("Any", value)), name)
    element = _kind(parts[0]) if parts and parts[0] is not float else None  # vectors have a check of their own
    name = "a list" if element is None else f"a list, each element {element.name}"
    accepts_sets = origin is tuple or not issubclass(origin, Sequence)
    return _Kind(lambda value: _is_listed(value, element, accepts_sets), name)


def _fit_all(kinds: Sequence[_Kind | None], values: Sequence[Any]) -> bool:
    pairs = zip(kinds, values, strict=False)
    return len(kinds) == len(values) and all(kind is None or kind.fits(value) for kind, value in pairs)


def _fit_pairs(pair: Sequence[_Kind | None], value: Mapping[Any, Any]) -> bool:
    return all(_fit_all(pair, entry) for entry in islice(value.items(), _LOOKED_AT))


def _is_listed(value: Any, element: _Kind | None, accepts_sets: bool) -> bool:
    """A string is a sequence of strings, but never meant as one."""
    if isinstance(value, str | bytes | bytearray):
        return False
    if not isinstance(value, Sequence) and not (accepts_sets and isinstance(value, AbstractSet | Mapping)):
        return False
    return element is None or all(element.fits(each) for each in islice(cast("Sequence[Any]", value), _LOOKED_AT))


def _protocol(hint: type) -> _Kind:
    """An object that has the members of the protocol. Properties are not evaluated: they may load a model."""
    members = [
        name
        for base in hint.__mro__
        if getattr(base, "_is_protocol", False)
        for name in (*vars(base), *vars(base).get("__annotations__", ()))
        if not name.startswith("_") or name == "__array__"
    ]

    def fits(value: Any) -> bool:
        return not isinstance(value, type) and all(_has(value, name) for name in members)

    return _Kind(fits, f"an object with {', '.join(sorted(members))}" if len(members) < 9 else f"a {hint.__name__}")


def _has(value: Any, name: str) -> bool:
    return hasattr(cast("object", type(value)), name) or name in getattr(value, "__dict__", {}) or hasattr(value, name)

"""Frozen values that are made quickly behave like those that dataclasses make."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from fourfold.frozen import quickly_made, thawed


@quickly_made
@dataclass(frozen=True, slots=True)
class Quick:
    kind: str
    names: list[str] = field(default_factory=list[str])
    self_made: bool = False


@dataclass(frozen=True, slots=True)
class Usual:
    kind: str
    names: list[str] = field(default_factory=list[str])
    self_made: bool = False


def test_values_and_defaults_are_those_of_the_dataclass() -> None:
    quick = Quick("a", self_made=True)
    assert (quick.kind, quick.names, quick.self_made) == ("a", [], True)
    assert quick.names is not Quick("a").names
    assert quick == Quick("a", [], True) != Quick("b", [], True)
    assert repr(quick) == repr(Usual("a", self_made=True)).replace("Usual", "Quick")
    assert inspect.signature(Quick) == inspect.signature(Usual)


def test_an_object_is_frozen_and_of_its_class() -> None:
    quick = Quick("a")
    assert type(quick) is Quick
    with pytest.raises(FrozenInstanceError):
        quick.kind = "b"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError):
        del quick.kind  # pyright: ignore[reportAttributeAccessIssue]


def test_copies_are_equal_and_frozen() -> None:
    quick = Quick("a", ["b"])
    for again in (copy.copy(quick), copy.deepcopy(quick), pickle.loads(pickle.dumps(quick)), replace(quick)):
        assert again == quick
        assert type(again) is Quick
    assert replace(quick, kind="c") == Quick("c", ["b"])


@pytest.mark.parametrize("arguments", [{}, {"kind": "a", "unknown": 1}])
def test_wrong_arguments_are_refused_as_by_a_dataclass(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as usual:
        Usual(**arguments)
    with pytest.raises(TypeError) as quick:
        Quick(**arguments)
    assert str(quick.value).removeprefix("Quick.") == str(usual.value).removeprefix("Usual.")


def test_subclasses_keep_their_class_and_fields() -> None:
    class Plain(Quick):
        """Has a dictionary, as it has no slots."""

    @dataclass(frozen=True)
    class Longer(Quick):
        more: int = 3

    assert type(Plain("a")) is Plain
    assert Plain("a", ["b"]).names == ["b"]
    assert Longer("a", more=4) == Longer("a", [], False, 4)


def test_an_object_of_the_thawed_class_becomes_a_frozen_one() -> None:
    made = thawed(Usual)("a")
    made.__class__ = Usual
    assert made == Usual("a")
    with pytest.raises(FrozenInstanceError):
        made.kind = "b"  # pyright: ignore[reportAttributeAccessIssue]

"""One filter grammar means the same on every store and in every retriever."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conformance_subjects import NOW, NS, RETRIEVERS, add, item, make, search, unit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourfold.filters import OPERATORS, Condition, Every, Not, Some, field_at, make_test, read_where, where_json
from fourfold.model import Filters

pytestmark = pytest.mark.spec("C7")

# ---------------------------------------------------------------- random conditions over random items

KEYS = ("n", "s", "mixed", "list", "map", "odd.key", 'quo"te', "$x", "nul", "0", "ü")
SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 10, 1.0, 0.5, -2.5, 1e22, 2**53 + 1, 2**62, -(2**63), float(2**60),
    2**60 + 5, "", "a", "b", "ab", "A", "1", "true", "null", "ä", "z\u0301", "😀", "\uffff", "%s",
    "'; DROP TABLE items; --", '"', "\\", "a\x00b", "$bound", "[1]",
)  # fmt: skip
TAGS = ("Work", "Straße", "notes", "2024")
KINDS = ("note", "code", "1")
PATHS = ("docs/a.md", "docs/deep/b.md", "/home/me/c.txt", "x[1].md")
GLOBS = ("docs/**", "*.md", "docs/a.md", "**", "/home/*/c.txt", "nirgends/*")

scalars = st.sampled_from(SCALARS)
keys = st.sampled_from(KEYS)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=5
)
metadata = st.dictionaries(keys, values, max_size=4)
times = st.integers(-3, 3).map(lambda hours: (NOW + timedelta(hours=hours * 12)).isoformat()) | st.sampled_from(
    ["2026-02-28", "2026-03-01", "2026-03-02", "2026-03-01T13:00+01:00"]
)


@st.composite
def fields(draw: st.DrawFn) -> tuple[Any, st.SearchStrategy[Any], bool]:
    """A field, the values to compare it with, and whether they are ordered."""
    null = st.none()
    name, operands, has_order = draw(
        st.sampled_from(
            [
                ("tags", st.sampled_from((*TAGS, "WORK", "strasse", "none")) | null, False),
                ("kind", st.sampled_from((*KINDS, "none")) | null, True),
                ("language", st.sampled_from(("de", "en", "fr")), True),
                ("path", st.sampled_from(GLOBS) | null, False),
                ("created_at", times | null, True),
                ("updated_at", times, True),
                ("key", st.sampled_from(("k1", "k5", "none")) | null, True),
                ("title", st.sampled_from(("", "Haus", "haus")), True),
                ("id", st.sampled_from((1, 5, 5.0, 7.5, 2**63 - 1, 10**30, -1)), True),
                ("chunk_index", st.sampled_from((0, 1, 2.5)) | null, True),
                (None, values, True),
                (None, values, True),
                (None, values, True),
            ]
        )
    )
    if name is not None:
        return field_at([name]), operands, has_order
    return field_at(["metadata", *draw(st.lists(keys, min_size=1, max_size=3))]), operands, has_order


@st.composite
def single(draw: st.DrawFn) -> Condition:
    field, operands, has_order = draw(fields())
    op = draw(st.sampled_from(OPERATORS))
    if op == "exists":
        return make_test(field, op, draw(st.booleans()))
    if op in ("in", "not in"):
        return make_test(field, op, draw(st.lists(operands, min_size=1, max_size=4)))
    if op in ("eq", "ne") or not has_order:
        return make_test(field, "ne" if op == "ne" else "eq", draw(operands))
    ordered = operands.filter(lambda value: isinstance(value, int | float | str) and not isinstance(value, bool))
    return make_test(field, op, draw(ordered))


conditions = st.recursive(
    single(),
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Every(tuple(parts)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: Some(tuple(parts)))
        | inner.map(Not)
    ),
    max_leaves=6,
)


@st.composite
def items(draw: st.DrawFn) -> list[Any]:
    return [
        item(
            f"Text {number}",
            title=draw(st.sampled_from(("", "Haus", "haus"))),
            key=draw(st.sampled_from((None, f"k{number}"))),
            tags=tuple(draw(st.lists(st.sampled_from(TAGS), max_size=3, unique=True))),
            kind=draw(st.sampled_from((None, *KINDS))),
            language=draw(st.sampled_from(("de", "en"))),
            created_at=NOW + timedelta(hours=12 * draw(st.integers(-3, 3))),
            metadata=draw(metadata),
            path=(path := draw(st.sampled_from((None, *PATHS)))),
            chunk_index=None if path is None else number,
        )
        for number in range(60)
    ]


class Pair:
    """The same items in the oracle and in the store under test."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.oracle = make("oracle", folder)
        self.subject = make(kind, folder)

    def fill(self, new: list[Any]) -> None:
        for store in (self.oracle, self.subject):
            store.put(NS, new, NOW)
        self.size = self.oracle.size(NS).items

    def matching(self, condition: Condition) -> tuple[list[int], list[int]]:
        filters = Filters(where=condition)
        return list(self.subject.ids(NS, filters)), list(self.oracle.ids(NS, filters))

    def close(self) -> None:
        self.oracle.close()
        self.subject.close()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(request.param, tmp_path_factory.mktemp("conditions") / "store")
    chosen: list[Any] = []

    @given(items())
    @settings(max_examples=6, database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    def choose(new: list[Any]) -> None:
        chosen.append(new)

    choose()
    for new in chosen:
        made.fill(new)
    yield made
    made.close()


@given(condition=conditions)
@settings(max_examples=2 * settings.default.max_examples, suppress_health_check=list(HealthCheck))
def test_random_conditions_mean_the_same_on_every_store(pair: Pair, condition: Condition) -> None:
    found, expected = pair.matching(condition)
    assert found == expected
    rest, _ = pair.matching(Not(condition))
    assert len(found) + len(rest) == pair.size


@given(condition=conditions)
@settings(suppress_health_check=list(HealthCheck))
def test_a_condition_as_json_means_the_same(condition: Condition) -> None:
    assert where_json(read_where(json.loads(json.dumps(where_json(condition)))) or condition) == where_json(condition)


# ---------------------------------------------------------------- chosen cases, on every store in every state


CASES: tuple[tuple[dict[str, Any], str, bool], ...] = (
    ({"line": 10}, "line = 10", True), ({"line": 10}, "line != 1000", True), ({"line": 10}, "line > 10", False),
    ({"line": 10}, "line <= 10", True), ({"line": 10}, 'line = "10"', False), ({"line": "10"}, "line = 10", False),
    ({"line": 10}, "line in (9, 10)", True), ({"line": 10}, "line not in (9, 10)", False), ({}, "line != 10", True),
    ({}, "line < 10", False), ({}, "not line < 10", True), ({}, "line exists", False),
    ({"line": None}, "line exists and line = null", True), ({}, "line = null", False),
    ({"on": True}, "on = true", True), ({"on": True}, "on = 1", False),
    ({"author": {"name": "Ada", "age": 36}}, "author.name = Ada and author.age >= 36", True),
    ({"author": {"name": "Ada"}}, "author.name.first = Ada", False),
    ({"author": {"name": "Ada"}}, "author exists and author.age not exists", True),
    ({"author": "Ada"}, "author.name = Ada", False), ({"a.b": 1}, '"a.b" = 1 and not a.b = 1', True),
    ({"a": {"b": 1}}, 'a.b = 1 and not "a.b" = 1', True),
    ({"kind": "x"}, "metadata.kind = x and kind not exists", True), ({"who": ["Ada", "Bob"]}, "who = Bob", True),
    ({"who": ["Ada", "Bob"]}, "who != Bob", False), ({"who": ["Ada", "Bob"]}, "who in (Eve, Ada)", True),
    ({"who": ["Ada", "Bob"]}, "who = [Ada, Bob]", True), ({"who": ["Ada", "Bob"]}, "who = [Bob, Ada]", False),
    ({"n": [1, 20]}, "n > 10 and n < 10", True), ({"n": [[20]]}, "n > 10", False),
    ({"deep": {"list": [1, 2]}}, "deep.list = 2", True), ({"x": "a' OR 1=1 --"}, 'x = "a\' OR 1=1 --"', True),
    ({"x": 1}, '"x\' OR 1=1 --" = 1', False),
)  # fmt: skip


def test_chosen_conditions_on_metadata(store: Any) -> None:
    items = [item(f"text {number}", key=f"{number}", metadata=case[0]) for number, case in enumerate(CASES)]
    ids = add(store, *items)
    for number, (_, where, passes) in enumerate(CASES):
        found = store.ids(NS, Filters(where=f"({where}) and key = {number}"))
        assert found == [ids[number]] * passes, CASES[number]


def test_conditions_act_inside_every_retriever(store: Any) -> None:
    """Every retriever ranks the items that pass lowest."""
    ids = add(
        store,
        *(
            item(
                "Mietvertrag " + "Wort " * number,
                title=f"Mietvertrag {'ABC'[number // 100]}",
                key=f"n{number}",
                tags=("Mietvertrag", "rare") if number >= 290 else ("Mietvertrag",),
                kind="code" if number < 10 else None,
                metadata={"line": number, "author": {"name": "Ada" if number % 2 else "Bob"}},
                vector=unit(300, number),
            )
            for number in range(300)
        ),
    )
    query = "Mietvertrag A, Mietvertrag B, Mietvertrag C"
    for where, expected in (
        ("line >= 290 and kind != code", ids[290:]),
        ("tag = rare and not (author.name = Bob or line < 295)", [ids[295], ids[297], ids[299]]),
        ({"or": [{"line": {"in": [1, 299]}}, {"key": "n150"}]}, [ids[1], ids[150], ids[299]]),
    ):
        filters = Filters(where=where)
        assert store.ids(NS, filters) == expected
        for name in RETRIEVERS:
            found = search(store, name, query, vector=unit(1, 0), filters=filters)
            assert sorted(found) == expected, (where, name)


def test_vocabularies_count_kinds_languages_and_keys(store: Any) -> None:
    add(store, item("a", kind="note", metadata={"x": 1, "y": {"z": 2}}, language="de"))
    add(store, item("b", kind="note", metadata={"x": 2}, language="en"), item("c", language="en"))
    assert store.vocabulary(NS, "kind") == {"note": 2}
    assert store.vocabulary(NS, "language") == {"de": 1, "en": 2}
    assert store.vocabulary(NS, "metadata") == {"x": 2, "y": 1}
    assert store.vocabulary("elsewhere", "kind") == {}

"""The filter grammar and its error messages."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold import limits
from fourfold.errors import InvalidQuery
from fourfold.filters import Every, Not, Some, Test, field_at, key_path, read_where, where_json

pytestmark = pytest.mark.spec("C7")


def test(name: str, op: Any, *values: Any) -> Test:
    return Test(field_at(key_path(name)), op, values)


test.__test__ = False  # type: ignore[attr-defined]


SAME: dict[str, tuple[Any, Any]] = {
    "line >= 10 and kind != code": (
        {"line": {"gte": 10}, "kind": {"ne": "code"}},
        Every((test("line", "gte", 10), Not(test("kind", "in", "code")))),
    ),
    "a=1 or b=2 and c=3": (
        {"or": [{"a": 1}, {"and": [{"b": 2}, {"c": 3}]}]},
        Some((test("a", "in", 1), Every((test("b", "in", 2), test("c", "in", 3))))),
    ),
    "NOT (a == 1 OR b exists)": (
        {"not": {"or": [{"a": 1}, {"b": {"exists": True}}]}},
        Not(Some((test("a", "in", 1), test("b", "exists")))),
    ),
    'author.name in (Ada, "Grace H.")': (
        {"author.name": {"$in": ["Ada", "Grace H."]}},
        test("author.name", "in", "Ada", "Grace H."),
    ),
    "tag not in [A, Ä]": ({"tags": {"not in": ["A", "Ä"]}}, Not(test("tags", "in", "a", "ae"))),
    '"odd key"."a.b" != null': ({'"odd key"."a.b"': {"ne": None}}, Not(test('"odd key"."a.b"', "in", None))),
    "x = -1.5e3": ({"x": -1500.0}, test("x", "in", -1500.0)),
    "x = TRUE": ({"x": True}, test("x", "in", True)),
    "x = 1.2.3": ({"x": "1.2.3"}, test("x", "in", "1.2.3")),
    "title = 2024": ({"title": "2024"}, test("title", "in", "2024")),
    "path = docs/**/*.md": ({"path": "docs/**/*.md"}, test("path", "in", "docs/**/*.md")),
    "metadata.kind = a": ({"metadata.kind": "a"}, test("metadata.kind", "in", "a")),
    "x = [1, [a, 'b c']]": ({"x": [1, ["a", "b c"]]}, test("x", "in", [1, ["a", "b c"]])),
    'x = "\\"q\\" \\\\"': ({"x": '"q" \\'}, test("x", "in", '"q" \\')),
}


@pytest.mark.parametrize("text", SAME)
def test_text_and_mapping_mean_the_same(text: str) -> None:
    mapping, expected = SAME[text]
    assert read_where(text) == expected
    assert read_where(mapping) == expected
    assert read_where(where_json(expected)) == expected


DAY = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("created >= 2026-11-15", test("created_at", "gte", DAY)),
        ("created < 2026-11-15", test("created_at", "lt", DAY)),
        ("created <= 2026-11-15", test("created_at", "lt", DAY + timedelta(days=1))),
        ("created > 2026-11-15", test("created_at", "gte", DAY + timedelta(days=1))),
        ("created <= 2026-11-15T10:00", test("created_at", "lte", DAY + timedelta(hours=10))),
        ("created > 2026-11-15T10:00+02:00", test("created_at", "gt", DAY + timedelta(hours=8))),
        (
            "updated = 2026-11-15",
            Every((test("updated_at", "gte", DAY), test("updated_at", "lt", DAY + timedelta(days=1)))),
        ),
    ],
)
def test_a_date_means_the_whole_day(text: str, expected: Any) -> None:
    assert read_where(text) == expected


def test_times_without_an_offset_use_the_given_zone() -> None:
    east = timezone(timedelta(hours=3))
    assert read_where("created >= 2026-11-15", zone=east) == test("created_at", "gte", DAY - timedelta(hours=3))
    assert read_where({"created": {"gte": "2026-11-15"}}, zone=east) == test(
        "created_at", "gte", DAY - timedelta(hours=3)
    )


@pytest.mark.parametrize(("where", "message"), [
    ("", "the filter is empty"), ("line >=", "character 8, at its end: a value is missing after `>=`"),
    ("line >= and x = 1", "character 9, at 'and x = 1': `and` is a reserved word"),
    ("kind code", "character 6, at 'code': an operator is missing"),
    ("a = 1 b = 2", "character 7, at 'b = 2': `and` or `or` is missing"), ("(a = 1", "at its end: `)` is missing"),
    ("a = 1)", "character 6"), ("x in a", "`(` is missing after `in`"), ("x in (a b)", "`)` is missing"),
    ("x in ()", "a value is missing in the list"), ('a = "x', "character 5"), ("tag > a", "tags has no order"),
    ("path < a", "path has no order"), ("x < true", "Only numbers and strings have an order"),
    ("created = soon", 'created_at is compared with "soon"'), ("id = a", 'id is compared with "a"'),
    ("metadata = 1", "metadata cannot be tested as a whole"), ("a..b = 1", "a key of the filter is empty"),
    ("x = 1e999", "the number is too large"), ("x = " + "9" * 5000, "the number is too large"),
    ("not " * 100 + "a = 1", "nested deeper"), ("(" * 100 + "a = 1" + ")" * 100, "nested deeper"),
    (" and ".join(["a = 1"] * 201), "more than 200 tests"),
    ("x in (" + ",".join(["1"] * 1001) + ")", "more than 1000 values"),
    ("x = " + "a" * limits.FILTER_BYTES, "more than 8192 bytes"), (5, "not int"), ([{"a": 1}], "not list"),
    ({5: 1}, "the key 5"), ({"kind": 3}, "kind is compared with 3"), ({"a": {}}, "no operator for a"),
    ({"a": {"like": "x"}}, "unknown operator 'like' for a"), ({"a": {"b": 1}}, "unknown operator 'b' for a"),
    ({"a": {5: 1}}, "unknown operator 5 for a"), ({"a": {"in": "x"}}, "`in` needs values"),
    ({"a": {"in": []}}, "`in` needs values"), ({"a": {"exists": 1}}, "exists is 1"),
    ({"a": {"lt": None}}, "Only numbers and strings have an order"), ({"a": float("nan")}, "compares with nan"),
    ({"a": {1, 2}}, "the filter compares with"), ({"a": "\ud800"}, "surrogate"), ({"or": []}, "`or` needs a list"),
    ({"and": {"a": 1}}, "`and` needs a list"), ({"or": ["a = 1"]}, "a part of or is not a mapping"),
    ({"or": [{}]}, "a part of the filter is empty"), ({"not": "a = 1"}, "`not` needs a mapping"),
    ({'"a': 1}, "an unclosed quote"), (Every(()), "an empty part"),
    (Test(field_at(["kind"]), "in", ()), "an empty part"),
], ids=lambda value: str(value)[:40])  # fmt: skip
def test_an_invalid_filter_is_rejected_with_position_and_remedy(where: Any, message: str) -> None:
    with pytest.raises(InvalidQuery) as refused:
        read_where(where)
    assert message in str(refused.value)
    assert refused.value.remedy


def test_a_deeply_nested_mapping_is_rejected() -> None:
    where: dict[str, Any] = {"a": 1}
    for _ in range(100_000):
        where = {"not": where}
    with pytest.raises(InvalidQuery, match="nested deeper"):
        read_where(where)
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidQuery, match="nested deeper"):
        read_where({"a": value})


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            ["a", "b.c", '"q', '"q"', "'", "kind", "created", "tag", "=", "!=", "<", ">=", "(", ")", "[", "]", ",",
             "and", "or", "not", "in", "exists", "1", "1.5", "null", "2026-01-01", ".", "!", "\\", "\x00", "\ud800"]
        )
    ).map(" ".join)
)  # fmt: skip
def test_any_text_parses_or_raises_invalid_query(text: str) -> None:
    with suppress(InvalidQuery):
        condition = read_where(text)
        assert condition is not None
        where_json(condition)

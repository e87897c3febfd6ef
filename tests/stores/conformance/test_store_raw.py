"""Raw records: kept, read, listed by session and speaker, and forgotten."""

from __future__ import annotations

import pytest
from conformance_subjects import NOW, NS, add, item

from fourfold.errors import NotFound, RequestError

pytestmark = pytest.mark.spec("C6", "S1.7")

OTHER = "other"


def keep(store, *said: tuple[str, str | None, str | None], namespace: str = NS) -> list[int]:
    """Stores records of (content, speaker, session); returns their ids."""
    return [store.add_raw(namespace, *each, {"turn": 1}, NOW).id for each in said]


def test_records_are_listed_newest_first_by_session_and_speaker(store):
    ids = keep(store, ("one", "Ada", "s1"), ("two", "Bob", "s1"), ("three", "Ada", "s2"), ("four", None, None))
    keep(store, ("elsewhere", "Ada", "s1"), namespace=OTHER)
    page = store.list_raw(NS, None, None, 10, 0)
    assert [record.id for record in page] == ids[::-1]
    assert (page[-1].content, page[-1].speaker, page[-1].session_id, page[-1].metadata) == (
        "one",
        "Ada",
        "s1",
        {"turn": 1},
    )
    assert (page.total, page.has_more) == (4, False)
    some = store.list_raw(NS, None, None, 2, 1)
    assert ([record.content for record in some], some.total, some.has_more) == (["three", "two"], 4, True)
    for session, speaker, expected in (
        ("s1", None, ["two", "one"]),
        (None, "Ada", ["three", "one"]),
        ("s1", "Ada", ["one"]),
        ("s3", None, []),
    ):
        found = store.list_raw(NS, session, speaker, 10, 0)
        assert ([record.content for record in found], found.total) == (expected, len(expected))
    nowhere = store.list_raw("nowhere", None, None, 10, 0)
    assert (list(nowhere), nowhere.total, nowhere.has_more) == ([], 0, False)


def test_records_are_forgotten_all_or_none(store):
    one, two, three = keep(store, ("one", None, None), ("two", None, None), ("three", None, None))
    for wrong in ([one, 99], [2**63 - 1], [0]):
        with pytest.raises(NotFound, match="no raw record"):
            store.forget_raw(NS, wrong)
    with pytest.raises(NotFound):
        store.forget_raw("nowhere", [one])
    assert store.forget_raw(NS, []) == 0
    assert len(store.list_raw(NS, None, None, 10, 0)) == 3
    assert store.forget_raw(NS, [one, two, one]) == 2
    assert [record.id for record in store.list_raw(NS, None, None, 10, 0)] == [three]
    (again,) = keep(store, ("four", None, None))
    assert again > three  # ids are never reused


def test_a_record_that_is_a_source_is_forgotten_only_by_force(store):
    one, two, free = keep(store, ("We meet on Monday", "Maria", None), ("At ten", "Maria", None), ("Fine", "Tom", None))
    insight, other = add(
        store, item("Meeting on Monday at ten", source_ids=(one, two)), item("another note", source_ids=(one,))
    )
    with pytest.raises(RequestError, match=f"raw record {one} is a source of item {insight}, {other}") as refused:
        store.forget_raw(NS, [free, one])
    assert "force" in refused.value.remedy
    assert len(store.get_raw(NS, [one, two, free])) == 3
    assert store.forget_raw(NS, [one], force=True) == 1
    found = store.get(NS, [insight, other])
    assert (found[insight].source_ids, found[other].source_ids) == ((two,), ())
    assert store.check() == []
    assert store.forget(NS, [insight]) == 1
    assert store.forget_raw(NS, [two]) == 1

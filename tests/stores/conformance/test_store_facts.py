"""Event times, expiry, sources and the facts that items state."""

from datetime import timedelta

import pytest
from conformance_subjects import LATER, NOW, NS, add, item, one, reloaded

from fourfold.model import Filters
from fourfold.storage.values import NewRaw

MARIA = {"subject": "Maria", "attribute": "address"}


def test_an_item_keeps_its_times_its_source_and_its_fact(store):
    given = item("Berlin", occurred_at=NOW, expires_at=LATER, source="agent", **MARIA)
    (id,) = add(store, given)
    found = one(store, id)
    fields = ("occurred_at", "expires_at", "source", "subject", "attribute")
    assert [getattr(found, field) for field in fields] == [NOW, LATER, "agent", "Maria", "address"]
    (plain,) = add(store, "plain")
    assert [getattr(one(store, plain), field) for field in fields] == [None] * 5
    assert store.check() == []


def test_a_replaced_item_has_the_fields_of_the_new_one(store):
    (id,) = add(store, item("old", key="k", occurred_at=NOW, expires_at=LATER, source="user", **MARIA))
    assert add(store, item("new", key="k", source="agent"), now=LATER) == [id]
    found = one(store, id)
    assert (found.occurred_at, found.expires_at, found.source, found.subject) == (None, None, "agent", None)


def test_a_text_stored_again_keeps_the_most_trusted_source_and_gets_the_new_expiry(store):
    (id,) = add(store, item("same", source="agent", occurred_at=NOW))
    assert add(store, item("same", source="user", expires_at=LATER)) == [id]
    assert add(store, item("same", source="tool", expires_at=LATER + timedelta(days=1))) == [id]
    found = one(store, id)
    assert (found.source, found.occurred_at, found.expires_at) == ("user", NOW, LATER + timedelta(days=1))


def test_one_text_may_be_the_value_of_two_facts(store):
    paul = {**MARIA, "subject": "Paul"}
    first, second, third = add(store, item("Berlin", **MARIA), item("Berlin", **paul), "Berlin")
    assert len({first, second, third}) == 3
    assert add(store, item("Berlin", subject="MARIA", attribute="Address")) == [first]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("occurred_at >= 2026-03-01", "c"), ("occurred_at < 2026-03-01", "ab"), ("occurred_at = 2026-02-01", "a"),
        ("not occurred_at < 2026-03-01", "c"), ("created_at < 2026-02-15", "bc"), ("occurred_at exists", "ac"),
        ("occurred_at not exists", "b"), ("source = agent", "b"),
        ("source in (user, agent) and subject exists", "ab"), ("subject = Maria and attribute = address", "a"),
        ("expires_at exists", "c"),
    ],
)  # fmt: skip
def test_filters_compare_the_time_of_the_event_where_it_is_known(store, where, found):
    january, february, march, may = (NOW.replace(year=2026, month=month, day=1) for month in (1, 2, 3, 5))
    given = {
        "a": item("a", created_at=may, occurred_at=february, source="user", **MARIA),
        "b": item("b", created_at=january, source="agent", subject="Paul"),
        "c": item("c", created_at=january, occurred_at=march, expires_at=may),
    }
    ids = dict(zip(given, add(store, *given.values()), strict=True))
    assert store.ids(NS, Filters(where=where)) == [ids[name] for name in found]


def test_the_time_options_and_the_source_are_filters(store):
    april = NOW.replace(year=2026, month=4, day=1)
    old, new = add(
        store,
        item("old", created_at=april + timedelta(days=9), occurred_at=april, source="file"),
        item("new", created_at=april + timedelta(days=9)),
    )
    assert store.ids(NS, Filters(created_to=april)) == [old]
    assert store.ids(NS, Filters(created_from=april + timedelta(days=1))) == [new]
    assert store.ids(NS, Filters(source="file")) == [old]
    assert store.ids(NS, Filters(subject="Maria")) == []


def test_an_export_has_these_fields_and_another_store_loads_them(store, empty):
    with store.transaction(NS) as tx:
        record = tx.raw.add(NewRaw("said", None, None, {}, NOW, "tool"))
    add(store, item("Berlin", occurred_at=NOW, expires_at=LATER, source="agent", source_ids=(record.id,), **MARIA))
    records = reloaded(store, empty)
    assert [each["source"] for each in records if "source" in each] == ["tool", "agent"]

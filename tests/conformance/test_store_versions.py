"""New values of a fact supersede old ones, updates of facts keep versions, and both stay readable."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from conformance_subjects import LATER, NOW, NS, add, edit, item, make, one, search, unit
from store_calls import StoreCalls

from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Filters, ItemPatch, NewItem
from fourfold.storage.memory import MemoryStore
from fourfold.storage.values import Hidden

pytestmark = pytest.mark.spec("C15")

MARIA = {"subject": "Maria", "attribute": "address"}
DAY = timedelta(days=1)


def history(store: StoreCalls, id: int) -> list[int]:
    with store.snapshot(NS) as snapshot:
        return [each.id for each in snapshot.rows.history(id)]


def hidden(store: StoreCalls) -> Hidden:
    with store.snapshot(NS) as snapshot:
        return snapshot.hidden


def test_a_new_value_of_a_fact_supersedes_the_old_one_which_stays_stored(store):
    (old,) = add(store, item("Maria lives in Bonn", **MARIA))
    assert hidden(store) == Hidden(superseded=False, expiring=False)
    (new,) = add(store, item("Maria lives in Rome", subject="maria", attribute="ADDRESS"), now=LATER)
    before, after = one(store, old), one(store, new)
    assert (before.superseded_at, before.supersedes, before.text) == (LATER, None, "Maria lives in Bonn")
    assert (after.superseded_at, after.supersedes) == (None, old)
    assert history(store, old) == history(store, new) == [new, old]
    assert hidden(store) == Hidden(superseded=True, expiring=False)
    assert store.ids(NS, Filters(where="superseded_at exists")) == [old]
    assert store.ids(NS, Filters(where="superseded_at not exists")) == [new]
    assert store.namespaces() == {NS: 1}
    assert store.check() == []


def test_nothing_is_superseded_by_similarity_or_by_half_of_a_fact(store):
    add(store, item("Maria lives in Bonn", **MARIA), item("Maria lives in Bonn", subject="Maria"))
    add(store, "Maria lives in Bonn", item("Maria lives in Bonn!", subject="Maria", attribute="home"), now=LATER)
    assert not hidden(store).superseded


def test_a_value_that_returns_is_a_new_item(store):
    (bonn,) = add(store, item("Bonn", **MARIA))
    (rome,) = add(store, item("Rome", **MARIA), now=LATER)
    (again,) = add(store, item("Bonn", **MARIA), now=LATER + DAY)
    assert len({bonn, rome, again}) == 3
    assert history(store, bonn) == [again, rome, bonn]
    assert add(store, item("Bonn", **MARIA), now=LATER + DAY) == [again]


def test_a_value_that_comes_late_takes_its_place_among_the_others(store):
    (first,) = add(store, item("Bonn", created_at=NOW, **MARIA))
    (third,) = add(store, item("Rome", created_at=NOW + 2 * DAY, **MARIA))
    (second,) = add(store, item("Oslo", created_at=NOW + DAY, **MARIA), now=NOW + 3 * DAY)
    found = store.get(NS, [first, second, third])
    assert [found[id].superseded_at for id in (first, second, third)] == [NOW + DAY, NOW + 2 * DAY, None]
    assert [found[id].supersedes for id in (first, second, third)] == [None, first, second]


@pytest.mark.parametrize("again", ["Bonn", "Kiel"])
def test_a_superseded_item_that_is_stored_again_by_its_key_is_the_present_value(store, again):
    (bonn,) = add(store, item("Bonn", key="form", **MARIA))
    (rome,) = add(store, item("Rome", key="letter", **MARIA), now=LATER)
    assert add(store, item(again, key="form", **MARIA), now=LATER + DAY) == [bonn]
    present, other = one(store, bonn), one(store, rome)
    assert (present.text, present.superseded_at, present.supersedes) == (again, None, rome)
    assert other.superseded_at == LATER + DAY
    version = history(store, bonn)[-1]
    assert (one(store, version).text, one(store, version).superseded_at) == ("Bonn", LATER)
    assert history(store, bonn) == [bonn, rome, version]
    assert store.check() == []


def test_a_superseded_item_that_no_longer_states_a_fact_is_visible_again(store):
    (form,) = add(store, item("Bonn", key="form", **MARIA))
    add(store, item("Rome", key="letter", **MARIA), now=LATER)
    add(store, item("The form was lost", key="form"), now=LATER + DAY)
    assert one(store, form).superseded_at is None


def test_forgetting_the_present_value_brings_no_old_one_back(store):
    ids = [add(store, item(town, **MARIA), now=NOW + day * DAY)[0] for day, town in enumerate(("Bonn", "Oslo", "Rome"))]
    assert store.forget(NS, [ids[1]]) == 1
    assert one(store, ids[2]).supersedes == ids[0]
    assert store.forget(NS, [ids[2]]) == 1
    assert one(store, ids[0]).superseded_at is not None
    (new,) = add(store, item("Kiel", **MARIA), now=NOW + 9 * DAY)
    assert one(store, new).supersedes == ids[0]
    assert store.check() == []


def test_an_update_keeps_the_version_before_it_with_its_tags_and_vector(store):
    (id,) = add(store, item("the old words", tags=("a",), metadata={"n": 1}, vector=unit(1, 0), **MARIA), links=False)
    edit(store, id, text="the new words", add_tags=("b",), remove_tags=("a",))
    new, old = (one(store, each) for each in history(store, id))
    assert (new.id, new.text, new.tags, new.valid_from, new.supersedes) == (id, "the new words", ("b",), LATER, old.id)
    assert (old.text, old.tags, old.metadata, old.version_of) == ("the old words", ("a",), {"n": 1}, id)
    assert (old.valid_from, old.superseded_at, old.created_at) == (NOW, LATER, NOW)
    assert search(store, "semantic", vector=unit(1, 0)) == [old.id]
    assert store.tag_counts(NS) == {"b": 1}
    assert store.check() == []


def test_an_update_that_changes_nothing_keeps_no_version(store):
    (id,) = add(store, item("words", tags=("a",), **MARIA))
    edit(store, id, text="words", add_tags=("A",))
    assert history(store, id) == [id]
    with store.transaction(NS) as tx:
        tx.items.patch(id, ItemPatch(text="other words"), LATER, keep=False)
    assert history(store, id) == [id]


def test_an_update_of_an_item_without_a_fact_keeps_no_version_and_hides_nothing(store):
    (id,) = add(store, item("words", subject="Maria"))
    edit(store, id, text="other words")
    assert history(store, id) == [id]
    assert hidden(store) == Hidden(superseded=False, expiring=False)


def test_forgetting_an_item_forgets_its_versions(store):
    (id,) = add(store, item("one", **MARIA))
    edit(store, id, text="two")
    edit(store, id, text="three")
    assert len(history(store, id)) == 3
    assert store.forget(NS, [id]) == 1
    assert store.ids(NS, NO_FILTERS) == []
    assert store.check() == []


def test_a_value_replaced_by_its_key_is_kept_too(store):
    (id,) = add(store, item("Bonn", key="k", **MARIA))
    assert add(store, item("Rome", key="k", **MARIA), now=LATER) == [id]
    current, old = history(store, id)
    assert (current, one(store, old).text, one(store, old).superseded_at) == (id, "Bonn", LATER)
    assert one(store, id).superseded_at is None
    (plain,) = add(store, item("a", key="p"))
    add(store, item("b", key="p"), now=LATER)
    assert history(store, plain) == [plain]


def test_versions_and_values_survive_an_export(store):
    (id,) = add(store, item("Bonn", **MARIA))
    edit(store, id, text="Bonn, Main Street")
    add(store, item("Rome", **MARIA), now=LATER + DAY)
    exported: list[dict[str, object]] = []
    store.export(exported.append)
    loaded = MemoryStore()
    loaded.portable.load(exported)
    again: list[dict[str, object]] = []
    loaded.portable.export(again.append)
    assert again == exported


def test_versions_and_values_are_loaded_into_another_namespace(store):
    source = MemoryStore()
    with source.transaction("other") as tx:
        (old,) = tx.items.put([item("Bonn", **MARIA)], NOW)
        tx.items.patch(old.id, ItemPatch(text="Bonn, Main Street"), LATER)
        tx.items.put([item("Rome", **MARIA)], LATER + DAY)
    records: list[dict[str, object]] = []
    source.portable.export(records.append)
    store.load_namespace(records, NS)
    (current,) = store.ids(NS, Filters(where="superseded_at not exists"))
    chain = [one(store, id) for id in history(store, current)]
    assert [each.text for each in chain] == ["Rome", "Bonn, Main Street", "Bonn"]
    assert [each.supersedes for each in chain] == [chain[1].id, chain[2].id, None]
    assert chain[2].version_of == chain[1].id
    assert store.check() == []


def test_the_last_expiry_that_has_passed_is_known(store):
    add(store, item("a", expires_at=NOW), item("b", expires_at=LATER), item("c"))
    with store.snapshot(NS) as snapshot:
        assert snapshot.hidden.expiring
        assert snapshot.rows.last_expiry(NOW - DAY) is None
        assert snapshot.rows.last_expiry(NOW + DAY / 2) == NOW
        assert snapshot.rows.last_expiry(LATER) == LATER
    assert len(store.ids(NS, Filters(where="not expires_at <= 2026-03-01T12:00:00Z"))) == 2


# ---------------------------------------------------------------- 200 facts with three values each

FACTS = 200
BEGIN = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
TOWNS = ("Bonn", "Oslo", "Rome")


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_of_200_facts_the_present_value_is_first_and_no_stale_one_is_near(kind, folder):
    store = make(kind, folder)
    facts = range(40 if kind == "memory" else FACTS)  # the oracle reads every text for each search
    with Memory(store.store, None, NS, background=False) as memory:
        for version, town in enumerate(TOWNS):
            memory.add_many(
                [
                    NewItem(
                        f"Person{number} lives in {town}, house {number * 3 + version}",
                        subject=f"Person{number}",
                        attribute="address",
                        created_at=BEGIN + version * 30 * DAY,
                    )
                    for number in facts
                ]
            )
        assert memory.count() == len(facts)
        for number in facts:
            asked = f"where does Person{number} live"
            found = memory.search(asked).results
            assert found[0].item.text == f"Person{number} lives in Rome, house {number * 3 + 2}"
            assert [each for each in found[:5] if each.item.superseded_at is not None] == []
            if number % 10 == 0:
                for version, town in enumerate(TOWNS):
                    then = memory.search(asked, as_of=BEGIN + (version * 30 + 15) * DAY).results
                    assert then[0].item.text == f"Person{number} lives in {town}, house {number * 3 + version}"
                    assert {each.item.text.split()[3] for each in then} == {f"{town},"}
                shown = memory.search(asked, history=True).results
                assert {each.item.text.split()[3] for each in shown[:3]} == {f"{town}," for town in TOWNS}

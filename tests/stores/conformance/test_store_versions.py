"""New values of a fact supersede old ones, updates of facts keep versions, and both stay readable."""

from datetime import datetime, timedelta

import pytest
from conformance_subjects import LATER, NOW, NS, add, edit, exported, item, make, one, reloaded, search, unit
from store_calls import StoreCalls

from fourfold.errors import Conflict, InvalidItem, NotFound
from fourfold.limits import VERSIONS
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Filters, Item, ItemPatch, NewItem
from fourfold.storage.values import Hidden, NewNode, NewRaw

pytestmark = pytest.mark.spec("C15")

MARIA = {"subject": "Maria", "attribute": "address"}
DAY = timedelta(days=1)


def history(store: StoreCalls, id: int) -> list[int]:
    with store.snapshot(NS) as snapshot:
        return [each.id for each in snapshot.rows.history(id)]


def versions(store: StoreCalls, id: int) -> list[Item]:
    with store.snapshot(NS) as snapshot:
        return snapshot.rows.history(id)


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


def test_similar_texts_and_incomplete_facts_supersede_nothing(store):
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


def test_a_value_stored_late_is_ordered_by_its_time(store):
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


def test_forgetting_the_present_value_does_not_restore_an_old_one(store):
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


def test_an_update_of_an_item_without_a_fact_keeps_its_version_hidden(store):
    (id,) = add(store, item("the old words", tags=("a",), metadata={"n": 1}, subject="Maria", vector=unit(1, 0)))
    edit(store, id, text="the new words", add_tags=("b",), remove_tags=("a",))
    assert hidden(store) == Hidden(superseded=False, expiring=False)
    assert store.ids(NS, NO_FILTERS) == [id]
    assert store.tag_counts(NS) == {"b": 1}
    assert search(store, "keyword", "old") == []
    new, old = versions(store, id)
    assert (new.id, new.text, new.tags, new.valid_from, new.supersedes) == (id, "the new words", ("b",), None, None)
    assert (old.text, old.tags, old.metadata, old.subject) == ("the old words", ("a",), {"n": 1}, "Maria")
    assert (old.version_of, old.valid_from, old.superseded_at, old.created_at) == (id, NOW, LATER, NOW)
    assert old.id != id
    assert store.check() == []


def test_only_the_latest_versions_are_kept_in_order(store):
    (id,) = add(store, item("version 0"))
    for number in range(1, VERSIONS + 6):
        edit(store, id, text=f"version {number}")  # at the same time: LATER
    texts = [each.text for each in versions(store, id)]
    assert texts == [f"version {number}" for number in range(VERSIONS + 5, 4, -1)]
    assert len({each.superseded_at for each in versions(store, id)}) == VERSIONS + 1
    assert store.check() == []


def test_restoring_a_version_makes_the_replaced_state_a_version(store):
    (id,) = add(store, item("one", title="First", tags=("a",), metadata={"n": 1}, kind="note", key="k"))
    add(store, item("two", title="Second", tags=("b",), metadata={"m": 2}, key="k"), now=LATER)
    old = versions(store, id)[1]
    with store.transaction(NS) as tx:
        (now,) = tx.items.restore([old.id], LATER + DAY)
    assert (now.id, now.text, now.title, now.tags, now.metadata, now.kind, now.key) == (
        id, "one", "First", ("a",), {"n": 1}, "note", "k",
    )  # fmt: skip
    assert [each.text for each in versions(store, id)] == ["one", "two", "one"]
    assert search(store, "keyword", "First") == [id]
    assert search(store, "keyword", "Second") == []
    assert store.check() == []
    with pytest.raises(NotFound), store.transaction(NS) as tx:
        tx.items.restore([99], LATER)


def test_storing_again_under_a_key_keeps_no_version_if_nothing_changes(store):
    (id,) = add(store, item("one", tags=("b", "a"), key="k"))
    add(store, item("one", tags=("a", "b"), key="k"), now=LATER)
    assert len(versions(store, id)) == 1
    add(store, item("one", tags=("a",), key="k"), now=LATER)
    assert [each.tags for each in versions(store, id)] == [("a",), ("a", "b")]


def test_chunks_of_files_keep_no_versions(store):
    for text in ("one", "two"):
        add(store, item(text, path="a.md", chunk_index=0))
    (id,) = store.ids(NS, NO_FILTERS)
    assert len(versions(store, id)) == 1


def test_a_version_can_be_forgotten_alone(store):
    (id,) = add(store, item("one"))
    edit(store, id, text="two")
    old = versions(store, id)[1]
    assert store.forget(NS, [old.id]) == 1
    assert store.forget(NS, [old.id]) == 0
    assert [each.text for each in versions(store, id)] == ["two"]
    assert store.check() == []


# ---------------------------------------------------------------- merging


def merged(store: StoreCalls) -> tuple[int, int, list[int]]:
    """An item, another one that was merged into it, and the raw records that are their sources."""
    with store.transaction(NS) as tx:
        raws = [tx.raw.add(NewRaw(text, None, None, {}, NOW)).id for text in ("first", "second")]
    (kept,) = add(store, item("the door code is 12", tags=("a",), source_ids=(raws[0],)))
    (other,) = add(store, item("the door code is: 12", title="Code", tags=("b",), source_ids=(raws[1],), key="k"))
    with store.transaction(NS) as tx:
        tx.items.merge(kept, [other], LATER)
    return kept, other, raws


def test_a_merged_item_is_gone_and_its_tags_and_sources_stay(store):
    kept, other, raws = merged(store)
    now = one(store, kept)
    assert (now.id, now.text, now.tags, now.source_ids) == (kept, "the door code is 12", ("a", "b"), tuple(raws))
    assert store.ids(NS, NO_FILTERS) == [kept]
    assert search(store, "keyword", "code") == [kept]
    assert [(each.id, each.key) for each in versions(store, kept) if each.key] == [(other, "k")]
    assert store.check() == []


def test_a_merged_item_is_restored_with_its_id(store):
    kept, other, raws = merged(store)
    before = [each.id for each in versions(store, kept) if each.superseded_at is not None]
    with store.transaction(NS) as tx:
        tx.items.restore(before, LATER + DAY)
    first, second = one(store, kept), one(store, other)
    assert (first.tags, first.source_ids) == (("a",), (raws[0],))
    assert (second.text, second.title, second.key, second.tags) == ("the door code is: 12", "Code", "k", ("b",))
    assert (second.source_ids, second.created_at, second.updated_at) == ((raws[1],), NOW, NOW)
    assert sorted(search(store, "keyword", "code")) == [kept, other]
    assert store.check() == []


def test_a_merged_item_whose_key_is_taken_is_not_restored(store):
    _, other, _ = merged(store)
    add(store, item("something else", key="k"))
    with pytest.raises(Conflict, match="Forget item"), store.transaction(NS) as tx:
        tx.items.restore([other], LATER)


def test_versions_of_a_merged_item_are_restored_or_forgotten_with_it(store):
    (kept,), (other,) = add(store, item("one")), add(store, item("two"))
    edit(store, other, text="one!")
    with store.transaction(NS) as tx:
        tx.items.merge(kept, [other], LATER + DAY)
    with store.transaction(NS) as tx:
        tx.items.restore([other], LATER + DAY)
    assert [each.text for each in versions(store, other)] == ["one!", "two"]
    with store.transaction(NS) as tx:
        tx.items.merge(kept, [other], LATER + DAY)
    assert store.forget(NS, [kept]) == 1
    with store.snapshot(NS) as snapshot:
        assert snapshot.rows.versions(range(1, 20)) == {}
    assert store.check() == []


def test_an_item_with_merged_items_can_be_merged(store, empty):
    ids = [add(store, item(text))[0] for text in ("one", "one!", "one?")]
    with store.transaction(NS) as tx:
        tx.items.merge(ids[1], [ids[2]], LATER)
        tx.items.merge(ids[0], [ids[1]], LATER)
    reloaded(store, empty)
    with store.transaction(NS) as tx:
        tx.items.restore([ids[1]], LATER)
        tx.items.restore([ids[2]], LATER)
    assert store.ids(NS, NO_FILTERS) == ids


@pytest.mark.parametrize("refused", [{"path": "a.md", "chunk_index": 0}, MARIA])
def test_parts_of_files_and_facts_are_not_merged_into_others(store, refused):
    (kept,), (other,) = add(store, item("one")), add(store, item("one!", **refused))
    with pytest.raises(InvalidItem, match=r"part of a file|states a fact"), store.transaction(NS) as tx:
        tx.items.merge(kept, [other], LATER)
    with store.transaction(NS) as tx:
        assert tx.items.merge(other, [kept], LATER).id == other


def test_the_text_of_a_node_is_not_merged_into_others(store):
    (kept,), (other,) = add(store, item("one")), add(store, item("one!"))
    with store.transaction(NS) as tx:
        tx.graph.add_nodes([NewNode("Anna", item=other)])
    with pytest.raises(InvalidItem, match="text of a node"), store.transaction(NS) as tx:
        tx.items.merge(kept, [other], LATER)


@pytest.mark.parametrize("others", [[], [1], [99]])
def test_an_item_is_not_merged_with_itself_or_with_nothing(store, others):
    add(store, item("one"))
    with pytest.raises((InvalidItem, NotFound)), store.transaction(NS) as tx:
        tx.items.merge(1, others, LATER)


def test_given_vectors_of_merged_items_are_restored(store):
    (kept,), (other,) = add(store, item("one", vector=unit(1, 0))), add(store, item("one!", vector=unit(0, 1)))
    with store.transaction(NS) as tx:
        tx.items.merge(kept, [other], LATER)
        tx.items.restore([other], LATER)
    assert search(store, "semantic", vector=unit(0, 1))[0] == other
    with store.snapshot(NS) as snapshot:
        found = snapshot.stored_vectors([kept, other, 99])
    assert {id: [round(float(x), 6) for x in vector] for id, vector in found.items()} == {
        kept: [1.0, 0.0], other: [0.0, 1.0],
    }  # fmt: skip
    assert store.check() == []


def test_forgetting_an_item_forgets_its_versions(store):
    (id,) = add(store, item("one", **MARIA))
    edit(store, id, text="two")
    edit(store, id, text="three")
    assert len(history(store, id)) == 3
    assert store.forget(NS, [id]) == 1
    assert store.ids(NS, NO_FILTERS) == []
    assert store.check() == []


def test_a_value_replaced_by_its_key_is_kept(store):
    (id,) = add(store, item("Bonn", key="k", **MARIA))
    assert add(store, item("Rome", key="k", **MARIA), now=LATER) == [id]
    current, old = history(store, id)
    assert (current, one(store, old).text, one(store, old).superseded_at) == (id, "Bonn", LATER)
    assert one(store, id).superseded_at is None
    (plain,) = add(store, item("a", key="p"))
    add(store, item("b", key="p"), now=LATER)
    assert [each.text for each in versions(store, plain)] == ["b", "a"]


def test_versions_and_values_survive_an_export(store, empty):
    (id,) = add(store, item("Bonn", **MARIA))
    edit(store, id, text="Bonn, Main Street")
    add(store, item("Rome", **MARIA), now=LATER + DAY)
    (plain,) = add(store, item("one"))
    edit(store, plain, text="two")
    reloaded(store, empty)


def test_versions_and_values_are_loaded_into_another_namespace(store, empty):
    with empty.transaction("other") as tx:
        (old,) = tx.items.put([item("Bonn", **MARIA)], NOW)
        tx.items.patch(old.id, ItemPatch(text="Bonn, Main Street"), LATER)
        tx.items.put([item("Rome", **MARIA)], LATER + DAY)
        (plain,) = tx.items.put([item("one")], NOW)
        tx.items.patch(plain.id, ItemPatch(text="two"), LATER)
    records = exported(empty)
    store.load_namespace(records, NS)
    current, plain = store.ids(NS, Filters(where="superseded_at not exists"))
    assert [each.text for each in versions(store, plain)] == ["two", "one"]
    chain = [one(store, id) for id in history(store, current)]
    assert [each.text for each in chain] == ["Rome", "Bonn, Main Street", "Bonn"]
    assert [each.supersedes for each in chain] == [chain[1].id, chain[2].id, None]
    assert chain[2].version_of == chain[1].id
    assert store.check() == []


def test_the_latest_past_expiry_is_reported(store):
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


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_present_values_of_200_facts_rank_first_without_stale_ones(kind, folder):
    store = make(kind, folder)
    facts = range(FACTS)
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
            for version, town in enumerate(TOWNS):
                then = memory.search(asked, as_of=BEGIN + (version * 30 + 15) * DAY).results
                assert then[0].item.text == f"Person{number} lives in {town}, house {number * 3 + version}"
                assert {each.item.text.split()[3] for each in then} == {f"{town},"}
            if number % 10 == 0:
                shown = memory.search(asked, history=True).results
                assert {each.item.text.split()[3] for each in shown[:3]} == {f"{town}," for town in TOWNS}


def test_the_words_of_a_fact_are_found_and_follow_its_changes(store):
    fact = {"subject": "Heron", "attribute": "database"}
    (old,) = add(store, item("We run on SQLite", key="db", **fact))
    assert search(store, "keyword", "heron database") == [old]
    add(store, item("We run on SQLite", key="db", subject="Gulls", attribute="database"), now=LATER)
    assert search(store, "keyword", "heron") == []
    assert search(store, "keyword", "gulls database")[0] == old
    assert store.check() == []

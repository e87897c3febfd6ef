"""Tags: matching, ranking, sharing and counting."""

import pytest
from conformance_subjects import NOW, NS, add, edit, item, make, one, search

from fourfold.limits import HUB
from fourfold.model import NO_FILTERS, Filters
from fourfold.storage.values import TagUse


@pytest.mark.spec("S5.2")
def test_tags_compare_folded_and_show_as_they_were_written(store):
    (id,) = add(store, item("text", tags=("Straße", "STRASSE", "Café")))
    assert one(store, id).tags == ("Café", "Straße")
    assert store.tag_counts(NS) == {"cafe": 1, "strasse": 1}
    assert search(store, "tags", "in der strasse") == [id]


@pytest.mark.spec("S5.2")
def test_tags_of_any_characters_come_back_in_order(store):
    tags = ("\x01", "a b", "a,b", "a\nb", "a\x1fb", 'quoted "', "{}", "null", "7", "\U0010ffff", "\uffff", "é", "z")
    many, none, single = add(store, item("a", tags=tags), item("b"), item("c", tags=("a,b",)))
    assert one(store, many).tags == tuple(sorted(tags))
    assert one(store, none).tags == ()
    assert one(store, single).tags == ("a,b",)


@pytest.mark.spec("S5.2")
def test_items_rank_by_number_and_rarity_of_matching_tags(store):
    both, rare, common, _ = add(
        store,
        item("a", tags=("rare", "common")),
        item("b", tags=("rare",)),
        item("c", tags=("common",)),
        item("d", tags=("common", "else")),
    )
    assert search(store, "tags", "rare common") == [both, rare, common, common + 1]
    assert store.tag_uses(NS, ["rare", "nowhere"], NO_FILTERS) == [TagUse(both, "rare", 2), TagUse(rare, "rare", 2)]


@pytest.mark.spec("S5.2")
def test_adjacent_words_match_a_hyphenated_tag_and_stop_words_match_none(store):
    joined, stop = add(store, item("a", tags=("release-plan",)), item("b", tags=("the",)))
    assert search(store, "tags", "the release plan of May") == [joined]
    assert search(store, "tags", "the") == []
    assert stop


@pytest.mark.spec("S5.2", "B5")
def test_items_share_tags_with_others_that_pass_the_filters(store):
    first, second, third, fourth = add(
        store,
        item("a", tags=("Red", "own")),
        item("b", tags=("RED", "blue"), kind="note"),
        item("c", tags=("blue", "green")),
        item("d", tags=("red",), kind="note"),
    )
    red = [TagUse(id, "red", 3) for id in (first, second, fourth)]
    assert store.shared_tags(NS, [first], NO_FILTERS) == red
    blue = [TagUse(second, "blue", 2), TagUse(third, "blue", 2)]
    assert store.shared_tags(NS, [second, 10**6, -1], NO_FILTERS) == sorted([*red, *blue])
    assert store.shared_tags(NS, [first], Filters(kind="note")) == red[1:]
    assert store.shared_tags(NS, [], NO_FILTERS) == []
    store.put("elsewhere", [item("e", tags=("red",)), item("f", tags=("red",))], NOW)
    assert store.shared_tags("elsewhere", [first], NO_FILTERS) == [], "an item of another namespace shares nothing"


@pytest.mark.spec("S5.2")
def test_a_tag_of_too_many_items_is_not_shared(store):
    add(store, *[item(f"text {number}", tags=("all", f"pair {number // 2}")) for number in range(HUB + 2)])
    assert {use.tag for use in store.shared_tags(NS, [1, 2, 5], NO_FILTERS)} == {"pair 0", "pair 2"}


@pytest.mark.spec("S5.6")
def test_counts_follow_every_change(store):
    first, second = add(store, item("a", tags=("x",)), item("b", tags=("x", "y")))
    assert store.tag_counts(NS) == {"x": 2, "y": 1}
    edit(store, first, remove_tags=("X",), add_tags=("z",))
    assert store.tag_counts(NS) == {"x": 1, "y": 1, "z": 1}
    store.forget(NS, [second])
    assert store.tag_counts(NS) == {"z": 1}
    assert store.tag_uses(NS, ["x", "y", "z"], Filters(tags=("z",))) == [TagUse(first, "z", 1)]


@pytest.mark.spec("S5.6")
def test_the_list_of_tags_is_cached_for_a_minute_unless_something_changes(folder, monkeypatch):
    store, other = make("sqlite", folder), make("sqlite", folder)
    (id,) = add(store, item("a", tags=("x",)))
    kept = store.tag_counts(NS)
    assert store.tag_counts(NS) is kept
    edit(other, id, add_tags=("y",))
    fresh = store.tag_counts(NS)
    assert fresh == {"x": 1, "y": 1}
    import time

    now = time.monotonic()
    monkeypatch.setattr("fourfold.storage.sql.reading.time.monotonic", lambda: now + 61)
    assert store.tag_counts(NS) is not fresh
    store.close()
    other.close()

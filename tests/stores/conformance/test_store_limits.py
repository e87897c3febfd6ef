"""Limits hold for stored and new values together, also when several calls change an item at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from concurrently import outcomes as both
from conformance_subjects import NS, add, edit, item, one
from store_calls import StoreCalls

from fourfold import Item, ItemPatch, Memory, NewItem, limits
from fourfold.errors import InvalidItem, InvalidQuery, NotFound
from fourfold.model import NO_FILTERS
from fourfold.storage.protocols import Store, Transaction


def over(store: StoreCalls) -> Memory:
    return Memory(store.store, None, NS, background=False)


def named(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(count))


def refusals(outcomes: list[Any]) -> list[type]:
    return [type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)]


PAIRS = {
    "tags": (ItemPatch(add_tags=named("a", 40)), ItemPatch(add_tags=named("b", 41))),
    "metadata": (ItemPatch(metadata={"a": "x" * 40_000}), ItemPatch(metadata={"b": "x" * 40_000})),
    "nothing left": (ItemPatch(title=""), ItemPatch(text="")),
    "size": (ItemPatch(title="t" * 600_000), ItemPatch(text="x" * 600_000)),
}


@pytest.mark.spec("B7")
@pytest.mark.parametrize("pair", PAIRS)
def test_updates_at_the_same_time_keep_the_limits_together(store: StoreCalls, pair: str) -> None:
    (id,) = add(store, item("a text", title="A title"))
    memory = over(store)
    outcomes = both(*(partial(memory.update, id, patch) for patch in PAIRS[pair]))
    assert refusals(outcomes) == [InvalidItem]
    (kept,) = (outcome for outcome in outcomes if isinstance(outcome, Item))
    assert one(store, id) == kept
    assert store.check() == []


@pytest.mark.spec("B10")
def test_a_text_stored_again_keeps_the_limits_of_one_item(store: StoreCalls) -> None:
    (id,) = add(store, item("the same text", tags=named("a", 40)))
    before = one(store, id)
    with pytest.raises(InvalidItem, match="tags"):
        add(store, item("the same text", tags=named("b", 40)))
    assert one(store, id) == before
    raws = [store.add_raw(NS, f"said {n}", None, None, {}, before.created_at).id for n in range(12)]
    add(store, item("the same text", source_ids=tuple(raws)))
    assert one(store, id).source_ids == tuple(raws)


def test_sources_of_a_text_stored_again_keep_the_limit(store: StoreCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    (id,) = add(store, item("the same text"))
    created = one(store, id).created_at
    raws = [store.add_raw(NS, f"said {n}", None, None, {}, created).id for n in range(6)]
    monkeypatch.setattr(limits, "SOURCES", 4)
    add(store, item("the same text", source_ids=tuple(raws[:4])))
    with pytest.raises(InvalidItem, match="source_ids"):
        add(store, item("the same text", source_ids=tuple(raws[4:])))
    assert one(store, id).source_ids == tuple(raws[:4])


@pytest.mark.spec("S4.1")
def test_properties_and_aliases_of_a_node_keep_the_limits_together(store: StoreCalls) -> None:
    memory = over(store)
    outcomes = both(
        partial(memory.add_node, "Ada", properties={"a": "x" * 40_000}),
        partial(memory.add_node, "Ada", properties={"b": "x" * 40_000}),
    )
    assert refusals(outcomes) == [InvalidItem]
    outcomes = both(
        partial(memory.add_node, "Ada", aliases=named("Countess ", 40)),
        partial(memory.add_node, "Ada", aliases=named("Lady ", 40)),
    )
    assert refusals(outcomes) == [InvalidItem]
    assert store.check() == []


def test_metadata_that_is_nested_too_deeply_is_refused(store: StoreCalls) -> None:
    deep: Any = "bottom"
    for _ in range(limits.METADATA_DEPTH - 1):
        deep = [deep]
    (id,) = add(store, item("text", metadata={"deep": deep}))
    with pytest.raises(InvalidItem, match="deep"):
        edit(store, id, metadata={"deep": [[deep]]})
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidItem):
        edit(store, id, metadata={"endless": endless})
    wide: list[Any] = []
    for _ in range(60):
        wide = [wide, wide]
    with pytest.raises(InvalidItem):
        edit(store, id, metadata={"wide": wide})


def test_a_filter_reaches_as_deep_as_metadata_and_no_deeper(store: StoreCalls) -> None:
    deep: Any = "bottom"
    for _ in range(limits.METADATA_DEPTH - 1):
        deep = {"a": deep}
    (id,) = add(store, item("text", metadata=deep))
    memory, path = over(store), ".".join("a" * (limits.METADATA_DEPTH - 1))
    for condition in (
        f"{path} = bottom",
        f"{path} in (bottom, x)",
        f"{path} < c",
        f"{path} exists",
        f"not {path}.a = x",
    ):
        assert [each.id for each in memory.list(condition)] == [id]
    for keys in (limits.METADATA_DEPTH + 1, 2000):
        with pytest.raises(InvalidQuery, match="more than 64 keys"):
            memory.search("text", filters=f"{'.'.join('a' * keys)} = 1")


class Losing:
    """A store in which another writer forgets every item right after it was committed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @contextmanager
    def transaction(self, namespace: str, **options: bool) -> Iterator[Transaction]:
        with self._store.transaction(namespace, **options) as transaction:
            yield transaction
        calls = StoreCalls(self._store)
        calls.forget(namespace, calls.ids(namespace, NO_FILTERS))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.spec("B7")
def test_add_returns_the_item_even_if_it_is_forgotten_right_after_the_commit(store: StoreCalls) -> None:
    """The items come from the transaction that wrote them, not from a later read."""
    memory = over(StoreCalls(Losing(store.store)))
    added = memory.add(NewItem("a text", title="Title", tags=("b", "a"), metadata={"n": 1}))
    assert (added.title, added.tags, added.metadata) == ("Title", ("a", "b"), {"n": 1})
    assert store.get(NS, [added.id]) == {}


@pytest.mark.spec("B7")
def test_update_returns_the_item_even_if_it_is_forgotten_right_after_the_commit(store: StoreCalls) -> None:
    (id,) = add(store, "a text")
    memory = over(StoreCalls(Losing(store.store)))
    assert memory.update(id, ItemPatch(text="new")).text == "new"
    with pytest.raises(NotFound, match=f"no item {id}"):
        memory.update(id, ItemPatch(text="newer"))
    with pytest.raises(NotFound, match="no item key:k"):
        memory.update("key:k", ItemPatch(text="newer"))


@pytest.mark.spec("B10")
def test_put_returns_the_items_as_they_are_stored(store: StoreCalls) -> None:
    raw = store.add_raw(NS, "said", None, None, {}, one(store, add(store, "x")[0]).created_at)
    new = [
        item("a chunk", path="notes.md", tags=("Ü", "u", "b", "A"), metadata={"b": 1, "a": [None]}),
        item("with a key", key="k", kind="fact", source_ids=(raw.id, raw.id)),
        item("a text", tags=("one",)),
        item("a text", tags=("two",)),
        item("again", key="k"),
    ]
    stored = store.put(NS, new, raw.created_at)
    found = store.get(NS, [each.id for each in stored])
    assert stored == [found[each.id] for each in stored]
    assert len(found) == 3


@pytest.mark.spec("B11")
def test_an_item_with_a_title_of_a_thousand_words_is_changed_and_forgotten(store: StoreCalls) -> None:
    words = [f"word{number}" for number in range(1500)]
    first, second = add(store, item("x", title=" ".join(words)), item("y", title=" ".join(words[:1400])))
    edit(store, first, title="Short")
    store.forget(NS, [second])
    assert one(store, first).title == "Short"
    assert store.check() == []

"""Limits hold for what is stored and new together, also when several calls change one thing at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conformance_subjects import NS, add, edit, item, one

from fourfold import limits
from fourfold.errors import InvalidItem, NotFound
from fourfold.memory import Memory
from fourfold.model import Item, ItemPatch, NewItem
from fourfold.stores.base import Store


def over(store: Store) -> Memory:
    return Memory(store, None, NS, background=False)


def named(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(count))


async def both(*calls: Any) -> list[Any]:
    """The outcomes of calls that begin together."""
    return await asyncio.gather(*calls, return_exceptions=True)


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
async def test_updates_at_the_same_time_keep_the_limits_together(store: Store, pair: str) -> None:
    (id,) = await add(store, item("a text", title="A title"))
    memory = over(store)
    outcomes = await both(*(memory.update(id, patch) for patch in PAIRS[pair]))
    assert refusals(outcomes) == [InvalidItem]
    (kept,) = (outcome for outcome in outcomes if isinstance(outcome, Item))
    assert await one(store, id) == kept
    assert await store.check() == []


@pytest.mark.spec("B10")
async def test_a_text_stored_again_keeps_the_limits_of_one_item(store: Store) -> None:
    (id,) = await add(store, item("the same text", tags=named("a", 40)))
    before = await one(store, id)
    with pytest.raises(InvalidItem, match="tags"):
        await add(store, item("the same text", tags=named("b", 40)))
    assert await one(store, id) == before
    raws = [(await store.add_raw(NS, f"said {n}", None, None, {}, before.created_at)).id for n in range(12)]
    await add(store, item("the same text", source_ids=tuple(raws)))
    assert (await one(store, id)).source_ids == tuple(raws)


async def test_sources_of_a_text_stored_again_keep_the_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (id,) = await add(store, item("the same text"))
    created = (await one(store, id)).created_at
    raws = [(await store.add_raw(NS, f"said {n}", None, None, {}, created)).id for n in range(6)]
    monkeypatch.setattr(limits, "SOURCES", 4)
    await add(store, item("the same text", source_ids=tuple(raws[:4])))
    with pytest.raises(InvalidItem, match="source_ids"):
        await add(store, item("the same text", source_ids=tuple(raws[4:])))
    assert (await one(store, id)).source_ids == tuple(raws[:4])


@pytest.mark.spec("S4.1")
async def test_properties_and_aliases_of_a_node_keep_the_limits_together(store: Store) -> None:
    memory = over(store)
    outcomes = await both(
        memory.add_node("Ada", properties={"a": "x" * 40_000}), memory.add_node("Ada", properties={"b": "x" * 40_000})
    )
    assert refusals(outcomes) == [InvalidItem]
    outcomes = await both(
        memory.add_node("Ada", aliases=named("Countess ", 40)), memory.add_node("Ada", aliases=named("Lady ", 40))
    )
    assert refusals(outcomes) == [InvalidItem]
    assert await store.check() == []


async def test_metadata_is_refused_where_it_is_nested_too_deeply(store: Store) -> None:
    deep: Any = "bottom"
    for _ in range(limits.METADATA_DEPTH - 1):
        deep = [deep]
    (id,) = await add(store, item("text", metadata={"deep": deep}))
    with pytest.raises(InvalidItem, match="deep"):
        await edit(store, id, metadata={"deep": [[deep]]})
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidItem):
        await edit(store, id, metadata={"endless": endless})
    wide: list[Any] = []
    for _ in range(60):
        wide = [wide, wide]
    with pytest.raises(InvalidItem):
        await edit(store, id, metadata={"wide": wide})


@pytest.mark.spec("B7")
async def test_what_is_added_is_returned_though_it_is_forgotten_at_once(store: Store) -> None:
    """The items come from the transaction that wrote them, not from a later read."""
    memory = over(store)
    put = store.put

    async def put_and_lose(*args: Any, **kwargs: Any) -> Any:
        stored = await put(*args, **kwargs)
        await store.forget(NS, [item.id for item in stored])
        return stored

    memory.store = _With(store, put=put_and_lose)
    added = await memory.add(NewItem("a text", title="Title", tags=("b", "a"), metadata={"n": 1}))
    assert (added.title, added.tags, added.metadata) == ("Title", ("a", "b"), {"n": 1})
    assert await store.get(NS, [added.id]) == {}


@pytest.mark.spec("B7")
async def test_what_is_updated_is_returned_though_it_is_forgotten_at_once(store: Store) -> None:
    (id,) = await add(store, "a text")
    memory = over(store)
    patch = store.patch

    async def patch_and_lose(*args: Any, **kwargs: Any) -> Any:
        stored = await patch(*args, **kwargs)
        await store.forget(NS, [id])
        return stored

    memory.store = _With(store, patch=patch_and_lose)
    assert (await memory.update(id, ItemPatch(text="new"))).text == "new"
    with pytest.raises(NotFound, match=f"no item {id}"):
        await memory.update(id, ItemPatch(text="newer"))
    with pytest.raises(NotFound, match="no item key:k"):
        await memory.update("key:k", ItemPatch(text="newer"))


class _With:
    """A store, some of whose methods are others."""

    def __init__(self, store: Store, **methods: Any) -> None:
        self._store = store
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.spec("B10")
async def test_put_returns_the_items_as_they_are_stored(store: Store) -> None:
    raw = await store.add_raw(NS, "said", None, None, {}, (await one(store, (await add(store, "x"))[0])).created_at)
    new = [
        item("a chunk", path="notes.md", tags=("Ü", "u", "b", "A"), metadata={"b": 1, "a": [None]}),
        item("with a key", key="k", kind="fact", source_ids=(raw.id, raw.id)),
        item("a text", tags=("one",)),
        item("a text", tags=("two",)),
        item("again", key="k"),
    ]
    stored = await store.put(NS, new, raw.created_at)
    found = await store.get(NS, [each.id for each in stored])
    assert stored == [found[each.id] for each in stored]
    assert len(found) == 3


@pytest.mark.spec("B11")
async def test_an_item_with_a_title_of_a_thousand_words_is_changed_and_forgotten(store: Store) -> None:
    words = [f"word{number}" for number in range(1500)]
    first, second = await add(store, item("x", title=" ".join(words)), item("y", title=" ".join(words[:1400])))
    await edit(store, first, title="Short")
    await store.forget(NS, [second])
    assert (await one(store, first)).title == "Short"
    assert await store.check() == []

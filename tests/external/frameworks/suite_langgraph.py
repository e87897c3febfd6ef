"""The store against LangGraph's own store in memory: the same calls, the same results."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, Item, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from fourfold import Memory
from fourfold.errors import InvalidItem, InvalidQuery
from fourfold.integrations.langgraph import FourfoldStore

USERS = ("users", "ada")


@pytest.fixture
def store(memory: Memory) -> FourfoldStore:
    return FourfoldStore(memory)


@pytest.fixture
def likes(store: FourfoldStore) -> FourfoldStore:
    store.put(USERS, "food", {"text": "Ada likes lentil soup", "stars": 5})
    store.put(USERS, "music", {"text": "Ada likes the cello", "stars": 3, "by": {"name": "Bach", "tags": ["a", "b"]}})
    store.put(("users", "bob"), "food", {"text": "Bob likes noodles", "stars": 4})
    return store


def test_a_value_is_found_by_its_meaning_and_words(likes: FourfoldStore) -> None:
    found = likes.search(USERS, query="lentil soup", limit=1)
    assert [(item.namespace, item.key, item.value["stars"]) for item in found] == [(USERS, "food", 5)]
    assert found[0].score == likes.memory.search("lentil soup", top_k=1).results[0].score
    everyone = likes.search(("users",), query="likes food", limit=10)
    assert {(item.namespace[1], item.key) for item in everyone} == {("ada", "food"), ("ada", "music"), ("bob", "food")}
    assert likes.search(("user",), query="likes") == []


def test_a_page_of_a_search_follows_the_one_before(likes: FourfoldStore) -> None:
    whole = likes.search((), query="likes", limit=3)
    assert likes.search((), query="likes", limit=2, offset=1) == whole[1:]
    assert likes.search((), limit=1, offset=2)[0].key == "food"


def test_a_value_is_replaced_and_deleted(likes: FourfoldStore) -> None:
    before = likes.get(USERS, "food")
    likes.put(USERS, "food", {"text": "Ada likes rice now"})
    after = likes.get(USERS, "food")
    assert (after.value, after.created_at) == ({"text": "Ada likes rice now"}, before.created_at)
    assert after.updated_at > before.updated_at
    likes.delete(USERS, "food")
    likes.delete(USERS, "never there")
    assert likes.get(USERS, "food") is None
    assert likes.memory.count() == 2


def test_a_value_is_found_by_any_spelling_of_its_key(likes: FourfoldStore) -> None:
    likes.put(USERS, "cafe\u0301", {"text": "Ada likes espresso"})
    for key in ("cafe\u0301", "caf\u00e9"):
        assert likes.get(USERS, key).value == {"text": "Ada likes espresso"}


def test_only_indexed_fields_are_searched(memory: Memory) -> None:
    store = FourfoldStore(memory, fields=["text"])
    store.put(USERS, "a", {"text": "visible", "secret": "hidden"})
    store.put(USERS, "b", {"text": "unsearched", "other": "chosen"}, index=["other"])
    store.put(USERS, "c", {"text": "nowhere"}, index=False)
    words = {word: [hit.key for hit in memory.search(word, only=["keyword"]).results] for word in ("hidden", "chosen")}
    assert words == {"hidden": [], "chosen": ['langgraph:["users", "ada", "b"]']}
    assert {item.text for item in memory.list()} == {"visible", "chosen", ""}
    found = store.get(USERS, "c")
    assert found.value == {"text": "nowhere"}


def test_items_of_others_are_no_values(likes: FourfoldStore) -> None:
    likes.memory.add("lentil soup is on the menu")
    assert {item.key for item in likes.search((), query="lentil soup")} == {"food", "music"}
    assert likes.list_namespaces() == [("users", "ada"), ("users", "bob")]


def test_nothing_is_written_if_a_value_is_not_json(store: FourfoldStore) -> None:
    with pytest.raises(InvalidItem, match="not JSON"):
        store.batch([PutOp(USERS, "a", {"n": 1}), PutOp(USERS, "b", {"n": {1, 2}})])
    with pytest.raises(InvalidNamespaceError):
        store.put(("a.b",), "c", {})
    with pytest.raises(InvalidQuery, match=r"\$gt"):
        store.search((), filter={"n": {"$between": [1, 2]}})
    assert store.memory.count() == 0


async def test_the_same_in_asyncio(store: FourfoldStore) -> None:
    await store.aput(USERS, "food", {"text": "soup"})
    assert [item.key for item in await store.asearch(USERS, query="soup")] == ["food"]
    assert await store.alist_namespaces(prefix=("users",)) == [USERS]
    found = await store.aget(USERS, "food")
    assert isinstance(found, Item)


# ---------------------------------------------------------------- compared with LangGraph's store

NAMES = st.sampled_from([("a",), ("a", "b"), ("a", "b", "c"), ("b",), ("b", 'quo"te')])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["x", "y", ""]))
VALUES = st.dictionaries(st.sampled_from(["n", "m", "a.b"]), st.one_of(SCALARS, st.just({"deep": 1})), max_size=3)
FILTERS = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from(["n", "a.b"]), SCALARS, min_size=1),
    st.builds(lambda wanted: {"m": {"deep": wanted}}, st.integers(0, 2)),
)
WRITES = st.lists(st.tuples(NAMES, st.sampled_from(["1", "2"]), st.one_of(st.none(), VALUES)), max_size=8)


def shown(items: Any) -> list[tuple[Any, ...]]:
    return sorted(((item.namespace, item.key, repr(sorted(item.value.items()))) for item in items), key=repr)


def by_type(filters: dict[str, Any] | None) -> bool:
    """Whether Python compares these values differently from JSON, where True is not 1."""
    return any(isinstance(wanted, bool) or wanted in (0, 1) for wanted in (filters or {}).values())


@given(writes=WRITES, prefix=st.one_of(st.just(()), NAMES), filters=FILTERS, depth=st.one_of(st.none(), st.just(1)))
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_results_equal_those_of_the_store_in_memory(
    opened: Any, writes: Any, prefix: Any, filters: Any, depth: Any
) -> None:
    if not hasattr(opened, "memory"):
        opened.memory = opened("compared", embedder="none")
    memory = opened.memory
    memory.forget_matching({"id": {"exists": True}})
    stores: list[BaseStore] = [FourfoldStore(memory), InMemoryStore()]
    asked = None if by_type(filters) else filters
    puts = [PutOp(namespace, key, value) for namespace, key, value in writes]
    stores[0].batch(puts)
    last = {(put.namespace, put.key): put for put in puts}  # LangGraph's store also lists emptied namespaces
    stores[1].batch([put for put in last.values() if put.value is not None])
    results = []
    for store in stores:
        named = store.list_namespaces(prefix=("*", "b"), max_depth=depth), store.list_namespaces(suffix=("b",))
        found, one = store.batch([SearchOp(prefix, asked, 100), GetOp(("a", "b"), "1")])
        results.append((shown(found), shown([one] if one else []), [[*map(tuple, part)] for part in named]))
    assert results[0] == results[1]


def test_operators_compare_values(likes: FourfoldStore) -> None:
    def keys(filters: dict[str, Any]) -> set[str]:
        return {item.key for item in likes.search(USERS, filter=filters)}

    assert keys({"stars": {"$gt": 3}}) == {"food"}
    assert keys({"stars": {"$gte": 3, "$lt": 5}}) == {"music"}
    assert keys({"stars": {"$ne": 5}}) == {"music"}
    assert keys({"by": {"name": "Bach"}}) == {"music"}
    assert keys({"by": None}) == {"food"}

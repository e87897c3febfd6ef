"""Rows that break a rule: `check` names them, and no store loads them."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from conformance_subjects import NS, add, exported, item, one, reloaded
from store_calls import StoreCalls

from fourfold import limits
from fourfold import validation as rules
from fourfold.errors import InvalidItem
from fourfold.model import ItemPatch
from fourfold.storage.sqlite.store import TemporaryStore
from fourfold.storage.values import NewNode, Record

TAGS = tuple(f"tag {number:02}" for number in range(81))


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Removes the limits; `undo()` restores them."""
    monkeypatch.setattr(limits, "TAGS", 1000)
    monkeypatch.setattr(limits, "METADATA_BYTES", 1_000_000)
    monkeypatch.setattr(limits, "ITEM_BYTES", 10_000_000)
    return monkeypatch


@pytest.mark.spec("B9")
def test_check_names_items_beyond_the_limits(store: Any, unlimited: pytest.MonkeyPatch) -> None:
    wrong = add(
        store,
        item("many tags", tags=TAGS),
        item("much metadata", metadata={"large": "x" * 120_000}),
        item("x" * 700_000, title="t" * 700_000),
    )
    unlimited.undo()
    assert [problem.split(": ")[1] for problem in store.check()] == [f"item {id}" for id in wrong]


@pytest.mark.spec("B9")
def test_check_names_items_without_searchable_text(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (plain,) = add(store, item("text"))
    with monkeypatch.context() as patched:
        patched.setattr(rules, "patched", lambda old, patch: replace(old, title="", text=""))
        store.patch(NS, plain, ItemPatch(text=""), one(store, plain).created_at)
    assert ["both empty" in problem for problem in store.check()] == [True]


@pytest.mark.spec("B9")
def test_a_sound_store_loads_its_own_export(store: StoreCalls, empty: StoreCalls) -> None:
    raw = store.add_raw(NS, "said", "Ada", "s", {"turn": 1}, one(store, add(store, "x")[0]).created_at)
    first, _ = add(
        store,
        item("text", title="A (b)", tags=("ü", "B", "a"), metadata={"aliases": ["Other"], "n": [None, 1.5]}),
        item("y", path="p/ä.md", chunk_index=3, source_ids=(raw.id,), vector=[3.0, 4.0]),
    )
    store.add_nodes(NS, [NewNode("Ada", "person", ("Countess", "Ädä"), {"born": 1815}, first)])
    assert store.check() == []
    reloaded(store, empty)


CRAFTED: dict[str, tuple[str, Any]] = {
    "id zero": ("item", {"id": 0}),
    "id negative": ("item", {"id": -5}),
    "id beyond": ("item", {"id": 2**63 - 1}),
    "id true": ("item", {"id": True}),
    "id of letters": ("item", {"id": "seven"}),
    "text a number": ("item", {"text": 5}),
    "text with NUL": ("item", {"text": "a\x00b"}),
    "a day for a time": ("item", {"created_at": "yesterday"}),
    "vector cut": ("item", {"vector": "AACAPwAAAA=="}),
    "vector not base64": ("item", {"vector": "???"}),
    "vector NaN": ("item", {"vector": "AADAfwAAwH8="}),
    "unknown source": ("item", {"source_ids": [99]}),
    "unknown mention": ("mention", {"node": 99}),
    "unknown target": ("edge", {"target": 99}),
    "raw id": ("raw", {"id": 0}),
    "node id": ("node", {"id": -1}),
    "dimension": ("namespace", {"dimension": -3}),
    "dimension alone": ("namespace", {"fingerprint": None}),
    "dimension large": ("namespace", {"dimension": 10**6}),
    "namespace empty": ("namespace", {"name": ""}),
    "namespace long": ("namespace", {"name": "n" * 100_000}),
    "namespace twice": ("namespace", {"name": "other"}),
    "another's item": ("node", lambda theirs: {"items": [[theirs["item"], True]]}),
    "another's raw": ("item", lambda theirs: {"source_ids": [theirs["raw"]]}),
    "another's node": ("edge", lambda theirs: {"target": theirs["node"]}),
    "another's mention": ("mention", lambda theirs: {"node": theirs["node"]}),
    "no namespace": ("item", {"namespace": "nowhere"}),
    "list for a namespace": ("item", {"namespace": ["a"]}),
    "too many tags": ("item", {"tags": [f"t{n:03}" for n in range(65)]}),
    "tags unsorted": ("item", {"tags": ["b", "a"]}),
    "tag twice": ("item", {"tags": ["A", "a"]}),
    "metadata large": ("item", {"metadata": {"a": "x" * 70_000}}),
    "metadata a list": ("item", {"metadata": ["a"]}),
    "both empty": ("item", {"title": " ", "text": ""}),
    "text not normal": ("item", {"text": "e\u0301"}),
    "key with spaces": ("item", {"key": " k "}),
    "chunk negative": ("item", {"chunk_index": -1}),
    "linked a number": ("item", {"linked": 1}),
    "vector not of length one": ("item", {"vector": "AACAPwAAgD8="}),
    "vector of zeros": ("item", {"vector": "AAAAAAAAAAA="}),
    "time without zone": ("item", {"created_at": "2020-01-01T00:00:00"}),
    "year one": ("item", {"updated_at": "0001-01-01T00:00:00+14:00"}),
    "name blank": ("node", {"name": "!!"}),
    "alias twice": ("node", {"aliases": ["ada", "b"]}),
    "aliases of letters": ("node", {"aliases": "ab"}),
    "weight zero": ("edge", {"weight": 0}),
    "weight NaN": ("edge", {"weight": float("nan")}),
    "weight true": ("edge", {"weight": True}),
    "relation empty": ("edge", {"relation": ""}),
    "size negative": ("file", {"size": -1}),
    "path empty": ("file", {"path": ""}),
    "unknown field": ("item", {"more": 1}),
    "speaker long": ("raw", {"speaker": "s" * 2000}),
    "content empty": ("raw", {"content": ""}),
}


@cache
def everything() -> tuple[Record, ...]:
    """Records of every kind, in two namespaces."""
    store, other = StoreCalls(TemporaryStore()), "other"
    first, *_ = add(store, item("x", title="Ada"), item("Ada wrote", tags=("t",), vector=[3.0, 4.0]))
    now = one(store, first).created_at
    store.add_raw(NS, "said", None, None, {}, now)
    store.add_raw(other, "said there", None, None, {}, now)
    store.put(other, [item("theirs", title="Theirs")], now)
    store.add_nodes(NS, [NewNode("Ada", "entity", ("Countess",), {"born": 1815}, first), NewNode("Bert")])
    store.add_nodes(NS, [NewNode("Carl")])
    store.add_edges(NS, [rules.checked_edge("Ada", "knows", "Bert", 0.5)])
    records = exported(store)
    store.close()
    file = {"path": "a.md", "size": 1, "mtime_ns": 5, "digest": "", "skipped": "empty"}
    return (*records, {"type": "file", "namespace": NS, **file})


@pytest.mark.spec("B9")
def test_a_record_that_no_write_can_produce_is_refused_and_nothing_is_stored(store: StoreCalls) -> None:
    records = everything()
    theirs = {record["type"]: record["id"] for record in records if record.get("namespace") == "other"}
    for change, (kind, fields) in CRAFTED.items():
        new = fields(theirs) if callable(fields) else fields
        ours = [n for n, each in enumerate(records) if each["type"] == kind and each.get("namespace", NS) == NS]
        place = ours[0]
        if change == "namespace twice":
            place = next(n for n, record in enumerate(records) if record.get("name") == NS)
        read: list[int] = []

        def crafted(place: int = place, new: Any = new, read: list[int] = read) -> Iterator[Record]:
            for number, record in enumerate(records):
                read.append(number)
                yield {**record, **new} if number == place else record

        with pytest.raises(InvalidItem) as raised:
            store.load(crafted())
        assert raised.value.remedy, change
        assert (store.namespaces(), exported(store)) == ({}, []), change
        assert kind == "namespace" or read[-1] == place, change  # so that an import names the line
    store.load(records)
    assert store.check() == []

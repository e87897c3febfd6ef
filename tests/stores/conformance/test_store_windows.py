"""Items with several vectors: the nearest one counts, and all of them come and go together."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from conformance_subjects import LATER, NOW, NS, POSTGRES, add, edit, exported, ids, item, make, unit

from fourfold.embed.windows import Windows, body
from fourfold.model import NO_FILTERS, Filters, ItemPatch, Space
from fourfold.retrieval import Part
from fourfold.storage.values import Size

SPACE = Space("model", 3)
X, Y, Z = unit(1, 0, 0), unit(0, 1, 0), unit(0, 0, 1)
TEXT = "abcdefghij"


def windows(*vectors: Any, text: str = TEXT) -> Windows:
    """One window per vector, each two characters longer than its share of the text."""
    step = len(text) / len(vectors)
    ends = [round(step * number) for number in range(1, len(vectors) + 1)]
    spans = tuple((max(0, round(step * number) - 2 * (number > 0)), end) for number, end in enumerate(ends))
    return Windows(np.stack(vectors), spans)


@pytest.fixture
def long(store: Any) -> tuple[Any, int, int]:
    """A long item with vectors in all directions, and a short one."""
    first, second = add(store, item(TEXT, key="long", tags=("t",)), item("short", key="short"))
    made = [(first, "", TEXT, windows(X, Y, Z)), (second, "", "short", unit(1, 1, 0))]
    assert store.put_vectors(NS, SPACE, made) == 2
    return store, first, second


@pytest.mark.spec("C13")
def test_the_nearest_window_counts_and_names_its_part(long: tuple[Any, int, int]) -> None:
    store, first, second = long
    assert store.size(NS) == Size(2, 2, 2)
    for vector, part in ((X, Part(1, 3, 0, 3)), (Y, Part(2, 3, 1, 7)), (Z, Part(3, 3, 5, 10))):
        found = store.nearest(NS, vector, 9, NO_FILTERS)
        assert ids(found) == [first, second]
        assert found.hits[0].score == pytest.approx(1, abs=1e-6)
        assert store.cosines(NS, vector, [second, first]).scores == pytest.approx(dict(found.hits), abs=1e-6)
        assert store.nearest_parts(NS, vector, [first, second, 999]) == {first: part}
    assert store.check() == []


@pytest.mark.spec("C13")
def test_the_first_window_is_used_for_the_mean_cosine(long: tuple[Any, int, int]) -> None:
    store, _, _ = long
    background = store.nearest(NS, X, 9, NO_FILTERS).background
    assert background.mean == pytest.approx((1 + 0.5**0.5) / 2, abs=1e-6)


@pytest.mark.spec("C13")
def test_items_are_counted_not_windows(store: Any) -> None:
    """One item has more windows near the query than the list has places."""
    stored = add(store, *(item(f"{TEXT}{number}", key=f"k{number}", tags=(f"t{number % 2}",)) for number in range(8)))
    near = [unit(10, 1, number / 20) for number in range(16)]
    made: list[Any] = [(stored[0], "", f"{TEXT}0", windows(*near))]
    made += [(id, "", f"{TEXT}{n}", unit(10, 2, n)) for n, id in enumerate(stored) if n]
    store.put_vectors(NS, SPACE, made)
    assert ids(store.nearest(NS, X, 5, NO_FILTERS)) == stored[:5]
    assert ids(store.nearest(NS, X, 3, Filters(tags=("t0",)))) == stored[:6:2]
    assert ids(store.nearest(NS, X, 9, Filters(tags=("t1",)))) == stored[1::2]


@pytest.mark.spec("C13")
def test_a_new_text_drops_all_windows_and_new_ones_replace_them(long: tuple[Any, int, int]) -> None:
    store, first, second = long
    store.patch(NS, first, ItemPatch(text="other"), LATER)
    assert store.size(NS) == Size(2, 1, 0)
    assert ids(store.nearest(NS, Z, 9, NO_FILTERS)) == [second]
    assert store.put_vectors(NS, SPACE, [(first, "", TEXT, windows(X, Y))]) == 0, "the vector belongs to the old text"
    assert store.put_vectors(NS, SPACE, [(first, "", "other", windows(Y, Z, text="other"))]) == 1
    assert store.put_vectors(NS, SPACE, [(first, "", "other", Y)]) == 1
    assert store.size(NS) == Size(2, 2, 0)
    assert store.nearest(NS, Z, 9, NO_FILTERS).scores[first] == 0
    assert store.nearest_parts(NS, Y, [first]) == {}
    assert store.check() == []


@pytest.mark.spec("C13")
def test_windows_are_reset_and_forgotten_as_a_whole(long: tuple[Any, int, int]) -> None:
    store, first, _ = long
    later = Space("later", 3)
    store.reset_space(NS, later)
    assert (store.size(NS), len(store.pending(NS, 9))) == (Size(2, 0, 0), 2)
    store.put_vectors(NS, later, [(first, "", TEXT, windows(X, Y, Z))])
    assert store.size(NS) == Size(2, 1, 2)
    assert store.forget(NS, [first]) == 1
    assert store.size(NS) == Size(1, 0, 0)
    assert ids(store.nearest(NS, X, 9, NO_FILTERS)) == []
    assert store.check() == []


@pytest.mark.spec("C13")
def test_a_given_vector_replaces_windows(long: tuple[Any, int, int]) -> None:
    store, first, _ = long
    add(store, item(TEXT, key="long", vector=Y))
    assert store.size(NS) == Size(2, 2, 0)
    assert store.cosines(NS, Z, [first]).scores[first] == 0
    assert store.check() == []


@pytest.mark.spec("C13")
def test_a_version_keeps_the_windows(store: Any) -> None:
    (id,) = add(store, item(TEXT, subject="Ada", attribute="city"))
    store.put_vectors(NS, SPACE, [(id, "", TEXT, windows(X, Y))])
    edit(store, id, text="another")
    assert store.size(NS) == Size(2, 1, 1)
    (version,) = store.nearest(NS, Y, 9, NO_FILTERS).scores
    assert version != id
    assert store.nearest_parts(NS, Y, [version]) == {version: Part(2, 2, 3, 10)}
    assert store.check() == []


@pytest.mark.spec("C13")
@pytest.mark.spec("B9")
def test_an_export_carries_windows(long: tuple[Any, int, int], empty: Any) -> None:
    store, first, _ = long
    records = exported(store)
    (long_one,) = (record for record in records if record.get("key") == "long")
    assert long_one["spans"] == [[0, 3], [1, 7], [5, 10]]
    empty.load(records)
    again = exported(empty)
    assert again == records
    assert empty.nearest_parts(NS, Z, [first]) == {first: Part(3, 3, 5, 10)}
    assert (empty.size(NS), empty.check()) == (Size(2, 2, 2), [])


@pytest.mark.spec("C13")
def test_text_beyond_the_windows_is_counted(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (id,) = add(store, item("x" * 100))
    store.put_vectors(NS, SPACE, [(id, "", "x" * 100, Windows(np.stack([X, Y]), ((0, 30), (20, 60))))])
    assert store.nearest_parts(NS, Y, [id]) == {id: Part(2, 2, 20, 60, 40)}
    assert store.check() == [f"namespace {NS}: item {id}: its windows leave out a part of its text"]
    monkeypatch.setattr("fourfold.embed.windows.WINDOWS", 2)
    assert store.check() == []


@pytest.mark.spec("C13")
@pytest.mark.parametrize("kind", ["sqlite", "published", "reopened", "two", *POSTGRES])
@pytest.mark.parametrize("seed", range(2))
def test_stores_agree_about_windows(seed: int, kind: str, folder: Path) -> None:
    """Random items of one to nine windows that are written, changed and forgotten."""
    oracle, subject = make("oracle", folder), make(kind, folder)
    random = Random(seed)
    vectors = [unit(*(random.gauss(0, 1) for _ in range(3))) for _ in range(40)]
    for round_ in range(4):
        keys = random.sample(range(60), 30)
        items = [item(f"{TEXT * 3} {key} {round_}", key=f"k{key}", tags=(f"t{key % 3}",)) for key in keys]
        gone = random.sample(range(60), 5)
        for store in (oracle, subject):
            store.put(NS, items, NOW)
            found = store.find_keys(NS, [f"k{key}" for key in gone])
            store.forget(NS, list(found.values()))
        pending = list(oracle.pending(NS, 100))
        made: list[Any] = []
        for id, title, text in pending:
            chosen = random.choices(vectors, k=random.choice((1, 1, 2, 3, 9)))
            made.append((id, title, text, windows(*chosen, text=body(title, text)) if chosen[1:] else chosen[0]))
        for store in (oracle, subject):
            assert store.put_vectors(NS, SPACE, made) == len(made)
        assert subject.size(NS) == oracle.size(NS)
        for query in vectors[:6]:
            for filters in (NO_FILTERS, Filters(tags=("t1",))):
                for limit in (3, 10, 200):
                    assert list(subject.nearest(NS, query, limit, filters).hits) == list(
                        oracle.nearest(NS, query, limit, filters).hits
                    )
            every = oracle.ids(NS, NO_FILTERS)
            assert subject.cosines(NS, query, every).scores == oracle.cosines(NS, query, every).scores
            assert subject.nearest_parts(NS, query, every) == oracle.nearest_parts(NS, query, every)
    assert subject.check() == []
    for store in (oracle, subject):
        store.close()

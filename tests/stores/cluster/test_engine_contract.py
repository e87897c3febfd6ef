"""The contract of an engine, on every engine."""

import secrets
from collections import Counter
from collections.abc import Iterator

import pytest
from cluster_support import document, entries

from fourfold.errors import IndexUnavailable
from fourfold.storage.engines.protocol import Applied, Engine, Entry

pytestmark = pytest.mark.spec("C11")

SECONDS = 5.0


@pytest.fixture
def collection(engine: Engine) -> Iterator[str]:
    name = f"Fourfold_{secrets.token_hex(8)}"
    engine.create(name, 4)
    yield name
    engine.drop(name)


def test_every_node_finds_stored_documents(engine: Engine, collection: str):
    engine.put(collection, [document(1, 7, [5, 5, 9], [1, 0, 0, 0]), document(2, 7, [9], [0, 1, 0, 0])])
    for node in engine.nodes:
        assert node.match(collection, {5: 1.0, 0xFFFF_FFFF: 2.0}, 10, [], SECONDS) == [1]
        assert sorted(node.match(collection, {9: 1.0}, 10, [], SECONDS)) == [1, 2]
        assert node.nearest(collection, [0, 0.9, 0.1, 0], 1, [], SECONDS) == [2]


def test_a_repeated_write_changes_nothing_and_versions_are_separate(engine: Engine, collection: str):
    new, old = document(1, 8, [5], [1, 0, 0, 0]), document(1, 7, [6], [0, 1, 0, 0])
    for _ in range(2):
        engine.put(collection, [new])
    assert engine.put(collection, [old]) == set()
    for node in engine.nodes:
        assert node.held(collection, [Entry(1, 7), Entry(1, 8), Entry(2, 7)]) == 2
        assert node.held(collection, []) == 0
    assert entries(engine, collection) == [[Entry(1, 7), Entry(1, 8)]] * len(engine.nodes)
    for _ in range(2):
        engine.remove(collection, [Entry(1, 7), Entry(3, 3)])
    assert entries(engine, collection) == [[Entry(1, 8)]] * len(engine.nodes)
    for node in engine.nodes:
        assert node.match(collection, {6: 1.0}, 10, [], SECONDS) == []
        assert node.nearest(collection, [0, 1, 0, 0], 10, [], SECONDS) == [1]


@pytest.mark.spec("C13")
def test_an_item_is_found_by_each_of_its_windows_and_removed_with_all(engine: Engine, collection: str):
    windows = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    one, two, three = map(engine.objects, (1, 2, 3))
    engine.put(collection, [document(1, 7, [5], windows), document(2, 7, [5], [0, 0, 0.5, 1])])
    engine.put(collection, [document(1, 8, [5], windows[:2])])
    for node in engine.nodes:
        assert Counter(node.entries(collection, 1, 9)) == {Entry(1, 7): three, Entry(1, 8): two, Entry(2, 7): one}
        assert node.nearest(collection, [0, 0, 1, 0.1], 2, [], SECONDS) == [1, 2]
        assert sorted(node.match(collection, {5: 1.0}, 10, [], SECONDS)) == [1, 1, 2], (
            "words are stored once per item, not per window"
        )
    engine.remove(collection, [Entry(1, 7)])
    for node in engine.nodes:
        assert Counter(node.entries(collection, 1, 9)) == {Entry(1, 8): two, Entry(2, 7): one}
        assert node.nearest(collection, [0, 0, 1, 0.1], 1, [], SECONDS) == [2]


def test_items_without_words_or_vector_are_stored(engine: Engine, collection: str):
    engine.put(collection, [document(1, 1, []), document(2, 1, [4]), document(3, 1, [], [1, 0, 0, 0])])
    assert entries(engine, collection)[0] == [Entry(1, 1), Entry(2, 1), Entry(3, 1)]
    assert engine.nodes[0].match(collection, {4: 1.0}, 10, [], SECONDS) == [2]
    assert engine.nodes[0].nearest(collection, [1, 0, 0, 0], 10, [], SECONDS) == [3]


def test_candidates_have_a_fact_of_every_required_group(engine: Engine, collection: str):
    large = (1 << 52) - 2
    engine.put(
        collection,
        [
            document(1, 1, [4], [1, 0, 0, 0], [10, large]),
            document(2, 1, [4], [1, 0, 0, 0], [11, large + 1]),
            document(3, 1, [4], [1, 0, 0, 0]),
        ],
    )
    for required, wanted in (([], [1, 2, 3]), ([[10, 11]], [1, 2]), ([[10, 11], [large]], [1]), ([[99]], [])):
        assert sorted(engine.nodes[0].match(collection, {4: 1.0}, 10, required, SECONDS)) == wanted
        assert sorted(engine.nodes[0].nearest(collection, [1, 0, 0, 0], 10, required, SECONDS)) == wanted


def test_the_last_batch_is_read_from_every_node(engine: Engine, collection: str):
    assert [node.applied(collection, SECONDS) for node in engine.nodes] == [None] * len(engine.nodes)
    for applied in (Applied("first", 1), Applied("second", 2)):
        assert engine.apply(collection, applied) == set()
        assert [node.applied(collection, SECONDS) for node in engine.nodes] == [applied] * len(engine.nodes)
    assert entries(engine, collection) == [[]] * len(engine.nodes)


def test_a_window_of_items_is_listed(engine: Engine, collection: str):
    engine.put(collection, [document(item, 1, [item]) for item in range(1, 31)])
    for node in engine.nodes:
        assert sorted(node.entries(collection, 5, 8)) == [Entry(5, 1), Entry(6, 1), Entry(7, 1)]


def test_a_missing_collection_raises_an_error(engine: Engine):
    with pytest.raises(IndexUnavailable):
        engine.nodes[0].match("Fourfold_none", {4: 1.0}, 10, [], SECONDS)
    engine.drop("Fourfold_none")

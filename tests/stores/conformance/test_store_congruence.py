"""After random operations, every store answers like the oracle."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conformance_operations import FILES, FILTERS, NAMES, QUERIES, TAGS, VECTORS, Life, names_of
from conformance_subjects import NOW, NS, POSTGRES, item, make
from oracle import faults
from store_calls import StoreCalls

from fourfold.errors import FourfoldError
from fourfold.model import NO_FILTERS, Filters
from fourfold.retrieval import Link, Ranking
from fourfold.storage.values import Record
from fourfold.text.fold import fold

LIVES = range(9)


@pytest.mark.spec("B4")
@pytest.mark.spec("B6")
@pytest.mark.parametrize("kind", ["sqlite", "published", "reopened", "two", *POSTGRES, "postgres-two"])
@pytest.mark.parametrize("life", LIVES)
def test_every_store_answers_like_the_oracle(life: int, kind: str, folder: Path) -> None:
    oracle, subject = make("oracle", folder), make(kind, folder)
    removals = False
    for number, operation in enumerate(Life(life).operations(40)):
        expected = outcome(operation, oracle)
        assert outcome(operation, subject) == expected, f"operation {number}: {operation}"
        removals |= expected is True and operation.keywords["name"] in ("remove_node", "remove_edge")
    subject.publish(NS)
    records: list[Record] = []
    subject.export(records.append, namespace=NS)
    assert faults(records, removals=removals) == []
    compare(oracle, subject)
    assert subject.check() == []
    for store in (oracle, subject):
        store.close()


@pytest.mark.spec("S1.3")
@pytest.mark.parametrize("kind", ["sqlite", "published", *POSTGRES])
def test_lists_with_too_many_matches_are_cut_at_the_same_place(kind: str, folder: Path) -> None:
    """Uses many ties, and many items that match a word in several forms."""
    oracle, subject = make("oracle", folder), make(kind, folder)
    random = Random(1)
    for start in range(0, 800, 200):
        words = [random.choices(LANDSCAPE, k=random.choice((2, 3, 20, 60))) for _ in range(200)]
        items = [item(" ".join(text), key=f"k{start + n}", language="de") for n, text in enumerate(words)]
        for store in (oracle, subject):
            store.put(NS, items, NOW)
        subject.size(NS)  # a read: some stores publish before it
    for query in ("Vertrag", "Mietvertrag Seehaus", "Haus See Wald Berg", "Berghaus Vertrag"):
        assert_same(subject.match(NS, query, 200, NO_FILTERS), oracle.match(NS, query, 200, NO_FILTERS), 1e-9)
    for store in (oracle, subject):
        store.close()


LANDSCAPE = ("Vertrag", "Haus", "Miete", "See", "Wald", "Berg", "Tal", "Fluss", "Meer", "Sonne")


def outcome(operation: Any, store: StoreCalls) -> Any:
    """The result of an operation, or the class of its error, without node ids, which differ between stores."""
    try:
        done = operation(store)
    except FourfoldError as error:
        return type(error)
    is_nodes = isinstance(done, list) and done and hasattr(done[0], "aliases")
    return [(node.name, node.label, node.aliases, node.properties, node.item_id) for node in done] if is_nodes else done


# ---------------------------------------------------------------- comparing all answers


def compare(oracle: StoreCalls, subject: StoreCalls) -> None:
    assert rows(subject) == rows(oracle)
    for number, query in enumerate(QUERIES):
        for filters in (NO_FILTERS, FILTERS[number % len(FILTERS)]):
            compare_keyword(oracle, subject, query, filters)
            compare_links(oracle, subject, query, filters)
            compare_tags(oracle, subject, filters)
    for number, vector in enumerate(VECTORS[:5]):
        for filters in (NO_FILTERS, FILTERS[number], FILTERS[-1 - number]):
            compare_vectors(oracle, subject, vector, filters)
    for name in NAMES:
        compare_walks(oracle, subject, name)
    compare_files(oracle, subject)


def rows(store: StoreCalls) -> Any:
    """All rows of a store."""
    listed = store.list(NS, NO_FILTERS, 1000, 0)
    by_filter = [store.ids(NS, filters) for filters in FILTERS]
    pending, space = store.pending(NS, 1000), store.space(NS)
    raw, namespaces = store.get_raw(NS, range(10)), store.namespaces()
    return listed, by_filter, pending, space, store.size(NS), raw, namespaces, exported(store)


def exported(store: StoreCalls) -> Any:
    """The records of an export, with names instead of node ids, which differ between stores."""
    records: list[Record] = []
    store.export(records.append)
    names = {record["id"]: (record["name"], record["label"]) for record in records if record["type"] == "node"}
    hidden = [{**record, "id": 0} if record["type"] == "node" else record for record in records]
    named = [{key: names[data] if key in NODE_IDS else data for key, data in record.items()} for record in hidden]
    return sorted(named, key=repr)


NODE_IDS = ("source", "target", "node")


def compare_keyword(oracle: StoreCalls, subject: StoreCalls, query: str, filters: Filters) -> None:
    expected = oracle.match(NS, query, 200, filters)
    assert_same(subject.match(NS, query, 200, filters), expected, 1e-9)
    ids = [item.id for item in oracle.list(NS, NO_FILTERS, 1000, 0)]
    scores, wanted = [store.word_scores(NS, query, ids) for store in (subject, oracle)]
    assert_same(by_id(scores), by_id(wanted), 1e-9)


def compare_vectors(oracle: StoreCalls, subject: StoreCalls, vector: Any, filters: Filters) -> None:
    assert_same(subject.nearest(NS, vector, 200, filters), oracle.nearest(NS, vector, 200, filters), 1e-6)
    ids = [item.id for item in oracle.list(NS, filters, 1000, 0)]
    cosines, wanted = [store.cosines(NS, vector, ids) for store in (subject, oracle)]
    assert_same(by_id(cosines), by_id(wanted), 1e-6)


def compare_links(oracle: StoreCalls, subject: StoreCalls, query: str, filters: Filters) -> None:
    ids = [item.id for item in oracle.list(NS, NO_FILTERS, 20, 0)]
    for call in ("node_links", "item_links"):
        start = names_of(query) if call == "node_links" else ids
        links, wanted = [getattr(store, call)(NS, start, filters) for store in (subject, oracle)]
        keep_source = call == "item_links"
        assert plain(links, keep_source) == plain(wanted, keep_source)


def compare_tags(oracle: StoreCalls, subject: StoreCalls, filters: Filters) -> None:
    assert subject.tag_counts(NS) == oracle.tag_counts(NS)
    tags = sorted({fold(tag) for tag in TAGS})
    assert subject.tag_uses(NS, tags, filters) == oracle.tag_uses(NS, tags, filters)
    for limit in (1, 5):
        found, wanted = [store.tag_uses(NS, tags, filters, limit) for store in (subject, oracle)]
        assert found == wanted


def compare_files(oracle: StoreCalls, subject: StoreCalls) -> None:
    """Compares chunks by file; the states of files are part of the export."""
    for filters in FILTERS:
        named = [store.named_chunks(NS, ["main.py", "a.md"], filters) for store in (subject, oracle)]
        assert named[0] == named[1]
    for path in FILES:
        chunks = [store.chunks(NS, path, 0, 2) for store in (subject, oracle)]
        assert chunks[0] == chunks[1]


def compare_walks(oracle: StoreCalls, subject: StoreCalls, name: str) -> None:
    for direction in ("both", "out", "in"):
        near = [outcome(_neighbors(name, direction), store) for store in (subject, oracle)]
        assert near[0] == near[1]
    ways = [outcome(lambda store: store.path(NS, name, NAMES[0], 5), store) for store in (subject, oracle)]
    assert ways[0] == ways[1]


def _neighbors(name: str, direction: Any) -> Any:
    def asked(store: StoreCalls) -> Any:
        near = store.neighbors(NS, name, None, 3, direction, None)
        return [(n.node.name, n.node.label, n.relation, n.distance, pytest.approx(n.weight)) for n in near]

    return asked


# ---------------------------------------------------------------- equal


def assert_same(found: Ranking, wanted: Ranking, tolerance: float) -> None:
    assert [hit.id for hit in found.hits] == [hit.id for hit in wanted.hits]
    close = {"rel": 0, "abs": tolerance}
    assert [hit.score for hit in found.hits] == pytest.approx([hit.score for hit in wanted.hits], **close)
    assert dict(found.evidence) == pytest.approx(dict(wanted.evidence), **close)
    assert (found.pending, found.notes) == (wanted.pending, wanted.notes)
    assert (found.background is None) == (wanted.background is None)
    assert found.unknown == pytest.approx(wanted.unknown, **close)
    if found.background is not None:
        assert tuple(found.background) == pytest.approx(tuple(wanted.background or ()), **close)


def by_id(ranking: Ranking) -> Ranking:
    return Ranking(tuple(sorted(ranking.hits)), ranking.background, evidence=ranking.evidence, unknown=ranking.unknown)


def plain(links: Sequence[Link], keep_source: bool) -> list[tuple[Any, ...]]:
    """The value without node ids."""
    return sorted((link.source if keep_source else 0, *link[1:]) for link in links)

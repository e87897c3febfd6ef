"""Checks a store: the file, its counters, its queue, and its indexes compared with the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import apsw
import numpy as np

from fourfold.index import text_index
from fourfold.index.segment_files import Damaged
from fourfold.index.text_index import ItemTerms, TextState, item_terms
from fourfold.index.vector_index import VectorState
from fourfold.limits import VECTOR_DIMENSIONS
from fourfold.storage.sql import counters
from fourfold.storage.sql.counters import Counted
from fourfold.storage.sqlite import changes, namespaces, portable, vectors
from fourfold.storage.sqlite.changes import SqliteSourceSnapshot
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import Database
from fourfold.storage.sqlite.indexes import Indexes

_CHUNK = 2000

COUNTERS: tuple[Counted, ...] = (
    *counters.COUNTERS,
    ("namespaces", "vectors", "SELECT count(*) FROM vectors JOIN items ON items.id = item WHERE ns = namespaces.id"),
    (
        "namespaces",
        "windows",
        "SELECT coalesce(sum(length(spans) / 8 - 1), 0) FROM vectors JOIN items ON items.id = item "
        "WHERE ns = namespaces.id",
    ),
    ("tags", "uses", "SELECT count(*) FROM item_tags WHERE tag = tags.id"),
    ("nodes", "mentioned", "SELECT count(*) FROM mentions WHERE node = nodes.id"),
)
MISSHAPEN = (
    "SELECT item FROM vectors JOIN items ON items.id = item JOIN namespaces ON namespaces.id = ns "
    "WHERE dimension IS NULL OR length(vector) <> dimension * 4 * coalesce(length(spans) / 8, 1)"
)


def check(database: Database, indexes: Indexes) -> list[str]:
    """Problems, a line each."""
    with database.read() as db:
        problems = [f"database: {line}" for line in broken(db)]
        if problems:  # what is read from such a file says nothing
            return problems
        problems += sorted(
            {f"{table}: a row refers to a missing row" for table, *_ in db.rows("PRAGMA foreign_key_check")}
        )
        records = () if problems else portable.records(db)  # orphans may be unreadable as records
        problems += counters.check(db, COUNTERS, MISSHAPEN, records)
        spaces = [(ns.id, ns.name, ns.space) for ns in namespaces.everyone(db)]
    for ns, name, space in spaces:
        if space is not None and not 0 < space.dimension <= VECTOR_DIMENSIONS:
            continue  # named above; there can be no index of such vectors
        published = indexes.published(ns, space)  # before the rows are read: files may be older than they, never newer
        with database.read() as db:
            if namespaces.read(db, ns).space == space:  # otherwise another process has just begun to renew all vectors
                states = indexes.caught_up(ns, space, SqliteSourceSnapshot(db, ns), published)
                problems += [f"namespace {name}: {problem}" for problem in _differences(db, ns, *states)]
    return problems


def broken(db: Connection) -> list[str]:
    try:
        return [line for (line,) in db.rows("PRAGMA integrity_check") if line != "ok"]
    except apsw.CorruptError as error:  # too broken even to be looked through
        return [str(error)]


def _differences(db: Connection, ns: int, texts: TextState, nearness: VectorState | None) -> list[str]:
    try:
        return list(_drift(db, ns, texts, nearness))
    except Damaged as error:
        return [f"its index was damaged while it was read ({error})"]


def _drift(db: Connection, ns: int, texts: TextState, nearness: VectorState | None) -> Iterator[str]:
    """Where indexes differ from the rows."""
    for name, state in (("keyword", texts), ("vector", nearness)):
        if state is not None and state.segment.damage:
            yield f"its {name} index is damaged ({state.segment.damage})"
    stored = changes.all_ids(db, ns)
    german: Counter[str] = Counter()
    parts = _chunks(stored)
    wrong = sum(
        _wrong_texts(german, texts, item) for part in parts for item in item_terms(list(changes.texts(db, part)))
    )
    yield from _differing("keyword", texts, stored, wrong)
    yield from _wrong_words(texts, german)
    if nearness is not None:
        embedded = [item for (item,) in db.rows(_EMBEDDED, ns)]
        wrong = sum(_wrong_vectors(db, nearness, part) for part in _chunks(embedded))
        yield from _differing("vector", nearness, embedded, wrong)


def _chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), _CHUNK):
        yield ids[start : start + _CHUNK]


_EMBEDDED = "SELECT item FROM vectors JOIN items ON id = item WHERE ns = ? ORDER BY item"


def _differing(name: str, state: TextState | VectorState, stored: Sequence[int], wrong: int) -> Iterator[str]:
    found = {int(item) for part in (state.published, state.tail) for item in part.ids[part.live]}
    missing, surplus = len(set(stored) - found), len(found.difference(stored))
    if missing or surplus:
        yield f"its {name} index lacks {missing} items and has {surplus} too many"
    if wrong:
        yield f"its {name} index has wrong contents for {wrong} items"


def _wrong_texts(german: Counter[str], state: TextState, item: ItemTerms) -> bool:
    """Whether the columns have other terms for an item, or another language. Counts the items with each German term."""
    is_german, wrong = item.language == "de", False
    german.update(set(item.german_terms))
    for documents in (state.published, state.tail):
        for row in documents.find(np.array([item.id], np.int64)).tolist():
            end = documents.ends[row]
            wrong |= not np.array_equal(documents.terms[end - documents.lengths[row] : end], item.hashes)
            if documents is state.published:
                wrong |= bool(state.segment.is_german[row]) != is_german
    return wrong


def _wrong_words(state: TextState, german: Counter[str]) -> Iterator[str]:
    """Problems by which words would not be found: postings of other terms than the rows have, or other German words."""
    texts = state.published
    if texts.postings is not None and not text_index.postings_agree(texts.postings, texts.terms, texts.ends):
        yield "its keyword index has postings of other terms than its rows"
    known = Counter(state.segment.german) - Counter(state.segment.german_losses(state.died))
    known.update(term for terms in state.german.values() for term in set(terms))
    if known != german:
        yield "its keyword index has other German words than the texts"


def _wrong_vectors(db: Connection, state: VectorState, ids: Sequence[int]) -> int:
    """Items of which an index holds other vectors than the rows, or another number of them."""
    stored, matrix = vectors.read(db, ids, state.tail.dimension)
    known = np.unique(stored)
    parts = [(part, part.find(known)) for part in (state.published, state.tail)]
    held = np.concatenate([part.ids[found] for part, found in parts])
    order = np.argsort(held, kind="stable")
    held, content = held[order], np.concatenate([part.matrix[found] for part, found in parts])[order]
    counts = np.searchsorted(held, known, "right") - np.searchsorted(held, known)
    expected = np.searchsorted(stored, known, "right") - np.searchsorted(stored, known)
    same = known[counts == expected]
    differ = (content[np.isin(held, same)] != matrix[np.isin(stored, same)]).any(axis=1)
    miscounted = int(((counts != expected) & (counts > 0)).sum())  # an item without any is reported as missing
    return miscounted + len(np.unique(stored[np.isin(stored, same)][differ]))

"""Vectors: pgvector proposes rows, whose exact cosines are computed here, in double precision."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fourfold.embed.base import check_dimension
from fourfold.embed.windows import Windows, flaw, rows_of, spans_of
from fourfold.errors import IndexUnavailable
from fourfold.index.rows import SAMPLE
from fourfold.model import Filters, Vector
from fourfold.retrieval import Background, Hit, Ranking
from fourfold.storage.postgres.connection import Connection, Packed, Statement, array, packed
from fourfold.storage.postgres.database import Tuning
from fourfold.storage.postgres.index_log import MOST_CANDIDATES
from fourfold.storage.sql.dialect import BODY, Condition, possible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.storage.postgres.namespaces import Namespace
    from fourfold.storage.postgres.store import PostgresSnapshot

    Matrix = NDArray[np.float32]

_BUILDING = 0x466F757266
"""The advisory lock of a process that builds an index: two at once in one database would wait for each other."""
_RETRY_SECONDS = 0.05
INDEXED_DIMENSIONS = 4_000
"""Maximum dimension of half-precision vectors in pgvector's HNSW; longer ones are searched exactly."""
_BITS = 24
_MORE_ROWS = 4
"""If the nearest rows belong to too few items, this many times as many are read."""
_HEADER_BYTES = 4
"""Before the numbers of a vector as the server sends it."""


# ---------------------------------------------------------------- storing


def vector_rows(item: int, ns: int, vector: Vector | Windows) -> Iterator[bytes]:
    """Rows of `vectors` for COPY in binary, which needs a tenth of the time of a vector as text."""
    vectors, spans = rows_of(vector).astype(">f4"), spans_of(vector)
    size = 4 + vectors.nbytes // len(vectors)
    for part, numbers in enumerate(vectors):
        sample = sample_place(item) if part == 0 else NO_SAMPLE
        span = _SPAN.pack(4, spans[part][0], 4, spans[part][1]) if spans else _NO_SPAN
        head = _HEAD.pack(7, 8, item, 4, ns, 4, sample, size, len(numbers), 0)
        yield head + numbers.tobytes() + _PART.pack(4, part) + span


_HEAD = Struct(">h iq ii ii ihh")
"""The number of columns; the length and the content of each; of a vector, its dimension and a zero come first."""
_PART, _SPAN, _NO_SPAN = Struct(">ii"), Struct(">iiii"), Struct(">ii").pack(-1, -1)


def spelled(vector: Any) -> str:
    return f"[{','.join(map(repr, np.asarray(vector, np.float32).tolist()))}]"


def sample_place(item: int) -> int:
    """The bits by which `in_sample` chooses, reversed, so that a sample is a range below a bound."""
    mixed = (item * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 64 - _BITS
    return int(f"{mixed:0{_BITS}b}"[::-1], 2)


NO_SAMPLE = 1 << _BITS
"""Of the further windows of an item: only the first one can be in a sample."""


# ---------------------------------------------------------------- searching


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of some hundred vectors, with which the best hits of a query are compared."""

    vectors: Matrix

    def background(self, query: Vector) -> Background | None:
        if not len(self.vectors):
            return None
        return Background(float(self.vectors.mean(axis=0, dtype=np.float64) @ query.astype(np.float64)))


@dataclass(slots=True, eq=False)
class VectorSearch:
    _at: PostgresSnapshot

    def begin_nearest(self, vector: Vector, limit: int, filters: Filters) -> Callable[[], Ranking]:
        """Starts a search: in another thread with a distributed index; otherwise when the result is requested, since a
        transaction has one connection."""
        ns = self._at.ns
        if ns.space is None:
            return lambda: Ranking(pending=self._at.size.pending)
        check_dimension(len(vector), ns.space.dimension)
        begun = self._at.candidates.begin_nearest(vector, _candidates(ns, limit), filters)
        return lambda: self._nearest(vector, limit, filters, begun)

    def _nearest(self, vector: Vector, limit: int, filters: Filters, begun: Callable[[], list[int] | None]) -> Ranking:
        ns = self._at.ns
        parts = self._of_index(vector, limit, filters, begun) or [self._proposed(vector, limit, filters)]
        hits = _best([scored(each, ns.dimension or 0, vector) for each in parts])[:limit]
        note = self._at.candidates.note
        sample = self._at.caches.samples.get(ns.id, ns.vector_changes, "", self._sample)
        return Ranking(hits, sample.background(vector), self._at.size.pending, () if note is None else (note,))

    def _of_index(
        self, vector: Vector, limit: int, filters: Filters, begun: Callable[[], list[int] | None]
    ) -> list[Packed] | None:
        """Rows that a distributed index proposes, and newer ones; None if PostgreSQL has to propose."""
        at, count = self._at, _candidates(self._at.ns, limit)
        condition, narrow = ("", ()), None
        if filters.condition is not None:
            condition, narrow = at.narrowed(filters)
        if narrow is not None or (proposed := begun()) is None:
            return None
        newer = self._read(_among(at.ns, vector, at.candidates.tail or (), limit, condition))
        while proposed is not None:
            rows = self._read(_of_items(at.ns, proposed, condition))
            if _items_in(rows) >= limit or len(proposed) < count:
                return [rows, newer]
            if count >= MOST_CANDIDATES:
                return None  # few items pass the filter: its condition finds them sooner
            count = min(count * 4, MOST_CANDIDATES)
            proposed = at.candidates.begin_nearest(vector, count, filters)()
        return None

    def _proposed(self, vector: Vector, limit: int, filters: Filters) -> Packed:
        """Rows that contain those of the nearest items that pass the filters, with all windows of each."""
        at = self._at
        if at.candidates.note is not None and lacks_index(at.db, at.ns, at.tuning):
            raise IndexUnavailable(at.candidates.note, "PostgreSQL has no vector index of its own here")
        if not at.ns.windows:
            return self._nearest_rows(vector, limit, filters)
        count = limit * at.ns.vectors_per_item
        nearest = self._nearest_rows(vector, count, filters)
        while _items_in(nearest) < limit and len(nearest.first) >= count:
            count *= _MORE_ROWS
            nearest = self._nearest_rows(vector, count, filters)
        return self._read(_of_items(at.ns, np.unique(nearest.first).tolist()))

    def _nearest_rows(self, vector: Vector, limit: int, filters: Filters) -> Packed:
        at = self._at
        if filters.condition is None:
            return self._read(proposal(at.ns, vector, limit, at.tuning))
        condition, narrow = at.narrowed(filters)
        if narrow is not None:
            return self._read(_among(at.ns, vector, narrow, limit))
        rows = self._read(proposal(at.ns, vector, limit, at.tuning, condition))
        if len(rows.first) < limit:  # the index gave up before enough rows passed
            rows = self._read(_of_items(at.ns, at.rows.ids(filters)))
        return rows

    def cosines(self, vector: Vector, ids: Sequence[int]) -> Ranking:
        space = self._at.ns.space
        if space is None:
            return Ranking()
        check_dimension(len(vector), space.dimension)
        return Ranking(scored(self._read(_of_items(self._at.ns, ids)), space.dimension, vector))

    def _sample(self) -> Sample:
        ns = self._at.ns
        sql = "SELECT item, v FROM vectors WHERE ns = ? AND sample < ?"
        level = max(0, int(np.ceil(np.log2(max(ns.vectors, 1) / SAMPLE))))
        sample = self._read(_sent((sql, ns.id, (1 << max(0, _BITS - level)))))
        return Sample(matrix(sample.content, ns.dimension or 0))

    def _read(self, statement: Statement) -> Packed:
        return Packed.read(self._at.db.rows(*statement)[0])


def matrix(content: bytes | memoryview, dimension: int) -> Matrix:
    """Consecutive vectors as the server sends them."""
    width = _HEADER_BYTES + 4 * dimension
    return np.frombuffer(content, np.uint8).reshape(-1, width)[:, _HEADER_BYTES:].copy().view(">f4").astype(np.float32)


def scored(rows: Packed, dimension: int, query: Vector) -> tuple[Hit, ...]:
    """Exact cosines, rounded so that equal vectors tie. Best first, ties by id."""
    if not len(rows.first):
        return ()
    ids = rows.first
    products = np.vecdot(matrix(rows.content, dimension).astype(np.float64), query.astype(np.float64))
    cosines = cast("NDArray[np.float64]", np.round(products, 6))
    best = np.lexsort((ids, -cosines))
    best = best[np.sort(np.unique(ids[best], return_index=True)[1])]  # of the windows of an item, the nearest
    return tuple(map(Hit, ids[best].tolist(), cosines[best].tolist()))


def _of_items(ns: Namespace, ids: Sequence[int], condition: Condition = ("", ())) -> Statement:
    sql, bindings = condition
    statement = f"SELECT item, v FROM {_source(sql)} WHERE vectors.ns = ? AND item = ANY(?::bigint[]){sql}"  # noqa: S608  (our own clauses)
    return _sent((statement, ns.id, array(possible(ids)), *bindings))


def _among(ns: Namespace, query: Vector, ids: Sequence[int], limit: int, condition: Condition = ("", ())) -> Statement:
    """The nearest of some items and a few more, compared by the server in full precision."""
    sql, bindings = condition
    chosen = f"{_source(sql)} WHERE vectors.ns = ? AND item = ANY(?::bigint[]){sql}"
    statement = f"SELECT item, v FROM {chosen} ORDER BY v <=> ?::vector, item LIMIT ?"  # noqa: S608  (our own clauses)
    if ns.windows:
        statement = (
            f"SELECT item, v FROM vectors WHERE item IN (SELECT item FROM {chosen} "  # noqa: S608  (our own clauses)
            "GROUP BY item ORDER BY min(v <=> ?::vector), item LIMIT ?)"
        )
    return _sent((statement, ns.id, array(possible(ids)), *bindings, spelled(query), _more(limit) + 10))


def _source(condition: str) -> str:
    return "vectors JOIN items ON items.id = item" if condition else "vectors"


def _more(limit: int) -> int:
    """Proposals for this many hits: an index compares in less than full precision."""
    return limit + limit // 10


def _candidates(ns: Namespace, limit: int) -> int:
    """Objects that a distributed index is asked for first."""
    return min(_more(limit * ns.vectors_per_item), MOST_CANDIDATES)


def _best(lists: Sequence[Sequence[Hit]]) -> tuple[Hit, ...]:
    """Best first, ties by id, each once."""
    if len(lists) == 1:
        return tuple(lists[0])
    best = {hit.id: hit for hits in lists for hit in sorted(hits, key=lambda hit: hit.score)}
    return tuple(sorted(best.values(), key=lambda hit: (-hit.score, hit.id)))


def _items_in(rows: Packed) -> int:
    return len(np.unique(rows.first))


def _sent(statement: Statement) -> Statement:
    return packed(statement, "vector_send(v)")


def proposal(ns: Namespace, query: Vector, limit: int, tuning: Tuning, condition: Condition = ("", ())) -> Statement:
    """Proposes a few more than asked for. Its expression is that of the index, which then serves it."""
    sql, bindings = condition
    indexed = is_indexable(ns, tuning)
    distance = f"{_expression(ns)} <=> ?::halfvec({ns.dimension})" if indexed else "v <=> ?::vector"
    statement = f"SELECT item, v FROM {_source(sql)} WHERE vectors.ns = {ns.id}{sql} ORDER BY {distance} LIMIT ?"  # noqa: S608  (our own clauses)
    return _sent((statement, *bindings, spelled(query), _more(limit)))


def _expression(ns: Namespace) -> str:
    return f"(v::halfvec({ns.dimension}))"


def is_indexable(ns: Namespace, tuning: Tuning) -> bool:
    if ns.dimension is None or ns.dimension > INDEXED_DIMENSIONS:
        return False
    return ns.vectors + ns.windows >= tuning.vector_index_items


# ---------------------------------------------------------------- the index


def index_name(ns: Namespace) -> str:
    return f"vectors_{ns.id}_{ns.dimension}"


def lacks_index(db: Connection, ns: Namespace, tuning: Tuning) -> bool:
    if not is_indexable(ns, tuning):
        return False
    sql = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(?) AND indisvalid"
    return db.value(sql, index_name(ns)) is None


def build_index(db: Connection, ns: Namespace) -> None:
    """Gives a namespace the index that it lacks. Runs outside of a transaction: nothing waits for it."""
    while not db.value("SELECT pg_try_advisory_lock(?)", _BUILDING):
        time.sleep(_RETRY_SECONDS)  # without waiting inside a statement: the other process waits for these to end
    try:
        stale = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND starts_with(indexname, ?)"
        for (name,) in db.rows(stale, f"vectors_{ns.id}_"):
            db.run(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        db.run(
            f"CREATE INDEX CONCURRENTLY {index_name(ns)} ON vectors USING hnsw "
            f"({_expression(ns)} halfvec_cosine_ops) WITH (m = 16, ef_construction = 64) WHERE ns = {ns.id}",
        )
        db.run("ANALYZE vectors")
    finally:
        if not db.closed:
            db.run("SELECT pg_advisory_unlock(?)", _BUILDING)


def stored(db: Connection, dimension: int | None, items: Sequence[int]) -> dict[int, Vector | Windows]:
    """The vector of each item that has one, or its windows. `dimension`: that of the namespace."""
    rows_of: dict[int, list[tuple[bytes, int | None, int | None]]] = {}
    sql = "SELECT item, v, starts, ends FROM vectors WHERE item = ANY(?::bigint[]) ORDER BY item, part"
    for item, *row in db.rows(sql, list(items)):
        rows_of.setdefault(item, []).append((row[0], row[1], row[2]))
    made: dict[int, Vector | Windows] = {}
    for item, windows in rows_of.items():
        vectors = matrix(b"".join(sent for sent, _, _ in windows), dimension or 0)
        spans = tuple((start, end) for _, start, end in windows if start is not None and end is not None)
        made[item] = Windows(vectors, spans) if spans else vectors[0]
    return made


def flawed(db: Connection) -> list[int]:
    """Items whose windows do not fit their texts."""
    sql = (
        "SELECT item, array_agg(part ORDER BY part), array_agg(starts ORDER BY part), array_agg(ends ORDER BY part), "  # noqa: S608  (constants)
        f"char_length({BODY}) FROM vectors JOIN items ON id = item WHERE part > 0 OR starts IS NOT NULL "
        "GROUP BY item, title, text"
    )
    return [
        item
        for item, parts, starts, ends, characters in db.rows(sql)
        if parts != list(range(len(parts)))
        or None in (*starts, *ends)
        or flaw(list(zip(starts, ends, strict=True)), characters) is not None
    ]

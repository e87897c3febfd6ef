"""Vectors: pgvector proposes, and what it proposes gets its exact cosine here, in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fourfold.model import Background, Hit
from fourfold.stores.base import Space
from fourfold.stores.postgres.filters import Condition
from fourfold.stores.postgres.packed import Packed, packed
from fourfold.stores.postgres.spaces import Namespace, fix_space
from fourfold.stores.postgres.sql import Db, Statement, array, possible, rows, run, run_many, value
from fourfold.stores.sampling import SAMPLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.model import Vector

    Matrix = NDArray[np.float32]

INDEXED = 2_000
"""A namespace of so many vectors gets an HNSW index; a smaller one is searched exactly."""
DIMENSIONS = 4_000
"""What pgvector's HNSW takes of half-precision vectors; a namespace of longer ones is searched exactly."""
_BITS = 24
_HEADER = 4
"""Bytes before the numbers of a vector as the server sends it."""


# ---------------------------------------------------------------- storing


async def put(db: Db, ns: Namespace, given: Sequence[tuple[int, Any]]) -> None:
    """Stores the vectors of items, which then wait no longer."""
    if not given:
        return
    await drop(db, ns, [item for item, _ in given])
    await run(db, "DELETE FROM waiting WHERE item = ANY(%s::bigint[])", [item for item, _ in given])
    await run_many(
        db,
        "INSERT INTO vectors VALUES (%s, %s, %s, %s::vector)",
        [(item, ns.id, sample_place(item), spelled(vector)) for item, vector in given],
    )
    ns.vectors += len(given)
    ns.vector_changes += 1


async def drop(db: Db, ns: Namespace, items: Sequence[int]) -> None:
    if items and (gone := await run(db, "DELETE FROM vectors WHERE item = ANY(%s::bigint[])", list(items))):
        ns.vectors -= gone
        ns.vector_changes += 1


async def wait(db: Db, ns: int, items: Sequence[int]) -> None:
    """Puts items into the queue; one that was refused there has another text now."""
    await run_many(
        db,
        "INSERT INTO waiting (item, ns) VALUES (%s, %s) ON CONFLICT (item) DO UPDATE SET refused = NULL",
        [(item, ns) for item in items],
    )


async def put_made(db: Db, ns: Namespace, wanted: Space, made: Sequence[tuple[int, str, str, Vector]]) -> int:
    """Vectors made from (title, text); an item whose text is another by now goes on waiting."""
    fix_space(ns, wanted)
    sql = "SELECT id, title, text FROM items WHERE ns = %s AND id = ANY(%s::bigint[])"
    known = {item: texts for item, *texts in await rows(db, sql, ns.id, possible(row[0] for row in made))}
    fitting = {item: vector for item, title, text, vector in made if known.get(item) == [title, text]}
    await put(db, ns, list(fitting.items()))
    return len(fitting)


def spelled(vector: Any) -> str:
    return f"[{','.join(map(repr, np.asarray(vector, np.float32).tolist()))}]"


def sample_place(item: int) -> int:
    """The bits by which `in_sample` chooses, the other way round: a sample is what lies below a bound."""
    mixed = (item * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 64 - _BITS
    return int(f"{mixed:0{_BITS}b}"[::-1], 2)


def sample_bound(count: int) -> int:
    level = max(0, int(np.ceil(np.log2(max(count, 1) / SAMPLE))))
    return 1 << max(0, _BITS - level)


# ---------------------------------------------------------------- searching


@dataclass(frozen=True, slots=True)
class Sample:
    """Some hundred vectors: what the query's best hits stand out from."""

    change: int
    vectors: Matrix

    def background(self, query: Vector) -> Background | None:
        if not len(self.vectors):
            return None
        return Background(float(self.vectors.mean(axis=0, dtype=np.float64) @ query.astype(np.float64)))


async def sample(db: Db, ns: Namespace) -> Sample:
    sql = "SELECT item, v FROM vectors WHERE ns = %s AND sample < %s"
    found = await rows(db, *_sent((sql, ns.id, sample_bound(ns.vectors))))
    return Sample(ns.vector_changes, matrix(Packed.read(found[0]).content, ns.dimension or 0))


def matrix(content: bytes | memoryview, dimension: int) -> Matrix:
    """Vectors as the server sends them, one after the other."""
    width = _HEADER + 4 * dimension
    return np.frombuffer(content, np.uint8).reshape(-1, width)[:, _HEADER:].copy().view(">f4").astype(np.float32)


def scored(found: Packed, dimension: int, query: Vector) -> tuple[Hit, ...]:
    """Exact cosines, rounded so that equal vectors tie. Best first, ties by id."""
    if not len(found.first):
        return ()
    ids = found.first
    products = np.vecdot(matrix(found.content, dimension).astype(np.float64), query.astype(np.float64))
    cosines = cast("NDArray[np.float64]", np.round(products, 6))
    best = np.lexsort((ids, -cosines))
    return tuple(map(Hit, ids[best].tolist(), cosines[best].tolist()))


def of_items(ns: Namespace, ids: Sequence[int]) -> Statement:
    sql = "SELECT item, v FROM vectors WHERE ns = %s AND item = ANY(%s::bigint[])"
    return _sent((sql, ns.id, array(possible(ids))))


def among(ns: Namespace, query: Vector, ids: Sequence[int], limit: int) -> Statement:
    """The nearest of some items and rather more, compared in full precision: all of these are not worth sending."""
    sql = (
        "SELECT item, v FROM vectors WHERE ns = %s AND item = ANY(%s::bigint[]) "
        "ORDER BY v <=> %s::vector, item LIMIT %s"
    )
    return _sent((sql, ns.id, array(possible(ids)), spelled(query), limit + limit // 10 + 10))


async def read(db: Db, statement: Statement) -> Packed:
    return Packed.read((await rows(db, *statement))[0])


def _sent(statement: Statement) -> Statement:
    return packed(statement, "vector_send(v)")


def fits(ns: Namespace, query: Vector) -> bool:
    return ns.dimension == len(query)


def proposal(ns: Namespace, query: Vector, limit: int, condition: Condition = ("", ())) -> Statement:
    """The statement that proposes rather more than asked for. Its expression is the index's, which then serves it."""
    sql, bindings = condition
    source = "vectors JOIN items ON items.id = item" if sql else "vectors"
    statement = f"SELECT item, v FROM {source} WHERE vectors.ns = {ns.id}{sql} ORDER BY {distance(ns)} LIMIT %s"  # noqa: S608  (our own clauses)
    return _sent((statement, *bindings, spelled(query), limit + limit // 10))


def distance(ns: Namespace) -> str:
    if is_indexable(ns):
        return f"{expression(ns)} <=> %s::halfvec({ns.dimension})"
    return "v <=> %s::vector"


def expression(ns: Namespace) -> str:
    return f"(v::halfvec({ns.dimension}))"


def is_indexable(ns: Namespace) -> bool:
    return ns.dimension is not None and ns.dimension <= DIMENSIONS and ns.vectors >= INDEXED


# ---------------------------------------------------------------- the index


def index_name(ns: Namespace) -> str:
    return f"vectors_{ns.id}_{ns.dimension}"


async def lacks_index(db: Db, ns: Namespace) -> bool:
    if not is_indexable(ns):
        return False
    sql = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid"
    return await value(db, sql, index_name(ns)) is None


async def build_index(db: Db, ns: Namespace) -> None:
    """While others read and write; what an interrupted attempt left behind goes first."""
    stale = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND starts_with(indexname, %s)"
    for (name,) in await rows(db, stale, f"vectors_{ns.id}_"):
        await run(db, f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    await run(
        db,
        f"CREATE INDEX CONCURRENTLY {index_name(ns)} ON vectors USING hnsw "
        f"({expression(ns)} halfvec_cosine_ops) WITH (m = 16, ef_construction = 64) WHERE ns = {ns.id}",
    )
    await run(db, "ANALYZE vectors")

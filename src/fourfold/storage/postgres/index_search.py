"""Candidates of a distributed index for one snapshot, together with the items that changed since: the exact tail.

The engine proposes; rows of the snapshot decide. A candidate that was deleted has no row, one that was changed gets the
score of its present text, and what the engine does not hold yet is in the tail. If no node can answer, or the tail is
too long, PostgreSQL answers from its own indexes, and a note says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING

from fourfold.errors import IndexUnavailable
from fourfold.index.rows import term_hash
from fourfold.model import Filters
from fourfold.storage.engines.adapters import Nodes, named_otherwise, names_same_nodes
from fourfold.storage.engines.protocol import Engine, Node, required
from fourfold.storage.postgres import index_log
from fourfold.storage.postgres.database import Database
from fourfold.storage.postgres.index_log import Cursor, Generation
from fourfold.text.analysis import ANALYSER_VERSION
from fourfold.text.keyword_query import KeywordQuery

if TYPE_CHECKING:
    from fourfold.model import Vector
    from fourfold.storage.postgres.snapshot import PostgresSnapshot

MOST_CANDIDATES = 10_000
"""Maximum number of candidates that engines return for one query."""
_THREADS = 8


class Index:
    """The engine of a store, for its searches."""

    def __init__(self, engine: Engine, database: Database) -> None:
        self.engine = engine
        self._database = database
        self._nodes = Nodes[Cursor](engine.nodes)
        self._threads = ThreadPoolExecutor(_THREADS, "fourfold-index")

    def propose(self, generation: Generation, call: Callable[[Node, float], list[int]]) -> list[int]:
        def find_end(mark: str) -> Cursor | None:
            return self._database.aside(lambda db: index_log.mark_end(db, generation.id, mark))

        return self._nodes.ask(generation.collection, generation.cursor, generation.behind, find_end, call)

    def begin(self, generation: Generation, call: Callable[[Node, float], list[int]]) -> Future[list[int]]:
        """Runs the call in a thread, while PostgreSQL answers other queries."""
        return self._threads.submit(self.propose, generation, call)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self.engine.close()


class Candidates:
    """Candidates of the index for the searches of one snapshot; None if PostgreSQL has to answer."""

    def __init__(self, at: PostgresSnapshot, index: Index | None) -> None:
        self._at = at
        self._index = index
        self.note: str | None = None
        """The reason why PostgreSQL has to answer although there is an index."""

    @property
    def exists(self) -> bool:
        return self._index is not None and self._at.ns.generation is not None

    @cached_property
    def tail(self) -> list[int] | None:
        """The items that the index lacks; None if these are too many."""
        generation, most = self._at.ns.generation, self._at.tuning.tail_items
        if generation is None:
            return None
        found = index_log.newer(self._at.db, self._at.ns.id, generation.cursor, most + 1)
        if len(found) > most:
            self.note = f"the index at {self._shown} is more than {most:,} changes behind"
            return None
        return sorted({item for _, item in found})

    @property
    def _shown(self) -> str:
        return "" if self._index is None else self._index.engine.shown

    def _usable(self) -> Generation | None:
        """The generation to ask; None, perhaps with a note, if PostgreSQL has to answer."""
        generation = self._at.ns.generation
        if self._index is None or generation is None:
            return None
        if not names_same_nodes(generation.engine, self._shown):
            self.note = named_otherwise(generation.engine, self._shown)
            return None
        return None if self.tail is None else generation

    def match(self, query: KeywordQuery, limit: int, filters: Filters) -> list[int] | None:
        generation = self._usable()
        if self._index is None or generation is None:
            return None
        if generation.analyser != ANALYSER_VERSION:
            self.note = "the index is being rebuilt for another version of the analyser"
            return None
        weights, groups = _weights(query), required(filters.condition)

        def call(node: Node, seconds: float) -> list[int]:
            return node.match(generation.collection, weights, limit, groups, seconds)

        try:
            return self._index.propose(generation, call)
        except IndexUnavailable as error:
            self.note = f"the index did not answer: {error.message}"
            return None

    def begin_nearest(self, vector: Vector, limit: int, filters: Filters) -> Callable[[], list[int] | None]:
        ns, index = self._at.ns, self._index
        generation = self._usable()
        if index is None or generation is None:
            return lambda: None
        if generation.fingerprint != ns.fingerprint:
            is_empty = generation.fingerprint is None  # every vector is newer than the index
            self.note = None if is_empty else "the index is being rebuilt for another model"
            return (lambda: []) if is_empty else (lambda: None)
        groups = required(filters.condition)

        def call(node: Node, seconds: float) -> list[int]:
            return node.nearest(generation.collection, vector, limit, groups, seconds)

        begun = index.begin(generation, call)

        def finish() -> list[int] | None:
            try:
                return begun.result()
            except IndexUnavailable as error:
                self.note = f"the index did not answer: {error.message}"
                return None

        return finish


def _weights(query: KeywordQuery) -> Mapping[int, float]:
    weights: dict[int, float] = {}
    for word in query.words:
        for term, weight in zip(word.terms, word.values, strict=True):
            hashed = term_hash(term)
            weights[hashed] = max(weight, weights.get(hashed, 0.0))
    return weights

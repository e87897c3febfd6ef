"""One namespace at one moment: a read-only transaction on one connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from psycopg.pq import TransactionStatus

from fourfold import limits
from fourfold.embed.windows import Windows
from fourfold.model import Filters, Space
from fourfold.ranking.fusion import Expansion
from fourfold.retrieval import Part as NearestPart
from fourfold.storage.postgres import namespaces, vectors
from fourfold.storage.postgres.connection import GRACE_SECONDS, Connection
from fourfold.storage.postgres.database import READ_ONLY, Database, Tuning
from fourfold.storage.postgres.index_search import Candidates, Index
from fourfold.storage.postgres.links import PostgresGraph, TagUses
from fourfold.storage.postgres.postings import Part, Shelf
from fourfold.storage.postgres.vectors import Sample, VectorSearch
from fourfold.storage.postgres.words import KeywordSearch
from fourfold.storage.sql.dialect import Condition
from fourfold.storage.sql.namespaces import pending_texts
from fourfold.storage.sql.origins import RawRecords, file_states
from fourfold.storage.sql.reading import ItemReader, where
from fourfold.storage.values import Deadline, FileRow, Hidden, PendingText, Size
from fourfold.text.keyword_query import KeywordQuery

if TYPE_CHECKING:
    from fourfold.model import Vector


class Caches:
    """Caches of the searches of one store, valid until something changes."""

    def __init__(self) -> None:
        self.queries = Cache[KeywordQuery]()
        self.code_shares = Cache[float]()
        """A cache with one entry for each namespace."""
        self.samples = Cache[Sample]()
        self.narrow = Cache[list[int] | None]()
        self.tag_counts = Cache[tuple[float, Mapping[str, int]]]()
        self.shelf = Shelf()


class PostgresSnapshot:
    """After a failed statement (the server aborts the transaction) or a broken connection, the next read opens another
    transaction: it may then see a later moment."""

    def __init__(
        self,
        database: Database,
        namespace: str,
        seconds: float,
        caches: Caches,
        tuning: Tuning,
        index: Index | None = None,
    ) -> None:
        self._database = database
        self.namespace = namespace
        self._seconds = seconds
        self.deadline = Deadline(seconds)
        self.caches = caches
        self.tuning = tuning
        self._index = index
        self.candidates = Candidates(self, index)
        self.rows = ItemReader(self)
        self.words = KeywordSearch(self)
        self.vectors = VectorSearch(self)
        self.graph = PostgresGraph(self)
        self.tags = TagUses(self)

    def _begun(self) -> tuple[Connection, namespaces.Namespace]:
        given = f"SET LOCAL statement_timeout = {max(1, int(self._seconds * 1000))}; "
        timeout = "" if self._seconds == limits.READ_SECONDS else given  # otherwise that of the connection
        sql = f"{READ_ONLY}; {timeout}{namespaces.finding(self.namespace)}"
        db, found = self._database.begin(sql, self.deadline)
        return db, namespaces.found(found, self.namespace)

    @property
    def hidden(self) -> Hidden:
        return Hidden(self.ns.superseded > 0, self.ns.expiring > 0)

    @property
    def db(self) -> Connection:
        if self._db.closed or self._db.pgconn.transaction_status == TransactionStatus.INERROR:
            self.reopen()
        return self._db

    def reopen(self) -> None:
        """Opens a new transaction, which reads the present state."""
        self._database.end(self._db, commit=False)
        self._db, self.ns = self._begun()
        self.__dict__.pop("parts", None)
        self.candidates = Candidates(self, self._index)

    def __enter__(self) -> Self:
        self.deadline.until = time.monotonic() + self._seconds + GRACE_SECONDS
        self._db, self.ns = self._begun()
        return self

    def __exit__(self, *_: object) -> None:
        # COMMIT, since psycopg forgets its prepared statements after a ROLLBACK
        self._database.end(self._db, commit=not self._db.closed)

    # ------------------------------------------------------------ reading

    has_sources = True

    @property
    def exists(self) -> bool:
        return self.ns.exists

    @property
    def number(self) -> int:
        return self.ns.id

    @property
    def size(self) -> Size:
        return self.ns.size

    @property
    def has_files(self) -> bool:
        return self.ns.has_files

    @property
    def space(self) -> Space | None:
        return self.ns.space

    @property
    def raw(self) -> RawRecords:
        return RawRecords(self.db, self.ns.name, self.ns.id)

    def expand(self, given: Expansion, filters: Filters) -> None:
        return None

    def files(self, prefix: str) -> Mapping[str, FileRow]:
        return file_states(self.db, self.ns.id, prefix)

    def pending(self, limit: int, among: Sequence[int] | None = None) -> list[PendingText]:
        return pending_texts(self.db, self.ns.id, limit, among)

    def nearest_parts(self, query: Vector, ids: Sequence[int]) -> dict[int, NearestPart]:
        return vectors.nearest_parts(self.db, self.ns, query, ids)

    def stored_vectors(self, ids: Sequence[int]) -> dict[int, Vector]:
        found = vectors.stored(self.db, self.ns.dimension, ids)
        return {item: vector for item, vector in found.items() if not isinstance(vector, Windows)}

    def keyword_query(self, text: str) -> KeywordQuery:
        return self.words.query(text)

    @cached_property
    def parts(self) -> dict[int, Part]:
        """The parts of the namespace's postings that this process has read."""
        return self.caches.shelf.parts(self.ns)

    def narrowed(self, filters: Filters) -> tuple[Condition, Sequence[int] | None]:
        """The filters as a condition, or all items that pass if these are few."""
        most = self.tuning.narrow_items

        def few() -> list[int] | None:
            found = self.rows.first_ids(filters, most + 1)
            return sorted(found) if len(found) <= most else None

        narrow = self.caches.narrow.get(self.ns.id, self.ns.changes, repr(filters), few)
        return (where(self.db, filters, self.ns.id) if narrow is None else ("", ())), narrow


T = TypeVar("T")

_KEPT = 64


class Cache(Generic[T]):
    """Answers for a namespace, each valid for one change number."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[int, T]] = {}

    def known(self, ns: int, change: int, what: str) -> T | None:
        known = self._known.get((ns, what))
        return known[1] if known is not None and known[0] == change else None

    def add(self, ns: int, change: int, what: str, answer: T) -> T:
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[ns, what] = (change, answer)
        return answer

    def get(self, ns: int, change: int, what: str, fresh: Callable[[], T]) -> T:
        known = self._known.get((ns, what))
        if known is not None and known[0] == change:
            return known[1]
        return self.add(ns, change, what, fresh())

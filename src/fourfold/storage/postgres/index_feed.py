"""The feeder: carries logged changes into a distributed index, at least once and in batches.

A batch stores a random mark in PostgreSQL, writes the new versions, stores the mark in the engine, removes the old
versions, then moves the cursor. If the process dies in between, the batch is written again, with the same result.
`index_replicas` handles nodes that do not hold everything. If PostgreSQL does not know the mark of a node, one side was
restored from a backup, and a new generation is built. Nothing is removed before the mark is stored; otherwise a
database restored to an earlier moment could know the mark although objects are missing.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import numpy as np

from fourfold.errors import IndexUnavailable
from fourfold.storage.engines.adapters import OTHER_NODES_REMEDY, named_otherwise, names_same_nodes
from fourfold.storage.engines.facts import item_facts
from fourfold.storage.engines.protocol import Applied, Document, Engine, Entry, Node
from fourfold.storage.postgres import index_log, namespaces, vectors
from fourfold.storage.postgres.database import READ_ONLY, Database
from fourfold.storage.postgres.index_log import Cursor, Generation
from fourfold.storage.postgres.index_replicas import Replicas
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db, array
from fourfold.storage.postgres.tuning import Tuning
from fourfold.text import bm25
from fourfold.text.analysis import ANALYSER_VERSION

_FILL_ITEMS = 10_000
_LOOK_SECONDS = 30.0
"""Seconds between reads of the nodes' marks without changes, because a node may have been restored."""
_SWEEP_SECONDS = 60.0
"""After a failure, a node that came back, or the first of some batches, which may follow those of a killed feeder."""
_SWEPT_ENTRIES = 1_000
_RETIRED_SECONDS = 60.0
"""Longer than any search that may still use the old generation."""


class _Batch(NamedTuple):
    end: Cursor
    documents: Sequence[Document]
    old: Sequence[Entry]
    """Objects that the new ones replace, or whose items are gone."""


class Feeder:
    def __init__(self, database: Database, engine: Engine, tuning: Tuning) -> None:
        self._database = database
        self.engine = engine
        self._tuning = tuning
        self._looked: dict[str, float] = {}
        """When the marks of an index were read."""
        self._replicas = Replicas(database, engine)
        self._sweep_at: dict[int, float] = {}
        """The time at which objects of each generation are removed once more."""

    def is_due(self, db: Db, ns: Namespace, *, everything: bool) -> bool:
        """Whether the index is far enough behind, or a generation has to be built or dropped."""
        if not ns.logged:
            return False
        if everything or time.monotonic() > self._looked.get(ns.name, -_LOOK_SECONDS) + _LOOK_SECONDS:
            return True
        generations = index_log.every(db, ns.id)
        if any(each.state in ("filling", "building") for each in generations) or ns.generation is None:
            return True
        if not _fits(ns, ns.generation) or index_log.droppable(db, ns.id, _RETIRED_SECONDS):
            return True
        if self._replicas.may_help(ns.generation) or self._should_sweep(ns.generation):
            return True
        lag, seconds = index_log.lag(db, ns.id, ns.generation.cursor)
        return lag >= self._tuning.feed_changes or seconds >= self._tuning.feed_seconds

    def feed(self, namespace: str, *, everything: bool) -> None:
        """Feeds for `feed_turn_seconds`, or with `everything` until all is fed. The caller has the lease."""
        until = time.monotonic() + (float("inf") if everything else self._tuning.feed_turn_seconds)
        ns = self._found(namespace)
        if not ns.logged:
            return
        self._drop_retired(ns)
        self._replace_unfit(ns)
        failures: dict[int, IndexUnavailable] = {}
        for generation in filter(self._names, self._generations(ns)):
            try:
                self._work_on(ns, generation, until, everything=everything)
            except IndexUnavailable as error:  # the next generation may be the one that replaces this one
                failures[generation.id] = error
                self._sweep_at[generation.id] = time.monotonic() + _SWEEP_SECONDS
        for generation in self._generations(ns) if failures else ():
            if generation.state != "retired" and generation.id in failures:
                raise failures[generation.id]

    def _work_on(self, ns: Namespace, generation: Generation, until: float, *, everything: bool) -> None:
        if generation.state == "filling":
            generation = self._fill(ns, generation)
        if generation.state == "retired" or not self._catch_up(ns.name, generation, until):
            return
        if everything or self._should_sweep(generation):
            self._sweep(ns, generation.id)
        if generation.state == "building":
            with self._database.write() as db:
                index_log.activate(db, ns.id, generation.id)

    def _should_sweep(self, generation: Generation) -> bool:
        return time.monotonic() >= self._sweep_at.get(generation.id, math.inf)

    def _sweep(self, ns: Namespace, generation: int) -> None:
        """Removes objects once more that were replaced or removed lately.

        A write that seemed to fail may be applied later by a node that hung, or after its feeder was killed.
        """
        found = self._database.read(lambda db: index_log.find(db, generation))
        if found is None:
            return
        old = self._database.read(lambda db: index_log.superseded(db, ns.id, found.cursor))
        nodes = [node for node in self.engine.nodes if node.name not in found.behind]
        for start in range(0, len(old), _SWEPT_ENTRIES):
            part = old[start : start + _SWEPT_ENTRIES]
            if any(node.held(found.collection, part) for node in nodes):
                self.engine.remove(found.collection, part, found.behind)
        self._sweep_at.pop(generation, None)

    # ------------------------------------------------------------ generations

    def create(self, namespace: str) -> bool:
        """Begins the first generation of a namespace; False if it has one."""
        with self._locked(namespace) as (db, ns):
            if ns.logged:
                return False
            self._begin(db, ns)
            return True

    def rebuild(self, namespace: str) -> bool:
        """Begins a new generation; False if the namespace has no index."""
        with self._locked(namespace) as (db, ns):
            if ns.logged:
                waiting = [each.id for each in index_log.every(db, ns.id) if each.state in ("filling", "building")]
                index_log.retire(db, ns.id, waiting)
                self._begin(db, ns)
            return ns.logged

    def drop(self, namespace: str) -> bool:
        """Removes the index; False if the namespace has none."""
        with self._locked(namespace) as (db, ns):
            generations = index_log.every(db, ns.id)
            if not ns.logged and not generations:
                return False
            index_log.retire(db, ns.id, [each.id for each in generations])
            index_log.stop(db, ns.id)
        for generation in generations:
            self._drop(generation)
        return True

    def _begin(self, db: Db, ns: Namespace) -> None:
        index_log.begin(db, ns.id, self.engine.shown, ANALYSER_VERSION, ns.fingerprint, ns.dimension)

    def _drop(self, generation: Generation) -> None:
        if self._names(generation):  # another cluster keeps its collection
            self.engine.drop(generation.collection)
        with self._database.write() as db:
            index_log.remove(db, generation.id)

    def _drop_retired(self, ns: Namespace) -> None:
        for generation in self._database.read(lambda db: index_log.droppable(db, ns.id, _RETIRED_SECONDS)):
            self._drop(generation)

    def _replace_unfit(self, ns: Namespace) -> None:
        """Begins a new generation if no existing one can become or stay correct."""
        known = [each for each in self._generations(ns) if each.state != "retired"]
        generations = [each for each in known if self._names(each)]
        self._looked[ns.name] = time.monotonic()
        if known and not generations:
            raise IndexUnavailable(named_otherwise(known[-1].engine, self.engine.shown), OTHER_NODES_REMEDY)
        wrong = [each for each in generations if not _fits(ns, each) or not self._is_ours(each)]
        if not wrong:
            return
        with self._locked(ns.name) as (db, now):
            index_log.retire(db, ns.id, [each.id for each in wrong if each.state != "active"])
            if len(wrong) == len(generations):
                self._begin(db, now)

    def _is_ours(self, generation: Generation) -> bool:
        """Whether the engine has the collection, and this database knows the marks of the nodes that answer."""
        if generation.state == "filling":
            return True
        with suppress(IndexUnavailable):  # feeding reports it
            has_it = self.engine.exists(generation.collection, generation.dimension)
            return has_it and self._replicas.settled(generation) is not None
        return True

    def _fill(self, ns: Namespace, generation: Generation) -> Generation:
        """Creates the collection, and logs what is older than the log."""
        self.engine.create(generation.collection, generation.dimension)
        generation = self._replicas.reached(generation)
        mark = self._database.read(lambda db: index_log.first_mark(db, generation.id))
        lacking = self.engine.apply(generation.collection, Applied(mark, 0), generation.behind)
        self._replicas.leave_behind(generation, lacking)
        after: int | None = 0
        while after is not None:
            with self._database.write() as db:
                after = index_log.fill(db, ns.id, after, _FILL_ITEMS)
        with self._database.write() as db:
            index_log.set_state(db, generation.id, "building")
        return next(each for each in self._generations(ns) if each.id == generation.id)

    # ------------------------------------------------------------ batches

    def _catch_up(self, namespace: str, generation: Generation, until: float) -> bool:
        """Feeds batch after batch; whether it came to the end of the log in time."""
        while time.monotonic() < until:
            ns = self._found(namespace)
            known = {each.id: each for each in self._generations(ns)}
            if generation.id not in known:
                return False
            settled = self._replicas.settled(self._with_space(ns, known[generation.id]))
            if settled is None:
                return False
            fed = self._feed_batch(ns, settled)
            if fed is None:
                return False
            if not self._feed_late_node(ns, settled) and not fed:
                return True
        return False

    def _with_space(self, ns: Namespace, generation: Generation) -> Generation:
        """A namespace that had no vectors when the generation began may have some now."""
        if generation.fingerprint is not None or ns.fingerprint is None or ns.dimension is None:
            return generation
        self.engine.create(generation.collection, ns.dimension)
        with self._database.write() as db:
            index_log.adopt_space(db, generation.id, ns.fingerprint, ns.dimension)
        return next(each for each in self._generations(ns) if each.id == generation.id)

    def _feed_batch(self, ns: Namespace, generation: Generation) -> bool | None:
        """False if the log has no further row; None if another process feeds."""
        if (batch := self._read_batch(ns, generation, generation.cursor)) is None:
            return False
        mark = self._begun(ns, generation, batch.end)
        self._sweep_at.setdefault(generation.id, time.monotonic() + _SWEEP_SECONDS)
        if lacking := self._written(generation, batch, Applied(mark, batch.end.change), generation.behind):
            self._replicas.leave_behind(generation, lacking)  # the batch is repeated without them
            return True
        with self._database.write() as db:
            return True if index_log.advance(db, generation, batch.end) else None

    def _written(
        self, generation: Generation, batch: _Batch, applied: Applied | None, without: Collection[str]
    ) -> set[str]:
        """The nodes that do not have all of a batch."""
        engine, collection = self.engine, generation.collection
        lacking = engine.put(collection, batch.documents, without)
        if applied is not None and not lacking:
            lacking = engine.apply(collection, applied, without)
        return lacking or engine.remove(collection, batch.old, without)

    def _feed_late_node(self, ns: Namespace, generation: Generation) -> bool:
        """Feeds a batch to a node that is behind; False if none of these answers."""
        if (node := self._replicas.returned(generation)) is None:
            return False
        try:
            self._repeat(ns, generation, node)
        except IndexUnavailable:  # it stays behind, which `status` shows
            self._replicas.postpone(node)
        return True

    def _repeat(self, ns: Namespace, generation: Generation, node: Node) -> None:
        """Writes a batch that a node lacks; after the last one, the node answers searches again."""
        others = [name for name in generation.behind if name != node.name]
        cursor = self._database.read(lambda db: index_log.cursor(db, generation.id))
        batch = self._read_batch(ns, generation, self._replicas.start(ns.id, generation, node), cursor)
        if batch is None:
            mark = self._begun(ns, generation, cursor)
            lacking = self.engine.apply(generation.collection, Applied(mark, cursor.change), others)
        else:
            lacking = self._written(generation, batch, None, others)
        if lacking:
            self._replicas.postpone(node)
            return
        with self._database.write() as db:
            if batch is None:
                index_log.caught_up(db, generation.id, node.name)
                self._sweep_at[generation.id] = time.monotonic() + _SWEEP_SECONDS
            else:
                index_log.fall_behind(db, generation.id, node.name, batch.end)

    def _read_batch(
        self, ns: Namespace, generation: Generation, after: Cursor, until: Cursor | None = None
    ) -> _Batch | None:
        """The last versions of the next items in the log; None at its end, or after `until`."""
        with self._snapshot() as db:
            page = index_log.newer(db, ns.id, after, self._tuning.feed_batch_items)
            page = [row for row in page if until is None or Cursor(*row) <= until]
            if not page:
                return None
            logged = index_log.versions(db, {item for _, item in page}, after)
            last = {item: known[-1] for item, known in logged.items()}
            documents = read_documents(db, namespaces.find(db, ns.name), last, generation.fingerprint)
        old = [Entry(item, version) for item, known in logged.items() for version in known[:-1]]
        return _Batch(Cursor(*page[-1]), documents, old)

    def _begun(self, ns: Namespace, generation: Generation, end: Cursor) -> str:
        """The mark of a batch."""
        mark = secrets.token_hex(8)
        with self._database.write() as db:
            index_log.add_mark(db, ns.id, generation.id, mark, end, self._tuning.feed_marks)
        return mark

    # ------------------------------------------------------------ reading and locking

    def _found(self, namespace: str) -> Namespace:
        return self._database.read(lambda db: namespaces.find(db, namespace))

    def _generations(self, ns: Namespace) -> list[Generation]:
        return self._database.read(lambda db: index_log.every(db, ns.id))

    def _names(self, generation: Generation) -> bool:
        """Whether a generation is not that of another cluster."""
        return names_same_nodes(generation.engine, self.engine.shown)

    @contextmanager
    def _snapshot(self) -> Generator[Db]:
        with self._database.translated():
            db, _ = self._database.begin(READ_ONLY)
            with self._database.committed(db):
                yield db

    @contextmanager
    def _locked(self, namespace: str) -> Generator[tuple[Db, Namespace]]:
        """No write to the namespace is in progress: what is committed later is logged."""
        with self._database.write() as db:
            yield db, namespaces.create(db, namespace)


def _fits(ns: Namespace, generation: Generation) -> bool:
    """Whether the generation was made by the analyser and for the model of the namespace."""
    spaces = (None, ns.fingerprint)
    return generation.analyser == ANALYSER_VERSION and generation.fingerprint in spaces


def read_documents(db: Db, ns: Namespace, versions: Mapping[int, int], fingerprint: str | None) -> list[Document]:
    """The items that exist, each as the version that is given for it."""
    sql = (
        "SELECT id, hashes, (SELECT string_agg(vector_send(v), '' ORDER BY part) FROM vectors WHERE item = id), kind, "
        "language, (SELECT array_agg(folded) FROM item_tags WHERE item_tags.item = id) FROM items "
        "LEFT JOIN texts ON texts.item = id WHERE items.ns = ? AND id = ANY(?::bigint[]) ORDER BY id"
    )
    wanted = fingerprint is not None and fingerprint == ns.fingerprint
    found: list[Document] = []
    for item, hashed, sent, kind, language, tags in db.rows(sql, ns.id, array(versions)):
        hashes = np.frombuffer(hashed or b"", np.uint32)
        length = (len(hashes) + bm25.BASE_LENGTH) / (ns.average_length + bm25.BASE_LENGTH)
        made = list(vectors.matrix(sent, ns.dimension or 0)) if wanted and sent is not None else []
        facts = item_facts(kind, language, tags or ())
        found.append(Document(Entry(item, versions[item]), hashes, length, made, facts))
    return found

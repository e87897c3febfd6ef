"""The feeder: carries logged changes into a distributed index, at least once and in batches.

A batch notes a random mark in PostgreSQL, writes the new versions, notes the mark in the engine, removes the old
versions, then moves the cursor. A process that dies in between leaves a batch that is written again, with the same
result. A node whose mark is older than the cursor has lost writes: the cursor goes back to that mark. A node whose mark
PostgreSQL does not know means that one side was restored from a backup: a new generation is built. Nothing is removed
before the mark is noted: a database that was restored to an earlier moment could miss it, and know the mark.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from fourfold.errors import IndexUnavailable
from fourfold.storage.engines.facts import item_facts
from fourfold.storage.engines.protocol import Applied, Document, Engine, Entry
from fourfold.storage.postgres import index_log, namespaces, vectors
from fourfold.storage.postgres.database import READ_ONLY, Database
from fourfold.storage.postgres.index_log import Cursor, Generation
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db, array, rows
from fourfold.storage.postgres.tuning import Tuning
from fourfold.text import bm25
from fourfold.text.analysis import ANALYSER_VERSION

_FILL_ITEMS = 10_000
_STATE_SECONDS = 5.0
_LOOK_SECONDS = 30.0
"""How often the marks of the nodes are read although nothing has changed: a node may have been restored."""
_RETIRED_SECONDS = 60.0
"""Longer than any search that may still use the old generation."""


class Feeder:
    def __init__(self, database: Database, engine: Engine, tuning: Tuning) -> None:
        self._database = database
        self.engine = engine
        self._tuning = tuning
        self._looked: dict[str, float] = {}
        """When the marks of an index were read."""

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
        lag, seconds = index_log.lag(db, ns.id, ns.generation.cursor)
        return lag >= self._tuning.feed_changes or seconds >= self._tuning.feed_seconds

    def feed(self, namespace: str, *, everything: bool) -> None:
        """Works for `feed_turn_seconds`, with `everything` until all is fed. The caller has the lease."""
        until = time.monotonic() + (float("inf") if everything else self._tuning.feed_turn_seconds)
        ns = self._found(namespace)
        if not ns.logged:
            return
        self._drop_retired(ns)
        self._replace_unfit(ns)
        failures: dict[int, IndexUnavailable] = {}
        for generation in self._generations(ns):
            try:
                self._work_on(ns, generation, until)
            except IndexUnavailable as error:  # the next generation may be the one that replaces this one
                failures[generation.id] = error
        for generation in self._generations(ns) if failures else ():
            if generation.state != "retired" and generation.id in failures:
                raise failures[generation.id]

    def _work_on(self, ns: Namespace, generation: Generation, until: float) -> None:
        if generation.state == "filling":
            generation = self._fill(ns, generation)
        if generation.state == "retired" or not self._catch_up(ns.name, generation, until):
            return
        if generation.state == "building":
            with self._database.write() as db:
                index_log.activate(db, ns.id, generation.id)

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
        self.engine.drop(generation.collection)
        with self._database.write() as db:
            index_log.remove(db, generation.id)

    def _drop_retired(self, ns: Namespace) -> None:
        for generation in self._database.read(lambda db: index_log.droppable(db, ns.id, _RETIRED_SECONDS)):
            self._drop(generation)

    def _replace_unfit(self, ns: Namespace) -> None:
        """Begins a new generation if none that exists can become or stay right."""
        generations = [each for each in self._generations(ns) if each.state != "retired"]
        self._looked[ns.name] = time.monotonic()
        wrong = [each for each in generations if not _fits(ns, each) or not self._is_ours(each)]
        if not wrong:
            return
        with self._locked(ns.name) as (db, now):
            index_log.retire(db, ns.id, [each.id for each in wrong if each.state != "active"])
            if len(wrong) == len(generations):
                self._begin(db, now)

    def _is_ours(self, generation: Generation) -> bool:
        """Whether the engine has the collection, and this database knows the marks of the nodes that answer.

        Lost writes move the cursor back.
        """
        if generation.state == "filling":
            return True
        with suppress(IndexUnavailable):  # of all nodes: feeding reports it
            if not self.engine.exists(generation.collection):
                return False
        marks: list[Applied | None] = []
        for node in self.engine.nodes:
            with suppress(IndexUnavailable):  # writing needs every node, so this failure is reported there
                marks.append(node.applied(generation.collection, _STATE_SECONDS))
        return self._goes_back(generation, marks) is not None

    def _goes_back(self, generation: Generation, marks: Sequence[Applied | None]) -> bool | None:
        """Moves the cursor back to where all nodes are; False if they hold everything, None if a mark is unknown.

        A node without a mark, beside others that have one, is new and empty: it gets everything.
        """
        found = [self._end(generation, mark) for mark in marks if mark is not None]
        ends = [end for end in found if end is not None]
        if len(ends) < len(found) or (marks and not ends):
            return None
        back = Cursor(0, 0) if len(ends) < len(marks) else min(ends, default=generation.cursor)
        if back >= generation.cursor:
            return False
        with self._database.write() as db:
            index_log.advance(db, generation, back)
        return True

    def _end(self, generation: Generation, applied: Applied) -> Cursor | None:
        return self._database.read(lambda db: index_log.mark_end(db, generation.id, applied.mark))

    def _fill(self, ns: Namespace, generation: Generation) -> Generation:
        """Creates the collection, and logs what is older than the log."""
        self.engine.create(generation.collection, generation.dimension)
        mark = self._database.read(lambda db: index_log.first_mark(db, generation.id))
        self.engine.apply(generation.collection, Applied(mark, 0))
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
            generation = self._with_space(ns, known[generation.id])
            if (fed := self._feed_batch(ns, generation)) is not True:
                return fed is False
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
        """False if the log has no further row; None if another process feeds, or the index is not ours any more."""
        with self._snapshot() as db:
            page = index_log.newer(db, ns.id, generation.cursor, self._tuning.feed_batch_items)
            if not page:
                return False
            end = Cursor(*page[-1])
            logged = index_log.versions(db, {item for _, item in page}, generation.cursor)
            last = {item: known[-1] for item, known in logged.items()}
            documents = read_documents(db, namespaces.find(db, ns.name), last, generation.fingerprint)
        old = [Entry(item, version) for item, known in logged.items() for version in known[:-1]]
        mark = secrets.token_hex(8)
        with self._database.write() as db:
            index_log.add_mark(db, ns.id, generation.id, mark, end, self._tuning.feed_marks)
        self.engine.put(generation.collection, documents)
        marks = [node.applied(generation.collection, _STATE_SECONDS) for node in self.engine.nodes]
        if (went_back := self._goes_back(generation, marks)) is not False:
            return went_back  # a node has lost earlier writes: its mark must not move on
        self.engine.apply(generation.collection, Applied(mark, end.change))
        self.engine.remove(generation.collection, old)
        with self._database.write() as db:
            return True if index_log.advance(db, generation, end) else None

    # ------------------------------------------------------------ reading and locking

    def _found(self, namespace: str) -> Namespace:
        return self._database.read(lambda db: namespaces.find(db, namespace))

    def _generations(self, ns: Namespace) -> list[Generation]:
        return self._database.read(lambda db: index_log.every(db, ns.id))

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
        "LEFT JOIN texts ON texts.item = id WHERE items.ns = %s AND id = ANY(%s::bigint[]) ORDER BY id"
    )
    wanted = fingerprint is not None and fingerprint == ns.fingerprint
    found: list[Document] = []
    for item, hashed, sent, kind, language, tags in rows(db, sql, ns.id, array(versions)):
        hashes = np.frombuffer(hashed or b"", np.uint32)
        length = (len(hashes) + bm25.BASE_LENGTH) / (ns.average_length + bm25.BASE_LENGTH)
        made = list(vectors.matrix(sent, ns.dimension or 0)) if wanted and sent is not None else []
        facts = item_facts(kind, language, tags or ())
        found.append(Document(Entry(item, versions[item]), hashes, length, made, facts))
    return found

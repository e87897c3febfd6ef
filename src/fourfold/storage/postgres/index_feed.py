"""The feeder: carries logged changes into a distributed index, at least once and in batches, and checks the result.

A batch stores a random mark in PostgreSQL, writes the new versions, stores the mark in the engine, removes the old
versions, then moves the cursor. If the process dies in between, the batch is written again, with the same result.
`Replicas` handles nodes that do not hold everything. If PostgreSQL does not know the mark of a node, one side was
restored from a backup, and a new generation is built. Nothing is removed before the mark is stored; otherwise a
database restored to an earlier moment could know the mark although objects are missing.

A batch counts when a majority of the nodes has it. A node that does not answer, or that has lost writes, is behind:
PostgreSQL records the row up to which it holds everything, searches do not ask it, and batches do not wait for it. When
it answers again, it is fed from there, in turns with new changes, until it has caught up. Until then its own mark does
not show how much it holds, because the engine may copy the mark to it, but not earlier writes.

A check compares the index with the rows, in both directions. An object is missing if a node lacks the last version of
an item; stale if it holds another version; resurrected if the item does not exist. A difference counts only if it
remains after a grace time, since the feeder may be working.
"""

from __future__ import annotations

import math
import secrets
import time
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple

import numpy as np

from fourfold.errors import IndexUnavailable
from fourfold.storage.engines import protocol
from fourfold.storage.postgres import index_log, namespaces, vectors
from fourfold.storage.postgres.connection import Connection, array
from fourfold.storage.postgres.database import READ_ONLY, Database, Tuning
from fourfold.storage.postgres.index_log import Cursor, Generation
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.sql.dialect import pages
from fourfold.text import bm25
from fourfold.text.analysis import ANALYSER_VERSION

STATE_SECONDS = 5.0
_RETRY_SECONDS = 15.0
"""A node that is behind and did not answer is asked again after this long."""
_POLL_SECONDS = 0.1
_ADVICE = "It is repeated; check the node"
_CHECKED_ENTRIES = 200
"""The last objects that a node should hold, before it is fed again, because it may have been emptied or restored."""


class Replicas:
    def __init__(self, database: Database, engine: protocol.Engine) -> None:
        self._database = database
        self._engine = engine
        self._retry_at: dict[str, float] = {}
        self._checked: set[tuple[int, str]] = set()

    def settled(self, generation: Generation) -> Generation | None:
        """The generation, after nodes that do not hold all of it were noted as behind.

        If no majority holds all of it, its cursor goes back to what all nodes hold that answer. None if the index is
        not ours: it was emptied, or restored from a backup. IndexUnavailable if no majority answers.
        """
        held: dict[str, Cursor] = {}
        failures: list[IndexUnavailable] = []
        is_empty = True
        for node in self._engine.nodes:
            if node.name in generation.behind:
                continue
            try:
                applied = node.applied(generation.collection, STATE_SECONDS)
            except IndexUnavailable as error:
                failures.append(error)
                continue
            end = Cursor(0, 0) if applied is None else self._end(generation, applied.mark)
            if end is None:
                return None
            is_empty, held[node.name] = is_empty and applied is None, end
        if held and is_empty:
            return None
        self._require_majority(len(held), failures)
        current = [name for name, end in held.items() if end >= generation.cursor]
        if len(current) < self._majority:
            to = min(held.values())
            with self._database.write() as db:
                index_log.advance(db, generation, to)
            return self._again(generation)
        late = [node.name for node in self._engine.nodes if node.name not in {*current, *generation.behind}]
        for name in late:
            self._note(generation, name, held.get(name, generation.cursor))
        return self._again(generation) if late else generation

    def reached(self, generation: Generation) -> Generation:
        """A new generation, after nodes that do not have its collection were noted as behind.

        A collection that was just created may reach some nodes a moment later.
        """
        until, failures = time.monotonic() + STATE_SECONDS, dict[str, IndexUnavailable]()
        for node in self._engine.nodes:
            while True:
                try:
                    node.applied(generation.collection, STATE_SECONDS)
                except IndexUnavailable as error:
                    if time.monotonic() < until:
                        time.sleep(_POLL_SECONDS)
                        continue
                    failures[node.name] = error
                break
        self._require_majority(len(self._engine.nodes) - len(failures), list(failures.values()))
        for name in failures:
            self._note(generation, name, Cursor(0, 0))
        return self._again(generation) or generation

    def leave_behind(self, generation: Generation, names: Collection[str]) -> None:
        """Notes that nodes lack what comes after the cursor; IndexUnavailable if no majority is left."""
        left = len(self._engine.nodes) - len({*generation.behind, *names})
        self._require_majority(left, [IndexUnavailable(f"{name} did not apply a write", _ADVICE) for name in names])
        for name in names:
            self._note(generation, name, generation.cursor)

    @property
    def _majority(self) -> int:
        return len(self._engine.nodes) // 2 + 1

    def _require_majority(self, count: int, failures: Sequence[IndexUnavailable]) -> None:
        if count < self._majority:
            few = f"{count} of {len(self._engine.nodes)} nodes of {self._engine.shown} can be written to"
            raise failures[0] if failures else IndexUnavailable(few, "Wait until the others have caught up")

    def _end(self, generation: Generation, mark: str) -> Cursor | None:
        return self._database.read(lambda db: index_log.mark_end(db, generation.id, mark))

    def _again(self, generation: Generation) -> Generation | None:
        return self._database.read(lambda db: index_log.find(db, generation.id))

    def _note(self, generation: Generation, name: str, end: Cursor) -> None:
        self._checked.discard((generation.id, name))
        with self._database.write() as db:
            index_log.fall_behind(db, generation.id, name, end)

    # ------------------------------------------------------------ nodes that are behind

    def may_help(self, generation: Generation) -> bool:
        """Whether a node that is behind should be asked whether it is back."""
        return any(time.monotonic() >= self._retry_at.get(name, 0.0) for name in generation.behind)

    def postpone(self, node: protocol.Node) -> None:
        self._retry_at[node.name] = time.monotonic() + _RETRY_SECONDS

    def returned(self, generation: Generation) -> protocol.Node | None:
        """A node that is behind and answers."""
        for node in self._engine.nodes:
            if node.name in generation.behind and time.monotonic() >= self._retry_at.get(node.name, 0.0):
                try:
                    node.applied(generation.collection, STATE_SECONDS)
                except IndexUnavailable:
                    self.postpone(node)
                else:
                    return node
        return None

    def start(self, ns: int, generation: Generation, node: protocol.Node) -> Cursor:
        """From where a node that is behind has to be fed: from the beginning, if it lacks what it held.

        It then keeps objects whose tombstones are gone from the log, until the index is repaired or rebuilt.
        """
        end = generation.behind[node.name]
        if (generation.id, node.name) in self._checked:
            return end
        is_logged = self._database.read(lambda db: index_log.is_logged_after(db, generation.id, end))
        last = self._database.read(lambda db: index_log.last_held(db, ns, end, _CHECKED_ENTRIES))
        if not is_logged or node.held(generation.collection, last) < len(last):
            end = Cursor(0, 0)
            self._note(generation, node.name, end)
        self._checked.add((generation.id, node.name))
        return end


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
    documents: Sequence[protocol.Document]
    old: Sequence[protocol.Entry]
    """Objects that the new ones replace, or whose items are gone."""


class Feeder:
    def __init__(self, database: Database, engine: protocol.Engine, tuning: Tuning) -> None:
        self._database = database
        self.engine = engine
        self._tuning = tuning
        self._looked: dict[str, float] = {}
        """When the marks of an index were read."""
        self._replicas = Replicas(database, engine)
        self._sweep_at: dict[int, float] = {}
        """The time at which objects of each generation are removed once more."""

    def is_due(self, db: Connection, ns: Namespace, *, everything: bool) -> bool:
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
        stored = self._database.read(lambda db: index_log.find(db, generation))
        if stored is None:
            return
        old = self._database.read(lambda db: index_log.superseded(db, ns.id, stored.cursor))
        nodes = [node for node in self.engine.nodes if node.name not in stored.behind]
        for part in pages(old, _SWEPT_ENTRIES):
            if any(node.held(stored.collection, part) for node in nodes):
                self.engine.remove(stored.collection, part, stored.behind)
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

    def _begin(self, db: Connection, ns: Namespace) -> None:
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
        present = [each for each in self._generations(ns) if each.state != "retired"]
        generations = [each for each in present if self._names(each)]
        self._looked[ns.name] = time.monotonic()
        if present and not generations:
            remedy = protocol.OTHER_NODES_REMEDY
            raise IndexUnavailable(protocol.named_otherwise(present[-1].engine, self.engine.shown), remedy)
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
        lacking = self.engine.apply(generation.collection, protocol.Applied(mark, 0), generation.behind)
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
            generations = {each.id: each for each in self._generations(ns)}
            if generation.id not in generations:
                return False
            settled = self._replicas.settled(self._with_space(ns, generations[generation.id]))
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
        if lacking := self._written(generation, batch, protocol.Applied(mark, batch.end.change), generation.behind):
            self._replicas.leave_behind(generation, lacking)  # the batch is repeated without them
            return True
        with self._database.write() as db:
            return True if index_log.advance(db, generation, batch.end) else None

    def _written(
        self, generation: Generation, batch: _Batch, applied: protocol.Applied | None, without: Collection[str]
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

    def _repeat(self, ns: Namespace, generation: Generation, node: protocol.Node) -> None:
        """Writes a batch that a node lacks; after the last one, the node answers searches again."""
        others = [name for name in generation.behind if name != node.name]
        cursor = self._database.read(lambda db: index_log.cursor(db, generation.id))
        batch = self._read_batch(ns, generation, self._replicas.start(ns.id, generation, node), cursor)
        if batch is None:
            mark = self._begun(ns, generation, cursor)
            lacking = self.engine.apply(generation.collection, protocol.Applied(mark, cursor.change), others)
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
            last = {item: changes[-1] for item, changes in logged.items()}
            documents = read_documents(db, namespaces.find(db, ns.name), last, generation.fingerprint)
        old = [protocol.Entry(item, version) for item, changes in logged.items() for version in changes[:-1]]
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
        return protocol.names_same_nodes(generation.engine, self.engine.shown)

    @contextmanager
    def _snapshot(self) -> Generator[Connection]:
        with self._database.translated():
            db, _ = self._database.begin(READ_ONLY)
            with self._database.committed(db):
                yield db

    @contextmanager
    def _locked(self, namespace: str) -> Generator[tuple[Connection, Namespace]]:
        """No write to the namespace is in progress: what is committed later is logged."""
        with self._database.write() as db:
            yield db, namespaces.create(db, namespace)


def _fits(ns: Namespace, generation: Generation) -> bool:
    """Whether the generation was made by the analyser and for the model of the namespace."""
    spaces = (None, ns.fingerprint)
    return generation.analyser == ANALYSER_VERSION and generation.fingerprint in spaces


def read_documents(
    db: Connection, ns: Namespace, versions: Mapping[int, int], fingerprint: str | None
) -> list[protocol.Document]:
    """The items that exist, each as the version that is given for it."""
    sql = (
        "SELECT id, hashes, (SELECT string_agg(vector_send(v), '' ORDER BY part) FROM vectors WHERE item = id), kind, "
        "language, (SELECT array_agg(folded) FROM item_tags WHERE item_tags.item = id) FROM items "
        "LEFT JOIN texts ON texts.item = id WHERE items.ns = ? AND id = ANY(?::bigint[]) ORDER BY id"
    )
    wanted = fingerprint is not None and fingerprint == ns.fingerprint
    documents: list[protocol.Document] = []
    for item, hashed, sent, kind, language, tags in db.rows(sql, ns.id, array(versions)):
        hashes = np.frombuffer(hashed or b"", np.uint32)
        length = (len(hashes) + bm25.BASE_LENGTH) / (ns.average_length + bm25.BASE_LENGTH)
        made = list(vectors.matrix(sent, ns.dimension or 0)) if wanted and sent is not None else []
        facts = protocol.item_facts(kind, language, tags or ())
        documents.append(protocol.Document(protocol.Entry(item, versions[item]), hashes, length, made, facts))
    return documents


_WINDOW_ITEMS = 2_000
_NAMED_ITEMS = 5
_BEYOND = 1 << 62
_TOLD = {
    "missing": "lacks {} of the items",
    "stale": "has {} outdated versions",
    "resurrected": "has {} deleted items",
    "unlogged": "does not know of {} items",
}


class Drift(NamedTuple):
    node: str
    kind: Literal["missing", "stale", "resurrected", "unlogged"]
    entry: protocol.Entry


def index_problems(database: Database, engine: protocol.Engine, grace_seconds: float) -> Iterator[str]:
    """One line for each kind of difference, node and namespace."""
    for ns in database.read(namespaces.everyone):
        if not ns.logged:
            continue
        try:
            drifts = index_drift(database, engine, ns.name, grace_seconds)
        except IndexUnavailable as error:
            yield f"namespace {ns.name}: the index cannot be compared ({error.message})"
            continue
        active = ns.generation
        if active is not None and not protocol.names_same_nodes(active.engine, engine.shown):
            what = protocol.named_otherwise(active.engine, engine.shown)
            yield f"namespace {ns.name}: {what}. {protocol.OTHER_NODES_REMEDY}"
        for (node, kind), count in sorted(Counter((each.node, each.kind) for each in drifts).items()):
            some = [each.entry.item for each in drifts if (each.node, each.kind) == (node, kind)][:_NAMED_ITEMS]
            problem = _TOLD[kind].format(count)
            yield f"namespace {ns.name}: the index on {node} {problem} ({', '.join(map(str, some))})"


def index_drift(database: Database, engine: protocol.Engine, namespace: str, grace_seconds: float) -> list[Drift]:
    """Differences that remain after the grace time."""
    drifts = {
        each
        for low, high in _windows(database, namespace)
        for each in _compared(database, engine, namespace, low, high)
    }
    if not drifts:
        return []
    time.sleep(grace_seconds)
    again = {
        each
        for item in {each.entry.item for each in drifts}
        for each in _compared(database, engine, namespace, item, item + 1)
    }
    return sorted(drifts & again)


def _windows(database: Database, namespace: str) -> Iterator[tuple[int, int]]:
    """Ranges of ids, from 1 without a gap: an object of an item that does not exist lies in one of them."""
    low = 1
    sql = "SELECT id FROM items WHERE ns = ? AND id >= ? ORDER BY id OFFSET ? LIMIT 1"
    while True:
        ends = database.read(lambda db, low=low: db.column(sql, namespaces.find(db, namespace).id, low, _WINDOW_ITEMS))
        yield low, ends[0] if ends else _BEYOND
        if not ends:
            return
        low = ends[0]


def _compared(database: Database, engine: protocol.Engine, namespace: str, low: int, high: int) -> Iterator[Drift]:
    """Compares a range of ids once; concurrent changes of the feeder can look like differences."""
    for node in engine.nodes:
        active = database.read(lambda db: namespaces.find(db, namespace)).generation
        if active is None:
            return
        held = Counter(node.entries(active.collection, low, high))
        cursor, behind, versions, existing, vectors = database.read(lambda db: _listed(db, namespace, low, high))
        cursor = min(cursor, behind.get(node.name, cursor))
        for item in existing - versions.keys():
            yield Drift(node.name, "unlogged", protocol.Entry(item, 0))
        for item, changes in versions.items():
            last = protocol.Entry(item, changes[-1])
            if (
                item in existing
                and Cursor(changes[-1], item) <= cursor
                and held[last] < engine.objects(vectors.get(item, 0))
            ):
                yield Drift(node.name, "missing", last)
        for entry in held:
            changes = versions.get(entry.item, [])
            is_behind = bool(changes) and Cursor(changes[-1], entry.item) > cursor
            if entry.item not in existing and not is_behind:
                yield Drift(node.name, "resurrected", entry)
            elif entry.item in existing and not _may_hold(entry, changes, cursor):
                yield Drift(node.name, "stale", entry)


def _may_hold(entry: protocol.Entry, items: Sequence[int], cursor: Cursor) -> bool:
    """The last version, and older ones while the last one was not fed."""
    if not items:
        return True  # reported as unlogged
    return entry.version == items[-1] or (entry.version in items and Cursor(items[-1], entry.item) > cursor)


def _listed(
    db: Connection, namespace: str, low: int, high: int
) -> tuple[Cursor, dict[str, Cursor], dict[int, list[int]], set[int], dict[int, int]]:
    """The cursor, those of nodes that are behind, the logged versions, the items that exist, and the number of vectors
    that the index should have of each."""
    ns = namespaces.find(db, namespace)
    cursor, behind = (Cursor(0, 0), {}) if ns.generation is None else (ns.generation.cursor, ns.generation.behind)
    versions: dict[int, list[int]] = {}
    sql = "SELECT item, change FROM index_log WHERE ns = ? AND item >= ? AND item < ? ORDER BY item, change"
    for item, change in db.rows(sql, ns.id, low, high):
        versions.setdefault(item, []).append(change)
    existing = db.column("SELECT id FROM items WHERE ns = ? AND id >= ? AND id < ?", ns.id, low, high)
    sql = "SELECT item, count(*) FROM vectors WHERE ns = ? AND item >= ? AND item < ? GROUP BY item"
    has_vectors = ns.generation is not None and ns.generation.fingerprint == ns.fingerprint
    vectors = dict(db.rows(sql, ns.id, low, high)) if has_vectors else {}
    return cursor, behind, versions, set(existing), vectors


def mend_index(
    database: Database, engine: protocol.Engine, namespace: str, grace_seconds: float
) -> tuple[list[str], set[int]]:
    """Removes surplus objects; returns what was done, and the items that have to be logged again."""
    drifts = index_drift(database, engine, namespace, grace_seconds)
    wrong = sorted({each.entry for each in drifts if each.kind in ("stale", "resurrected")})
    lacking = {each.entry.item for each in drifts if each.kind in ("missing", "unlogged")}
    active = database.read(lambda db: namespaces.find(db, namespace)).generation
    done: list[str] = []
    if wrong and active is not None:
        engine.remove(active.collection, wrong, active.behind)
        done.append(f"namespace {namespace}: {len(wrong)} objects removed from the index")
    if active is not None and not protocol.names_same_nodes(active.engine, engine.shown):
        with database.write() as db:
            index_log.take_over(db, active, engine.shown, [node.name for node in engine.nodes])
        done.append(f"namespace {namespace}: the index belongs to {engine.shown} now")
    if lacking:
        done.append(f"namespace {namespace}: {len(lacking)} items written to the index again")
    return done, lacking


def index_status(db: Connection, ns: namespaces.Namespace) -> dict[str, object]:
    """The progress of the index of a namespace, for `status` and metrics."""
    generations = index_log.every(db, ns.id)
    lag, seconds = (0, 0.0) if ns.generation is None else index_log.lag(db, ns.id, ns.generation.cursor)
    return {
        "collection": None if ns.generation is None else ns.generation.collection,
        "applied_change": None if ns.generation is None else ns.generation.change,
        "lag_changes": lag,
        "lag_seconds": round(seconds, 3),
        "nodes_behind": [] if ns.generation is None else sorted(ns.generation.behind),
        "building": any(each.state in ("filling", "building") for each in generations),
    }

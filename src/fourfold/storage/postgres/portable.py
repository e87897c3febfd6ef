"""A whole store as records, and records as a store. docs/reference-formats.md describes the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import groupby, islice
from typing import TYPE_CHECKING

from fourfold.embed.windows import rows_of, spans_of
from fourfold.errors import RequestError
from fourfold.storage import loading
from fourfold.storage import records as formats
from fourfold.storage.codec import dumps, micros
from fourfold.storage.postgres import graph, items, namespaces, windows
from fourfold.storage.postgres.items import Draft
from fourfold.storage.postgres.links import PostgresLinkRows
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.rows import load
from fourfold.storage.postgres.sql import Db, column, rows, run, run_many, value
from fourfold.storage.record_reader import TYPES
from fourfold.storage.sql import files, ids
from fourfold.storage.sql.graph_paths import read_nodes
from fourfold.storage.sql.raw import RawRecords
from fourfold.storage.sql.saved_versions import SavedVersions
from fourfold.storage.values import FileState, Record
from fourfold.text.entities import links, normal_name

if TYPE_CHECKING:
    from fourfold.storage.postgres.store import PostgresStore

_PAGE_RECORDS = 500


# ---------------------------------------------------------------- out


def records(db: Db, namespace: str | None = None) -> Iterator[Record]:
    """All records, or those of one namespace, in an order that depends on the content alone."""
    every = [ns for ns in namespaces.everyone(db) if namespace in (None, ns.name)]
    for ns in every:
        yield formats.namespace_record(ns.name, ns.fingerprint, ns.dimension)
    for kind in (_raw, _items, _nodes, _edges, _mentions, _files, _versions):
        for ns in every:
            yield from kind(db, ns)


def _pages(db: Db, table: str, ns: Namespace) -> Iterator[list[int]]:
    after = 0
    while True:
        sql = f"SELECT id FROM {table} WHERE ns = %s AND id > %s ORDER BY id LIMIT %s"  # noqa: S608  (our own clauses)
        page = column(db, sql, ns.id, after, _PAGE_RECORDS)
        if not page:
            return
        yield page
        after = page[-1]


def _raw(db: Db, ns: Namespace) -> Iterator[Record]:
    for page in _pages(db, "raw", ns):
        for record in RawRecords(db, ns.name, ns.id).get(page).values():
            yield formats.raw_record(record)


def _items(db: Db, ns: Namespace) -> Iterator[Record]:
    for page in _pages(db, "items", ns):
        made = windows.stored(db, ns, page)
        for row in load(db, ns.id, page):
            vector = made.get(row.id)
            sent = None if vector is None else rows_of(vector).tobytes()
            spans = spans_of(vector)
            yield formats.item_record(row.as_item(ns.name), linked=row.linked, vector=sent, spans=spans)


def _nodes(db: Db, ns: Namespace) -> Iterator[Record]:
    for page in _pages(db, "nodes", ns):
        found = read_nodes(db, page)
        made = dict(rows(db, "SELECT id, made FROM nodes WHERE id = ANY(%s::bigint[])", page))
        sql = "SELECT node, item, made FROM node_items WHERE node = ANY(%s::bigint[]) ORDER BY node, item"
        attached: dict[int, list[tuple[int, bool]]] = {}
        for node, item, said in rows(db, sql, page):
            attached.setdefault(node, []).append((item, said))
        for node in found.values():
            yield formats.node_record(ns.name, node, made=made[node.id], items=attached.get(node.id, []))


def _edges(db: Db, ns: Namespace) -> Iterator[Record]:
    for page in _pages(db, "nodes", ns):
        sql = (
            "SELECT source, relation, target, weight FROM edges WHERE source = ANY(%s::bigint[]) "
            "ORDER BY source, relation, target"
        )
        for edge in rows(db, sql, page):
            yield formats.edge_record(ns.name, *edge)


def _mentions(db: Db, ns: Namespace) -> Iterator[Record]:
    for page in _pages(db, "items", ns):
        sql = "SELECT item, node FROM mentions WHERE item = ANY(%s::bigint[]) ORDER BY item, node"
        for item, node in rows(db, sql, page):
            yield formats.mention_record(ns.name, item, node)


def _files(db: Db, ns: Namespace) -> Iterator[Record]:
    for row in files.states(db, ns.id, "").values():
        yield formats.file_record(ns.name, row)


def _versions(db: Db, ns: Namespace) -> Iterator[Record]:
    for version in SavedVersions(db, ns.id).all():
        yield formats.version_record(ns.name, version)


# ---------------------------------------------------------------- in


class PostgresPortable:
    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def export(self, write: Callable[[Record], None], *, namespace: str | None = None) -> None:
        for each in self._store.namespaces() if namespace is None else (namespace,):
            self._store.maintenance.catch_up(each)
        with self._store.database.long_snapshot() as db:
            for record in records(db, namespace):
                write(record)

    def load(self, records: Iterable[Record], *, mark: str | None = None) -> None:
        loading.load(self, records, mark)

    def load_namespace(self, records: Iterable[Record], namespace: str) -> None:
        loading.load_namespace(self, records, namespace)

    def writing(self) -> AbstractContextManager[Db]:
        return self._store.database.write()

    def is_empty(self, tx: Db, namespace: str | None = None) -> bool:
        """Locks the namespace, if there is one."""
        tables = ("items", "nodes", "raw", "files")
        own = "" if namespace is None else f" WHERE ns = {namespaces.create(tx, namespace).id}"
        return not value(tx, "SELECT " + " OR ".join(f"EXISTS (SELECT 1 FROM {table}{own})" for table in tables))  # noqa: S608  (our own clauses)

    def store(self, tx: Db, records: Iterable[Record]) -> None:
        _load(tx, records)
        ids.reset(tx)

    def store_namespace(self, tx: Db, records: Iterable[Record], namespace: str) -> None:
        ns = namespaces.create(tx, namespace).id
        _load(tx, loading.renumbered(records, namespace, lambda table, count: ids.new(tx, ns, table, count)))

    def noted(self, tx: Db) -> str | None:
        return value(tx, "SELECT value FROM settings WHERE name = %s", loading.SETTING)

    def note(self, tx: Db, text: str | None) -> None:
        run(tx, "DELETE FROM settings WHERE name = %s", loading.SETTING)
        if text is not None:
            run(tx, "INSERT INTO settings VALUES (%s, %s)", loading.SETTING, text)

    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        raise RequestError(
            "a store on a server is not removed from here",
            f"Everything is copied. Drop the schema there: DROP SCHEMA {self._store.address.schema} CASCADE",
        )


def _load(db: Db, batch: Iterable[Record]) -> None:
    """Accepted records of an export, in their order, with their ids; in the transaction of the caller."""
    known: dict[str, Namespace] = {}
    for kind, name, part in _batches(batch):
        if name not in known:
            known[name] = namespaces.create(db, name)
        _LOADERS[kind](db, known[name], part)
    for ns in known.values():
        namespaces.store(db, ns)


def _batches(records: Iterable[Record]) -> Iterator[tuple[str, str, list[Record]]]:
    """Records of one kind and namespace, some hundred at a time."""
    for (kind, name), group in groupby(records, key=_group):
        while part := list(islice(group, _PAGE_RECORDS)):
            yield kind, name, part


def _group(record: Record) -> tuple[str, str]:
    return record["type"], record["name"] if record["type"] == "namespace" else record["namespace"]


def _load_namespace(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    ns.fingerprint, ns.dimension = part[0]["fingerprint"], part[0]["dimension"]


def _load_raw(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    run_many(
        db,
        "INSERT INTO raw VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
        [
            (
                record["id"], ns.id, record["content"], record["speaker"], record["session_id"],
                dumps(record["metadata"]), micros(formats.moment(record["created_at"])), record.get("source"),
            )
            for record in part
        ],
    )  # fmt: skip


def _load_items(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    draft = Draft([])
    for record in part:
        row = draft.add(formats.new_item(record), formats.moment(record["updated_at"]), links=record["linked"])
        row.id = record["id"]
        row.vector = formats.vector(record)
        for name, value_ in formats.version_fields(record).items():
            setattr(row, name, value_)
    items.write(db, ns, draft.rows)
    pointed = {row.id: {normal_name(name) for name in links(row.text)} for row in draft.rows if row.linked}
    PostgresLinkRows(db, ns).set_pointers(pointed, [])


def _load_nodes(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    rows_ = [(record["id"], record["name"], record["label"], record["made"]) for record in part]
    graph.insert_nodes(db, ns.id, rows_)
    run_many(
        db,
        "UPDATE nodes SET properties = %s WHERE id = %s",
        [(dumps(record["properties"]), record["id"]) for record in part if record["properties"]],
    )
    aliases = [(record["id"], normal_name(alias), alias) for record in part for alias in record["aliases"]]
    graph.add_names(db, ns.id, aliases)
    graph.attach(db, [(record["id"], item, made) for record in part for item, made in record["items"]])
    ns.names += 1


def _load_edges(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    edges = [(record["source"], record["relation"], record["target"], record["weight"]) for record in part]
    graph.set_edges(db, edges)


def _load_mentions(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    run_many(db, "INSERT INTO mentions VALUES (%s, %s)", [(record["item"], record["node"]) for record in part])


def _load_files(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    files.put_states(db, ns.id, [FileState(*(record[field] for field in FileState._fields)) for record in part])


def _load_versions(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    SavedVersions(db, ns.id).add([formats.version(record) for record in part])


_LOADERS: dict[str, Callable[[Db, Namespace, Sequence[Record]], None]] = dict(
    zip(
        TYPES,
        (
            _load_namespace,
            _load_raw,
            _load_items,
            _load_nodes,
            _load_edges,
            _load_mentions,
            _load_files,
            _load_versions,
        ),
        strict=True,
    )
)

"""A whole store as records, and records as a store. docs/reference-formats.md describes the records."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from fourfold.errors import RequestError, StoreReplaced
from fourfold.index.source import Change
from fourfold.storage import loading
from fourfold.storage import records as formats
from fourfold.storage.codec import dumps, micros, optional_micros
from fourfold.storage.parts import unpacked
from fourfold.storage.record_reader import TYPES
from fourfold.storage.sql import files as file_rows
from fourfold.storage.sql import ids
from fourfold.storage.sql.graph_paths import read_nodes
from fourfold.storage.sql.raw import RawRecords
from fourfold.storage.sql.saved_versions import SavedVersions
from fourfold.storage.sqlite import changes, graph, items, spaces, vectors, versions
from fourfold.storage.sqlite import folder as folders
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import Database, chunks, rows, value
from fourfold.storage.sqlite.links import SqliteLinkRows
from fourfold.storage.values import FileState, Record
from fourfold.text.entities import links, normal_name

_PAGE = 500
_LINKED_AND_VECTOR = "SELECT linked, vector, spans FROM items LEFT JOIN vectors ON item = id WHERE id = ?"


# ---------------------------------------------------------------- out


class SqlitePortable:
    def __init__(
        self, folder: Path, database: Database, writing: threading.Lock, catch_up: Callable[[int], None]
    ) -> None:
        """`catch_up`: completes the links of a namespace (by its number), which an export contains."""
        self._folder = folder
        self._db = database
        self._writing = writing
        self._catch_up = catch_up

    def export(self, write: Callable[[Record], None], *, namespace: str | None = None) -> None:
        with self._db.read() as db:
            namespaces = _namespaces(db, namespace)
        for ns, *_ in namespaces:
            self._catch_up(ns)
        with self._db.read() as db:
            for record in records(db, namespace):
                write(record)

    def load(self, records: Iterable[Record], *, mark: str | None = None) -> None:
        with self._writing:
            loading.load(self, records, mark)

    def load_namespace(self, records: Iterable[Record], namespace: str) -> None:
        with self._writing:
            loading.load_namespace(self, records, namespace)

    def writing(self) -> AbstractContextManager[Connection]:
        return self._db.write()

    def is_empty(self, tx: Connection, namespace: str | None = None) -> bool:
        tables = ("items", "nodes", "raw", "files")
        if namespace is None:
            return not any(value(tx, f"SELECT 1 FROM {table} LIMIT 1") for table in tables)  # noqa: S608  (our own clauses)
        ns = spaces.find(tx, namespace)
        return not any(value(tx, f"SELECT 1 FROM {table} WHERE ns = ? LIMIT 1", ns) for table in tables)  # noqa: S608  (our own clauses)

    def store(self, tx: Connection, records: Iterable[Record]) -> None:
        ids.reset(tx)
        for record in records:
            _LOADERS[record["type"]](tx, record)
        for ns, *_ in _namespaces(tx, None):
            changes.log(tx, ns, [(0, Change.LABELS)])  # nodes, edges and mentions

    def store_namespace(self, tx: Connection, records: Iterable[Record], namespace: str) -> None:
        ns = spaces.ensure(tx, namespace)
        for record in loading.renumbered(records, namespace, lambda table, count: ids.new(tx, ns, table, count)):
            _LOADERS[record["type"]](tx, record)

    def noted(self, tx: Connection) -> str | None:
        return value(tx, "SELECT value FROM settings WHERE name = ?", loading.SETTING)

    def note(self, tx: Connection, text: str | None) -> None:
        tx.execute("DELETE FROM settings WHERE name = ?", (loading.SETTING,))
        if text is not None:
            tx.execute("INSERT INTO settings VALUES (?, ?)", (loading.SETTING, text))

    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        """Deletes the files of the store while no other process can write to it.

        Processes that have it open get a StoreReplaced with their next call: nothing is confirmed and lost.
        """
        with self._writing, suppress(StoreReplaced), self._db.write() as db:
            if not is_copied(records(db)):
                raise RequestError("the store changed after it was copied", "Nothing was removed. Repeat the command")
            for file in (*self._folder.glob(f"{folders.DATABASE}*"), *folders.old_copies(self._folder)):
                file.unlink(missing_ok=True)
        shutil.rmtree(self._folder / folders.INDEX, ignore_errors=True)
        with suppress(OSError):
            self._folder.rmdir()


def _namespaces(db: Connection, namespace: str | None) -> list[tuple[int, str, str | None, int | None]]:
    sql = "SELECT id, name, fingerprint, dimension FROM namespaces WHERE name = ?1 OR ?1 IS NULL ORDER BY name"
    return rows(db, sql, namespace)


def records(db: Connection, namespace: str | None = None) -> Iterator[Record]:
    """All records, or those of one namespace, in an order that depends on the content alone."""
    namespaces = _namespaces(db, namespace)
    for _, name, fingerprint, dimension in namespaces:
        yield formats.namespace_record(name, fingerprint, dimension)
    for kind in (_raw, _items, _nodes, _edges, _mentions, _files, _versions):
        for ns, name, *_ in namespaces:
            yield from kind(db, ns, name)


def _raw(db: Connection, ns: int, namespace: str) -> Iterator[Record]:
    for part in chunks([row[0] for row in rows(db, "SELECT id FROM raw WHERE ns = ? ORDER BY id", ns)], _PAGE):
        yield from map(formats.raw_record, RawRecords(db, namespace, ns).get(part).values())


def _items(db: Connection, ns: int, namespace: str) -> Iterator[Record]:
    for part in chunks(items.all_ids(db, ns), _PAGE):
        found = items.get(db, namespace, ns, part)
        for item in part:
            linked, vector, spans = rows(db, _LINKED_AND_VECTOR, item)[0]
            yield formats.item_record(found[item], linked=bool(linked), vector=vector, spans=unpacked(spans))


def _nodes(db: Connection, ns: int, namespace: str) -> Iterator[Record]:
    for part in chunks([row[0] for row in rows(db, "SELECT id FROM nodes WHERE ns = ? ORDER BY id", ns)], _PAGE):
        for node in read_nodes(db, part).values():
            attached = rows(db, "SELECT item, made FROM node_items WHERE node = ? ORDER BY item", node.id)
            made = bool(value(db, "SELECT made FROM nodes WHERE id = ?", node.id))
            yield formats.node_record(namespace, node, made=made, items=[(item, bool(said)) for item, said in attached])


def _edges(db: Connection, ns: int, namespace: str) -> Iterator[Record]:
    sql = (
        "SELECT source, relation, target, weight FROM edges JOIN nodes ON id = source WHERE ns = ? "
        "ORDER BY source, relation, target"
    )
    for edge in db.execute(sql, (ns,)):
        yield formats.edge_record(namespace, *edge)


def _mentions(db: Connection, ns: int, namespace: str) -> Iterator[Record]:
    sql = "SELECT item, node FROM mentions JOIN items ON id = item WHERE ns = ? ORDER BY item, node"
    for item, node in db.execute(sql, (ns,)):
        yield formats.mention_record(namespace, item, node)


def _files(db: Connection, ns: int, namespace: str) -> Iterator[Record]:
    for row in file_rows.states(db, ns, "").values():
        yield formats.file_record(namespace, row)


def _versions(db: Connection, ns: int, namespace: str) -> Iterator[Record]:
    for version in SavedVersions(db, ns).all():
        yield formats.version_record(namespace, version)


# ---------------------------------------------------------------- in


def _load_namespace(db: Connection, record: Record) -> None:
    ns = spaces.ensure(db, record["name"])
    db.execute(
        "UPDATE namespaces SET fingerprint = ?, dimension = ? WHERE id = ?",
        (record["fingerprint"], record["dimension"], ns),
    )


def _load_raw(db: Connection, record: Record) -> None:
    db.execute(
        "INSERT INTO raw VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            record["id"], spaces.ensure(db, record["namespace"]), record["content"], record["speaker"],
            record["session_id"], dumps(record["metadata"]), micros(formats.moment(record["created_at"])),
            record.get("source"),
        ),
    )  # fmt: skip


def _load_item(db: Connection, record: Record) -> None:
    ns = spaces.ensure(db, record["namespace"])
    items.insert(db, ns, formats.new_item(record), formats.moment(record["updated_at"]), item_id=record["id"])
    db.execute("UPDATE namespaces SET items = items + 1 WHERE id = ?", (ns,))
    place = formats.version_fields(record)
    if place:
        times = (optional_micros(place.get(name)) for name in ("valid_from", "superseded_at"))
        versions.restore(db, record["id"], (*times, place.get("supersedes"), place.get("version_of")))
    items.set_linked(db, [record["id"]], record["linked"])
    pointed = {normal_name(name) for name in links(record["text"])} if record["linked"] else set[str]()
    SqliteLinkRows(db, ns).set_pointers({record["id"]: pointed}, [])
    change = Change.TEXT
    made = formats.vector(record)
    if made is not None:
        vectors.put(db, ns, record["id"], made)
        change |= Change.VECTOR
    changes.log(db, ns, [(record["id"], change)])


def _load_node(db: Connection, record: Record) -> None:
    ns = spaces.ensure(db, record["namespace"])
    graph.insert_node(db, ns, record["name"], record["label"], made=record["made"], node_id=record["id"])
    graph.restore(db, ns, record["id"], record["aliases"], record["properties"])
    for item, made in record["items"]:
        graph.attach(db, record["id"], item, made=made)
    db.execute("UPDATE namespaces SET names = names + 1 WHERE id = ?", (ns,))


def _load_edge(db: Connection, record: Record) -> None:
    graph.set_edges(db, [(record["source"], record["relation"], record["target"], record["weight"])])


def _load_mention(db: Connection, record: Record) -> None:
    db.execute("INSERT INTO mentions VALUES (?, ?)", (record["item"], record["node"]))


def _load_file(db: Connection, record: Record) -> None:
    state = FileState(*(record[field] for field in FileState._fields))
    file_rows.put_states(db, spaces.ensure(db, record["namespace"]), [state])


def _load_version(db: Connection, record: Record) -> None:
    SavedVersions(db, spaces.ensure(db, record["namespace"])).add([formats.version(record)])


_LOADERS: dict[str, Callable[[Connection, Record], None]] = dict(
    zip(
        TYPES,
        (_load_namespace, _load_raw, _load_item, _load_node, _load_edge, _load_mention, _load_file, _load_version),
        strict=True,
    )
)

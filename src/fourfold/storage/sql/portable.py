"""A whole store as records, and records as a store. docs/import.md describes the records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Generic, TypeVar, cast

from fourfold.errors import RequestError, StoreNotEmpty
from fourfold.model import Json
from fourfold.storage.sql import graph
from fourfold.storage.sql import records as formats
from fourfold.storage.sql.dialect import Db, dumps, light_pages, micros, moment
from fourfold.storage.sql.graph import read_nodes
from fourfold.storage.sql.namespaces import COLUMNS, LOADING, Namespace
from fourfold.storage.sql.origins import RawRecords, file_states, put_file_states
from fourfold.storage.sql.records import accepted
from fourfold.storage.sql.rows import Row, load, new_ids, reset_ids
from fourfold.storage.sql.transaction import SqlTransaction
from fourfold.storage.sql.versions import SavedVersions
from fourfold.storage.values import FileState, Record
from fourfold.text.entities import links, normal_name

PIECE_RECORDS = 5000
TABLES = {"raw": "raw", "item": "items", "node": "nodes"}
"""Kinds of records that have ids, with their tables."""
NewIds = Callable[[str, int], Iterable[int]]
"""Assigns this many ids in a table."""


def renumbered(records: Iterable[Record], namespace: str, new_ids: NewIds) -> Iterator[Record]:
    """The accepted records of one namespace as records of another: with its name and with new ids."""
    ids: dict[str, dict[int, int]] = {kind: {} for kind in TABLES}
    fresh: dict[str, Iterator[int]] = {}
    seen = 0

    def new_id(kind: str, old: int) -> int:
        """The id that replaces an old one. A version may refer to an item that is not read yet."""
        if old not in ids[kind]:
            following = next(fresh[kind], None)
            ids[kind][old] = next(iter(new_ids(TABLES[kind], 1))) if following is None else following
        return ids[kind][old]

    for piece in light_pages(records, PIECE_RECORDS, _text_length):
        counts = Counter[str](record["type"] for record in piece)
        seen += counts["namespace"]
        if seen > 1:
            remedy = "Load it with `fourfold import` into an empty store"
            raise RequestError("this export holds several namespaces", remedy)
        fresh |= {kind: iter(new_ids(table, counts[kind])) for kind, table in TABLES.items()}
        for record in piece:
            yield {**record, **_renumbered(record, namespace, ids, new_id)}


def _renumbered(
    record: Record, namespace: str, ids: Mapping[str, Mapping[int, int]], new_id: Callable[[str, int], int]
) -> Record:
    """What changes."""
    kind = record["type"]
    changed: Record = {"name": namespace} if kind == "namespace" else {"namespace": namespace}
    if kind in ids:
        changed["id"] = new_id(kind, record["id"])
    match kind:
        case "item":
            changed["source_ids"] = [ids["raw"][source] for source in record["source_ids"]]
            changed |= {name: new_id("item", record[name]) for name in ("supersedes", "version_of") if name in record}
        case "node":
            changed["items"] = [[ids["item"][item], made] for item, made in record["items"]]
        case "edge":
            changed |= {end: ids["node"][record[end]] for end in ("source", "target")}
        case "mention":
            changed |= {end: ids[end][record[end]] for end in ("item", "node")}
        case "version":
            raw, old = ids["raw"], record["record"]
            changed |= {end: new_id("item", record[end]) for end in ("id", "item")}
            changed["record"] = {**old, "source_ids": [raw[source] for source in old["source_ids"] if source in raw]}
        case _:
            pass
    return changed


D = TypeVar("D", bound=Db)

_PAGE_RECORDS = 500


# ---------------------------------------------------------------- out


def export_records(
    db: D, namespace: str | None, stored_vectors: Callable[[D, int | None, Sequence[int]], Mapping[int, Any]]
) -> Iterator[Record]:
    """All records, or those of one namespace, in an order that depends on the content alone.

    `stored_vectors`: the vectors of items in a space of this dimension.
    """
    own, bound = ("", ()) if namespace is None else ("WHERE name = ? ", (namespace,))
    sql = f"SELECT {COLUMNS} FROM namespaces {own}ORDER BY name"  # noqa: S608  (our own clauses)
    namespaces = [Namespace(*row) for row in db.rows(sql, *bound)]
    for ns in namespaces:
        yield {"type": "namespace", "name": ns.name, "fingerprint": ns.fingerprint, "dimension": ns.dimension}
    for kind in ("raw", "item", "node", "edge", "mention", "file", "version"):
        for ns in namespaces:
            if kind == "item":
                records = _items(db, ns, partial(stored_vectors, db, ns.dimension))
            else:
                records = _READERS[kind](db, ns)
            for record in records:
                yield {"type": kind, "namespace": ns.name, **record}


def _pages(db: Db, table: str, ns: Namespace, text: str = "''") -> Iterator[list[int]]:
    """The ids of a table, in pages whose values of the column `text` are not too large together."""
    rows = db.rows(f"SELECT id, octet_length({text}) FROM {table} WHERE ns = ? ORDER BY id", ns.id)  # noqa: S608  (our own tables)
    return ([id for id, _ in page] for page in light_pages(rows, _PAGE_RECORDS, itemgetter(1)))


def _text_length(record: Record) -> int:
    """The characters of the values of a record, and of the item's record that a version holds."""
    inner: object = record.get("record")
    held = _text_length(cast("Record", inner)) if isinstance(inner, dict) else 0
    return held + sum(len(value) for value in record.values() if isinstance(value, str))


def _raw(db: Db, ns: Namespace) -> Iterator[Record]:
    for page in _pages(db, "raw", ns, "content"):
        for raw in RawRecords(db, ns).get(page).values():
            plain = {name: getattr(raw, name) for name in ("id", "content", "speaker", "session_id")}
            optional = {} if raw.source is None else {"source": raw.source}
            yield {**plain, "metadata": dict(raw.metadata), "created_at": raw.created_at.isoformat(), **optional}


def _items(db: Db, ns: Namespace, stored_vectors: Callable[[Sequence[int]], Mapping[int, Any]]) -> Iterator[Record]:
    for page in _pages(db, "items", ns, "text"):
        vectors = stored_vectors(page)
        for row in load(db, ns.id, page):
            yield {"id": row.id, **formats.row_record(row, ns.name, vectors.get(row.id))}


def _nodes(db: Db, ns: Namespace) -> Iterator[Record]:
    for page in _pages(db, "nodes", ns):
        made = dict(db.rows(f"SELECT id, made FROM nodes WHERE id {db.any_id}", db.ids(page)))  # noqa: S608  (constants)
        sql = f"SELECT node, item, made FROM node_items WHERE node {db.any_id} ORDER BY node, item"  # noqa: S608  (constants)
        attached: dict[int, list[list[Json]]] = {}
        for node, item, said in db.rows(sql, db.ids(page)):
            attached.setdefault(node, []).append([item, bool(said)])
        for node in read_nodes(db, page).values():
            names = {"id": node.id, "name": node.name, "label": node.label, "aliases": list(node.aliases)}
            items = attached.get(node.id, [])
            yield {**names, "properties": dict(node.properties), "made": bool(made[node.id]), "items": items}


def _edges(db: Db, ns: Namespace) -> Iterator[Record]:
    sql = (
        f"SELECT source, relation, target, weight FROM edges WHERE source {db.any_id} "  # noqa: S608  (constants)
        "ORDER BY source, relation, target"
    )
    for page in _pages(db, "nodes", ns):
        for source, relation, target, weight in db.rows(sql, db.ids(page)):
            yield {"source": source, "relation": relation, "target": target, "weight": weight}


def _mentions(db: Db, ns: Namespace) -> Iterator[Record]:
    sql = f"SELECT item, node FROM mentions WHERE item {db.any_id} ORDER BY item, node"  # noqa: S608  (constants)
    for page in _pages(db, "items", ns):
        yield from ({"item": item, "node": node} for item, node in db.rows(sql, db.ids(page)))


def _files(db: Db, ns: Namespace) -> Iterator[Record]:
    return (FileState._make(row)._asdict() for row in file_states(db, ns.id, "").values())


def _versions(db: Db, ns: Namespace) -> Iterator[Record]:
    for version in SavedVersions(db, ns.id).all():
        yield {**version._asdict(), "until": moment(version.until).isoformat()}


_READERS: Mapping[str, Callable[[Db, Namespace], Iterator[Record]]] = {
    "raw": _raw,
    "node": _nodes,
    "edge": _edges,
    "mention": _mentions,
    "file": _files,
    "version": _versions,
}


# ---------------------------------------------------------------- in


class SqlPortable(ABC, Generic[D]):
    """The store as a whole, as records that any store can load."""

    def __init__(self, turn: AbstractContextManager[object]) -> None:
        """`turn`: held while records are loaded."""
        self._turn = turn

    @abstractmethod
    def export(self, write: Callable[[Record], None], *, namespace: str | None = None) -> None:
        """Hands over the records of one snapshot, of all namespaces or of one, in an order that the content decides."""

    @abstractmethod
    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        """Removes the store if its records are copied; RequestError if they are not, or if it cannot remove itself."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[D]: ...

    @abstractmethod
    def _transaction(self, tx: D, namespace: str) -> SqlTransaction[D, Any]:
        """A write to one namespace inside of the load."""

    def _begun(self, tx: D, namespace: str) -> SqlTransaction[D, Any]:
        """Creates and locks the namespace if it does not exist."""
        begun = self._transaction(tx, namespace)
        begun.stored()
        return begun

    def load(self, records: Iterable[Record], *, mark: str | None = None) -> None:
        """Fills an empty store: in one transaction, or, with a mark, in batches that an interrupted load resumes.

        The caller has checked records that have a mark, since earlier batches would stay if a later one were refused.
        """
        with self._turn:
            if mark is None:
                with self.writing() as tx:
                    self._require_empty(tx)
                    self._load_store(tx, accepted(records))
                return
            with self.writing() as tx:
                if (done := self._loaded(tx, mark)) is None:
                    self._require_empty(tx)
            done = done or 0
            for piece in light_pages(islice(records, done, None), PIECE_RECORDS, _text_length):
                done += len(piece)
                with self.writing() as tx:
                    self._load_store(tx, piece)
                    self._note(tx, f"{mark} {done}")
            with self.writing() as tx:
                self._note(tx, None)

    def load_namespace(self, records: Iterable[Record], namespace: str) -> None:
        """Fills one empty namespace with the records of another, under new ids; all or nothing."""
        with self._turn, self.writing() as tx:
            ns = self._begun(tx, namespace).ns.id
            if not _is_empty(tx, f" WHERE ns = {ns}"):
                message = f"the namespace {namespace!r} is not empty"
                raise StoreNotEmpty(message, "Import the export into another namespace")
            assign = partial(new_ids, tx, ns)
            self._load(tx, renumbered(accepted(records), namespace, assign))

    def _require_empty(self, tx: D) -> None:
        if not _is_empty(tx):
            remedy = "Import an export into an empty store: choose another --store"
            raise StoreNotEmpty("this store is not empty", remedy)

    def _load_store(self, tx: D, records: Iterable[Record]) -> None:
        self._load(tx, records)
        reset_ids(tx)

    def _loaded(self, tx: D, mark: str) -> int | None:
        """How many records of this load are stored; None if it has not begun."""
        kept: str | None = tx.value("SELECT value FROM settings WHERE name = ?", LOADING)
        if kept is None:
            return None
        known, _, count = kept.partition(" ")
        if known != mark:
            raise RequestError("this store holds a part of another one", "Move that again, or choose an empty target")
        return int(count)

    def _note(self, tx: D, text: str | None) -> None:
        tx.run("DELETE FROM settings WHERE name = ?", LOADING)
        if text is not None:
            tx.run("INSERT INTO settings VALUES (?, ?)", LOADING, text)

    def _load(self, tx: D, records: Iterable[Record]) -> None:
        """Accepted records, in their order, with their ids."""
        begun: dict[str, SqlTransaction[D, Any]] = {}
        for (kind, name), group in groupby(records, key=_kind_and_namespace):
            if name not in begun:
                begun[name] = self._begun(tx, name)
            for part in light_pages(group, _PAGE_RECORDS, _text_length):
                _load_part(begun[name], kind, part)
        for each in begun.values():
            each.ns.names += 1  # the names of nodes may have changed
            each.ns.relinked.add(0)
            each.store()


def _is_empty(tx: Db, own: str = "") -> bool:
    tables = ("items", "nodes", "raw", "files")
    return not tx.value("SELECT " + " OR ".join(f"EXISTS (SELECT 1 FROM {table}{own})" for table in tables))  # noqa: S608  (our own clauses)


def _kind_and_namespace(record: Record) -> tuple[str, str]:
    return record["type"], record["name"] if record["type"] == "namespace" else record["namespace"]


def _load_part(tx: SqlTransaction[Any, Any], kind: str, part: Sequence[Record]) -> None:
    """Records of one kind and namespace."""
    db, ns = tx.db, tx.ns
    match kind:
        case "namespace":
            ns.fingerprint, ns.dimension = part[0]["fingerprint"], part[0]["dimension"]
        case "raw":
            _load_raw(db, ns.id, part)
        case "item":
            _load_items(tx, part)
        case "node":
            _load_nodes(db, ns.id, part)
        case "edge":
            graph.set_edges(db, [(each["source"], each["relation"], each["target"], each["weight"]) for each in part])
        case "mention":
            db.run_many("INSERT INTO mentions VALUES (?, ?)", [(each["item"], each["node"]) for each in part])
        case "file":
            states = [FileState(*(each[field] for field in FileState._fields)) for each in part]
            put_file_states(db, ns.id, states)
        case _:
            SavedVersions(db, ns.id).add([formats.version(each) for each in part])


def _load_items(tx: SqlTransaction[Any, Any], part: Sequence[Record]) -> None:
    rows: list[Row] = []
    for record in part:
        row = formats.row_of(record)
        row.id = record["id"]
        rows.append(row)
    tx.items.write(rows)
    pointed = {row.id: {normal_name(name) for name in links(row.text)} for row in rows if row.linked}
    tx.link_rows.set_pointers(pointed, [])


def _load_raw(db: Db, ns: int, part: Sequence[Record]) -> None:
    db.run_many(
        "INSERT INTO raw VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                record["id"], ns, record["content"], record["speaker"], record["session_id"],
                dumps(record["metadata"]), micros(formats.parse_time(record["created_at"])), record.get("source"),
            )
            for record in part
        ],
    )  # fmt: skip


def _load_nodes(db: Db, ns: int, part: Sequence[Record]) -> None:
    nodes = [(each["id"], each["name"], normal_name(each["name"]), each["label"], each["made"]) for each in part]
    graph.insert_nodes(db, ns, nodes)
    properties = [(dumps(each["properties"]), each["id"]) for each in part if each["properties"]]
    db.run_many("UPDATE nodes SET properties = ? WHERE id = ?", properties)
    aliases = [(each["id"], normal_name(alias), alias) for each in part for alias in each["aliases"]]
    graph.add_names(db, ns, aliases)
    graph.attach(db, [(each["id"], item, made) for each in part for item, made in each["items"]])

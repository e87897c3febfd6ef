"""A whole store as records, and records as a store (B9). What each record holds is in docs/reference.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import apsw

from fourfold.errors import StoreNotEmpty
from fourfold.storage.records import item_record, moment, new_item, raw_record, vector
from fourfold.stores import loading
from fourfold.stores.base import FileState, Record
from fourfold.stores.sqlite import chunks as file_rows
from fourfold.stores.sqlite import graph, ids, items, links, raw, spaces
from fourfold.stores.sqlite.database import dumps, micros, rows, value
from fourfold.stores.sqlite.items import Change, chunks

_PAGE = 500
_LINKED_AND_VECTOR = "SELECT linked, vector FROM items LEFT JOIN vectors ON item = id WHERE id = ?"


# ---------------------------------------------------------------- out


def records(db: apsw.Connection) -> Iterator[Record]:
    """Everything, in an order that depends on the content alone."""
    namespaces = rows(db, "SELECT id, name, fingerprint, dimension FROM namespaces ORDER BY name")
    for _, name, fingerprint, dimension in namespaces:
        yield {"type": "namespace", "name": name, "fingerprint": fingerprint, "dimension": dimension}
    for kind in (_raw, _items, _nodes, _edges, _mentions, _files):
        for ns, name, *_ in namespaces:
            yield from kind(db, ns, name)


def _raw(db: apsw.Connection, ns: int, namespace: str) -> Iterator[Record]:
    for part in chunks([row[0] for row in rows(db, "SELECT id FROM raw WHERE ns = ? ORDER BY id", ns)], _PAGE):
        yield from map(raw_record, raw.get(db, namespace, ns, part).values())


def _items(db: apsw.Connection, ns: int, namespace: str) -> Iterator[Record]:
    for part in chunks(items.all_ids(db, ns), _PAGE):
        found = items.get(db, namespace, ns, part)
        for item in part:
            linked, vector = rows(db, _LINKED_AND_VECTOR, item)[0]
            yield item_record(found[item], linked=bool(linked), vector=vector)


def _nodes(db: apsw.Connection, ns: int, namespace: str) -> Iterator[Record]:
    for part in chunks([row[0] for row in rows(db, "SELECT id FROM nodes WHERE ns = ? ORDER BY id", ns)], _PAGE):
        for node in sorted(graph.read_nodes(db, part).values(), key=lambda node: node.id):
            attached = rows(db, "SELECT item, made FROM node_items WHERE node = ? ORDER BY item", node.id)
            yield {
                "type": "node",
                "namespace": namespace,
                "id": node.id,
                "name": node.name,
                "label": node.label,
                "aliases": list(node.aliases),
                "properties": dict(node.properties),
                "made": bool(value(db, "SELECT made FROM nodes WHERE id = ?", node.id)),
                "items": [[item, bool(made)] for item, made in attached],
            }


def _edges(db: apsw.Connection, ns: int, namespace: str) -> Iterator[Record]:
    sql = (
        "SELECT source, relation, target, weight FROM edges JOIN nodes ON id = source WHERE ns = ? "
        "ORDER BY source, relation, target"
    )
    for source, relation, target, weight in db.execute(sql, (ns,)):
        yield {
            "type": "edge",
            "namespace": namespace,
            "source": source,
            "relation": relation,
            "target": target,
            "weight": weight,
        }


def _mentions(db: apsw.Connection, ns: int, namespace: str) -> Iterator[Record]:
    sql = "SELECT item, node FROM mentions JOIN items ON id = item WHERE ns = ? ORDER BY item, node"
    for item, node in db.execute(sql, (ns,)):
        yield {"type": "mention", "namespace": namespace, "item": item, "node": node}


def _files(db: apsw.Connection, ns: int, namespace: str) -> Iterator[Record]:
    for row in file_rows.states(db, ns, "").values():
        yield {"type": "file", "namespace": namespace, **FileState._make(row)._asdict()}


# ---------------------------------------------------------------- in


def load(db: apsw.Connection, batch: Iterable[Record]) -> None:
    """Accepted records of an export, in their order, with their ids."""
    ids.reset(db)
    for record in batch:
        _LOADERS[record["type"]](db, record)


def begin(db: apsw.Connection, mark: str) -> int:
    """Begins to load in pieces, or goes on; how many records are there already."""
    done = loading.loaded(value(db, "SELECT value FROM settings WHERE name = ?", loading.SETTING), mark)
    if done is None:
        require_empty(db)
    return done or 0


def load_piece(db: apsw.Connection, piece: Iterable[Record], mark: str, count: int) -> None:
    load(db, piece)
    db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (loading.SETTING, loading.note(mark, count)))


def finish(db: apsw.Connection) -> None:
    db.execute("DELETE FROM settings WHERE name = ?", (loading.SETTING,))


def require_empty(db: apsw.Connection) -> None:
    if any(value(db, f"SELECT 1 FROM {table} LIMIT 1") for table in ("items", "nodes", "raw", "files")):  # noqa: S608  (our own clauses)
        raise StoreNotEmpty(
            "this store is not empty", "An export goes into an empty store: choose another with --store"
        )


def _load_namespace(db: apsw.Connection, record: Record) -> None:
    ns = spaces.ensure(db, record["name"])
    db.execute(
        "UPDATE namespaces SET fingerprint = ?, dimension = ? WHERE id = ?",
        (record["fingerprint"], record["dimension"], ns),
    )


def _load_raw(db: apsw.Connection, record: Record) -> None:
    db.execute(
        "INSERT INTO raw VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            record["id"], spaces.ensure(db, record["namespace"]), record["content"], record["speaker"],
            record["session_id"], dumps(record["metadata"]), micros(moment(record["created_at"])),
        ),
    )  # fmt: skip


def _load_item(db: apsw.Connection, record: Record) -> None:
    ns = spaces.ensure(db, record["namespace"])
    items.insert(db, ns, new_item(record), moment(record["updated_at"]), item_id=record["id"])
    db.execute("UPDATE namespaces SET items = items + 1 WHERE id = ?", (ns,))
    items.set_linked(db, [record["id"]], record["linked"])
    links.point(db, ns, record["id"], record["text"] if record["linked"] else "")
    change = Change.TEXT
    made = vector(record)
    if made is not None:
        items.put_vector(db, ns, record["id"], made.tobytes())
        change |= Change.VECTOR
    items.log(db, ns, [(record["id"], change)])


def _load_node(db: apsw.Connection, record: Record) -> None:
    ns = spaces.ensure(db, record["namespace"])
    graph.insert_node(db, ns, record["name"], record["label"], made=record["made"], node_id=record["id"])
    graph.restore(db, ns, record["id"], record["aliases"], record["properties"])
    for item, made in record["items"]:
        graph.attach(db, record["id"], item, made=made)
    db.execute("UPDATE namespaces SET names = names + 1 WHERE id = ?", (ns,))


def _load_edge(db: apsw.Connection, record: Record) -> None:
    graph.set_edge(db, record["source"], record["relation"], record["target"], record["weight"])


def _load_mention(db: apsw.Connection, record: Record) -> None:
    db.execute("INSERT INTO mentions VALUES (?, ?)", (record["item"], record["node"]))


def _load_file(db: apsw.Connection, record: Record) -> None:
    state = FileState(*(record[field] for field in FileState._fields))
    file_rows.note(db, spaces.ensure(db, record["namespace"]), state)


_LOADERS: dict[str, Callable[[apsw.Connection, Record], None]] = {
    "namespace": _load_namespace,
    "raw": _load_raw,
    "item": _load_item,
    "node": _load_node,
    "edge": _load_edge,
    "mention": _load_mention,
    "file": _load_file,
}

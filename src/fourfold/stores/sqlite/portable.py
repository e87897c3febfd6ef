"""A whole store as records, and records as a store (B9). What each record holds is in docs/reference.md."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import apsw
import numpy as np

from fourfold import items as rules
from fourfold.embed.vectors import check_dimension
from fourfold.errors import InvalidItem, RequestError
from fourfold.model import Item, NewItem
from fourfold.stores import loading
from fourfold.stores.base import FileState, Record
from fourfold.stores.sqlite import chunks as file_rows
from fourfold.stores.sqlite import graph, items, links, raw, spaces
from fourfold.stores.sqlite.database import dumps, micros, rows, value
from fourfold.stores.sqlite.items import Change, chunks
from fourfold.text.entities import normal_name
from fourfold.text.fold import clean

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
        for record in raw.get(db, namespace, ns, part).values():
            yield {
                "type": "raw",
                "namespace": namespace,
                "id": record.id,
                "content": record.content,
                "speaker": record.speaker,
                "session_id": record.session_id,
                "metadata": dict(record.metadata),
                "created_at": record.created_at.isoformat(),
            }


def _items(db: apsw.Connection, ns: int, namespace: str) -> Iterator[Record]:
    for part in chunks(items.all_ids(db, ns), _PAGE):
        found = items.get(db, namespace, ns, part)
        for item in part:
            linked, vector = rows(db, _LINKED_AND_VECTOR, item)[0]
            yield {**_item(found[item]), "linked": bool(linked), "vector": vector and base64.b64encode(vector).decode()}


def _item(item: Item) -> Record:
    return {
        "type": "item",
        "namespace": item.namespace,
        "id": item.id,
        "key": item.key,
        "title": item.title,
        "text": item.text,
        "tags": list(item.tags),
        "kind": item.kind,
        "metadata": dict(item.metadata),
        "language": item.language,
        "created_at": item.created_at.isoformat(),
        "updated_at": item.updated_at.isoformat(),
        "source_ids": list(item.source_ids),
        "path": item.path,
        "chunk_index": item.chunk_index,
    }


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
    """Records of an export, in their order, with their ids."""
    for record in batch:
        try:
            _LOADERS[record["type"]](db, record)
        except _WRONG as error:
            raise InvalidItem(f"a record of the export cannot be read ({error!r})", "Export the store again") from error


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
    if value(db, "SELECT 1 FROM items UNION ALL SELECT 1 FROM nodes UNION ALL SELECT 1 FROM raw LIMIT 1"):
        raise RequestError("this store is not empty", "An export goes into an empty store: choose another with --store")


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
            record["id"], spaces.ensure(db, record["namespace"]), clean(record["content"]), record["speaker"],
            record["session_id"], dumps(record["metadata"]), _stamp(record["created_at"]),
        ),
    )  # fmt: skip


def _load_item(db: apsw.Connection, record: Record) -> None:
    ns = spaces.ensure(db, record["namespace"])
    new = NewItem(
        text=record["text"],
        title=record["title"],
        key=record["key"],
        tags=tuple(record["tags"]),
        kind=record["kind"],
        metadata=record["metadata"],
        language=record["language"],
        created_at=_time(record["created_at"]),
        source_ids=tuple(record["source_ids"]),
        path=record["path"],
        chunk_index=record["chunk_index"],
    )
    items.insert(db, ns, rules.checked(new), _time(record["updated_at"]), item_id=record["id"])
    db.execute("UPDATE namespaces SET items = items + 1 WHERE id = ?", (ns,))
    items.set_linked(db, [record["id"]], record["linked"])
    links.point(db, ns, record["id"], record["text"] if record["linked"] else "")
    change = Change.TEXT
    if record["vector"] is not None:
        items.put_vector(db, ns, record["id"], _vector(db, ns, record["vector"]))
        change |= Change.VECTOR
    items.log(db, ns, [(record["id"], change)])


def _load_node(db: apsw.Connection, record: Record) -> None:
    ns = spaces.ensure(db, record["namespace"])
    if not all(map(normal_name, (record["name"], *record["aliases"]))):  # a title may be longer than a name
        raise ValueError("a name without a letter or digit")
    graph.insert_node(db, ns, record["name"], record["label"], made=record["made"], node_id=record["id"])
    graph.add_node(
        db, ns, record["name"], record["label"], record["aliases"], record["properties"], made=record["made"]
    )
    for item, made in record["items"]:
        graph.attach(db, record["id"], item, made=made)
    db.execute("UPDATE namespaces SET names = names + 1 WHERE id = ?", (ns,))


def _load_edge(db: apsw.Connection, record: Record) -> None:
    if not 0 < record["weight"] <= 1:
        raise ValueError("the weight of an edge")
    graph.set_edge(db, record["source"], record["relation"], record["target"], record["weight"])


def _load_mention(db: apsw.Connection, record: Record) -> None:
    db.execute("INSERT INTO mentions VALUES (?, ?)", (record["item"], record["node"]))


def _load_file(db: apsw.Connection, record: Record) -> None:
    state = FileState(*(record[field] for field in FileState._fields))
    file_rows.note(db, spaces.ensure(db, record["namespace"]), state._replace(path=rules.name(state.path, "path")))


def _vector(db: apsw.Connection, ns: int, text: str) -> bytes:
    content = base64.b64decode(text, validate=True)
    vector, space = np.frombuffer(content, np.float32), spaces.space(db, ns)
    check_dimension(len(vector), 0 if space is None else space.dimension)
    if not np.isfinite(vector).all():
        raise ValueError("the vector")
    return content


def _time(text: str) -> datetime:
    return rules.in_utc(datetime.fromisoformat(text))


def _stamp(text: str) -> int:
    return micros(_time(text))


_WRONG = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
)
"""What happens when a record is not what this module wrote."""


_LOADERS: dict[str, Callable[[apsw.Connection, Record], None]] = {
    "namespace": _load_namespace,
    "raw": _load_raw,
    "item": _load_item,
    "node": _load_node,
    "edge": _load_edge,
    "mention": _load_mention,
    "file": _load_file,
}

"""A whole store as records, and records as a store (B9). What each record holds is in docs/reference.md."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any

from fourfold.errors import StoreNotEmpty
from fourfold.storage.records import item_record, moment, new_item, raw_record, vector
from fourfold.stores import loading
from fourfold.stores.base import FileState, Record
from fourfold.stores.postgres import chunks, graph, ids, items, links, raw, spaces, vectors
from fourfold.stores.postgres.items import Draft
from fourfold.stores.postgres.links import Linked
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, rows, run, run_many, value
from fourfold.stores.sqlite.database import dumps, micros
from fourfold.text.entities import normal_name

_PAGE = 500


# ---------------------------------------------------------------- out


async def records(db: Db) -> AsyncIterator[Record]:
    """Everything, in an order that depends on the content alone."""
    namespaces = await spaces.everyone(db)
    for ns in namespaces:
        yield {"type": "namespace", "name": ns.name, "fingerprint": ns.fingerprint, "dimension": ns.dimension}
    for kind in (_raw, _items, _nodes, _edges, _mentions, _files):
        for ns in namespaces:
            async for record in kind(db, ns):
                yield record


async def _pages(db: Db, table: str, ns: Namespace) -> AsyncIterator[list[int]]:
    after = 0
    while True:
        sql = f"SELECT id FROM {table} WHERE ns = %s AND id > %s ORDER BY id LIMIT %s"  # noqa: S608  (our own clauses)
        page = [id for (id,) in await rows(db, sql, ns.id, after, _PAGE)]
        if not page:
            return
        yield page
        after = page[-1]


async def _raw(db: Db, ns: Namespace) -> AsyncIterator[Record]:
    async for page in _pages(db, "raw", ns):
        for record in (await raw.get(db, ns, page)).values():
            yield raw_record(record)


async def _items(db: Db, ns: Namespace) -> AsyncIterator[Record]:
    async for page in _pages(db, "items", ns):
        found = await items.get(db, ns, page)
        linked = dict(await rows(db, "SELECT id, linked FROM items WHERE id = ANY(%s::bigint[])", page))
        made = dict(await rows(db, "SELECT item, v FROM vectors WHERE item = ANY(%s::bigint[])", page))
        for item in page:
            vector = vectors.matrix(made[item], ns.dimension or 0).tobytes() if item in made else None
            yield item_record(found[item], linked=linked[item], vector=vector)


async def _nodes(db: Db, ns: Namespace) -> AsyncIterator[Record]:
    async for page in _pages(db, "nodes", ns):
        found = await graph.read_nodes(db, page)
        made = dict(await rows(db, "SELECT id, made FROM nodes WHERE id = ANY(%s::bigint[])", page))
        sql = "SELECT node, item, made FROM node_items WHERE node = ANY(%s::bigint[]) ORDER BY node, item"
        attached: dict[int, list[list[Any]]] = {}
        for node, item, said in await rows(db, sql, page):
            attached.setdefault(node, []).append([item, said])
        for node in found.values():
            yield {
                "type": "node",
                "namespace": ns.name,
                "id": node.id,
                "name": node.name,
                "label": node.label,
                "aliases": list(node.aliases),
                "properties": dict(node.properties),
                "made": made[node.id],
                "items": attached.get(node.id, []),
            }


async def _edges(db: Db, ns: Namespace) -> AsyncIterator[Record]:
    async for page in _pages(db, "nodes", ns):
        sql = (
            "SELECT source, relation, target, weight FROM edges WHERE source = ANY(%s::bigint[]) "
            "ORDER BY source, relation, target"
        )
        for source, relation, target, weight in await rows(db, sql, page):
            ends = {"source": source, "relation": relation, "target": target}
            yield {"type": "edge", "namespace": ns.name, **ends, "weight": weight}


async def _mentions(db: Db, ns: Namespace) -> AsyncIterator[Record]:
    async for page in _pages(db, "items", ns):
        sql = "SELECT item, node FROM mentions WHERE item = ANY(%s::bigint[]) ORDER BY item, node"
        for item, node in await rows(db, sql, page):
            yield {"type": "mention", "namespace": ns.name, "item": item, "node": node}


async def _files(db: Db, ns: Namespace) -> AsyncIterator[Record]:
    for row in (await chunks.states(db, ns, "")).values():
        yield {"type": "file", "namespace": ns.name, **FileState._make(row)._asdict()}


# ---------------------------------------------------------------- in


async def require_empty(db: Db) -> None:
    sql = "SELECT " + " OR ".join(f"EXISTS (SELECT 1 FROM {table})" for table in ("items", "nodes", "raw", "files"))  # noqa: S608  (our own clauses)
    if await value(db, sql):
        raise StoreNotEmpty(
            "this store is not empty", "An export goes into an empty store: choose another with --store"
        )


async def begin(db: Db, mark: str) -> int:
    """Begins to load in pieces, or goes on; how many records are there already."""
    done = loading.loaded(await value(db, "SELECT value FROM settings WHERE name = %s", loading.SETTING), mark)
    if done is None:
        await require_empty(db)
    return done or 0


async def load_piece(db: Db, piece: Iterable[Record], mark: str, count: int) -> None:
    await load(db, piece)
    sql = "INSERT INTO settings VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    await run(db, sql, loading.SETTING, loading.note(mark, count))


async def finish(db: Db) -> None:
    await run(db, "DELETE FROM settings WHERE name = %s", loading.SETTING)


async def load(db: Db, batch: Iterable[Record]) -> None:
    """Accepted records of an export, in their order, with their ids; in the transaction of the caller."""
    known: dict[str, Namespace] = {}
    for kind, name, part in _batches(batch):
        if name not in known:
            known[name] = await spaces.ensure(db, name)
        await _LOADERS[kind](db, known[name], part)
    for ns in known.values():
        await spaces.store(db, ns)
    await ids.reset(db)


def _batches(records: Iterable[Record]) -> Iterator[tuple[str, str, list[Record]]]:
    """Records of one kind and namespace, some hundred at a time."""
    for (kind, name), group in groupby(records, key=_group):
        while part := list(islice(group, _PAGE)):
            yield kind, name, part


def _group(record: Record) -> tuple[str, str]:
    return record["type"], record["name"] if record["type"] == "namespace" else record["namespace"]


async def _load_namespace(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    ns.fingerprint, ns.dimension = part[0]["fingerprint"], part[0]["dimension"]


async def _load_raw(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    await run_many(
        db,
        "INSERT INTO raw VALUES (%s, %s, %s, %s, %s, %s, %s)",
        [
            (
                record["id"], ns.id, record["content"], record["speaker"], record["session_id"],
                dumps(record["metadata"]), micros(moment(record["created_at"])),
            )
            for record in part
        ],
    )  # fmt: skip


async def _load_items(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    draft = Draft([])
    for record in part:
        row = draft.add(new_item(record), moment(record["updated_at"]), links=record["linked"])
        row.id = record["id"]
        row.vector = vector(record)
    await items.write(db, ns, draft.rows)
    await links.point(db, ns.id, [Linked(row.id, row.text if row.linked else "") for row in draft.rows])


async def _load_nodes(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    rows_ = [(record["id"], record["name"], record["label"], record["made"]) for record in part]
    await graph.insert_nodes(db, ns.id, rows_)
    await run_many(
        db,
        "UPDATE nodes SET properties = %s WHERE id = %s",
        [(dumps(record["properties"]), record["id"]) for record in part if record["properties"]],
    )
    aliases = [(record["id"], normal_name(alias), alias) for record in part for alias in record["aliases"]]
    await graph.add_names(db, ns.id, aliases)
    await graph.attach(db, [(record["id"], item, made) for record in part for item, made in record["items"]])
    ns.names += 1


async def _load_edges(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    edges = [(record["source"], record["relation"], record["target"], record["weight"]) for record in part]
    await graph.set_edges(db, edges)


async def _load_mentions(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    await run_many(db, "INSERT INTO mentions VALUES (%s, %s)", [(record["item"], record["node"]) for record in part])


async def _load_files(db: Db, ns: Namespace, part: Sequence[Record]) -> None:
    await chunks.note(db, ns.id, [FileState(*(record[field] for field in FileState._fields)) for record in part])


_LOADERS: dict[str, Callable[[Db, Namespace, Sequence[Record]], Awaitable[None]]] = {
    "namespace": _load_namespace,
    "raw": _load_raw,
    "item": _load_items,
    "node": _load_nodes,
    "edge": _load_edges,
    "mention": _load_mentions,
    "file": _load_files,
}

"""What a store holds."""

from __future__ import annotations

from fourfold.model import Json
from fourfold.stores.postgres import schema, spaces
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, rows, run, value

_OURS = "FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
_EXTENSIONS = "SELECT extname, extversion FROM pg_extension WHERE extname IN ('vector', 'pg_textsearch')"


async def status(db: Db) -> dict[str, Json]:
    size = f"SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint {_OURS}"
    versions = dict(await rows(db, _EXTENSIONS))
    return {
        "schema": schema.VERSION,
        "server": await value(db, "SELECT current_setting('server_version')"),
        "extensions": versions,
        "database_bytes": await value(db, size),
        "namespaces": {ns.name: await _namespace(db, ns) for ns in await spaces.everyone(db)},
    }


async def _namespace(db: Db, ns: Namespace) -> dict[str, Json]:
    refused = "SELECT count(*) FROM waiting WHERE ns = %s AND refused IS NOT NULL"
    edges = "SELECT count(*) FROM edges JOIN nodes ON id = source WHERE ns = %s"
    return {
        "items": ns.items,
        "vectors": ns.vectors,
        "pending_vectors": ns.size.pending,
        "refused_by_embedder": await value(db, refused, ns.id),
        "languages": list(await spaces.languages(db, ns.id)),
        "embedder": ns.fingerprint,
        "dimension": ns.dimension,
        "nodes": await value(db, "SELECT count(*) FROM nodes WHERE ns = %s", ns.id),
        "edges": await value(db, edges, ns.id),
        "mentions": await value(db, "SELECT count(*) FROM mentions JOIN nodes ON id = node WHERE ns = %s", ns.id),
        "keyword_index": "pg_textsearch" if ns.words == "ready" else "postings" if ns.parts else "gin",
    }


async def vacuum(db: Db) -> None:
    """Writes the tables anew without what was deleted. (The server's write-ahead log and its backups are its own.)"""
    for (table,) in await rows(db, f"SELECT oid::regclass::text {_OURS}"):
        await run(db, f"VACUUM FULL {table}")

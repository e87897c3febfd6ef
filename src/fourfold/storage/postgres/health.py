"""What `status` reports, and `repair --purge`."""

from __future__ import annotations

from fourfold.model import Json
from fourfold.storage.postgres import index_check, namespaces, schema
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db
from fourfold.storage.sql.namespaces import status as namespace_status

_OURS = "FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
_EXTENSIONS = "SELECT extname, extversion FROM pg_extension WHERE extname = 'vector'"


def status(db: Db) -> dict[str, Json]:
    size = f"SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint {_OURS}"
    versions = dict(db.rows(_EXTENSIONS))
    return {
        "schema": schema.VERSION,
        "server": db.value("SELECT current_setting('server_version')"),
        "extensions": versions,
        "database_bytes": db.value(size),
        "namespaces": {ns.name: _namespace(db, ns) for ns in namespaces.everyone(db)},
    }


def _namespace(db: Db, ns: Namespace) -> dict[str, Json]:
    return {
        **namespace_status(db, ns, ns.languages),
        "keyword_index": "postings" if ns.parts else "gin",
        **({"index": index_check.status(db, ns)} if ns.logged else {}),
    }


def vacuum(db: Db) -> None:
    """Rewrites the tables without what was deleted. (The server's write-ahead log and backups are not ours.)"""
    for table in db.column(f"SELECT oid::regclass::text {_OURS}"):
        db.run(f"VACUUM FULL {table}")

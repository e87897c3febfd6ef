"""The tables of a PostgreSQL store, and how an older schema becomes a current one.

Migrations run in one transaction under an advisory lock, so that several servers can start at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from fourfold.errors import InvalidSetting, NewerSchema
from fourfold.storage.postgres.connection import Connection, facts
from fourfold.storage.sql import dialect as shared
from fourfold.text.analysis import ANALYSER_VERSION

_LOCK = 0x466F7572
"""Ours among the advisory locks of a database."""


def _refresh_facts(db: Connection) -> None:
    """Metadata with lists or maps in the form that filters on nested keys and elements compare."""
    sql = "SELECT id, metadata FROM items WHERE id > ? AND metadata ~ '^.+[\\[{]' ORDER BY id LIMIT 1000"
    last = 0
    while rows := db.rows(sql, last):
        fresh = [(facts(json.loads(metadata)), item) for item, metadata in rows]
        db.run_many("UPDATE items SET facts = ?::jsonb WHERE id = ?", fresh)
        last = rows[-1][0]


_TYPES = shared.Types(
    int="integer",
    id="bigint",
    text="text",
    key='text COLLATE "C"',
    hash="bytea",
    flag="boolean",
    true="true",
    real="double precision",
    first_id="bigint PRIMARY KEY",
    name_type="bytea",
    name_column="digest",
    rowless="",
)
_OWN = shared.read_tables(Path(__file__).parent)
_FIRST = (
    _OWN["namespaces"], _TYPES.ddl(shared.ITEMS), _OWN["tables"], _TYPES.ddl(shared.FILES + shared.ROWS), _OWN["links"],
)  # fmt: skip
_STEPS: tuple[str | Callable[[Connection], None], ...] = (
    "".join(_FIRST),
    _OWN["parts"],
    _refresh_facts,
    _OWN["blocks"] + _TYPES.ddl(shared.IDS),
    _OWN["index"],
    _TYPES.ddl(shared.FACTS) + _OWN["hidden"],
    _OWN["windows"],
    _TYPES.ddl(shared.VERSIONS) + "CREATE INDEX versions_by_ns ON versions (ns);",
    _OWN["nodes_behind"],
    _OWN["one_word_index"],
    _TYPES.ddl(shared.REQUESTS),
    shared.RAW_SESSIONS,
    _TYPES.ddl(shared.SYNCED),
    _TYPES.ddl(shared.RECEIPTS),
)
"""_STEPS[n] turns schema n into n + 1."""
VERSION = len(_STEPS)


def migrate(db: Connection, schema: str) -> None:
    """Brings the schema to VERSION in one transaction; does nothing when it is there already."""
    if _known_version(db, schema) == VERSION:
        return
    with db.transaction():
        db.run("SELECT pg_advisory_xact_lock(?, hashtext(?))", _LOCK, schema)
        version = _known_version(db, schema)  # another server may have been quicker
        _prepare(db, schema)
        for step in _STEPS[version:VERSION]:
            (db.run(step) if isinstance(step, str) else step(db))
        db.run("DELETE FROM fourfold_schema")
        db.run("INSERT INTO fourfold_schema VALUES (?)", VERSION)
        if not version:
            db.run("INSERT INTO settings VALUES ('analyser', ?)", ANALYSER_VERSION)


def exists(db: Connection, schema: str) -> bool:
    return _known_version(db, schema) > 0


def search_path(db: Connection, schema: str) -> str:
    """Our schema, `public`, and the schema of pgvector."""
    sql = (
        "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace "
        "WHERE extname = 'vector' AND nspname <> 'pg_catalog'"
    )
    return ", ".join(dict.fromkeys([schema, "public", *db.column(sql)]))


def _known_version(db: Connection, schema: str) -> int:
    # not to_regclass(), which may remember from before the lock that there was no such table
    sql = "SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'fourfold_schema'"
    if db.value(sql, schema) is None:
        return 0
    version = db.value(f"SELECT max(version) FROM {schema}.fourfold_schema") or 0  # noqa: S608  (our own clauses)
    if version > VERSION:
        remedy = "Upgrade it: pip install -U fourfold"
        raise NewerSchema(f"this store has schema {version}, this Fourfold knows up to {VERSION}", remedy)
    return version


def _prepare(db: Connection, schema: str) -> None:
    """Schema, extension and version table; an administrator may have made the first two."""
    if db.value("SELECT 1 FROM pg_namespace WHERE nspname = ?", schema) is None:
        db.run(f"CREATE SCHEMA {schema}")
    if db.value("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'") is None:
        raise InvalidSetting("the server has no pgvector", "Install the extension `vector` on the server")
    if db.value("SELECT 1 FROM pg_extension WHERE extname = 'vector'") is None:
        db.run("SELECT pg_advisory_xact_lock(?, 0)", _LOCK)  # one store of this database at a time
        db.run("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    db.run(f"SET LOCAL search_path = {search_path(db, schema)}")
    db.run("CREATE TABLE IF NOT EXISTS fourfold_schema (version integer NOT NULL)")

"""Extensions of the server, and where they live."""

from __future__ import annotations

from fourfold.storage.postgres.sql import Db, rows, run, value

LOCK = 0x466F7572
"""Ours among the advisory locks of a database."""


def extend(db: Db, extension: str) -> None:
    """Gives the database an extension, if it has it not; one of its stores at a time, inside a transaction."""
    sql = "SELECT 1 FROM pg_extension WHERE extname = %s"
    if value(db, sql, extension) is None:
        run(db, "SELECT pg_advisory_xact_lock(%s, 0)", LOCK)
        run(db, f"CREATE EXTENSION IF NOT EXISTS {extension} SCHEMA public")


def search_path(db: Db, schema: str) -> str:
    """Our schema, and those that the extensions live in."""
    sql = (
        "SELECT DISTINCT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace "
        "WHERE extname IN ('vector', 'pg_textsearch') AND nspname <> 'pg_catalog'"
    )
    return ", ".join(dict.fromkeys([schema, "public", *(name for (name,) in rows(db, sql))]))

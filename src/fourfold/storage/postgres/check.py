"""Status; checks and repairs of counters, the queue and what keyword search derives from the texts."""

from __future__ import annotations

from collections.abc import Iterator

from fourfold.index.log_tail import Change
from fourfold.model import Json
from fourfold.storage.postgres import index_check, namespaces, portable, postings, schema, texts, vectors
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db
from fourfold.storage.postgres.texts import Text
from fourfold.storage.sql import counters
from fourfold.storage.sql.counters import Counted
from fourfold.storage.sql.namespaces import status as namespace_status
from fourfold.storage.sql.rows import TEXT_ROW
from fourfold.text.analysis import ANALYSER_VERSION

_PAGE_TEXTS = 1000

_COUNTERS: tuple[Counted, ...] = (
    *counters.COUNTERS,
    ("namespaces", "vectors", "SELECT count(DISTINCT item) FROM vectors WHERE ns = namespaces.id"),
    ("namespaces", "windows", "SELECT count(*) FROM vectors WHERE ns = namespaces.id AND part > 0"),
    ("namespaces", "tokens", "SELECT coalesce(sum(tokens), 0) FROM texts WHERE ns = namespaces.id"),
)
_MISSHAPEN = (
    "SELECT item FROM vectors JOIN namespaces ON namespaces.id = ns "
    "WHERE dimension IS NULL OR vector_dims(v) <> dimension"
)


def check(db: Db) -> Iterator[str]:
    """Problems, one line each; in one snapshot."""
    yield from counters.check(db, _COUNTERS, _MISSHAPEN, portable.records(db))
    for ns in namespaces.everyone(db):
        for problem in _drift(db, ns):
            yield f"namespace {ns.name}: {problem}"


def _texts(db: Db, ns: int) -> Iterator[list[Text]]:
    after = 0
    while True:
        sql = f"SELECT {TEXT_ROW} FROM items WHERE ns = ? AND id > ? ORDER BY id LIMIT ?"  # noqa: S608  (constants)
        page = [Text(*row) for row in db.rows(sql, ns, after, _PAGE_TEXTS)]
        if not page:
            return
        yield page
        after = page[-1].id


def _drift(db: Db, ns: Namespace) -> Iterator[str]:
    """Differences between the keyword index and the texts."""
    terms: dict[str, list[int]] = {}
    wrong = 0
    for page in _texts(db, ns.id):
        sql = "SELECT item, hashes, keys FROM texts WHERE item = ANY(?::bigint[])"
        found = {item: (hashed, keys) for item, hashed, keys in db.rows(sql, [text.id for text in page])}
        for text in page:
            expected = text.terms
            hashed = texts.hashes(expected)
            wrong += found.get(text.id) != (hashed.tobytes(), texts.keys(ns.id, hashed))
            for term in set(expected):
                counts = terms.setdefault(term, [0, 0])
                counts[0] += 1
                counts[1] += text.language == texts.GERMAN
    if wrong:
        yield f"keyword search differs from the text of {wrong} items"
    known = {term: counts for term, *counts in db.rows("SELECT term, items, german FROM terms WHERE ns = ?", ns.id)}
    if known != terms:
        yield "keyword search has a wrong count of a term"
    if not postings.is_sound(db, ns):
        yield "the postings differ from the texts"


def recount(db: Db) -> list[str]:
    """Corrects counters and references in one transaction."""
    db.run("SELECT 1 FROM namespaces ORDER BY id FOR NO KEY UPDATE")  # no counter changes after this
    return counters.recount(db, _COUNTERS, _MISSHAPEN, vectors.flawed(db))


def analyse_again(db: Db, ns: Namespace) -> None:
    """Derives everything that keyword search needs from the texts again; the caller has the namespace locked."""
    db.run("DELETE FROM terms WHERE ns = ?", ns.id)
    db.run("DELETE FROM texts WHERE ns = ?", ns.id)
    ns.tokens = 0
    for page in _texts(db, ns.id):
        texts.write(db, ns, [], page)
        ns.touch((text.id for text in page), Change.TEXT)
    ns.text_changes += 1
    ns.vector_changes += 1


def is_analysed_otherwise(db: Db) -> bool:
    """Whether the texts were analysed by another version of the analyser."""
    return db.value("SELECT value FROM settings WHERE name = 'analyser'") != ANALYSER_VERSION


def note_analyser(db: Db) -> None:
    db.run("UPDATE settings SET value = ? WHERE name = 'analyser'", ANALYSER_VERSION)


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

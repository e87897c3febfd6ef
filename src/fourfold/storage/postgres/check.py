"""Checks counters, the queue and what keyword search derives from the texts, and repairs them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fourfold.limits import VECTOR_DIMENSIONS
from fourfold.storage import loading
from fourfold.storage.postgres import namespaces, portable, postings, texts, windows
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db, rows, run, value
from fourfold.storage.postgres.texts import Text
from fourfold.storage.record_reader import Audit
from fourfold.storage.repair import miscounted
from fourfold.text.analysis import ANALYSER_VERSION

_PAGE_TEXTS = 1000

_COUNTERS = (
    ("namespaces", "items", "SELECT count(*) FROM items WHERE ns = namespaces.id"),
    ("namespaces", "vectors", "SELECT count(DISTINCT item) FROM vectors WHERE ns = namespaces.id"),
    ("namespaces", "windows", "SELECT count(*) FROM vectors WHERE ns = namespaces.id AND part > 0"),
    ("namespaces", "superseded", "SELECT count(*) FROM items WHERE ns = namespaces.id AND superseded_at IS NOT NULL"),
    ("namespaces", "expiring", "SELECT count(*) FROM items WHERE ns = namespaces.id AND expires_at IS NOT NULL"),
    ("namespaces", "tokens", "SELECT coalesce(sum(tokens), 0) FROM texts WHERE ns = namespaces.id"),
    ("nodes", "holders", "SELECT count(*) FROM node_items WHERE node = nodes.id"),
    ("nodes", "degree", "SELECT count(*) FROM edges WHERE nodes.id IN (source, target)"),
)
"""Table, column, and the SQL of the right value."""
_LANGUAGES = "SELECT ns, language, count(*) FROM items GROUP BY ns, language"
_WAITING = "SELECT ns, id FROM items WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE item = id)"
_MISSHAPEN = (
    "SELECT item FROM vectors JOIN namespaces ON namespaces.id = ns "
    "WHERE dimension IS NULL OR vector_dims(v) <> dimension"
)


_STRANGERS = {
    "node_items: items of another namespace": "DELETE FROM node_items USING nodes, items "
    "WHERE nodes.id = node AND items.id = item AND nodes.ns <> items.ns",
    "mentions: nodes of another namespace": "DELETE FROM mentions USING nodes, items "
    "WHERE nodes.id = node AND items.id = item AND nodes.ns <> items.ns",
    "edges: nodes of two namespaces": "DELETE FROM edges USING nodes AS a, nodes AS b "
    "WHERE a.id = source AND b.id = target AND a.ns <> b.ns",
    "sources: raw records of another namespace": "DELETE FROM sources USING items, raw AS r "
    "WHERE items.id = item AND r.id = sources.raw AND items.ns <> r.ns",
    "edges: weights out of range": "UPDATE edges SET weight = 1 WHERE NOT (weight > 0 AND weight <= 1)",
    "namespaces: dimensions out of range": "UPDATE namespaces SET fingerprint = NULL, dimension = NULL "  # noqa: S608  (constants)
    f"WHERE dimension NOT BETWEEN 1 AND {VECTOR_DIMENSIONS} OR (fingerprint IS NULL) <> (dimension IS NULL)",
}
"""Rows that a crafted export could leave in an older version, and the statement that removes them."""


def check(db: Db) -> Iterator[str]:
    """Problems, one line each; in one snapshot."""
    problems = list(_miscounted(db))
    if value(db, "SELECT 1 FROM settings WHERE name = %s", loading.SETTING):
        problems.append(loading.UNFINISHED)
    yield from problems or _against_the_rules(db)
    for ns in namespaces.everyone(db):
        for problem in _drift(db, ns):
            yield f"namespace {ns.name}: {problem}"


def _against_the_rules(db: Db) -> list[str]:
    """Rows that a write, or an import of this store's export, would refuse."""
    audit = Audit()
    for record in portable.records(db):
        audit.look(record)
    return audit.problems


def _miscounted(db: Db) -> Iterator[str]:
    return miscounted(partial(value, db), _COUNTERS, _LANGUAGES, _WAITING, _MISSHAPEN)


def _texts(db: Db, ns: int) -> Iterator[list[Text]]:
    after = 0
    while True:
        sql = "SELECT id, title, text, language FROM items WHERE ns = %s AND id > %s ORDER BY id LIMIT %s"
        page = [Text(*row) for row in rows(db, sql, ns, after, _PAGE_TEXTS)]
        if not page:
            return
        yield page
        after = page[-1].id


def _drift(db: Db, ns: Namespace) -> Iterator[str]:
    """Differences between the keyword index and the texts."""
    terms: dict[str, list[int]] = {}
    wrong = 0
    for page in _texts(db, ns.id):
        sql = "SELECT item, hashes, keys FROM texts WHERE item = ANY(%s::bigint[])"
        found = {item: (hashed, keys) for item, hashed, keys in rows(db, sql, [text.id for text in page])}
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
    known = {term: counts for term, *counts in rows(db, "SELECT term, items, german FROM terms WHERE ns = %s", ns.id)}
    if known != terms:
        yield "keyword search has a wrong count of a term"
    if not postings.is_sound(db, ns):
        yield "the postings differ from the texts"


def recount(db: Db) -> list[str]:
    """Corrects counters and references in one transaction."""
    run(db, "SELECT 1 FROM namespaces ORDER BY id FOR NO KEY UPDATE")  # no counter changes after this
    done = [f"repaired: {what}" for what, sql in _STRANGERS.items() if run(db, sql)]
    done += [f"repaired: {problem}" for problem in _miscounted(db)]
    run(db, f"DELETE FROM vectors WHERE item IN ({_MISSHAPEN})")  # noqa: S608  (constants)
    if unfit := windows.flawed(db):
        done += [f"repaired: item {item} had windows of another text" for item in unfit]
        run(db, "DELETE FROM vectors WHERE item = ANY(%s::bigint[])", unfit)
    for table, column, truth in _COUNTERS:
        if column != "tokens":  # it follows from the texts, which `repair` analyses again
            run(db, f"UPDATE {table} SET {column} = ({truth}) WHERE {column} <> ({truth})")  # noqa: S608  (our own clauses)
    run(db, "DELETE FROM languages")
    run(db, f"INSERT INTO languages {_LANGUAGES}")
    run(db, "DELETE FROM waiting WHERE item IN (SELECT item FROM vectors)")
    run(db, f"INSERT INTO waiting (ns, item) {_WAITING} ON CONFLICT DO NOTHING")
    run(db, "UPDATE waiting SET refused = NULL WHERE refused IS NOT NULL")
    return done


def analyse_again(db: Db, ns: Namespace) -> None:
    """Derives everything that keyword search needs from the texts again; the caller has the namespace locked."""
    run(db, "DELETE FROM terms WHERE ns = %s", ns.id)
    run(db, "DELETE FROM texts WHERE ns = %s", ns.id)
    ns.tokens = 0
    for page in _texts(db, ns.id):
        texts.write(db, ns, [], page)
        ns.touched.update(text.id for text in page)
    ns.text_changes += 1
    ns.vector_changes += 1


def is_analysed_otherwise(db: Db) -> bool:
    """Whether the texts were analysed by another version of the analyser."""
    return value(db, "SELECT value FROM settings WHERE name = 'analyser'") != ANALYSER_VERSION


def note_analyser(db: Db) -> None:
    run(db, "UPDATE settings SET value = %s WHERE name = 'analyser'", ANALYSER_VERSION)

"""Checks and repairs of rows: counters, the queue and references."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fourfold.limits import VECTOR_DIMENSIONS
from fourfold.storage.sql.dialect import Db
from fourfold.storage.sql.records import rule_problems
from fourfold.storage.values import Record

LOADING = "loading"
"""The setting in which a store keeps the mark of an unfinished load and the number of its records."""
Counted = tuple[str, str, str]
"""Table, column, and the SQL of the right value."""

SHARED_COUNTERS: tuple[Counted, ...] = (
    ("namespaces", "items", "SELECT count(*) FROM items WHERE ns = namespaces.id"),
    ("namespaces", "superseded", "SELECT count(*) FROM items WHERE ns = namespaces.id AND superseded_at IS NOT NULL"),
    ("namespaces", "expiring", "SELECT count(*) FROM items WHERE ns = namespaces.id AND expires_at IS NOT NULL"),
    ("nodes", "holders", "SELECT count(*) FROM node_items WHERE node = nodes.id"),
    ("nodes", "degree", "SELECT count(*) FROM edges WHERE source = nodes.id OR target = nodes.id"),
)
"""Those that both databases have."""
_LANGUAGES = "SELECT ns, language, count(*) FROM items GROUP BY ns, language"
_WAITING = "SELECT ns, id FROM items WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE item = id)"
_STRANGERS = {
    "node_items: items of another namespace": "DELETE FROM node_items WHERE EXISTS (SELECT 1 FROM nodes, items "
    "WHERE nodes.id = node AND items.id = item AND nodes.ns <> items.ns)",
    "mentions: nodes of another namespace": "DELETE FROM mentions WHERE EXISTS (SELECT 1 FROM nodes, items "
    "WHERE nodes.id = node AND items.id = item AND nodes.ns <> items.ns)",
    "edges: nodes of two namespaces": "DELETE FROM edges WHERE EXISTS (SELECT 1 FROM nodes AS a, nodes AS b "
    "WHERE a.id = source AND b.id = target AND a.ns <> b.ns)",
    "sources: raw records of another namespace": "DELETE FROM sources WHERE EXISTS (SELECT 1 FROM items, raw AS r "
    "WHERE items.id = item AND r.id = sources.raw AND items.ns <> r.ns)",
    "edges: weights out of range": "UPDATE edges SET weight = 1 WHERE NOT (weight > 0 AND weight <= 1)",
    "namespaces: dimensions out of range": "UPDATE namespaces SET fingerprint = NULL, dimension = NULL "  # noqa: S608  (constants)
    f"WHERE dimension NOT BETWEEN 1 AND {VECTOR_DIMENSIONS} OR (fingerprint IS NULL) <> (dimension IS NULL)",
}
"""Rows that a crafted export could leave in an older version, and the statement that removes them."""


def check_counters(db: Db, counters: Sequence[Counted], misshapen: str, records: Iterable[Record]) -> list[str]:
    """Problems of the rows, one line each. Examines `records`, those of the whole store, if the counters are right.

    `misshapen`: the SQL of the items whose vectors do not have the dimension of their namespace.
    """
    problems = list(_miscounted(db, counters, misshapen))
    if db.value("SELECT 1 FROM settings WHERE name = ?", LOADING):
        problems.append("a move into this store was interrupted: run it again")
    return problems or rule_problems(records)


def recount(db: Db, counters: Sequence[Counted], misshapen: str, unfit: Sequence[int]) -> list[str]:
    """Corrects counters, references and the queue, and lists what was wrong.

    `unfit`: items whose windows belong to another text.
    """
    done = [what for what, sql in _STRANGERS.items() if db.run(sql)]
    done += _miscounted(db, counters, misshapen)
    done += [f"item {item} had windows of another text" for item in unfit]
    db.run(f"DELETE FROM vectors WHERE item IN ({misshapen}) OR item {db.any_id}", db.ids(unfit))  # noqa: S608  (our own clauses)
    for table, column, truth in counters:
        db.run(f"UPDATE {table} SET {column} = ({truth}) WHERE {column} <> ({truth})")  # noqa: S608  (our own clauses)
    db.run("DELETE FROM languages")
    db.run(f"INSERT INTO languages {_LANGUAGES}")
    db.run("DELETE FROM waiting WHERE item IN (SELECT item FROM vectors)")
    db.run(f"INSERT INTO waiting (ns, item) {_WAITING} ON CONFLICT DO NOTHING")
    db.run("UPDATE waiting SET refused = NULL WHERE refused IS NOT NULL")
    return [f"repaired: {problem}" for problem in done]


def _miscounted(db: Db, counters: Sequence[Counted], misshapen: str) -> Iterator[str]:
    for table, column, truth in counters:
        if wrong := db.value(f"SELECT count(*) FROM {table} WHERE {column} <> ({truth})"):  # noqa: S608  (our own clauses)
            yield f"{table}: {wrong} rows have a wrong number of {column}"
    languages, queue = "SELECT ns, language, items FROM languages WHERE items <> 0", "SELECT ns, item FROM waiting"

    def differ(some: str, others: str) -> bool:
        return bool(db.value(f"SELECT 1 FROM ({some} EXCEPT {others}) AS wrong LIMIT 1"))  # noqa: S608  (our own clauses)

    if differ(languages, _LANGUAGES) or differ(_LANGUAGES, languages):
        yield "languages: their counters are wrong"
    if differ(_WAITING, queue):
        yield "waiting: an item without a vector is not in the queue"
    if differ(queue, _WAITING):
        yield "waiting: an item in the queue has a vector"
    if db.value(f"{misshapen} LIMIT 1"):
        yield "vectors: one does not have the dimension of its namespace"

"""Checks and repairs of rows: counters, the queue, references, and the limits of items."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fourfold import limits
from fourfold import validation as rules
from fourfold.errors import InvalidItem
from fourfold.limits import VECTOR_DIMENSIONS
from fourfold.model import Item, Json, NewItem
from fourfold.storage.sql.dialect import Db
from fourfold.storage.sql.namespaces import Namespace
from fourfold.storage.sql.records import rule_problems
from fourfold.storage.sql.rows import load_all, read_items
from fourfold.storage.values import NewRaw, Record

if TYPE_CHECKING:
    from fourfold.storage.sql.transaction import SqlTransaction

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


# ---------------------------------------------------------------- items that break a rule


_TITLE_CHARACTERS = 200
"""Characters kept of a title that is too long together with its text."""


def beyond_limits(db: Db, ns: Namespace) -> list[int]:
    """Items that break a limit."""
    return [row.id for row in load_all(db, ns.id) if within_limits(row.as_item(ns.name))]


def mend(tx: SqlTransaction[Any, Any], ids: Sequence[int]) -> list[str]:
    """Brings items within the limits, and lists them. Their removed parts become raw records and sources of them."""
    done: list[str] = []
    now = datetime.now(UTC)
    for item in read_items(tx.db, tx.ns.name, tx.ns.id, ids).values():
        if (mended := within_limits(item)) is None:
            continue
        new, removed = mended
        kept = [tx.raw.add(NewRaw(text, None, None, {"repaired_item": item.id}, now)).id for text in removed]
        tx.items.rewrite(item.id, replace(new, source_ids=(*new.source_ids, *kept)), now)
        where = f"; what did not fit is in the raw records {', '.join(map(str, kept))}" if kept else ""
        done.append(f"repaired: namespace {item.namespace}: item {item.id} keeps the limits{where}")
    return done


def within_limits(item: Item) -> tuple[NewItem, list[str]] | None:
    """The item within the limits, with the parts that had to be removed; None if it is within them already."""
    removed: list[str] = []
    title = item.title
    if not title.strip() and not item.text.strip():
        title = item.key or item.path or f"Item {item.id}"
    if len(title.encode()) + len(item.text.encode()) > limits.ITEM_BYTES:
        removed.append(title)
        title = title[:_TITLE_CHARACTERS]
    metadata, taken = _fitting(dict(item.metadata))
    removed += [json.dumps({"metadata": {key: taken[key]}}, ensure_ascii=False) for key in sorted(taken)]
    tags = item.tags[: limits.TAGS]
    if rest := item.tags[limits.TAGS :]:
        removed.append(json.dumps({"tags": rest}, ensure_ascii=False))
    sources = item.source_ids
    if len(sources) + len(removed) > limits.SOURCES:
        removed.append(json.dumps({"source_ids": sources[limits.SOURCES - len(removed) - 1 :]}))
        sources = sources[: limits.SOURCES - len(removed)]
    if not removed and title == item.title:
        return None
    new = replace(item.given(), title=title, tags=tags, metadata=metadata, source_ids=sources)
    return new, removed


def _fitting(metadata: dict[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """What can stay, and what is taken out: what is nested too deeply, then the largest until the rest fits."""
    taken = {key: data for key, data in metadata.items() if not _fits({key: data})}
    kept = {key: data for key, data in metadata.items() if key not in taken}
    for key in sorted(kept, key=lambda key: -len(json.dumps(kept[key]))):
        if _fits(kept):
            break
        taken[key] = kept.pop(key)
    return kept, taken


def _fits(metadata: dict[str, Json]) -> bool:
    try:
        rules.checked_metadata(metadata)
    except InvalidItem:
        return False
    return True

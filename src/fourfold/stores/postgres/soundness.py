"""Whether a store is sound: its counters, its queue, and what keyword search holds beside the texts; and mending it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fourfold.limits import VECTOR_DIMENSIONS
from fourfold.storage.records import Audit
from fourfold.stores import loading
from fourfold.stores.postgres import portable, postings, spaces, texts
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, rows, run, value
from fourfold.stores.postgres.texts import Text
from fourfold.text.analysis import ANALYSER_VERSION

_CHUNK = 1000

_COUNTED = {
    "items": "SELECT count(*) FROM items WHERE ns = namespaces.id",
    "vectors": "SELECT count(*) FROM vectors WHERE ns = namespaces.id",
    "tokens": "SELECT coalesce(sum(tokens), 0) FROM texts WHERE ns = namespaces.id",
}
_NODES_COUNTED = {
    "holders": "SELECT count(*) FROM node_items WHERE node = nodes.id",
    "degree": "SELECT count(*) FROM edges WHERE nodes.id IN (source, target)",
}
_LANGUAGES = "SELECT ns, language, count(*) FROM items GROUP BY ns, language"
_WAITING = "SELECT id, ns FROM items WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE item = id)"
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
"""What an import of a crafted export could leave in an older version, and what takes it away."""


async def check(db: Db) -> AsyncIterator[str]:
    """Problems, a line each; in one snapshot."""
    problems = [problem async for problem in _miscounted(db)]
    if await value(db, "SELECT 1 FROM settings WHERE name = %s", loading.SETTING):
        problems.append(loading.UNFINISHED)
    for problem in problems or await _against_the_rules(db):
        yield problem
    for ns in await spaces.everyone(db):
        async for problem in _drift(db, ns):
            yield f"namespace {ns.name}: {problem}"


async def _against_the_rules(db: Db) -> list[str]:
    """Rows that a write would refuse, and that an import of this store's export would."""
    audit = Audit()
    async for record in portable.records(db):
        audit.look(record)
    return audit.problems


async def _miscounted(db: Db) -> AsyncIterator[str]:
    for table, counted in (("namespaces", _COUNTED), ("nodes", _NODES_COUNTED)):
        for column, truth in counted.items():
            wrong = await value(db, f"SELECT count(*) FROM {table} WHERE {column} <> ({truth})")  # noqa: S608  (our own clauses)
            if wrong:
                yield f"{table}: {wrong} rows have a wrong number of {column}"
    known = "SELECT ns, language, items FROM languages WHERE items <> 0"
    if await value(
        db,
        f"SELECT 1 FROM (({known} EXCEPT {_LANGUAGES}) UNION ALL ({_LANGUAGES} EXCEPT {known})) LIMIT 1",  # noqa: S608  (constants and placeholders)
    ):
        yield "languages: their counters are wrong"
    if await value(db, f"SELECT 1 FROM ({_WAITING} EXCEPT SELECT item, ns FROM waiting) LIMIT 1"):  # noqa: S608  (constants)
        yield "waiting: an item without a vector is not in the queue"
    if await value(db, f"SELECT 1 FROM (SELECT item, ns FROM waiting EXCEPT {_WAITING}) LIMIT 1"):  # noqa: S608  (constants)
        yield "waiting: an item in the queue has a vector"
    if await value(db, f"{_MISSHAPEN} LIMIT 1"):
        yield "vectors: one has not the length of its namespace"


async def _texts(db: Db, ns: int) -> AsyncIterator[list[Text]]:
    after = 0
    while True:
        sql = "SELECT id, title, text, language FROM items WHERE ns = %s AND id > %s ORDER BY id LIMIT %s"
        page = [Text(*row) for row in await rows(db, sql, ns, after, _CHUNK)]
        if not page:
            return
        yield page
        after = page[-1].id


async def _drift(db: Db, ns: Namespace) -> AsyncIterator[str]:
    """Where keyword search has something else than the texts say."""
    terms: dict[str, list[int]] = {}
    wrong = 0
    async for page in _texts(db, ns.id):
        sql = "SELECT item, hashes, keys FROM texts WHERE item = ANY(%s::bigint[])"
        found = {item: (hashed, keys) for item, hashed, keys in await rows(db, sql, [text.id for text in page])}
        for text in page:
            expected = text.terms
            hashed = texts.hashes(expected)
            wrong += found.get(text.id) != (hashed.tobytes(), texts.keys(ns.id, hashed))
            for term in set(expected):
                counts = terms.setdefault(term, [0, 0])
                counts[0] += 1
                counts[1] += text.language == texts.GERMAN
    if wrong:
        yield f"keyword search has {wrong} items otherwise than they are"
    known = {
        term: counts for term, *counts in await rows(db, "SELECT term, items, german FROM terms WHERE ns = %s", ns.id)
    }
    if known != terms:
        yield "keyword search counts terms otherwise than they are"
    if not await postings.is_sound(db, ns):
        yield "the postings are not those of the texts"
    if ns.words == "ready" and await _lacks_words(db, ns):
        yield "the words of pg_textsearch are not those of the texts"


async def _lacks_words(db: Db, ns: Namespace) -> bool:
    table = texts.words_table(ns.id, ns.worded)
    sql = (
        f"SELECT 1 FROM texts WHERE ns = %s AND change <= %s "  # noqa: S608  (our own clauses)
        f"AND NOT EXISTS (SELECT 1 FROM {table} AS w WHERE w.item = texts.item) LIMIT 1"
    )
    if await value(db, "SELECT to_regclass(%s)", table) is None:
        return True
    return bool(await value(db, sql, ns.id, ns.worded))


async def mend_counters(db: Db) -> list[str]:
    """Makes anew what can be counted; in one transaction."""
    await run(db, "SELECT 1 FROM namespaces ORDER BY id FOR NO KEY UPDATE")  # what is counted after this stands
    done = [f"mended: {what}" for what, sql in _STRANGERS.items() if await run(db, sql)]
    done += [f"mended: {problem}" async for problem in _miscounted(db)]
    await run(db, f"DELETE FROM vectors WHERE item IN ({_MISSHAPEN})")  # noqa: S608  (constants)
    for column in ("items", "vectors"):
        await run(db, f"UPDATE namespaces SET {column} = ({_COUNTED[column]})")  # noqa: S608  (our own clauses)
    for column, truth in _NODES_COUNTED.items():
        await run(db, f"UPDATE nodes SET {column} = ({truth}) WHERE {column} <> ({truth})")  # noqa: S608  (our own clauses)
    await run(db, "DELETE FROM languages")
    await run(db, f"INSERT INTO languages {_LANGUAGES}")
    await run(db, "DELETE FROM waiting WHERE item IN (SELECT item FROM vectors)")
    await run(db, f"INSERT INTO waiting (item, ns) {_WAITING} ON CONFLICT DO NOTHING")
    await run(db, "UPDATE waiting SET refused = NULL WHERE refused IS NOT NULL")
    return done


async def analyse_anew(db: Db, ns: Namespace) -> None:
    """All that keyword search has of a namespace, from its texts; the caller has it locked."""
    await run(db, "DELETE FROM terms WHERE ns = %s", ns.id)
    await run(db, "DELETE FROM texts WHERE ns = %s", ns.id)
    ns.tokens = 0
    async for page in _texts(db, ns.id):
        await texts.write(db, ns, [], page)
    ns.text_changes += 1
    ns.vector_changes += 1


async def is_analysed_otherwise(db: Db) -> bool:
    """Whether the texts were analysed by another version of the analyser."""
    return await value(db, "SELECT value FROM settings WHERE name = 'analyser'") != ANALYSER_VERSION


async def note_analyser(db: Db) -> None:
    await run(db, "UPDATE settings SET value = %s WHERE name = 'analyser'", ANALYSER_VERSION)

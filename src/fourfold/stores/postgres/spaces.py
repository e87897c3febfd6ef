"""Namespaces with their counters and vector spaces (B8), and the queue of items that wait for vectors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from fourfold.errors import SpaceMismatch
from fourfold.stores.base import Size, Space
from fourfold.stores.postgres.sql import Answer, Db, Statement, possible, rows, run, run_many, value

_COLUMNS = (
    "id, name, items, vectors, tokens, changes, text_changes, vector_changes, names, fingerprint, dimension, words, "
    "parts, worded"
)


@dataclass(slots=True)
class Namespace:
    """A row of `namespaces`. Who writes holds it locked, counts here, and stores it at the end."""

    id: int
    name: str
    items: int
    vectors: int
    tokens: int
    changes: int
    text_changes: int
    vector_changes: int
    names: int
    fingerprint: str | None
    dimension: int | None
    words: str
    parts: list[int]
    """Of its postings, by the last change that is in each. Only who makes them writes this."""
    worded: int
    """The last change of which pg_textsearch has the words. The same."""
    spoken: Counter[str] = field(default_factory=Counter[str])
    """By how much the number of items in each language has changed."""

    @property
    def space(self) -> Space | None:
        return None if self.fingerprint is None else Space(self.fingerprint, self.dimension or 0)

    @space.setter
    def space(self, space: Space) -> None:
        self.fingerprint, self.dimension = space.fingerprint, space.dimension

    @property
    def size(self) -> Size:
        return Size(self.items, self.vectors)

    @property
    def average_length(self) -> float:
        return self.tokens / max(self.items, 1)


BY_NAME = "(SELECT id FROM namespaces WHERE name = %s)"
"""The id of a namespace inside of another statement."""


def finding(namespace: str) -> Statement:
    """Asked together with what is asked of the namespace; `found` reads the answer."""
    row = f"convert_to(json_build_array({_COLUMNS})::text, 'UTF8')"
    return f"SELECT NULL::text, 0::bigint, 0::bigint, {row} FROM namespaces WHERE name = %s", namespace  # noqa: S608  (our own clauses)


def found(answer: Sequence[Answer]) -> Namespace | None:
    return Namespace(*json.loads(answer[0][3])) if answer else None


async def find(db: Db, namespace: str) -> Namespace | None:
    found = await rows(db, f"SELECT {_COLUMNS} FROM namespaces WHERE name = %s", namespace)  # noqa: S608  (constants)
    return Namespace(*found[0]) if found else None


async def everyone(db: Db) -> list[Namespace]:
    return [Namespace(*row) for row in await rows(db, f"SELECT {_COLUMNS} FROM namespaces ORDER BY name")]  # noqa: S608  (constants)


async def lock(db: Db, namespace: str) -> Namespace | None:
    """For writing: one transaction at a time has it, so that names and texts that come at once find each other."""
    found = await rows(db, f"SELECT {_COLUMNS} FROM namespaces WHERE name = %s FOR NO KEY UPDATE", namespace)  # noqa: S608  (constants)
    return Namespace(*found[0]) if found else None


async def ensure(db: Db, namespace: str) -> Namespace:
    known = await lock(db, namespace)
    if known is None:
        await run(db, "INSERT INTO namespaces (name) VALUES (%s) ON CONFLICT DO NOTHING", namespace)
        known = await lock(db, namespace)
    assert known is not None  # noqa: S101 (a namespace never goes)
    return known


async def store(db: Db, ns: Namespace) -> None:
    """Writes the counters; everybody sees by `changes` that there is something new."""
    ns.changes += 1
    await run(
        db,
        "UPDATE namespaces SET items = %s, vectors = %s, tokens = %s, changes = %s, text_changes = %s, "
        "vector_changes = %s, names = %s, fingerprint = %s, dimension = %s, words = %s WHERE id = %s",
        ns.items, ns.vectors, ns.tokens, ns.changes, ns.text_changes, ns.vector_changes, ns.names, ns.fingerprint,
        ns.dimension, ns.words, ns.id,
    )  # fmt: skip
    await run_many(
        db,
        "INSERT INTO languages VALUES (%s, %s, %s) ON CONFLICT (ns, language) "
        "DO UPDATE SET items = languages.items + excluded.items",
        [(ns.id, language, count) for language, count in sorted(ns.spoken.items()) if count],
    )
    ns.spoken.clear()


async def languages(db: Db, ns: int) -> dict[str, int]:
    """The languages of the namespace with the number of their items, the commonest first."""
    sql = "SELECT language, items FROM languages WHERE ns = %s AND items > 0 ORDER BY items DESC, language LIMIT 8"
    return dict(await rows(db, sql, ns))


# ---------------------------------------------------------------- spaces


def fix_space(ns: Namespace, wanted: Space) -> None:
    known = ns.space
    if known is None:
        ns.space = wanted
    elif known != wanted:
        raise SpaceMismatch(
            f"the vectors here come from {known.fingerprint}, not from {wanted.fingerprint}",
            "Go back to that embedder, or make all vectors anew: fourfold reembed",
        )


async def reset_space(db: Db, ns: Namespace, wanted: Space) -> None:
    if ns.space == wanted:
        return
    ns.space = wanted
    ns.vector_changes += 1
    ns.vectors = 0
    await run(
        db,
        "INSERT INTO waiting (item, ns) SELECT item, ns FROM vectors WHERE ns = %s "
        "ON CONFLICT (item) DO UPDATE SET refused = NULL",
        ns.id,
    )
    await run(db, "DELETE FROM vectors WHERE ns = %s", ns.id)


# ---------------------------------------------------------------- the queue


async def queues(db: Db) -> list[str]:
    """Namespaces in which items wait for a vector."""
    sql = (
        "SELECT name FROM namespaces WHERE EXISTS "
        "(SELECT 1 FROM waiting WHERE ns = namespaces.id AND refused IS NULL) ORDER BY name"
    )
    return [name for (name,) in await rows(db, sql)]


async def waiting(db: Db, ns: Namespace, limit: int, among: Sequence[int] | None = None) -> list[tuple[int, str, str]]:
    sql = (
        "SELECT id, title, text FROM waiting JOIN items ON id = item WHERE waiting.ns = %s AND {} "
        "ORDER BY item LIMIT %s"
    )
    if among is None:
        return await rows(db, sql.format("refused IS NULL"), ns.id, limit)
    return await rows(db, sql.format("item = ANY(%s::bigint[])"), ns.id, possible(among), limit)


async def refuse(db: Db, ns: Namespace, waits: tuple[int, str, str], reason: str) -> None:
    """An item whose text is another by now goes on waiting."""
    sql = (
        "UPDATE waiting SET refused = %s FROM items WHERE waiting.ns = %s AND item = %s AND id = item "
        "AND title = %s AND text = %s"
    )
    await run(db, sql, reason.replace("\x00", ""), ns.id, *waits)


async def has_refused(db: Db, ns: Namespace) -> bool:
    return bool(await value(db, "SELECT 1 FROM waiting WHERE ns = %s AND refused IS NOT NULL LIMIT 1", ns.id))


async def retry_refused(db: Db, ns: Namespace) -> None:
    await run(db, "UPDATE waiting SET refused = NULL WHERE ns = %s AND refused IS NOT NULL", ns.id)

"""The rows that linking reads and writes (fourfold.storage.linking)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from fourfold.index.rows import term_hash
from fourfold.storage.codec import digest
from fourfold.storage.linking import LABEL, Gone, Linked, name_terms
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db, column, rows, run, run_many, value
from fourfold.storage.sql import graph
from fourfold.storage.sql.dialect import sendable

_LINKED = "id, CASE WHEN linked THEN text ELSE '' END"
_PAGE_ITEMS = 1000


class PostgresLinkRows:
    def __init__(self, db: Db, ns: Namespace) -> None:
        self._db = db
        self._ns = ns

    # ------------------------------------------------------------ names and nodes

    def names_version(self) -> int:
        return self._ns.names

    def raise_names_version(self) -> None:
        self._ns.names += 1

    def names(self) -> list[str]:
        return column(self._db, "SELECT folded FROM names WHERE ns = %s", self._ns.id)

    def has_more_names(self, count: int) -> bool:
        sql = "SELECT count(*) FROM (SELECT 1 FROM names WHERE ns = %s LIMIT %s)"
        return value(self._db, sql, self._ns.id, count + 1) > count

    def names_beginning(self, words: set[str], pairs: set[str]) -> list[str]:
        sql = "SELECT folded FROM names WHERE ns = %s AND opening = ANY(%s::bytea[])"
        return column(self._db, sql, self._ns.id, [digest(start) for start in words | pairs])

    def ensure_nodes(self, names: Sequence[str]) -> tuple[dict[str, int], list[str]]:
        wanted = [(name, LABEL) for name in names]
        nodes, fresh = graph.ensure_nodes(self._db, self._ns.id, wanted, made=False)
        return {name: node for (name, _), node in nodes.items()}, fresh

    def nodes_named(self, names: Collection[str]) -> dict[str, list[int]]:
        digests = {digest(name): name for name in names}
        sql = "SELECT digest, node FROM names WHERE ns = %s AND digest = ANY(%s::bytea[])"
        found: dict[str, list[int]] = {}
        for key, node in rows(self._db, sql, self._ns.id, list(digests)) if digests else ():
            found.setdefault(digests[key], []).append(node)
        return found

    def names_of(self, nodes: Sequence[int]) -> list[str]:
        return column(self._db, "SELECT folded FROM names WHERE node = ANY(%s::bigint[])", list(nodes))

    def owned(self, items: Sequence[int]) -> dict[tuple[int, int], bool]:
        sql = "SELECT node, item, made FROM node_items WHERE item = ANY(%s::bigint[])"
        return {(node, item): made for node, item, made in rows(self._db, sql, list(items))} if items else {}

    def attach(self, pairs: Sequence[tuple[int, int]]) -> None:
        graph.attach(self._db, [(*pair, False) for pair in pairs])

    def detach(self, pairs: Sequence[tuple[int, int]]) -> None:
        self._db.delete("node_items", ("node", "item"), pairs)

    def prune(self, nodes: Collection[int]) -> Gone:
        return graph.prune(self._db, self._ns.id, nodes)

    # ------------------------------------------------------------ mentions

    def mentions(self, items: Sequence[int]) -> set[tuple[int, int]]:
        sql = "SELECT item, node FROM mentions WHERE item = ANY(%s::bigint[])"
        return {tuple(row) for row in rows(self._db, sql, list(items))}

    def change_mentions(self, removed: Sequence[tuple[int, int]], added: Sequence[tuple[int, int]]) -> None:
        run_many(self._db, "DELETE FROM mentions WHERE item = %s AND node = %s", removed)
        run_many(self._db, "INSERT INTO mentions VALUES (%s, %s)", added)

    def set_pointers(self, names: Mapping[int, set[str]], stored: Sequence[int]) -> None:
        if stored:
            run(self._db, "DELETE FROM pointers WHERE item = ANY(%s::bigint[])", list(stored))
        named = {(self._ns.id, digest(name), item) for item, found in names.items() for name in found if name}
        run_many(self._db, "INSERT INTO pointers VALUES (%s, %s, %s)", sorted(named))

    def pointing(self, names: Collection[str]) -> list[int]:
        sql = "SELECT DISTINCT item FROM pointers WHERE ns = %s AND digest = ANY(%s::bytea[]) ORDER BY item"
        return column(self._db, sql, self._ns.id, [digest(name) for name in names])

    # ------------------------------------------------------------ items

    def texts(self, items: Sequence[int]) -> Iterator[Linked]:
        sql = f"SELECT {_LINKED} FROM items WHERE id = ANY(%s::bigint[]) ORDER BY id"  # noqa: S608  (constants)
        for start in range(0, len(items), _PAGE_ITEMS):
            yield from (Linked(*row) for row in rows(self._db, sql, list(items[start : start + _PAGE_ITEMS])))

    def may_mention(self, name: str) -> list[int]:
        ns = self._ns.id
        groups = [sendable(group) for group in name_terms(name, tuple(self._ns.languages))]
        keys = [[ns << 32 | term_hash(term) for term in group] for group in groups]
        if not keys:
            return column(self._db, "SELECT id FROM items WHERE ns = %s ORDER BY id", ns)
        held = " AND ".join(["keys && %s::bigint[]"] * len(keys))
        return column(self._db, f"SELECT item FROM texts WHERE {held} ORDER BY item", *keys)  # noqa: S608  (our own clauses)

    def count_items(self) -> int:
        return self._ns.items

    def items_after(self, item: int, limit: int) -> list[int]:
        sql = "SELECT id FROM items WHERE ns = %s AND id > %s ORDER BY id LIMIT %s"
        return column(self._db, sql, self._ns.id, item, limit)

    # ------------------------------------------------------------ names that wait

    def postpone(self, names: Sequence[str]) -> None:
        sql = (
            "INSERT INTO unlinked SELECT DISTINCT ns, node FROM names WHERE ns = %s AND digest = ANY(%s::bytea[]) "
            "ON CONFLICT DO NOTHING"
        )
        run(self._db, sql, self._ns.id, [digest(name) for name in names])

    def postponed(self) -> list[int]:
        return column(self._db, "SELECT node FROM unlinked WHERE ns = %s ORDER BY node", self._ns.id)

    def catch_up_done(self, nodes: Sequence[int]) -> None:
        run(self._db, "DELETE FROM unlinked WHERE node = ANY(%s::bigint[])", list(nodes))

"""The rows that linking reads and writes (fourfold.storage.linking)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence

from fourfold.scheduling import paced
from fourfold.storage.linking import LABEL, Gone, Linked
from fourfold.storage.sql import graph
from fourfold.storage.sql.dialect import Db
from fourfold.storage.sql.namespaces import Namespace

_PAGE_ITEMS = 1000


class SqlLinkRows(ABC):
    """Those of one namespace. How names are looked up differs between the databases."""

    def __init__(self, db: Db, ns: Namespace) -> None:
        self._db = db
        self._ns = ns

    @abstractmethod
    def names_beginning(self, words: set[str], pairs: set[str]) -> Collection[str]: ...

    @abstractmethod
    def may_mention(self, name: str) -> Sequence[int] | None: ...

    # ------------------------------------------------------------ names and nodes

    def names_version(self) -> int:
        return self._ns.names

    def raise_names_version(self) -> None:
        self._ns.names += 1

    def names(self) -> Iterator[str]:
        return (name for (name,) in self._db.stream("SELECT folded FROM names WHERE ns = ?", self._ns.id))

    def has_more_names(self, count: int) -> bool:
        sql = "SELECT count(*) FROM (SELECT 1 FROM names WHERE ns = ? LIMIT ?) AS some_"
        return self._db.value(sql, self._ns.id, count + 1) > count

    def ensure_nodes(self, names: Sequence[str]) -> tuple[dict[str, int], list[str]]:
        nodes, fresh = graph.ensure_nodes(self._db, self._ns.id, [(name, LABEL) for name in names], made=False)
        return {name: node for (name, _), node in nodes.items()}, fresh

    def nodes_named(self, names: Collection[str]) -> dict[str, list[int]]:
        return graph.named(self._db, self._ns.id, names)

    def names_of(self, nodes: Sequence[int]) -> list[str]:
        return self._db.column(f"SELECT folded FROM names WHERE node {self._db.any_id}", self._db.ids(nodes))  # noqa: S608  (constants)

    def owned(self, items: Sequence[int]) -> dict[tuple[int, int], bool]:
        sql = f"SELECT node, item, made FROM node_items WHERE item {self._db.any_id}"  # noqa: S608  (constants)
        rows = self._db.rows(sql, self._db.ids(items)) if items else ()
        return {(node, item): bool(made) for node, item, made in rows}

    def attach(self, pairs: Sequence[tuple[int, int]]) -> None:
        graph.attach(self._db, [(*pair, False) for pair in pairs])
        self._ns.relinked.update(item for _, item in pairs)

    def detach(self, pairs: Sequence[tuple[int, int]]) -> None:
        self._db.delete("node_items", ("node", "item"), pairs)
        self._ns.relinked.update(item for _, item in pairs)

    def prune(self, nodes: Collection[int]) -> Gone:
        return graph.prune(self._db, self._ns.id, nodes)

    # ------------------------------------------------------------ mentions

    def mentions(self, items: Sequence[int]) -> set[tuple[int, int]]:
        sql = f"SELECT item, node FROM mentions WHERE item {self._db.any_id}"  # noqa: S608  (constants)
        return {(item, node) for item, node in self._db.rows(sql, self._db.ids(items))}

    def change_mentions(self, removed: Sequence[tuple[int, int]], added: Sequence[tuple[int, int]]) -> None:
        self._ns.relinked.update(item for item, _ in (*removed, *added))
        self._db.run_many("DELETE FROM mentions WHERE item = ? AND node = ?", removed)
        self._db.run_many("INSERT INTO mentions VALUES (?, ?)", added)

    def set_pointers(self, names: Mapping[int, set[str]], stored: Sequence[int]) -> None:
        if stored:
            self._db.run(f"DELETE FROM pointers WHERE item {self._db.any_id}", self._db.ids(stored))  # noqa: S608  (constants)
        key = self._db.name_key
        pairs = {(self._ns.id, key(name), item) for item, pointed in names.items() for name in pointed if name}
        self._db.run_many("INSERT INTO pointers VALUES (?, ?, ?)", sorted(pairs))

    def pointing(self, names: Collection[str]) -> list[int]:
        sql = f"SELECT DISTINCT item FROM pointers WHERE ns = ? AND {self._db.any_name} ORDER BY item"  # noqa: S608  (constants)
        return self._db.column(sql, self._ns.id, self._db.names(names))

    # ------------------------------------------------------------ items

    def texts(self, items: Sequence[int]) -> Iterator[Linked]:
        sql = f"SELECT id, CASE WHEN linked THEN text ELSE '' END FROM items WHERE id {self._db.any_id} ORDER BY id"  # noqa: S608  (constants)
        for start in range(0, len(items), _PAGE_ITEMS):
            page = self._db.ids(items[start : start + _PAGE_ITEMS])
            yield from (Linked(*row) for row in paced(self._db.stream(sql, page)))

    def count_items(self) -> int:
        return self._ns.items

    def items_after(self, item: int, limit: int) -> list[int]:
        return self._db.column(
            "SELECT id FROM items WHERE ns = ? AND id > ? ORDER BY id LIMIT ?", self._ns.id, item, limit
        )

    # ------------------------------------------------------------ names that wait

    def postpone(self, names: Sequence[str]) -> None:
        sql = (
            "INSERT INTO unlinked SELECT DISTINCT ns, node FROM names "  # noqa: S608  (constants)
            f"WHERE ns = ? AND {self._db.any_name} ON CONFLICT DO NOTHING"
        )
        self._db.run(sql, self._ns.id, self._db.names(names))

    def postponed(self) -> list[int]:
        return self._db.column("SELECT node FROM unlinked WHERE ns = ? ORDER BY node", self._ns.id)

    def catch_up_done(self, nodes: Sequence[int]) -> None:
        self._db.run(f"DELETE FROM unlinked WHERE node {self._db.any_id}", self._db.ids(nodes))  # noqa: S608  (constants)

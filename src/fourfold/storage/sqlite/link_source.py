"""What changed in links and tags since some change, as `index.link_tail` reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fourfold import limits
from fourfold.index.link_state import ItemLinks, NodeLinks, TagLinks
from fourfold.index.log_tail import Change
from fourfold.storage.sqlite import changes
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.connections import heaviest_edges

RELEVANT = Change.TEXT | Change.REMOVED | Change.LABELS | Change.NODE


class Changed(NamedTuple):
    items: list[int]
    nodes: list[int]


def changed(db: Connection, ns: int, after: int, last: int, most: int) -> Changed | None:
    """Items and nodes whose links or tags may have changed; None if that is not known, or if there are too many."""
    if changes.pruned(db, ns) > after:
        return None
    sql = (
        "SELECT DISTINCT item, what & ? FROM changes WHERE ns = ? AND seq > ? AND seq <= ? AND what & ? "
        "ORDER BY item LIMIT ?"
    )
    found = db.rows(sql, int(Change.NODE), ns, after, last, int(RELEVANT), most + 1)
    if len(found) > most or any(not number for number, _ in found):
        return None
    return Changed([item for item, of_node in found if not of_node], [node for node, of_node in found if of_node])


class SqliteLinkSource:
    """Implements `fourfold.index.link_state.LinkSource` inside the transaction of `db`."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def items(self, ids: Sequence[int]) -> dict[int, ItemLinks]:
        own = self._grouped("SELECT item, node FROM node_items WHERE item {0}", ids)
        said = self._grouped("SELECT item, node FROM mentions WHERE item {0}", ids)
        tags = self._grouped("SELECT item, tag FROM item_tags WHERE item {0}", ids)
        known = {*own, *said, *tags}
        return {item: ItemLinks(own.get(item, ()), said.get(item, ()), tags.get(item, ())) for item in known}

    def nodes(self, ids: Sequence[int]) -> dict[int, NodeLinks]:
        sql = "SELECT id, holders, mentioned, degree FROM nodes WHERE id {0}"
        counts: dict[int, tuple[int, int, int]] = {row[0]: row[1:] for row in self._rows(sql, ids)}
        owned = [node for node, (holders, _, _) in counts.items() if holders <= limits.HUB]
        spoken = [node for node, (_, mentioned, _) in counts.items() if mentioned <= limits.HUB]
        owners = self._grouped("SELECT node, item FROM node_items WHERE node {0}", owned)
        speakers = self._grouped("SELECT node, item FROM mentions WHERE node {0}", spoken)
        names = self._grouped("SELECT node, folded FROM names WHERE node {0}", list(counts))
        edges: dict[int, list[tuple[int, float]]] = {}
        for near, far, weight in heaviest_edges(self._db, {node: degree for node, (*_, degree) in counts.items()}):
            edges.setdefault(near, []).append((far, weight))
        return {
            node: NodeLinks(
                *numbers,
                owners=owners.get(node, ()),
                speakers=speakers.get(node, ()),
                neighbours=edges.get(node, ()),
                names=[hash(name) for name in names.get(node, ())],
            )
            for node, numbers in counts.items()
        }

    def tags(self, ids: Sequence[int]) -> dict[int, TagLinks]:
        known = self._rows("SELECT id, folded, uses FROM tags WHERE id {0}", ids)
        few = [tag for tag, _, uses in known if uses <= limits.HUB]
        users = self._grouped("SELECT tag, item FROM item_tags WHERE tag {0}", few)
        return {tag: TagLinks(name, uses, users.get(tag, ())) for tag, name, uses in known}

    def _grouped(self, sql: str, keys: Sequence[int]) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = {}
        for key, member in self._rows(sql, keys):
            found.setdefault(key, []).append(member)
        return found

    def _rows(self, sql: str, keys: Sequence[int]) -> list[Any]:
        return self._db.rows(sql.format(Connection.any_id), self._db.ids(keys)) if keys else []

"""Writing of edges. Every function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable

from fourfold.storage.sql.dialect import Db
from fourfold.storage.sql.graph_paths import Step


def set_edges(db: Db, edges: Iterable[Step]) -> None:
    """Of several weights for an edge the last counts."""
    last = {edge[:3]: edge for edge in edges}
    db.insert(
        "edges",
        ("bigint", "text", "bigint", "float8"),
        list(last.values()),
        "ON CONFLICT (source, relation, target) DO UPDATE SET weight = excluded.weight",
    )

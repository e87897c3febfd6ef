"""The SQL of one page of a node's neighbours, which the database chooses: a hub has very many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fourfold.stores.base import Direction

_OUT = (
    "SELECT target AS node, relation, weight FROM edges WHERE source = {0}",
    "SELECT mentions.node, 'mentions', 1.0 FROM node_items own JOIN mentions USING (item) WHERE own.node = {0}",
)
_IN = (
    "SELECT source AS node, relation, weight FROM edges WHERE target = {0}",
    "SELECT own.node, 'mentions', 1.0 FROM mentions JOIN node_items own USING (item) WHERE mentions.node = {0}",
)


def near_steps(start: int, direction: Direction, relation: str | None, mark: str) -> tuple[str, list[Any]]:
    """The steps from a node to others, and the bindings; `mark` is the store's placeholder."""
    ways: Sequence[str] = [*(_OUT if direction != "in" else ()), *(_IN if direction != "out" else ())]
    steps = " UNION ALL ".join(way.format(mark) for way in ways)
    only = "" if relation is None else f" AND relation = {mark}"
    bindings = [*[start] * len(ways), start, *([] if relation is None else [relation])]
    return f"FROM ({steps}) AS steps WHERE node <> {mark}{only}", bindings


def near_page(steps: str, mark: str) -> str:
    """(node, relation, weight) of the heaviest step to each node, heaviest first; limit and offset are bound last."""
    place = "row_number() OVER (PARTITION BY node ORDER BY weight DESC, relation) AS place"
    best = f"SELECT node, relation, weight, {place} {steps}"
    order = f"ORDER BY weight DESC, node LIMIT {mark} OFFSET {mark}"
    return f"SELECT node, relation, weight FROM ({best}) AS best WHERE place = 1 {order}"  # noqa: S608  (our own clauses)


def near_count(steps: str) -> str:
    return f"SELECT count(DISTINCT node) {steps}"

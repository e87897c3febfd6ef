"""Records of one namespace as records of another one, with new ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from fourfold.errors import RequestError
from fourfold.storage.values import Record

PIECE_RECORDS = 5000
TABLES = {"raw": "raw", "item": "items", "node": "nodes"}
"""Kinds of records that have ids, with their tables."""
NewIds = Callable[[str, int], Iterable[int]]
"""Assigns this many ids in a table."""


def renumbered(records: Iterable[Record], namespace: str, new_ids: NewIds) -> Iterator[Record]:
    """The accepted records of one namespace as records of another: with its name and with new ids."""
    ids: dict[str, dict[int, int]] = {kind: {} for kind in TABLES}
    seen = 0
    rest = iter(records)
    while piece := list(islice(rest, PIECE_RECORDS)):
        counts = Counter[str](record["type"] for record in piece)
        seen += counts["namespace"]
        if seen > 1:
            raise RequestError(
                "this export holds several namespaces", "Load it with `fourfold import` into an empty store"
            )
        fresh = {kind: iter(new_ids(table, counts[kind])) for kind, table in TABLES.items()}
        for record in piece:
            yield _renumbered(record, namespace, ids, fresh, new_ids)


def _renumbered(
    record: Record,
    namespace: str,
    ids: Mapping[str, dict[int, int]],
    fresh: Mapping[str, Iterator[int]],
    new_ids: NewIds,
) -> Record:
    kind = record["type"]
    changed: Record = {"name": namespace} if kind == "namespace" else {"namespace": namespace}
    if kind in ids:
        changed["id"] = _new_id(record["id"], kind, ids, fresh, new_ids)
    match kind:
        case "item":
            changed["source_ids"] = [ids["raw"][source] for source in record["source_ids"]]
            referred = [name for name in ("supersedes", "version_of") if name in record]
            changed |= {name: _new_id(record[name], "item", ids, fresh, new_ids) for name in referred}
        case "node":
            changed["items"] = [[ids["item"][item], made] for item, made in record["items"]]
        case "edge":
            changed |= {end: ids["node"][record[end]] for end in ("source", "target")}
        case "mention":
            changed |= {end: ids[end][record[end]] for end in ("item", "node")}
        case "version":
            known = ids["raw"]
            sources = [known[source] for source in record["record"]["source_ids"] if source in known]
            changed |= {end: _new_id(record[end], "item", ids, fresh, new_ids) for end in ("id", "item")}
            changed["record"] = {**record["record"], "source_ids": sources}
        case _:
            pass
    return {**record, **changed}


def _new_id(
    old: int,
    kind: str,
    ids: Mapping[str, dict[int, int]],
    fresh: Mapping[str, Iterator[int]],
    new_ids: NewIds,
) -> int:
    """The id that replaces an old one. A version may refer to an item that is not read yet."""
    known = ids[kind]
    if old not in known:
        following = next(fresh[kind], None)
        known[old] = next(iter(new_ids(TABLES[kind], 1))) if following is None else following
    return known[old]

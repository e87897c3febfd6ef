"""Loading an export into a store, in batches if it has a mark, so that an interrupted load can be resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import Protocol, TypeVar

from fourfold.errors import RequestError, StoreNotEmpty
from fourfold.storage.record_reader import accepted
from fourfold.storage.values import Record

T = TypeVar("T")

SETTING = "loading"
"""The setting in which a store keeps the mark of an unfinished load and the number of its records."""
UNFINISHED = "a move into this store was interrupted: run it again"
_PIECE = 5000
TABLES = {"raw": "raw", "item": "items", "node": "nodes"}
"""Kinds of records that have ids, with their tables."""
NewIds = Callable[[str, int], Iterable[int]]
"""Assigns this many ids in a table."""


def loaded(kept: str | None, mark: str) -> int | None:
    """How many records of this load are stored; None if it has not begun."""
    if kept is None:
        return None
    known, _, count = kept.partition(" ")
    if known != mark:
        raise RequestError("this store holds a part of another one", "Move that again, or choose an empty target")
    return int(count)


def pieces(records: Iterable[Record], done: int) -> Iterator[tuple[list[Record], int]]:
    """The remaining records in batches, with the number of records after each."""
    rest = islice(records, done, None)
    while piece := list(islice(rest, _PIECE)):
        done += len(piece)
        yield piece, done


def note(mark: str, done: int) -> str:
    return f"{mark} {done}"


class Target(Protocol[T]):
    """A store that records are loaded into; `T` is its open transaction."""

    def writing(self) -> AbstractContextManager[T]: ...

    def is_empty(self, tx: T, namespace: str | None = None) -> bool: ...

    def store(self, tx: T, records: Iterable[Record]) -> None: ...

    def store_namespace(self, tx: T, records: Iterable[Record], namespace: str) -> None: ...

    def noted(self, tx: T) -> str | None:
        """The setting SETTING."""
        ...

    def note(self, tx: T, text: str | None) -> None: ...


def load(target: Target[T], records: Iterable[Record], mark: str | None) -> None:
    """Fills an empty store: in one transaction, or, with a mark, in batches that an interrupted load resumes.

    The caller has checked records that have a mark, since earlier batches would stay if a later one were refused.
    """
    if mark is None:
        with target.writing() as tx:
            _require_empty(target, tx)
            target.store(tx, accepted(records))
        return
    with target.writing() as tx:
        done = loaded(target.noted(tx), mark)
        if done is None:
            _require_empty(target, tx)
    for piece, count in pieces(records, done or 0):
        with target.writing() as tx:
            target.store(tx, piece)
            target.note(tx, note(mark, count))
    with target.writing() as tx:
        target.note(tx, None)


def load_namespace(target: Target[T], records: Iterable[Record], namespace: str) -> None:
    """Fills an empty namespace in one transaction."""
    with target.writing() as tx:
        if not target.is_empty(tx, namespace):
            raise StoreNotEmpty(f"the namespace {namespace!r} is not empty", "Import the export into another namespace")
        target.store_namespace(tx, accepted(records), namespace)


def renumbered(records: Iterable[Record], namespace: str, new_ids: NewIds) -> Iterator[Record]:
    """The accepted records of one namespace as records of another: with its name and with new ids."""
    ids: dict[str, dict[int, int]] = {kind: {} for kind in TABLES}
    seen = 0
    rest = iter(records)
    while piece := list(islice(rest, _PIECE)):
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


def _require_empty(target: Target[T], tx: T) -> None:
    if not target.is_empty(tx):
        raise StoreNotEmpty("this store is not empty", "Import an export into an empty store: choose another --store")

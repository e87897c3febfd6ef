"""Secrets in what is stored already: found in every record of the store, and masked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, cast

from fourfold.model import ItemPatch, Json
from fourfold.storage.protocols import Store, Transaction
from fourfold.storage.values import NewNode, Record
from fourfold.text.secrets import masked, masked_json, masks_in

_NOT_TEXT: Final = frozenset({"vector", "embedding", "digest", "fingerprint"})
"""Fields of records with numbers and checksums."""


def scan(store: Store) -> list[str]:
    """One line for each secret: its namespace, where it is, and its kind."""
    return [line for record in _with_secrets(store, None) for line in _lines(record)]


def mask(store: Store, now: datetime, *, links: bool) -> list[str]:
    """Masks what a scan finds, and removes every byte of it from the files of the store. Lists what was done.

    What was forgotten, and copies of the database from before a migration, may hold secrets that no scan sees: they
    are removed in any case.
    """
    done: list[str] = []
    for namespace in store.namespaces():
        for record in _with_secrets(store, namespace):
            lines = _lines(record)
            with store.transaction(namespace, names=record["type"] == "item") as tx:
                if _mask(tx, record, now, links=links):
                    done += [f"masked: {line}" for line in lines]
    done += store.maintenance.repair(purge=True)
    return [*done, *(f"left, because it cannot be changed: {line}" for line in scan(store))]


def _with_secrets(store: Store, namespace: str | None) -> list[Record]:
    found: list[Record] = []

    def look(record: Record) -> None:
        if _kinds(record):
            found.append(record)

    store.portable.export(look, namespace=namespace)
    return found


def _lines(record: Record) -> list[str]:
    where = f"{record['type']} {record['id']}" if "id" in record else str(record["type"])
    return [f"{record.get('namespace', '')}: {where}: {kind}" for kind in _kinds(record)]


def _kinds(record: Record) -> list[str]:
    texts = _texts(record)
    hidden = masked_json(texts)
    if hidden == texts:
        return []
    before = masks_in(json.dumps(texts, ensure_ascii=False))
    kinds = masks_in(json.dumps(hidden, ensure_ascii=False))
    for kind in before:
        kinds.remove(kind)
    return kinds


def _texts(record: Record) -> Record:
    """A record, and the item in a version, without numbers and checksums."""
    inner = {"record": _texts(record["record"])} if "record" in record else {}
    return {name: value for name, value in record.items() if name not in _NOT_TEXT} | inner


def _mask(tx: Transaction, record: Record, now: datetime, *, links: bool) -> bool:
    """Whether the record is of a kind that can be changed."""
    match record["type"]:
        case "item":
            tx.items.patch(record["id"], _patch(record), now, links=links, keep=False)
        case "raw":
            tx.raw.replace(record["id"], masked(record["content"]), _masked(record["metadata"]))
        case "node" if masked(record["name"]) != record["name"]:
            return not record["made"]  # made from a title, which is masked now: it is gone
        case "node":
            node = NewNode(record["name"], record["label"], (), _masked(record["properties"]))
            tx.graph.add_nodes([node])
        case "version":
            tx.items.rewrite_version(record["id"], record["record"] | _masked(_texts(record["record"])))
        case _:
            return False
    return True


def _patch(record: Record) -> ItemPatch:
    tags = [str(tag) for tag in record["tags"]]
    changed = [tag for tag in tags if masked(tag) != tag]
    metadata = cast("Mapping[str, Json]", record["metadata"])
    return ItemPatch(
        text=masked(record["text"]),
        title=masked(record["title"]),
        add_tags=tuple(masked(tag) for tag in changed),
        remove_tags=tuple(changed),
        metadata=dict(_changed(metadata)) or None,
    )


def _changed(metadata: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """What differs after masking; a key that is a secret itself is removed."""
    for name, value in metadata.items():
        hidden = _masked({name: value})
        if hidden != {name: value}:
            yield from hidden.items()
            if name not in hidden:
                yield name, None


def _masked(metadata: Mapping[str, Json]) -> dict[str, Json]:
    return cast("dict[str, Json]", masked_json(dict(metadata)))

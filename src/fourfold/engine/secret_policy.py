"""What happens to secrets: masked, refused or allowed in what callers store; found and masked in what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, cast

from fourfold.errors import InvalidItem
from fourfold.model import Edge, ItemPatch, Json, NewItem
from fourfold.storage.protocols import Store, Transaction
from fourfold.storage.values import NewNode, Record
from fourfold.text.secrets import SecretMode, masked, masked_each, masked_json, masked_parts, masks_in, may_hold_secrets

# ---------------------------------------------------------------- what callers store

_TEXTS: Final = (
    *("title", "text", "kind", "subject", "attribute", "content", "speaker"),
    *("metadata", "properties", "tags", "aliases"),
)
"""Fields of the records of an export that hold what callers wrote. Keys, paths and sessions are names that callers use
again: they stay as they are."""
_NAMES: Final = {"node": ("name", "label"), "edge": ("source", "relation", "target")}
"""More of them, by the type of the record."""


class SecretPolicy:
    def __init__(self, mode: SecretMode) -> None:
        self._mode: Final = mode

    def items(self, items: Sequence[NewItem]) -> Sequence[NewItem]:
        """Checked items as they may be stored."""
        if self._mode == "allow":
            return items
        hinted = may_hold_secrets(["\n".join(_texts_of(item)) for item in items])
        return [
            self._item(item, masked_each(_texts_of(item))) if has_hint or item.metadata else item
            for item, has_hint in zip(items, hinted, strict=True)
        ]

    def file(self, items: Sequence[NewItem]) -> Sequence[NewItem]:
        """The checked chunks of one file as they may be stored."""
        if self._mode == "allow":
            return items
        texts = masked_parts([item.text for item in items])
        return [
            self._item(item, (text, *masked_each(_texts_of(item)[1:]))) for item, text in zip(items, texts, strict=True)
        ]

    def _item(self, item: NewItem, hidden: Sequence[str]) -> NewItem:
        """`hidden`: its texts, masked."""
        shown, metadata = _texts_of(item), self.mapping(item.metadata)
        if tuple(hidden) == shown and metadata is item.metadata:
            return item
        text, title, kind, subject, attribute, *tags = map(self._checked, shown, hidden)
        names = {"kind": kind or None, "subject": subject or None, "attribute": attribute or None}
        return replace(item, title=title, text=text, tags=tuple(tags), metadata=metadata, **names)

    def edge(self, edge: Edge) -> Edge:
        return replace(
            edge, source=self.text(edge.source), relation=self.text(edge.relation), target=self.text(edge.target)
        )

    def patch(self, patch: ItemPatch) -> ItemPatch:
        return replace(
            patch,
            title=None if patch.title is None else self.text(patch.title),
            text=None if patch.text is None else self.text(patch.text),
            add_tags=tuple(self.text(tag) for tag in patch.add_tags),
            metadata=None if patch.metadata is None else self.mapping(patch.metadata),
        )

    def record(self, record: Record) -> Record:
        """A line of an export."""
        if self._mode == "allow":
            return record
        if record.get("type") == "version" and isinstance(record.get("record"), dict):
            return {**record, "record": self.record(record["record"])}
        fields = (*_TEXTS, *_NAMES.get(str(record.get("type")), ()))
        return {
            name: self._checked(value, masked_json(value)) if name in fields else value
            for name, value in record.items()
        }

    def text(self, text: str) -> str:
        return text if self._mode == "allow" else self._checked(text, masked(text))

    def mapping(self, metadata: Mapping[str, Json]) -> Mapping[str, Json]:
        if self._mode == "allow" or not metadata:
            return metadata
        return self._checked(metadata, masked_json(dict(metadata)))

    def _checked(self, shown: Json, hidden: Json) -> Json:
        """The given value itself if nothing is hidden in it."""
        if hidden == shown:
            return shown
        if self._mode == "refuse":
            kinds = masks_in(hidden if isinstance(hidden, str) else json.dumps(hidden, ensure_ascii=False))
            raise InvalidItem(
                f"the text contains a secret ({', '.join(dict.fromkeys(kinds))})",
                "Remove it, or store it masked: set `secrets: mask`",
            )
        return hidden


def _texts_of(item: NewItem) -> tuple[str, ...]:
    names = (item.kind or "", item.subject or "", item.attribute or "")
    return (item.text, item.title, *names, *item.tags)


# ---------------------------------------------------------------- what is stored already

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
    records: list[Record] = []

    def look(record: Record) -> None:
        if _kinds(record):
            records.append(record)

    store.portable.export(look, namespace=namespace)
    return records


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
            content, metadata = masked(record["content"]), _masked(record["metadata"])
            tx.raw.replace(record["id"], content, record["session_id"], metadata)
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

"""Records of an export: how values become records, and records become values."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold import validation as rules
from fourfold.embed.windows import Span, Windows
from fourfold.fields import DETAILS, HISTORY, OPTIONAL
from fourfold.model import Item, NewItem, Node, RawRecord
from fourfold.storage import codec
from fourfold.storage.values import FileRow, FileState, Record, Version

if TYPE_CHECKING:
    from fourfold.model import Vector


# ---------------------------------------------------------------- values as records


_PLAIN = ("key", "title", "text", "kind", "metadata", "language", "path", "chunk_index")
"""Fields of an item that its record holds as they are."""


def raw_record(record: RawRecord) -> Record:
    plain = {name: getattr(record, name) for name in ("namespace", "id", "content", "speaker", "session_id")}
    said = {"metadata": dict(record.metadata), "created_at": record.created_at.isoformat()}
    return {"type": "raw", **plain, **said, **({} if record.source is None else {"source": record.source})}


def item_record(item: Item, *, linked: bool, vector: bytes | None, spans: Sequence[Span] = ()) -> Record:
    """`vector`: one, or one after the other for each span."""
    optional = {name: getattr(item, name) for name in OPTIONAL}
    return {
        "type": "item",
        **{name: getattr(item, name) for name in ("namespace", "id", *_PLAIN)},
        "tags": list(item.tags),
        "metadata": dict(item.metadata),
        "created_at": item.created_at.isoformat(),
        "updated_at": item.updated_at.isoformat(),
        "source_ids": list(item.source_ids),
        "linked": linked,
        "vector": None if vector is None else base64.b64encode(vector).decode(),
        **{
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in optional.items()
            if value is not None
        },
        **({"spans": [list(span) for span in spans]} if spans else {}),
    }


def namespace_record(name: str, fingerprint: str | None, dimension: int | None) -> Record:
    return {"type": "namespace", "name": name, "fingerprint": fingerprint, "dimension": dimension}


def node_record(namespace: str, node: Node, *, made: bool, items: Sequence[tuple[int, bool]]) -> Record:
    """`items`: the items that are the node's texts, and whether a caller attached them."""
    return {
        "type": "node",
        "namespace": namespace,
        "id": node.id,
        "name": node.name,
        "label": node.label,
        "aliases": list(node.aliases),
        "properties": dict(node.properties),
        "made": made,
        "items": [[item, said] for item, said in items],
    }


def edge_record(namespace: str, source: int, relation: str, target: int, weight: float) -> Record:
    ends = {"source": source, "relation": relation, "target": target}
    return {"type": "edge", "namespace": namespace, **ends, "weight": weight}


def mention_record(namespace: str, item: int, node: int) -> Record:
    return {"type": "mention", "namespace": namespace, "item": item, "node": node}


def version_record(namespace: str, version: Version) -> Record:
    until = codec.moment(version.until).isoformat()
    return {"type": "version", "namespace": namespace, **version._asdict(), "until": until}


def file_record(namespace: str, row: FileRow) -> Record:
    return {"type": "file", "namespace": namespace, **FileState._make(row)._asdict()}


# ---------------------------------------------------------------- records as values


def new_item(record: Record) -> NewItem:
    """The item of an accepted record, without its vector."""
    return NewItem(**_common(record), **_fields(record, DETAILS))


def as_item(record: Record) -> Item:
    """The item of an accepted record."""
    own = {"id": record["id"], "namespace": record["namespace"], "updated_at": moment(record["updated_at"])}
    return Item(**own, **_common(record), **_fields(record, OPTIONAL))


def _common(record: Record) -> dict[str, Any]:
    """What a new item and a stored one have in common, besides fields that may be missing."""
    lists = {name: tuple(record[name]) for name in ("tags", "source_ids")}
    return {**{name: record[name] for name in _PLAIN}, **lists, "created_at": moment(record["created_at"])}


def version(record: Record) -> Version:
    """The version of an accepted record."""
    until = codec.micros(moment(record["until"]))
    return Version(record["id"], record["item"], until, record["merged"], record["record"])


def version_fields(record: Record) -> dict[str, Any]:
    """What an accepted record says about its place among versions and values, by the names that Item has."""
    return _fields(record, HISTORY)


def _fields(record: Record, names: Iterable[str]) -> dict[str, Any]:
    found = {name: record[name] for name in names if name in record}
    return {name: moment(value) if OPTIONAL[name].holds == "time" else value for name, value in found.items()}


def vector(record: Record) -> Vector | Windows | None:
    """The vector of an accepted record of an item, or its windows."""
    encoded = record["vector"]
    if encoded is None:
        return None
    numbers = np.frombuffer(base64.b64decode(encoded), np.float32)
    spans = tuple((start, end) for start, end in record.get("spans", ()))
    return Windows(numbers.reshape(len(spans), -1), spans) if spans else numbers


def moment(text: str) -> datetime:
    return rules.in_utc(datetime.fromisoformat(text))

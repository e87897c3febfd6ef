"""Records of an export: how values become records, records become values, and what a record may hold.

`RecordReader` accepts a record only if the engine could have written it. Loading an export and `check` use the same
reader, so a store that `check` finds sound can always be exported, imported and moved.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, cast

import numpy as np

from fourfold import limits
from fourfold import validation as rules
from fourfold.embed.base import check_dimension, check_size
from fourfold.embed.windows import Span, Windows, body, flaw, rows_of, spans_of
from fourfold.errors import InvalidItem, RequestError
from fourfold.fields import DETAILS, HISTORY, OPTIONAL
from fourfold.model import Item, Json, NewItem, Vector
from fourfold.storage.sql.dialect import micros
from fourfold.storage.sql.rows import Row, new_row
from fourfold.storage.values import FileState, Record, Version
from fourfold.text.entities import normal_name
from fourfold.text.fold import clean

# ---------------------------------------------------------------- values as records

_PLAIN = ("key", "title", "text", "kind", "metadata", "language", "path", "chunk_index")
"""Fields of an item that its record holds as they are."""


def item_record(item: Item, *, linked: bool, vector: bytes | None, spans: Sequence[Span] = ()) -> Record:
    """Without type, namespace and id. `vector`: one, or one after the other for each span."""
    optional = {name: getattr(item, name) for name in OPTIONAL}
    return {
        **{name: getattr(item, name) for name in _PLAIN},
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


def row_record(row: Row, namespace: str, vector: Vector | Windows | None) -> Record:
    """The same of a row."""
    content = None if vector is None else rows_of(vector).tobytes()
    return item_record(row.as_item(namespace), linked=row.linked, vector=content, spans=spans_of(vector))


# ---------------------------------------------------------------- records as values


def new_item(record: Record) -> NewItem:
    """The item of an accepted record, without its vector."""
    return NewItem(**_common(record), **_fields(record, DETAILS))


def as_item(record: Record) -> Item:
    """The item of an accepted record."""
    own = {"id": record["id"], "namespace": record["namespace"], "updated_at": parse_time(record["updated_at"])}
    return Item(**own, **_common(record), **_fields(record, OPTIONAL))


def _common(record: Record) -> dict[str, Any]:
    """What a new item and a stored one have in common, besides fields that may be missing."""
    lists = {name: tuple(record[name]) for name in ("tags", "source_ids")}
    return {**{name: record[name] for name in _PLAIN}, **lists, "created_at": parse_time(record["created_at"])}


def version(record: Record) -> Version:
    """The version of an accepted record."""
    until = micros(parse_time(record["until"]))
    return Version(record["id"], record["item"], until, record["merged"], record["record"])


def row_of(record: Record) -> Row:
    """The row of an accepted record of an item, without its id."""
    row = new_row(new_item(record), parse_time(record["updated_at"]), links=record["linked"])
    row.vector = vector(record)
    for name, value in _fields(record, HISTORY).items():
        setattr(row, name, value)
    return row


def _fields(record: Record, names: Iterable[str]) -> dict[str, Any]:
    values = {name: record[name] for name in names if name in record}
    return {name: parse_time(value) if OPTIONAL[name].holds == "time" else value for name, value in values.items()}


def vector(record: Record) -> Vector | Windows | None:
    """The vector of an accepted record of an item, or its windows."""
    encoded = record["vector"]
    if encoded is None:
        return None
    numbers = np.frombuffer(base64.b64decode(encoded), np.float32)
    spans = tuple((start, end) for start, end in record.get("spans", ()))
    return Windows(numbers.reshape(len(spans), -1), spans) if spans else numbers


def parse_time(text: str) -> datetime:
    return rules.in_utc(datetime.fromisoformat(text))


_FIELDS: dict[str, frozenset[str]] = {
    kind: frozenset(("type", *fields.split()))
    for kind, fields in {
        "namespace": "name fingerprint dimension",
        "raw": "namespace id content speaker session_id metadata created_at source",
        "item": "namespace id key title text tags kind metadata language created_at updated_at source_ids path "
        f"chunk_index linked vector spans {' '.join(OPTIONAL)}",
        "node": "namespace id name label aliases properties made items",
        "edge": "namespace source relation target weight",
        "mention": "namespace item node",
        "file": " ".join(("namespace", *FileState._fields)),
        "version": "namespace id item until merged record",
    }.items()
}
"""Kinds of records in the order in which an export has them, with their fields."""
TYPES = tuple(_FIELDS)
_OPTIONAL = frozenset((*OPTIONAL, "spans"))
"""Fields that a record has only if they are set; exports of older versions do not have them."""
_UNIT_TOLERANCE = 1e-3
_LARGEST_TIME = 2**63 - 1
_REMEDY = "Correct or forget what it names in the store that was exported, then export it again"
_REPORTED = 100
"""Lines of one check; the rest is counted."""


def accepted(records: Iterable[Record]) -> Iterator[Record]:
    """The records of an export, each checked before it is handed on."""
    reader = RecordReader()
    for record in records:
        reader.read(record)
        yield record
    reader.end()


def rule_problems(records: Iterable[Record]) -> list[str]:
    """What breaks a rule in a store's own records: a write, or an import of its export, would refuse these."""
    reader = RecordReader()
    problems: list[str] = []
    more = 0
    try:
        for record in records:
            try:
                reader.read(record)
            except InvalidItem as error:
                if len(problems) < _REPORTED:
                    problems.append(error.message)
                else:
                    more += 1
        reader.end()
    except InvalidItem as error:
        problems.append(error.message)
    except (ValueError, KeyError) as error:  # of a value that no version of Fourfold writes
        return [*problems, f"database: a row cannot be read ({error})"]
    return [*problems, f"{more} more rows break a rule"] if more else problems


class RecordReader:
    """Reads the records of one export in order and remembers what later ones refer to."""

    def __init__(self) -> None:
        self._dimensions: dict[str, int | None] = {}
        """By namespace; None: it has no vectors."""
        self._owners: dict[str, dict[int, str]] = {"raw": {}, "item": {}, "node": {}, "version": {}}
        """By kind and id: the namespace."""
        self._seen: set[int] = set()
        """Hashes of what may occur once."""
        self._place = 0
        self._awaited: dict[tuple[str, int], str] = {}
        """Owners of versions that were not read yet, themselves versions, by namespace and id; how errors name them."""

    def end(self) -> None:
        """InvalidItem if a record refers to one that did not come."""
        for (namespace, owner), version in self._awaited.items():
            if self._owners["version"].get(owner) != namespace:
                raise InvalidItem(f"{version}: the namespace has no item {owner}", _REMEDY)

    def read(self, record: Record) -> None:
        """InvalidItem if the engine could not have written this record at this place."""
        kind = record.get("type")
        if not isinstance(kind, str) or kind not in _FIELDS:
            raise InvalidItem(f"a record of the type {kind!r}", _REMEDY)
        try:
            self._check_frame(kind, record)
            getattr(self, f"_read_{kind}")(record)
        except RequestError as error:
            raise InvalidItem(f"{_shown(kind, record)}: {error.message}", error.remedy) from error
        except (TypeError, ValueError, AttributeError, OverflowError, binascii.Error) as error:
            raise InvalidItem(f"{_shown(kind, record)} cannot be read ({error})", _REMEDY) from error

    def _check_frame(self, kind: str, record: Record) -> None:
        if differing := _differing(record, _FIELDS[kind], {"source"} if kind == "edge" else ()):
            raise _wrong(f"the fields {', '.join(map(repr, differing))} are missing or unknown")
        if kind == "namespace":
            namespace = record["name"]
        elif (namespace := record["namespace"]) not in self._dimensions:
            raise _wrong(f"unknown namespace {_cut(namespace)!r}")
        if kind in self._owners:
            id = record["id"]
            if not rules.is_whole(id, 1):
                raise _wrong(f"the id {_cut(id)} is out of range")
            if id in self._owners[kind]:
                raise _wrong("the id occurs twice")
            self._owners[kind][id] = namespace
        place = TYPES.index(kind)
        if place < self._place:
            raise _wrong(f"it comes after a record of the kind {TYPES[self._place]}")
        self._place = place

    def _require(self, kind: str, id: Json, namespace: str) -> None:
        if isinstance(id, bool) or not isinstance(id, int) or self._owners[kind].get(id) != namespace:
            raise _wrong(f"the namespace has no {kind} {_cut(id)}")

    def _once(self, what: str, *key: Json) -> None:
        mark = hash((what, *key))
        if mark in self._seen:
            raise _wrong(f"{what} occurs twice")
        self._seen.add(mark)

    # ------------------------------------------------------------ kinds

    def _read_namespace(self, record: Record) -> None:
        name, fingerprint, dimension = record["name"], record["fingerprint"], record["dimension"]
        self._once("the namespace", name)
        self._dimensions[name] = dimension if rules.is_whole(dimension, 1) else None
        _same(name, rules.name(name, "namespace"), "namespace")
        if fingerprint is not None or dimension is not None:
            if not isinstance(fingerprint, str) or not fingerprint or clean(fingerprint) != fingerprint:
                raise _wrong("the fingerprint of its embedder is not a text")
            if not rules.is_whole(dimension, 1) or dimension > limits.VECTOR_DIMENSIONS:
                raise _wrong(f"the dimension {_cut(dimension)} is out of range")

    def _read_raw(self, record: Record) -> None:
        content = rules.checked(NewItem(record["content"], language="en")).text
        _same(record["content"], content, "content")
        for field in ("speaker", "session_id"):
            _same(record[field], rules.optional_name(record[field], field), field)
        _check_metadata(record["metadata"])
        _check_moment(record["created_at"])
        _check_optional(record)

    def _read_item(self, record: Record) -> None:
        namespace = record["namespace"]
        item = _checked_item(record)
        for raw in item.source_ids:
            self._require("raw", raw, namespace)
        if item.key is not None:
            self._once("the key", namespace, item.key)
        elif item.path is not None:
            self._once("the chunk", namespace, item.path, item.chunk_index)
        spans = _checked_spans(record)
        if record["vector"] is not None:
            _check_vector(record["vector"], self._dimensions[namespace], len(spans) or 1)
        elif spans:
            raise _wrong("it has windows and no vector")

    def _read_version(self, record: Record) -> None:
        """Raw records that it refers to may be gone, and its vector may be of another space than the present one."""
        owner, namespace = record["item"], record["namespace"]
        if record["id"] in self._owners["item"] or record["id"] == owner:
            raise _wrong("the id occurs twice")
        if not rules.is_whole(owner, 1):
            raise _wrong(f"the namespace has no item {_cut(owner)}")
        if namespace not in (self._owners["item"].get(owner), self._owners["version"].get(owner)):
            self._awaited.setdefault((namespace, owner), _shown("version", record))
        _check_moment(record["until"])
        _require_bool(record["merged"], "merged")
        if not isinstance(record["record"], dict):
            raise _wrong("it has no record of an item")
        inner = cast("Record", record["record"])
        if _differing(inner, _FIELDS["item"] - {"type", "namespace", "id", "spans"}):
            raise _wrong("it does not have the fields of an item")
        _checked_item(inner)
        if inner["vector"] is not None:
            _check_vector(inner["vector"], len(base64.b64decode(inner["vector"])) // 4, 1)

    def _read_node(self, record: Record) -> None:
        namespace, name = record["namespace"], record["name"]
        if not isinstance(name, str) or clean(name) != name or not normal_name(name):  # may be as long as a title
            raise _wrong("its name has no letter or digit, or cannot be stored")
        if len(name) > limits.ITEM_BYTES:
            raise _wrong("its name is too long")
        _same(record["label"], rules.name(record["label"], "label"), "label")
        _require_list(record["aliases"], "aliases")
        aliases = [rules.node_name(alias) for alias in record["aliases"]]
        _same(record["aliases"], sorted(aliases), "aliases")
        if len({normal_name(name), *map(normal_name, aliases)}) != len(aliases) + 1:
            raise _wrong("one of its names occurs twice")
        self._once("the node", namespace, normal_name(name), record["label"])
        _check_metadata(record["properties"])
        _require_bool(record["made"], "made")
        _require_list(record["items"], "items")
        for item, made in record["items"]:
            self._require("item", item, namespace)
            _require_bool(made, "made")
            self._once("the item", record["id"], item)

    def _read_edge(self, record: Record) -> None:
        for end in ("source", "target"):
            self._require("node", record[end], record["namespace"])
        edge = rules.checked_edge("source", record["relation"], "target", record["weight"])
        _same(record["relation"], edge.relation, "relation")
        self._once("the edge", record["source"], record["relation"], record["target"])

    def _read_mention(self, record: Record) -> None:
        self._require("item", record["item"], record["namespace"])
        self._require("node", record["node"], record["namespace"])
        self._once("the item", record["node"], record["item"])

    def _read_file(self, record: Record) -> None:
        _same(record["path"], rules.name(record["path"], "path"), "path")
        self._once("the path", record["namespace"], record["path"])
        mtime = record["mtime_ns"]
        if isinstance(mtime, bool) or not isinstance(mtime, int) or abs(mtime) > _LARGEST_TIME:
            raise _wrong("its time is not a number of nanoseconds")
        if not rules.is_whole(record["size"], 0):
            raise _wrong("its size is not a number of bytes")
        for field in ("digest", "skipped"):
            if not isinstance(record[field], str) or clean(record[field]) != record[field]:
                raise _wrong(f"{field} is not a text")


# ---------------------------------------------------------------- single values


def _differing(record: Record, fields: frozenset[str], required: Collection[str] = ()) -> list[str]:
    """Fields that are missing or unknown. `required`: those that only other kinds of records may lack."""
    return sorted((record.keys() ^ fields) - ((_OPTIONAL & fields).difference(required) - record.keys()))


def _checked_item(record: Record) -> NewItem:
    """The item of a record, whose values could have been stored."""
    for field in ("tags", "source_ids"):
        _require_list(record[field], field)
    _check_moment(record["created_at"])
    _check_moment(record["updated_at"])
    _require_bool(record["linked"], "linked")
    _check_metadata(record["metadata"])
    _check_optional(record)
    item = new_item(record)
    normal = rules.checked(item)
    for field in ("title", "text", "key", "kind", "language", "path", *DETAILS):
        _same(getattr(item, field), getattr(normal, field), field)
    _same(record["tags"], sorted(normal.tags), "tags")
    _same(item.source_ids, normal.source_ids, "source_ids")
    if item.path is not None and item.chunk_index is None:
        raise _wrong("it has a path and no chunk_index")
    return item


def _wrong(message: str) -> InvalidItem:
    return InvalidItem(message, _REMEDY)


def _same(value: object, normal: object, what: str) -> None:
    if value != normal:
        raise _wrong(f"{what} is not in the form in which it is stored")


def _require_list(value: object, what: str) -> None:
    if not isinstance(value, list):
        raise _wrong(f"{what} is not a list")


def _require_bool(value: object, what: str) -> None:
    if not isinstance(value, bool):
        raise _wrong(f"{what} is neither true nor false")


def _check_metadata(metadata: Json) -> None:
    if not isinstance(metadata, dict):
        raise _wrong("the metadata is not a map")
    rules.checked_metadata(cast("dict[str, Json]", metadata))


def _check_moment(text: Json) -> None:
    if not isinstance(text, str):
        raise _wrong("a time is not a text")
    _same(text, parse_time(text).isoformat(), "a time")


def _check_optional(record: Record) -> None:
    """Fields that are there have a value."""
    for name in OPTIONAL.keys() & record.keys():
        if OPTIONAL[name].holds == "time":
            _check_moment(record[name])
        elif OPTIONAL[name].holds == "number":
            if not rules.is_whole(record[name], 0 if name in DETAILS else 1):
                raise _wrong(f"{name} is not a whole number in its range")
        elif not isinstance(record[name], str):
            raise _wrong(f"{name} is not a text")
        elif name == "source":
            rules.known_source(record[name])


def _checked_spans(record: Record) -> list[Span]:
    if "spans" not in record:
        return []
    _require_list(record["spans"], "spans")
    spans: list[Span] = []
    for start, end in record["spans"]:
        if not (rules.is_whole(start, 0) and rules.is_whole(end, 1)):
            raise _wrong("a span is not a start and an end")
        spans.append((start, end))
    if wrong := flaw(spans, len(body(record["title"], record["text"]))):
        raise _wrong(wrong)
    return spans


def _check_vector(encoded: Json, dimension: int | None, count: int) -> None:
    if not isinstance(encoded, str) or dimension is None:
        raise _wrong("it has a vector where its namespace has none")
    content = np.frombuffer(base64.b64decode(encoded, validate=True), np.float32).astype(np.float64)
    check_dimension(len(content), dimension * count)
    check_size(float(np.abs(content).max()))
    lengths = np.linalg.norm(content.reshape(count, dimension), axis=1)
    if np.abs(lengths - 1.0).max() > _UNIT_TOLERANCE:
        raise _wrong("its vector does not have the length 1")


def _shown(kind: str, record: Record) -> str:
    """How an error names a record; its values may be anything."""
    names: tuple[Any, ...] = tuple(record[field] for field in ("id", "name", "path") if field in record)
    where = record.get("namespace")
    place = f"namespace {_cut(where)}: " if isinstance(where, str) else ""
    return f"{place}{kind} {_cut(names[0])}" if names else f"{place}{kind}"


def _cut(value: Json) -> str:
    text = str(value) if isinstance(value, str | int) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:60]}..."

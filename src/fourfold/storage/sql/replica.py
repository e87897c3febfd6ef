"""A namespace as another store can have the same: what it holds by names that all stores share, and one write of that.

An id is that of one store. `uid` is the same in all: the hash of what identifies a thing when a store tells of it first
(its key, its text, a name), which it keeps from then on. `life` counts how often the thing came and went, so an odd
number says that it exists; `edits` counts its changes between two calls of `Replica.heads`. Both only grow, and with
the larger one goes what was known last: an older copy of a store brings nothing back.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from fourfold import validation as rules
from fourfold.embed.windows import rows_of
from fourfold.errors import Conflict, InvalidItem
from fourfold.limits import LARGEST_ID
from fourfold.model import Json, RawRecord, Space, Vector
from fourfold.storage.sql import graph, records
from fourfold.storage.sql.dialect import Db, digest, dumps, micros, moment, pages, possible, sendable
from fourfold.storage.sql.namespaces import Namespace
from fourfold.storage.sql.origins import RawRecords, chunk_ids, file_states, forget_file_states
from fourfold.storage.sql.rows import Row, load, name_of, new_ids
from fourfold.storage.sql.versions import SavedVersions
from fourfold.storage.values import (
    GIVEN_SPACE,
    Change,
    FileState,
    FileUpdate,
    Head,
    NewNode,
    NewRaw,
    Record,
    Version,
)
from fourfold.text.entities import normal_name
from fourfold.text.secrets import masked_json, may_hold_secrets

if TYPE_CHECKING:
    from fourfold.embed.windows import Windows
    from fourfold.storage.sql.transaction import SqlTransaction

    Tx = SqlTransaction[Any, Any]
    Vectors = Callable[[Sequence[int]], Mapping[int, Vector | Windows]]

T = TypeVar("T")

ORDER: Final = ("raw", "item", "version", "file", "node", "edge")
"""Kinds of things in the order in which they can be written; they are removed in the other one."""
_IS_HERE: Final = {
    "raw": "EXISTS (SELECT 1 FROM raw WHERE raw.id = synced.id)",
    "item": "(EXISTS (SELECT 1 FROM items WHERE items.id = synced.id) "
    "OR EXISTS (SELECT 1 FROM versions WHERE versions.id = synced.id))",
}
_REPLACED: Final = frozenset({"raw", "file"})
"""Kinds whose earlier content is not kept as a version."""
_PAGE = 50
"""Things that are read together. They may be large."""
_CONTENT = ("title", "text", "kind", "metadata", "tags")
_OWN_COPY = frozenset({"size", "mtime_ns"})
"""Of a file: differs from machine to machine."""
_OWN_CHUNK = frozenset({"created_at", "updated_at", "linked"})


def hashed(*parts: Json) -> str:
    """Of the form without secrets, so that a store that masks them and one that does not have the same."""
    text = dumps(list(parts))
    (is_suspect,) = may_hold_secrets([text])
    return digest(dumps(masked_json(list(parts))) if is_suspect else text).hex()


def state_of(record: Record) -> str:
    """The hash of what makes two copies of a thing equal."""
    match record["type"]:
        case "node":
            kept = {name: value for name, value in record.items() if name != "name"}
        case "edge":
            kept = {"weight": record["weight"]}
        case "file":
            kept = {name: value for name, value in record.items() if name not in _OWN_COPY}
            kept["chunks"] = [
                {name: value for name, value in chunk.items() if name not in _OWN_CHUNK} for chunk in record["chunks"]
            ]
        case _:
            kept = record
    return hashed(kept)


def content_of(record: Record) -> str:
    """The hash of what a version of this item keeps."""
    return hashed(*(record[name] for name in _CONTENT))


def has_secret_name(record: Record) -> bool:
    """Whether a store that masks secrets would have this node or edge under another name."""
    match record["type"]:
        case "node":
            names = [record["name"], record["label"]]
        case "edge":
            names = [*record["source"], record["relation"], *record["target"]]
        case _:
            return False
    return any(may_hold_secrets(names)) and masked_json(names) != names


def version_uid(owner: str, until: int, record: Record) -> str:
    return hashed("version", owner, until, content_of(record))


# ---------------------------------------------------------------- reading


class Replica:
    """The things of a namespace, inside a snapshot or a transaction."""

    def __init__(self, db: Db, ns: Namespace, vectors: Vectors) -> None:
        self._db = db
        self._ns = ns
        self._vectors = vectors
        self._uids: dict[str, dict[int, str]] = {"raw": {}, "item": {}}
        self._is_whole = False
        """Whether all uids are read."""

    def heads(self) -> tuple[list[Head], list[Head]]:
        """Everything that is or was here, and those of it that `write_heads` has to keep."""
        known = {row[0]: Head(*row) for row in self._synced("")}
        self._read_uids(known)
        current: dict[str, Head] = {}
        for head in self._current():
            before = known.get(head.uid)
            current[head.uid] = head if before is None else _advanced(before, head)
        gone = [head._replace(life=head.life + head.life % 2, state="", at=None) for head in known.values()]
        everything = [*current.values(), *(head for head in gone if head.uid not in current)]
        fresh = [head for head in everything if _kept(head) != _kept(known.get(head.uid))]
        return everything, fresh

    def read(self, kind: str, places: Sequence[Any]) -> list[Record | None]:
        """The records of things at these places; None for one that is not there, or whose name holds a secret."""
        reader = {
            "raw": self._raw, "item": self._items, "version": self._versions, "file": self._files,
            "node": self._nodes, "edge": self._edges,
        }[kind]  # fmt: skip
        records = (record for some in pages(places, _PAGE) for record in reader(some))
        return [None if record is None or has_secret_name(record) else record for record in records]

    def purged(self) -> int:
        """When the store was purged last, or one that it was synchronised with, in microseconds since 1970."""
        return int(self._db.value("SELECT value FROM settings WHERE name = ?", _PURGED) or 0)

    def has_removed(self) -> bool:
        """Whether another store has removed something here, and no purge followed."""
        return self._db.value("SELECT value FROM settings WHERE name = ?", _REMOVED) is not None

    def _synced(self, condition: str, *bound: Any) -> list[Any]:
        sql = f"SELECT uid, kind, life, edits, born, state, id FROM synced WHERE ns = ? {condition}"  # noqa: S608  (constants)
        return self._db.rows(sql, self._ns.id, *bound)

    # ------------------------------------------------------------ names

    def _read_uids(self, known: Mapping[str, Head]) -> None:
        """The uid of each raw record, item and merged item: the one that it has, or the hash of what identifies it."""
        db, ns = self._db, self._ns
        merged = {each.id: each.record for each in SavedVersions(db, ns.id).all() if each.merged}
        items = db.column("SELECT id FROM items WHERE ns = ? AND (path IS NULL OR key IS NOT NULL)", ns.id)
        present = {"raw": set(db.column("SELECT id FROM raw WHERE ns = ?", ns.id)), "item": {*items, *merged}}
        for head in known.values():
            if head.kind in present and head.at in present[head.kind]:
                self._uids[head.kind][cast("int", head.at)] = head.uid
        self._is_whole = True
        raw, own = RawRecords(db, ns), self._uids
        for some in pages(sorted(present["raw"] - own["raw"].keys()), _PAGE):
            self._name("raw", ((record.id, _raw_name(record)) for record in raw.get(some).values()))
        for some in pages(sorted(set(items) - own["item"].keys()), _PAGE):
            self._name("item", ((row.id, _item_name(row)) for row in load(db, ns.id, some)))
        names = {id: hashed("merged", content_of(record), record["created_at"]) for id, record in merged.items()}
        self._name("item", [(id, name) for id, name in names.items() if id not in own["item"]])

    def _name(self, kind: str, names: Iterable[tuple[int, str]]) -> None:
        """Gives each the name, or if another one has it, the next."""
        uids = self._uids[kind]
        taken = set(uids.values())
        for id, name in names:
            uid, number = name, 0
            while uid in taken:
                number += 1
                uid = hashed(name, number)
            taken.add(uid)
            uids[id] = uid

    def _uid(self, kind: str, ids: Sequence[int]) -> dict[int, str]:
        """The uids of those of these rows that have one. Parts of files have none: a file is one thing."""
        uids = self._uids[kind]
        if not self._is_whole and (lacking := [id for id in ids if id not in uids]):
            rows = self._synced(f"AND kind = ? AND id {self._db.any_id}", kind, self._db.ids(lacking))
            uids.update((row[-1], row[0]) for row in rows)
        return {id: uids[id] for id in ids if id in uids}

    # ------------------------------------------------------------ things

    def _current(self) -> Iterator[Head]:
        """All things as they are now, with the clocks of things that are told of for the first time."""
        db, ns, own = self._db, self._ns, self._uids
        sql = "SELECT item, max(until) FROM versions WHERE ns = ? GROUP BY item"
        changed: dict[int, int] = dict(db.rows(sql, ns.id))
        places: dict[str, list[Any]] = {
            "raw": sorted(own["raw"]),
            "item": sorted(own["item"]),
            "version": db.column("SELECT id FROM versions WHERE ns = ? AND NOT merged ORDER BY id", ns.id),
            "file": _paths(db, ns.id),
            "node": db.column("SELECT id FROM nodes WHERE ns = ? AND made ORDER BY id", ns.id),
            "edge": db.rows("SELECT source, relation, target FROM edges JOIN nodes ON id = source WHERE ns = ?", ns.id),
        }
        for kind in ORDER:
            for some in pages(places[kind], _PAGE):
                for place, record in zip(some, self.read(kind, some), strict=True):
                    if record is not None:
                        yield self._head(kind, place, record, changed)

    def _head(self, kind: str, place: Any, record: Record, changed: Mapping[int, int]) -> Head:
        state = state_of(record)
        match record["type"]:
            case "raw":
                born = _micros(record["created_at"])
                return Head(self._uids["raw"][place], kind, 1, 1, born, state, place, born)
            case "item":
                times = (record[name] for name in ("updated_at", "valid_from", "superseded_at") if name in record)
                time, born = max(changed.get(place, 0), *map(_micros, times), 0), _micros(record["created_at"])
                name = "" if record["key"] is None else hashed("key", record["key"])
                owner, uid = record.get("version_of", ""), self._uids["item"][place]
                return Head(uid, kind, 1, 1, born, state, place, time, content_of(record), owner, name)
            case "version":
                inner, until = record["record"], _micros(record["until"])
                uid = self._uids["item"][place] if record["merged"] else version_uid(record["item"], until, inner)
                born, content = _micros(inner["created_at"]), content_of(inner)
                return Head(uid, kind, 1, 1, born, state, place, until, content, record["item"])
            case "file":
                return Head(hashed("file", place), kind, 1, 1, 0, state, place, record["mtime_ns"] // 1000)
            case "node":
                return Head(_node_uid(record["name"], record["label"]), kind, 1, 1, 0, state, place)
            case _:
                source, target = _node_uid(*record["source"]), _node_uid(*record["target"])
                return Head(hashed("edge", source, record["relation"], target), kind, 1, 1, 0, state, list(place))

    def _raw(self, ids: Sequence[int]) -> list[Record | None]:
        stored = RawRecords(self._db, self._ns).get(ids)
        made = {id: raw_record(raw) for id, raw in stored.items()}
        return [made.get(id) for id in ids]

    def _items(self, ids: Sequence[int]) -> list[Record | None]:
        """Items, and versions for those that were merged into others."""
        rows = load(self._db, self._ns.id, ids)
        made: dict[int, Record | None] = {
            row.id: record for row, record in zip(rows, self._item_records(rows), strict=True)
        }
        if left := [id for id in ids if id not in made]:
            made |= zip(left, self._versions(left, merged=True), strict=True)
        return [made.get(id) for id in ids]

    def _item_records(self, rows: Sequence[Row]) -> list[Record]:
        have_vectors = self._ns.fingerprint == GIVEN_SPACE  # others are made again
        vectors = self._vectors([row.id for row in rows] if have_vectors else [])
        made = [records.row_record(row, self._ns.name, vectors.get(row.id)) for row in rows]
        return [{"type": "item", **record} for record in self._shared(made)]

    def _shared(self, made: Sequence[Record]) -> list[Record]:
        """Records of items with uids in place of ids. What a value supersedes follows from their times."""
        raw = self._uid("raw", [id for record in made for id in record["source_ids"]])
        items = self._uid("item", [record["version_of"] for record in made if "version_of" in record])
        shared: list[Record] = []
        for record in made:
            named = {name: value for name, value in record.items() if name not in ("supersedes", "version_of")}
            named["source_ids"] = [raw[id] for id in record["source_ids"] if id in raw]
            if record.get("version_of") in items:
                named["version_of"] = items[record["version_of"]]
            shared.append(named)
        return shared

    def _versions(self, ids: Sequence[int], *, merged: bool = False) -> list[Record | None]:
        saved = [each for each in SavedVersions(self._db, self._ns.id).of_ids(ids) if each.merged == merged]
        owners = self._uid("item", [each.item for each in saved])
        inner = self._shared([each.record for each in saved])
        made = {
            each.id: {
                "type": "version", "item": owners[each.item], "until": moment(each.until).isoformat(),
                "merged": each.merged, "record": record,
            }
            for each, record in zip(saved, inner, strict=True)
            if each.item in owners
        }  # fmt: skip
        return [made.get(id) for id in ids]

    def _files(self, paths: Sequence[str]) -> list[Record | None]:
        """A file with its chunks."""
        return [self._file(path) for path in paths]

    def _file(self, path: str) -> Record | None:
        db, ns = self._db, self._ns
        state = file_states(db, ns.id, path).get(path)
        chunks = self._item_records(load(db, ns.id, chunk_ids(db, ns.id, [path])))
        if state is None and not chunks:
            return None
        chunks.sort(key=lambda chunk: chunk["chunk_index"])
        about = FileState(path, 0, 0, "") if state is None else FileState._make(state)
        return {"type": "file", **about._asdict(), "known": state is not None, "chunks": chunks}

    def _nodes(self, ids: Sequence[int]) -> list[Record | None]:
        sql = f"SELECT node, item FROM node_items WHERE node {self._db.any_id} AND made"  # noqa: S608  (constants)
        attached: list[tuple[int, int]] = self._db.rows(sql, self._db.ids(ids))
        items = self._uid("item", [item for _, item in attached])
        texts: dict[int, list[str]] = {}
        for node, item in attached:
            if item in items:
                texts.setdefault(node, []).append(items[item])
        nodes = graph.read_nodes(self._db, self._own_nodes(ids))
        made = {
            node.id: {
                "type": "node", "name": node.name, "label": node.label, "aliases": list(node.aliases),
                "properties": dict(node.properties), "items": sorted(texts.get(node.id, [])),
            }
            for node in nodes.values()
        }  # fmt: skip
        return [made.get(id) for id in ids]

    def _own_nodes(self, ids: Sequence[int]) -> list[int]:
        """Those of these nodes that are in the namespace."""
        sql = f"SELECT id FROM nodes WHERE ns = ? AND id {self._db.any_id}"  # noqa: S608  (constants)
        return self._db.column(sql, self._ns.id, self._db.ids(ids))

    def _edges(self, places: Sequence[Sequence[Any]]) -> list[Record | None]:
        ends = sorted({id for source, _, target in places for id in (source, target)})
        nodes = graph.read_nodes(self._db, self._own_nodes(ends)).values()
        named = {node.id: [node.name, node.label] for node in nodes}
        sql = "SELECT weight FROM edges WHERE source = ? AND relation = ? AND target = ?"
        made: list[Record | None] = []
        for source, relation, target in places:
            weight = self._db.value(sql, source, relation, target)
            known = weight is not None and source in named and target in named
            ends_of = {"source": named[source], "target": named[target]} if known else {}
            made.append({"type": "edge", **ends_of, "relation": relation, "weight": weight} if known else None)
        return made


_PURGED: Final = "purged"
"""The setting with the time of the last purge, here or in a store that this one was synchronised with."""
_REMOVED: Final = "removed"
"""The setting that is there if another store has removed something here since the last purge."""
_SET: Final = "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


def _advanced(before: Head, now: Head) -> Head:
    """The clocks of a thing that was told of before."""
    life = before.life + (0 if before.exists else 1)
    if before.exists and now.born and before.born != now.born:
        life += 2  # it was deleted, and stored again
    return now._replace(life=life, edits=before.edits + (now.state != before.state))


def _kept(head: Head | None) -> tuple[Any, ...] | None:
    """What is stored of a head."""
    return None if head is None else (*head[:6], head.at if isinstance(head.at, int) else 0)


def _micros(time: str) -> int:
    return micros(records.parse_time(time))


def _raw_name(raw: RawRecord) -> str:
    return hashed("raw", raw.content, raw.speaker, raw.session_id, micros(raw.created_at))


def _item_name(row: Row) -> str:
    """Equal for items that a store would unite; earlier values of a fact are told apart by their time."""
    if row.superseded_at is not None:
        return hashed("value", content_of_row(row), micros(row.valid_from or row.created_at))
    name = name_of(row)
    return hashed("key", name) if isinstance(name, str) else hashed("text", cast("bytes", name).hex())


def content_of_row(row: Row) -> str:
    return hashed(row.title, row.text, row.kind, row.metadata, sorted(row.tags.values()))


def raw_record(raw: RawRecord) -> Record:
    plain = {name: getattr(raw, name) for name in ("content", "speaker", "session_id", "source")}
    return {"type": "raw", **plain, "metadata": dict(raw.metadata), "created_at": raw.created_at.isoformat()}


def _node_uid(name: str, label: str) -> str:
    return hashed("node", normal_name(name), label)


def _paths(db: Db, ns: int) -> list[str]:
    chunks = db.column("SELECT DISTINCT path FROM items WHERE ns = ? AND path IS NOT NULL AND key IS NULL", ns)
    return sorted({*chunks, *file_states(db, ns, "")})


# ---------------------------------------------------------------- what other stores say


def read_place(kind: Json, at: Json) -> Any:
    """Where a thing is, as another store names it; InvalidItem if no head could name it."""
    match kind:
        case "raw" | "item" | "version" | "node" if isinstance(at, int) and possible([at]):
            return at
        case "file" if isinstance(at, str) and sendable([at]):
            return at
        case "edge" if isinstance(at, list) and list(map(type, at := cast("list[Any]", at))) == [int, str, int]:
            if possible([at[0], at[2]]) == [at[0], at[2]] and sendable([at[1]]):
                return at
        case _:
            pass
    raise unreadable("a place that no store could have named")


def read_changes(rows: Sequence[Json], space: Space | None) -> list[Change]:
    """Changes that another store asks for; InvalidItem for a content that this engine could not have written."""
    try:
        changes = [Change(*cast("list[Any]", row)) for row in rows]
        for each in changes:
            _check_change(each, space)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        raise unreadable(f"a change that cannot be read ({type(error).__name__})") from error
    return changes


_UID: Final = re.compile("[0-9a-f]{32}")
_NAMESPACE: Final = "namespace"
"""Any name will do."""


def _check_change(change: Change, space: Space | None) -> None:
    _check_thing(change, change.born)
    _check_hashes(change.expected)
    if change.record is not None:
        if change.record["type"] not in (("item", "version") if change.kind == "item" else (change.kind,)):
            raise unreadable("a change to a thing of another kind")
        for record in _exported(change.record):
            reader, dimension = records.RecordReader(), _dimension(record, space)
            fingerprint = None if dimension is None else GIVEN_SPACE
            reader.read({"type": "namespace", "name": _NAMESPACE, "fingerprint": fingerprint, "dimension": dimension})
            reader.read(record)


def read_head(row: Json) -> Head:
    """What another store tells of a thing; InvalidItem if no store could have told it."""
    try:
        head = Head(*cast("list[Any]", row))
    except TypeError as error:
        raise unreadable("what it has in another form") from error
    _check_thing(head, head.born, head.time)
    _check_hashes(head.content, head.owner, head.name)
    if head.exists and (head.at is None or not head.state):
        raise unreadable("a thing without a content")
    return head


def _check_thing(thing: Head | Change, *times: Any) -> None:
    numbers: tuple[Any, ...] = (thing.life, thing.edits, *times)
    if thing.kind not in ORDER or not thing.uid:
        raise unreadable("a thing that has no name")
    _check_hashes(thing.uid, thing.state)
    if not all(type(each) is int and abs(each) <= LARGEST_ID for each in numbers) or min(numbers[:2]) < 0:
        raise unreadable("clocks out of range")
    if thing.at is not None:
        read_place(thing.kind, thing.at)


def _check_hashes(*hashes: Any) -> None:
    """Of what there is none, the hash is empty."""
    if not all(isinstance(each, str) and (not each or _UID.fullmatch(each)) for each in hashes):
        raise unreadable("a hash that no store could have made")


def _dimension(record: Record, space: Space | None) -> int | None:
    """Of the vectors: that of the namespace, or if it has none, of this one."""
    if space is not None or record.get("vector") is None:
        return None if space is None else space.dimension
    return len(base64.b64decode(record["vector"])) // 4 // max(1, len(record.get("spans", ())))


def _exported(record: Record) -> list[Record]:
    """The records that an export would have for this one; uids are checked here, and left out."""
    own: Record = {"namespace": _NAMESPACE, "id": 1}
    match record["type"]:
        case "raw":
            return [own | {name: value for name, value in record.items() if name != "source" or value is not None}]
        case "item":
            return [own | _without_uids(record)]
        case "version":
            _check_uids([record["item"]])
            return [own | record | {"id": 2, "item": 1, "record": _without_uids(record["record"])}]
        case "file":
            about = {name: value for name, value in record.items() if name not in ("chunks", "known")}
            chunks = [own | _without_uids(chunk) for chunk in record["chunks"]]
            if any((chunk["path"], chunk["chunk_index"]) != (about["path"], n) for n, chunk in enumerate(chunks)):
                raise unreadable("a file whose parts are not in their order")
            return [about | {"namespace": _NAMESPACE}, *chunks]
        case "node":
            _check_uids(record["items"])
            return [own | record | {"items": [], "made": True}]
        case _:
            edge = rules.checked_edge("source", record["relation"], "target", record["weight"])
            if edge.relation != record["relation"]:
                raise unreadable("a relation that is not in the form in which it is stored")
            node: Record = {"type": "node", "aliases": [], "properties": {}, "made": True, "items": []}
            return [own | node | {"name": name, "label": label} for name, label in (record["source"], record["target"])]


def _without_uids(record: Record) -> Record:
    _check_uids([*record["source_ids"], *([record["version_of"]] if "version_of" in record else [])])
    return {name: value for name, value in record.items() if name != "version_of"} | {"source_ids": []}


def _check_uids(uids: Sequence[Json]) -> None:
    if not all(isinstance(uid, str) and _UID.fullmatch(uid) for uid in uids):
        raise unreadable("a reference to a thing that has no name")


def unreadable(what: str) -> InvalidItem:
    return InvalidItem(f"the other store sent {what}", "Use the same version of Fourfold on both sides")


# ---------------------------------------------------------------- writing


class ReplicaWriter:
    """Writes what another store has."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._db: Db = tx.db
        self._placed: dict[str, int] = {}
        """The rows of what `write` has written."""

    def write_heads(self, heads: Sequence[Head]) -> None:
        """Keeps what other stores are told, so that the next call of `heads` knows what changed since.

        Of two calls at the same time the later clocks stay.
        """
        self._keep([(head.uid, head.kind, *head[2:6], head.at) for head in heads])

    def _keep(self, rows: Sequence[tuple[Any, ...]]) -> None:
        ns = self._tx.stored().id
        sql = (
            "INSERT INTO synced (ns, uid, kind, life, edits, born, state, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (ns, uid) DO UPDATE SET life = excluded.life, edits = excluded.edits, born = excluded.born, "
            "state = excluded.state, id = excluded.id, kind = excluded.kind "
            "WHERE synced.life < excluded.life OR (synced.life = excluded.life AND synced.edits <= excluded.edits)"
        )
        self._db.run_many(sql, [(ns, *row[:6], row[6] if isinstance(row[6], int) else 0) for row in rows])

    def set_purged(self, time: int) -> None:
        self._db.run(_SET, _PURGED, str(time))
        self._db.run("DELETE FROM settings WHERE name = ?", _REMOVED)

    def write(self, changes: Sequence[Change], now: datetime, *, links: bool) -> None:
        """The changes of things that are as they are expected, in the order of their kinds.

        Conflict, and none, if a thing refers to one that is not here.
        """
        self._tx.stored()
        changes = self._applicable(changes)
        gone = [each for each in changes if each.life % 2 == 0 and each.at is not None]
        for kind in reversed(ORDER):
            self._remove(kind, [each.at for each in gone if each.kind == kind])
        if gone or any(each.kind in _REPLACED and each.at is not None for each in changes):
            self._db.run(_SET, _REMOVED, "1")
        self._placed = {each.uid: 0 for each in gone}
        told = [each for each in changes if each.record is not None and each.life % 2 == 1]
        by_kind = {kind: [each for each in told if each.kind == kind] for kind in ORDER}
        self._write_raw(by_kind["raw"])
        self._write_items(by_kind["item"])
        self._write_versions(by_kind["version"])
        self._write_files(by_kind["file"], now, links=links)
        self._write_nodes(by_kind["node"])
        self._write_edges(by_kind["edge"])
        self._keep([(*each[:6], self._placed.get(each.uid, each.at)) for each in changes])

    def _applicable(self, changes: Sequence[Change]) -> list[Change]:
        replica = Replica(self._db, self._tx.ns, self._tx.items.stored_vectors)
        stale: set[str] = set()
        for kind in ORDER:
            for some in pages((each for each in changes if each.kind == kind and each.at is not None), _PAGE):
                for each, record in zip(some, replica.read(kind, [each.at for each in some]), strict=True):
                    if record is None or state_of(record) != each.expected:
                        stale.add(each.uid)
        stale |= self._with_taken_keys(changes) | self._known(changes)
        return [each for each in changes if each.uid not in stale]

    def _known(self, changes: Sequence[Change]) -> set[str]:
        """What the sender believes to be missing, of which another sync has brought or removed a later life."""
        lives = {each.uid: each.life for each in changes if each.at is None}
        sql = f"SELECT uid, life FROM synced WHERE ns = ? AND uid {self._db.any_text}"  # noqa: S608  (constants)
        stored = self._db.rows(sql, self._tx.ns.id, self._db.texts(lives)) if lives else []
        return {uid for uid, life in stored if life % 2 == 1 or life > lives[uid]}

    def _with_taken_keys(self, changes: Sequence[Change]) -> set[str]:
        """New items whose key another item got meanwhile."""
        items = [each for each in changes if each.kind == "item"]
        going = {each.at for each in items if each.record is None or each.record["type"] == "version"}
        fresh = {each.uid: each.record.get("key") for each in items if each.at is None and each.record is not None}
        keys = {key: uid for uid, key in fresh.items() if isinstance(key, str)}
        sql = f"SELECT key, id FROM items WHERE ns = ? AND key {self._db.any_text}"  # noqa: S608  (constants)
        stored = self._db.rows(sql, self._tx.ns.id, self._db.texts(keys)) if keys else []
        return {keys[key] for key, id in stored if id not in going}

    def _ids(self, kind: str, uids: Iterable[str]) -> dict[str, int]:
        """The rows of those of these things that are here."""
        sql = f"SELECT uid, id FROM synced WHERE ns = ? AND kind = ? AND uid {self._db.any_text} AND {_IS_HERE[kind]}"  # noqa: S608  (constants)
        wanted = set(uids)
        stored = dict(self._db.rows(sql, self._tx.ns.id, kind, self._db.texts(wanted))) if wanted else {}
        return stored | {uid: id for uid, id in self._placed.items() if id and uid in wanted}

    def _remove(self, kind: str, places: Sequence[Any]) -> None:
        if not places:
            return
        tx, db = self._tx, self._db
        match kind:
            case "raw":
                tx.raw.forget(places, force=True)
            case "item":
                tx.items.forget(places)
            case "version":
                tx.items.saved.remove(places)
            case "file":
                tx.files.forget(places)
            case "node":
                tx.graph.remove_nodes(places)
            case _:
                db.run_many("DELETE FROM edges WHERE source = ? AND relation = ? AND target = ?", places)
                tx.ns.renamed_nodes.update(id for source, _, target in places for id in (source, target))

    # ------------------------------------------------------------ kinds

    def _write_raw(self, changes: Sequence[Change]) -> None:
        new: dict[str, NewRaw] = {}
        for uid, record, at in _told(changes):
            content, metadata = record["content"], record["metadata"]
            if at is not None:
                self._tx.raw.replace(at, content, record["session_id"], metadata)
                self._placed[uid] = at
            else:
                said, created = record["speaker"], records.parse_time(record["created_at"])
                new[uid] = NewRaw(content, said, record["session_id"], metadata, created, record.get("source"))
        self._placed |= zip(new, self._tx.raw.add_many([*new.values()]), strict=True)

    def _write_items(self, changes: Sequence[Change]) -> None:
        """Items first, then values of facts, which are versions of items, then what was merged into others."""
        merged = [each for each in changes if each.record is not None and each.record["type"] == "version"]
        items = [each for each in changes if each not in merged]
        values = [each for each in items if each.record is not None and "version_of" in each.record]
        self._tx.items.remove([each.at for each in merged if each.at is not None])
        self._write_rows([each for each in items if each not in values])
        self._write_rows(values)
        self._write_versions(merged)

    def _write_rows(self, changes: Sequence[Change]) -> None:
        tx, db = self._tx, self._db
        stored = {row.id: row for row in load(db, tx.ns.id, [each.at for each in changes if each.at is not None])}
        resolve = self._resolver(changes)
        rows: dict[str, Row] = {}
        for uid, record, at in _told(changes):
            row = records.row_of(resolve(record))
            row.id, row.before = at or 0, stored.get(at or 0)
            if row.vector is not None:
                tx.items.fix_space(rows_of(row.vector).shape[-1])
            rows[uid] = row
        written = [*rows.values()]
        tx.items.saved.remove([row.id for row in written if row.id and row.before is None])  # they were merged
        for has_id in (True, False):
            tx.items.write([row for row in written if bool(row.id) == has_id])
        created = [(micros(row.created_at), row.id) for row in written if row.before is not None]
        db.run_many("UPDATE items SET created_at = ? WHERE id = ?", created)
        tx.items.settle(written)
        tx.link(written)
        self._placed |= {uid: row.id for uid, row in rows.items()}

    def _resolver(self, changes: Sequence[Change]) -> Callable[[Record], Record]:
        """Turns uids in the records of items into ids, and leaves out what is not here."""
        inner = [record.get("record", record) for _, record, _ in _told(changes)]
        raw = self._ids("raw", (uid for record in inner for uid in record["source_ids"]))
        items = self._ids("item", (record["version_of"] for record in inner if "version_of" in record))

        def resolve(record: Record) -> Record:
            local = {**record, "source_ids": [raw[uid] for uid in record["source_ids"] if uid in raw]}
            if "version_of" in record:
                local["version_of"] = _required(items, record["version_of"])
            return local

        return resolve

    def _write_versions(self, changes: Sequence[Change]) -> None:
        """An id of a version may be that of an item which was merged, and own versions itself."""
        tx, told = self._tx, _told(changes)
        there = [at for _, _, at in told if at is not None]
        fresh = iter(new_ids(self._db, tx.ns.id, "items", len(told) - len(there)))
        self._placed |= {uid: next(fresh) if at is None else at for uid, _, at in told}
        owners, resolve = self._ids("item", (record["item"] for _, record, _ in told)), self._resolver(changes)
        versions: list[Version] = []
        for uid, record, _ in told:
            owner, until = _required(owners, record["item"]), _micros(record["until"])
            versions.append(Version(self._placed[uid], owner, until, record["merged"], resolve(record["record"])))
        tx.items.saved.remove(there)
        tx.items.saved.add(versions)

    def _write_files(self, changes: Sequence[Change], now: datetime, *, links: bool) -> None:
        updates: list[FileUpdate] = []
        for _, record, _ in _told(changes):
            raw = self._ids("raw", (uid for chunk in record["chunks"] for uid in chunk["source_ids"]))
            chunks = [
                records.new_item({**chunk, "source_ids": [raw[uid] for uid in chunk["source_ids"] if uid in raw]})
                for chunk in record["chunks"]
            ]
            updates.append(FileUpdate(FileState(*(record[name] for name in FileState._fields)), chunks))
        self._tx.files.put(updates, now, links=links)
        unknown = [record["path"] for _, record, _ in _told(changes) if not record["known"]]
        forget_file_states(self._db, self._tx.ns.id, unknown)

    def _write_nodes(self, changes: Sequence[Change]) -> None:
        for uid, record, _ in _told(changes):
            items = self._ids("item", record["items"])
            new = NewNode(record["name"], record["label"], tuple(record["aliases"]))
            (node, *_) = self._tx.graph.add_nodes([replace(new, item=item) for item in items.values()] or [new])
            self._db.run("UPDATE nodes SET properties = ? WHERE id = ?", dumps(record["properties"]), node.id)
            self._placed[uid] = node.id

    def _write_edges(self, changes: Sequence[Change]) -> None:
        told = [record for _, record, _ in _told(changes)]
        wanted = [(name, label) for record in told for name, label in (record["source"], record["target"])]
        named = graph.nodes_by_name(self._db, self._tx.ns.id, {normal_name(name) for name, _ in wanted})
        nodes: dict[tuple[str, str], int] = {}
        for name, label in wanted:
            own = [node.id for node in named[normal_name(name)] if node.is_own and node.label == label]
            nodes[name, label] = own[0] if own else self._tx.graph.add_nodes([NewNode(name, label)])[0].id
        ends = [(nodes[tuple(record["source"])], nodes[tuple(record["target"])]) for record in told]
        edges = ((start, each["relation"], end, each["weight"]) for each, (start, end) in zip(told, ends, strict=True))
        graph.set_edges(self._db, edges)
        self._tx.ns.renamed_nodes.update(nodes.values())


def _told(changes: Sequence[Change]) -> list[tuple[str, Record, Any]]:
    """(uid, record, place) of what is to be written."""
    return [(each.uid, each.record, each.at) for each in changes if each.record is not None]


def _required(ids: Mapping[str, int], uid: str) -> int:
    if uid not in ids:
        raise changed_meanwhile()
    return ids[uid]


def changed_meanwhile() -> Conflict:
    return Conflict("the store has changed while it was synchronised", "Repeat the command")

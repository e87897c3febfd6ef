"""A whole store as records, and records as a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fourfold.embed.windows import rows_of, spans_of
from fourfold.model import RawRecord, Space
from fourfold.storage import records as formats
from fourfold.storage.loading import renumbered
from fourfold.storage.memory.graph import mentions
from fourfold.storage.memory.saved_versions import SavedVersions
from fourfold.storage.memory.state import Counters, Namespace, NodeRow, Stored
from fourfold.storage.record_reader import TYPES
from fourfold.storage.values import FileState, Record
from fourfold.text.entities import normal_name

World = dict[str, Namespace]

# ---------------------------------------------------------------- out


def records(world: World) -> Iterator[Record]:
    """All records, in an order that depends on the content alone."""
    namespaces = [world[name] for name in sorted(world)]
    for kind in (_namespace, _raw, _items, _nodes, _edges, _mentions, _files, _versions):
        for ns in namespaces:
            yield from kind(ns)


def _namespace(ns: Namespace) -> Iterator[Record]:
    fingerprint, dimension = (None, None) if ns.space is None else (ns.space.fingerprint, ns.space.dimension)
    yield formats.namespace_record(ns.name, fingerprint, dimension)


def _raw(ns: Namespace) -> Iterator[Record]:
    yield from map(formats.raw_record, ns.raw.values())


def _items(ns: Namespace) -> Iterator[Record]:
    for stored in ns.items.values():
        made = None if stored.vector is None else rows_of(stored.vector).tobytes()
        spans = spans_of(stored.vector)
        yield formats.item_record(stored.item, linked=stored.linked, vector=made, spans=spans)


def _nodes(ns: Namespace) -> Iterator[Record]:
    for row in ns.nodes.values():
        attached = [(item, ns.own[row.id, item]) for item in ns.items_of(row.id)]
        yield formats.node_record(ns.name, ns.node(row.id), made=row.made, items=attached)


def _edges(ns: Namespace) -> Iterator[Record]:
    for (source, relation, target), weight in sorted(ns.edges.items()):
        yield formats.edge_record(ns.name, source, relation, target, weight)


def _mentions(ns: Namespace) -> Iterator[Record]:
    for item, nodes in mentions(ns).items():
        for node in sorted(nodes):
            yield formats.mention_record(ns.name, item, node)


def _files(ns: Namespace) -> Iterator[Record]:
    for _, state in sorted(ns.files.items()):
        yield formats.file_record(ns.name, state)


def _versions(ns: Namespace) -> Iterator[Record]:
    for version in SavedVersions(ns).all():
        yield formats.version_record(ns.name, version)


# ---------------------------------------------------------------- in


def load(batch: Iterable[Record]) -> tuple[World, Counters]:
    """Loads accepted records of an export, with their ids."""
    world: World = {}
    last = Counters()
    for record in batch:
        name = record["name"] if record["type"] == "namespace" else record["namespace"]
        _LOADERS[record["type"]](world.setdefault(name, Namespace(name, last)), record)
    last.restore({name: _used_ids(ns) for name, ns in world.items()})
    return world, last


def _used_ids(ns: Namespace) -> dict[str, Iterable[int]]:
    return {"items": [*ns.items, *ns.versions], "raw": ns.raw, "nodes": ns.nodes}


def load_namespace(batch: Iterable[Record], ns: Namespace) -> None:
    """Loads accepted records of one namespace into another, under new ids."""

    def new_ids(table: str, count: int) -> list[int]:
        return [ns.counters.new(ns.name, table) for _ in range(count)]

    for record in renumbered(batch, ns.name, new_ids):
        _LOADERS[record["type"]](ns, record)
    ns.items = dict(sorted(ns.items.items()))  # an id may have been assigned before its record came


def _load_namespace(ns: Namespace, record: Record) -> None:
    if record["fingerprint"] is not None:
        ns.space = Space(record["fingerprint"], record["dimension"])


def _load_raw(ns: Namespace, record: Record) -> None:
    fields = _fields(record)
    fields["created_at"] = formats.moment(fields["created_at"])
    ns.raw[record["id"]] = RawRecord(**fields)


def _load_item(ns: Namespace, record: Record) -> None:
    ns.items[record["id"]] = Stored(formats.as_item(record), record["linked"], formats.vector(record))


def _load_node(ns: Namespace, record: Record) -> None:
    node = record["id"]
    aliases = {normal_name(alias): alias for alias in record["aliases"]}
    ns.nodes[node] = NodeRow(node, record["name"], record["label"], record["made"], aliases, record["properties"])
    ns.own.update({(node, item): made for item, made in record["items"]})


def _load_edge(ns: Namespace, record: Record) -> None:
    ns.edges[record["source"], record["relation"], record["target"]] = record["weight"]


def _load_mention(ns: Namespace, record: Record) -> None:
    """Does nothing: mentions are computed from the texts."""


def _load_file(ns: Namespace, record: Record) -> None:
    fields = _fields(record)
    del fields["namespace"]
    ns.files[record["path"]] = FileState(**fields)


def _load_version(ns: Namespace, record: Record) -> None:
    SavedVersions(ns).add([formats.version(record)])


def _fields(record: Record) -> Record:
    return {name: data for name, data in record.items() if name != "type"}


_LOADERS: dict[str, Callable[[Namespace, Record], None]] = dict(
    zip(
        TYPES,
        (_load_namespace, _load_raw, _load_item, _load_node, _load_edge, _load_mention, _load_file, _load_version),
        strict=True,
    )
)

"""A whole store as records, and records as a store (B9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from fourfold.model import Item, RawRecord
from fourfold.storage.records import item_record, moment, raw_record, vector
from fourfold.stores.base import FileState, Record, Space
from fourfold.stores.memory.graph import mentions
from fourfold.stores.memory.state import Counters, Namespace, NodeRow, Stored
from fourfold.text.entities import normal_name

World = dict[str, Namespace]

# ---------------------------------------------------------------- out


def records(world: World) -> Iterator[Record]:
    """Everything, in an order that depends on the content alone."""
    namespaces = [world[name] for name in sorted(world)]
    for kind in (_namespace, _raw, _items, _nodes, _edges, _mentions, _files):
        for ns in namespaces:
            yield from kind(ns)


def _namespace(ns: Namespace) -> Iterator[Record]:
    fingerprint, dimension = (None, None) if ns.space is None else (ns.space.fingerprint, ns.space.dimension)
    yield {"type": "namespace", "name": ns.name, "fingerprint": fingerprint, "dimension": dimension}


def _raw(ns: Namespace) -> Iterator[Record]:
    yield from map(raw_record, ns.raw.values())


def _items(ns: Namespace) -> Iterator[Record]:
    for stored in ns.items.values():
        made = None if stored.vector is None else np.float32(stored.vector).tobytes()
        yield item_record(stored.item, linked=stored.linked, vector=made)


def _nodes(ns: Namespace) -> Iterator[Record]:
    for row in ns.nodes.values():
        yield {
            "type": "node",
            "namespace": ns.name,
            "id": row.id,
            "name": row.name,
            "label": row.label,
            "aliases": sorted(row.aliases.values()),
            "properties": dict(row.properties),
            "made": row.made,
            "items": [[item, ns.own[row.id, item]] for item in ns.items_of(row.id)],
        }


def _edges(ns: Namespace) -> Iterator[Record]:
    for (source, relation, target), weight in sorted(ns.edges.items()):
        ends = {"source": source, "relation": relation, "target": target}
        yield {"type": "edge", "namespace": ns.name, **ends, "weight": weight}


def _mentions(ns: Namespace) -> Iterator[Record]:
    for item, nodes in mentions(ns).items():
        for node in sorted(nodes):
            yield {"type": "mention", "namespace": ns.name, "item": item, "node": node}


def _files(ns: Namespace) -> Iterator[Record]:
    for _, state in sorted(ns.files.items()):
        yield {"type": "file", "namespace": ns.name, **state._asdict()}


# ---------------------------------------------------------------- in


def load(batch: Iterable[Record]) -> tuple[World, Counters]:
    """Accepted records of an export, in their order, with their ids."""
    world: World = {}
    last = Counters()
    for record in batch:
        name = record["name"] if record["type"] == "namespace" else record["namespace"]
        _LOADERS[record["type"]](world.setdefault(name, Namespace(name, last)), record)
    last.restore({name: {"items": ns.items, "raw": ns.raw, "nodes": ns.nodes} for name, ns in world.items()})
    return world, last


def _load_namespace(ns: Namespace, record: Record) -> None:
    if record["fingerprint"] is not None:
        ns.space = Space(record["fingerprint"], record["dimension"])


def _load_raw(ns: Namespace, record: Record) -> None:
    fields = _fields(record)
    fields["created_at"] = moment(fields["created_at"])
    ns.raw[record["id"]] = RawRecord(**fields)


def _load_item(ns: Namespace, record: Record) -> None:
    fields = {name: data for name, data in _fields(record).items() if name not in ("linked", "vector")}
    for time in ("created_at", "updated_at"):
        fields[time] = moment(fields[time])
    fields["tags"], fields["source_ids"] = tuple(fields["tags"]), tuple(fields["source_ids"])
    ns.items[record["id"]] = Stored(Item(**fields), record["linked"], vector(record))


def _load_node(ns: Namespace, record: Record) -> None:
    node = record["id"]
    aliases = {normal_name(alias): alias for alias in record["aliases"]}
    ns.nodes[node] = NodeRow(node, record["name"], record["label"], record["made"], aliases, record["properties"])
    ns.own.update({(node, item): made for item, made in record["items"]})


def _load_edge(ns: Namespace, record: Record) -> None:
    ns.edges[record["source"], record["relation"], record["target"]] = record["weight"]


def _load_mention(ns: Namespace, record: Record) -> None:
    """Nothing: mentions are read from the texts whenever they are asked for."""


def _load_file(ns: Namespace, record: Record) -> None:
    fields = _fields(record)
    del fields["namespace"]
    ns.files[record["path"]] = FileState(**fields)


def _fields(record: Record) -> Record:
    return {name: data for name, data in record.items() if name != "type"}


_LOADERS: dict[str, Callable[[Namespace, Record], None]] = {
    "namespace": _load_namespace,
    "raw": _load_raw,
    "item": _load_item,
    "node": _load_node,
    "edge": _load_edge,
    "mention": _load_mention,
    "file": _load_file,
}

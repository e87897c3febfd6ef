"""Nodes, edges and mentions in a draft of a namespace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fourfold import validation as rules
from fourfold.errors import NotFound
from fourfold.model import Edge
from fourfold.storage import versioning
from fourfold.storage.memory import items
from fourfold.storage.memory.saved_versions import SavedVersions
from fourfold.storage.memory.state import Namespace, NodeRow
from fourfold.storage.refusals import ambiguous, no_node
from fourfold.storage.values import NewNode
from fourfold.text.entities import NameFinder, links, normal_name, own_names, split_label, with_label

LABEL = "entity"


# ---------------------------------------------------------------- nodes and edges


def add_node(ns: Namespace, new: NewNode) -> int:
    """Creates a node, or adds aliases, properties and an item to the one of that name and label."""
    if new.item is not None and new.item not in ns.items:
        raise NotFound(f"no item {new.item}", "Store the item first, then refer to its id")
    node = ensure_node(ns, new.name, new.label, made=True)
    row = ns.nodes[node]
    aliases = {normal_name(alias): alias for alias in reversed(new.aliases) if normal_name(alias) not in row.names}
    rules.check_aliases(len(aliases) + len(row.aliases))
    properties = row.properties if new.properties is None else rules.merged_properties(row.properties, new.properties)
    ns.nodes[node] = replace(row, aliases={**aliases, **row.aliases}, properties=properties)
    if new.item is not None:
        ns.own[node, new.item] = True
    return node


def ensure_node(ns: Namespace, name: str, label: str, *, made: bool) -> int:
    for row in ns.nodes.values():
        if (normal_name(row.name), row.label) == (normal_name(name), label):
            ns.nodes[row.id] = replace(row, made=row.made or made)
            return row.id
    node = ns.counters.new(ns.name, "nodes")
    ns.nodes[node] = NodeRow(node, name, label, made)
    return node


def resolve(ns: Namespace, reference: str, label: str | None = None) -> int | None:
    """The node of a name, an alias or `Name#label`; a node's own name wins over aliases of others."""
    name, label = split_label(reference) if label is None else (reference, label)
    folded = normal_name(name)
    named = [row for row in ns.nodes.values() if folded in row.names and label in (None, row.label)]
    own = [row for row in named if normal_name(row.name) == folded]
    found = own or named
    if len(found) > 1:
        raise ambiguous(name, (row.label for row in found))
    return found[0].id if found else None


def required(ns: Namespace, reference: str, label: str | None = None) -> int:
    node = resolve(ns, reference, label)
    if node is None:
        raise no_node(reference if label is None else with_label(reference, label))
    return node


def set_edge(ns: Namespace, edge: Edge) -> None:
    source, target = (_end(ns, name) for name in (edge.source, edge.target))
    ns.edges[source, edge.relation, target] = edge.weight


def _end(ns: Namespace, name: str) -> int:
    node = resolve(ns, name)
    named, label = split_label(name)
    return ensure_node(ns, named, label or LABEL, made=True) if node is None else node


def remove_node(ns: Namespace, node: int) -> None:
    del ns.nodes[node]
    ns.own = {(owner, item): made for (owner, item), made in ns.own.items() if owner != node}
    ns.edges = {edge: weight for edge, weight in ns.edges.items() if node not in (edge[0], edge[2])}


def prune(ns: Namespace, nodes: Iterable[int]) -> None:
    """Removes those nodes that only existed because of a removed title."""
    for node in nodes:
        has_edge = any(node in (source, target) for source, _, target in ns.edges)
        if not ns.nodes[node].made and not ns.items_of(node) and not has_edge:
            remove_node(ns, node)


# ---------------------------------------------------------------- links


def link(ns: Namespace, changed: Iterable[int]) -> None:
    """Attaches changed items to the nodes of their titles and headings, and detaches them from outdated ones."""
    stale: set[int] = set()
    for item in sorted(set(changed)):
        wanted = [ensure_node(ns, name, LABEL, made=False) for name in _names(ns, item)]
        stale |= disown(ns, item, keep=wanted)
        for node in wanted:
            ns.own.setdefault((node, item), False)
    prune(ns, stale)


def _names(ns: Namespace, item: int) -> list[str]:
    stored = ns.items[item]
    known = stored.item
    return own_names(known.title, known.text, known.metadata, known.kind) if stored.linked else []


def disown(ns: Namespace, item: int, *, keep: Iterable[int] = ()) -> set[int]:
    """Detaches an item from the nodes of its title; returns these."""
    lost = {node for (node, owned), made in ns.own.items() if owned == item and not made} - set(keep)
    for node in lost:
        del ns.own[node, item]
    return lost


def forget(ns: Namespace, item: int) -> None:
    """Removes an item with everything that belongs to it, its versions included."""
    remove(ns, item)
    versioning.forget(SavedVersions(ns), [item])


def remove(ns: Namespace, item: int) -> None:
    """The same, but versions that are kept aside stay."""
    for version in items.versions_of(ns, [item]):
        remove(ns, version)
    items.relink(ns, item)
    del ns.items[item]
    nodes = [node for node, owned in ns.own if owned == item]
    for node in nodes:
        del ns.own[node, item]
    prune(ns, nodes)


def mentions(ns: Namespace) -> dict[int, set[int]]:
    """By item: the nodes that its text names or links to, without its own ones."""
    nodes: dict[str, set[int]] = {}
    for row in ns.nodes.values():
        for name in row.names:
            nodes.setdefault(name, set()).add(row.id)
    finder = NameFinder(nodes)
    named = {
        id: {*finder.find(stored.item.text), *map(normal_name, links(stored.item.text))}
        for id, stored in ns.items.items()
        if stored.linked
    }
    found = {id: {node for name in names for node in nodes.get(name, ())} for id, names in named.items()}
    return {id: {node for node in of if (node, id) not in ns.own} for id, of in found.items()}

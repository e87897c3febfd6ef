"""graph node, edge, nodes, show, neighbors, path, remove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Annotated, cast

from fourfold.cli.commands import Group, argument, open_memory, option
from fourfold.cli.options import JsonFlag, read_id
from fourfold.cli.output import heading, one_line, say, say_json, say_list, say_rows, warn
from fourfold.errors import NotFound, RequestError
from fourfold.model import Node
from fourfold.storage.values import Direction
from fourfold.wire import encode

app = Group("graph", help="Entities and the relations between them.")

LabelOption = Annotated[str | None, option("--label", metavar="L", help="Where several nodes share the name.")]


@app.adds
def node(
    name: Annotated[str, argument(metavar="NAME")],
    label: Annotated[str, option(metavar="L", help="What it is, such as person.")] = "entity",
    alias: Annotated[list[str] | None, option(metavar="A", help="Another name; repeat for more.")] = None,
    item: Annotated[str | None, option(metavar="ID", help="The item about it.")] = None,
) -> None:
    """Store a node."""
    item_id = None if item is None else read_id(item)
    with open_memory(create=True) as memory:
        stored = memory.add_node(name, label=label, aliases=tuple(alias or ()), item=item_id)
    say(f"{one_line(stored.name)} ({one_line(stored.label)})")


@app.adds
def edge(
    source: Annotated[str, argument(metavar="FROM", help="A name, or NAME#LABEL.")],
    relation: Annotated[str, argument(metavar="RELATION")],
    target: Annotated[str, argument(metavar="TO", help="A name, or NAME#LABEL.")],
    weight: Annotated[float, option(metavar="W")] = 1.0,
) -> None:
    """Store an edge; storing it again sets the weight."""
    with open_memory(create=True) as memory:
        stored = memory.add_edge(source, relation, target, weight=weight)
    say(one_line(f"{stored.source} -{stored.relation}-> {stored.target} ({stored.weight:g})"))


@app.adds
def nodes(
    like: Annotated[str, option(metavar="TEXT", help="Only names and aliases that contain this.")] = "",
    limit: Annotated[int, option(metavar="N", help="How many, most connected first.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List nodes with the number of their items, mentions and edges."""
    with open_memory() as memory:
        summaries = memory.nodes(like, limit=limit)
    if not summaries and not as_json:
        warn("no nodes found")
    say_list("nodes", summaries, ("name", "label", "items", "mentions", "edges"), astuple, as_json=as_json)


@app.adds
def show(
    name: Annotated[str, argument(metavar="NAME")],
    label: LabelOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a node with its items, the items that mention it, and its edges by weight."""
    with open_memory() as memory:
        view = memory.node(name, label)
        items = {item.id: item for item in memory.get([*view.items, *view.mentions])}
    if as_json:
        say_json({"status": "success", **encode(view)})
        return
    _show_node(view.node)
    for title, ids in (("items", view.items), ("mentioned in", view.mentions)):
        _show_section(title, [f"[{item}] {heading(items[item])}" for item in ids])
    _show_section("edges", [f"{edge.weight:g} {edge.source} -{edge.relation}-> {edge.target}" for edge in view.edges])


def _show_node(node: Node) -> None:
    say(one_line(f"{node.name} ({node.label})"))
    if node.aliases:
        say(f"  also called {one_line(', '.join(node.aliases))}")
    for key, value in node.properties.items():
        say(f"  {one_line(f'{key}: {value}')}")


def _show_section(title: str, lines: Sequence[str]) -> None:
    if lines:
        say(f"{title}")
    for line in lines:
        say(f"  {one_line(line)}")


@app.adds
def neighbors(
    name: Annotated[str, argument(metavar="NAME")],
    depth: Annotated[int, option(metavar="N", help="How far, 1 to 5.")] = 1,
    direction: Annotated[str, option(metavar="D", help="both, out or in.")] = "both",
    relation: Annotated[str | None, option(metavar="R", help="Only along this relation.")] = None,
    label: LabelOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what a node is connected to."""
    with open_memory() as memory:
        near = memory.neighbors(name, depth, cast("Direction", direction), relation, label)
    if as_json:
        say_json({"status": "success", "node": name, "neighbors": [encode(one) for one in near]})
        return
    columns = ("name", "label", "relation", "distance", "weight")
    say_rows(columns, ((one.node.name, one.node.label, one.relation, one.distance, f"{one.weight:g}") for one in near))


@app.adds
def path(
    start: Annotated[str, argument(metavar="A", help="A name, or NAME#LABEL.")],
    end: Annotated[str, argument(metavar="B", help="A name, or NAME#LABEL.")],
    as_json: JsonFlag = False,
) -> None:
    """Show how one node leads to another."""
    with open_memory() as memory:
        edges = memory.path(start, end)
    if as_json:
        say_json({"status": "success", "from": start, "to": end, "path": [encode(edge) for edge in edges]})
        return
    if not edges:
        warn(f"no path from {start} to {end}")
    for one in edges:
        say(one_line(f"{one.source} -{one.relation}-> {one.target}"))


@app.adds
def remove(
    names: Annotated[list[str], argument(metavar="NAME | FROM RELATION TO")],
    label: LabelOption = None,
) -> None:
    """Remove a node with its edges, or one edge."""
    if len(names) not in (1, 3):
        raise RequestError("remove takes one name, or three", "Write NAME, or FROM RELATION TO")
    with open_memory() as memory:
        removed = memory.remove_node(names[0], label=label) if len(names) == 1 else memory.remove_edge(*names)
    if not removed:
        raise NotFound(f"there is no {' '.join(names)} in the graph", "`graph neighbors NAME` shows what there is")
    say(f"removed {one_line(' '.join(names))}")

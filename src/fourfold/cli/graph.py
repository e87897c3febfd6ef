"""graph node, edge, nodes, show, neighbors, path, remove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, cast

import typer

from fourfold.cli.options import JsonFlag
from fourfold.cli.output import heading, one_line, say, say_json, say_rows, warn
from fourfold.cli.session import run
from fourfold.cli.values import read_id
from fourfold.errors import NotFound, RequestError

if TYPE_CHECKING:
    from fourfold.memory import Memory
    from fourfold.model import Item, Node, NodeView
    from fourfold.stores.base import Direction

app = typer.Typer(
    help="Entities and the relations between them.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)

LabelOption = Annotated[str | None, typer.Option("--label", metavar="L", help="Where several nodes share the name.")]


@app.command()
def node(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    label: Annotated[str, typer.Option(metavar="L", help="What it is, such as person.")] = "entity",
    alias: Annotated[list[str] | None, typer.Option(metavar="A", help="Another name; repeat for more.")] = None,
    item: Annotated[str | None, typer.Option(metavar="ID", help="The item about it.")] = None,
) -> None:
    """Store a node."""
    item_id = None if item is None else read_id(item)
    stored = run(
        ctx, lambda memory: memory.add_node(name, label=label, aliases=tuple(alias or ()), item=item_id), create=True
    )
    say(f"{one_line(stored.name)} ({one_line(stored.label)})")


@app.command()
def edge(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help="A name, or NAME#LABEL.")],
    relation: Annotated[str, typer.Argument(metavar="RELATION")],
    target: Annotated[str, typer.Argument(metavar="TO", help="A name, or NAME#LABEL.")],
    weight: Annotated[float, typer.Option(metavar="W")] = 1.0,
) -> None:
    """Store an edge; storing it again sets the weight."""
    stored = run(ctx, lambda memory: memory.add_edge(source, relation, target, weight=weight), create=True)
    say(one_line(f"{stored.source} -{stored.relation}-> {stored.target} ({stored.weight:g})"))


@app.command()
def nodes(
    ctx: typer.Context,
    like: Annotated[str, typer.Option(metavar="TEXT", help="Only names and aliases that contain this.")] = "",
    limit: Annotated[int, typer.Option(metavar="N", help="How many, most connected first.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List nodes with the number of their items, mentions and edges."""
    found = run(ctx, lambda memory: memory.nodes(like, limit=limit))
    if as_json:
        say_json({"status": "success", "count": len(found), "nodes": [asdict(one) for one in found]})
        return
    if not found:
        warn("no nodes found")
    columns = ("name", "label", "items", "mentions", "edges")
    say_rows(columns, ((one.name, one.label, one.items, one.mentions, one.edges) for one in found))


@app.command()
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    label: LabelOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what a node is, its items, the items that mention it, and its edges by weight."""

    async def work(memory: Memory) -> tuple[NodeView, dict[int, Item]]:
        view = await memory.node(name, label)
        ids = [*view.items, *view.mentions]
        return view, dict(zip(ids, await memory.get(ids), strict=True)) if ids else {}

    view, items = run(ctx, work)
    if as_json:
        from fourfold.wire import node_view_json

        say_json({"status": "success", **node_view_json(view)})
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


@app.command()
def neighbors(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    depth: Annotated[int, typer.Option(metavar="N", help="How far, 1 to 5.")] = 1,
    direction: Annotated[str, typer.Option(metavar="D", help="both, out or in.")] = "both",
    relation: Annotated[str | None, typer.Option(metavar="R", help="Only along this relation.")] = None,
    label: LabelOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what a node is connected to."""
    way = cast("Direction", direction)
    found = run(ctx, lambda memory: memory.neighbors(name, depth, way, relation, label))
    if as_json:
        from fourfold.wire import neighbor_json

        say_json({"status": "success", "node": name, "neighbors": [neighbor_json(one) for one in found]})
        return
    columns = ("name", "label", "relation", "distance", "weight")
    say_rows(columns, ((one.node.name, one.node.label, one.relation, one.distance, f"{one.weight:g}") for one in found))


@app.command()
def path(
    ctx: typer.Context,
    start: Annotated[str, typer.Argument(metavar="A", help="A name, or NAME#LABEL.")],
    end: Annotated[str, typer.Argument(metavar="B", help="A name, or NAME#LABEL.")],
    as_json: JsonFlag = False,
) -> None:
    """Show how one node leads to another."""
    edges = run(ctx, lambda memory: memory.path(start, end))
    if as_json:
        from fourfold.wire import edge_json

        say_json({"status": "success", "from": start, "to": end, "path": [edge_json(edge) for edge in edges]})
        return
    if not edges:
        warn(f"no path from {start} to {end}")
    for one in edges:
        say(one_line(f"{one.source} -{one.relation}-> {one.target}"))


@app.command()
def remove(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME | FROM RELATION TO")],
    label: LabelOption = None,
) -> None:
    """Remove a node with its edges, or one edge."""
    match names:
        case [name]:
            removed = run(ctx, lambda memory: memory.remove_node(name, label=label))
        case [source, relation, target]:
            removed = run(ctx, lambda memory: memory.remove_edge(source, relation, target))
        case _:
            raise RequestError("remove takes one name, or three", "Write NAME, or FROM RELATION TO")
    if not removed:
        raise NotFound(f"there is no {' '.join(names)} in the graph", "`graph neighbors NAME` shows what there is")
    say(f"removed {one_line(' '.join(names))}")

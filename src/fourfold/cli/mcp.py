"""mcp."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from fourfold.cli.session import load_config


def mcp(
    ctx: typer.Context,
    tools: Annotated[
        Literal["core", "graph", "all"], typer.Option(help="Which tools to offer: core, graph (and core), or all.")
    ] = "core",
) -> None:
    from fourfold.mcp.server import serve_stdio

    serve_stdio(lambda: load_config(ctx).settings, tools)

"""serve."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from fourfold.cli.session import load_config
from fourfold.errors import MissingExtra


def serve(
    ctx: typer.Context,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The address to listen on; any but this machine's needs http_tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0 stands for any free port.")] = 8765,
    tools: Annotated[Literal["core", "graph", "all"], typer.Option(help="Which MCP tools to offer at /mcp.")] = "core",
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    settings = load_config(ctx).settings
    try:
        from fourfold.serve.http import app
    except ImportError as error:
        raise MissingExtra(
            f"the server needs the package mcp in version 2.3 or newer ({error})",
            "Install Fourfold where mcp is not pinned to an older version, such as in an environment of its own",
        ) from error
    app.serve(settings, tools, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", open_page=open_page)

"""serve."""

from __future__ import annotations

from typing import Annotated, Literal

import click

from fourfold.cli.commands import option
from fourfold.cli.session import load_config
from fourfold.errors import MissingExtra


def serve(
    ctx: click.Context,
    host: Annotated[
        str, option(metavar="HOST", help="The address to listen on; any but this machine's needs http_tokens.")
    ] = "127.0.0.1",
    port: Annotated[
        int, option(metavar="PORT", type=click.IntRange(0, 65535), help="0 stands for any free port.")
    ] = 8765,
    tools: Annotated[Literal["core", "graph", "all"], option(help="Which MCP tools to offer at /mcp.")] = "core",
    open_page: Annotated[bool, option("--open", help="Open the page in a browser.")] = False,
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

"""mcp, mcp install."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

import typer

from fourfold.cli.output import say
from fourfold.cli.session import Globals, load_config

Tools = Annotated[
    Literal["core", "graph", "all"], typer.Option(help="Which tools to offer: core, graph (and core), or all.")
]

app = typer.Typer(add_completion=False, rich_markup_mode=None, invoke_without_command=True)


@app.callback()
def mcp(
    ctx: typer.Context,
    tools: Tools = "core",
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve Streamable HTTP at this address instead of stdio.")
    ] = None,
) -> None:
    """Serve the memory to an agent over MCP, on stdin and stdout or over HTTP."""
    if ctx.invoked_subcommand is not None:
        return
    if http is None:
        from fourfold.mcp.stdio import serve_stdio

        _configure_logs(cast("Globals", ctx.obj))
        serve_stdio(lambda: load_config(ctx).settings, tools)
    else:
        from fourfold.mcp.http import serve_http

        serve_http(load_config(ctx).settings, tools, http)


def _configure_logs(given: Globals) -> None:
    """Before the first message; the settings are read later, with the first call that needs the store."""
    from fourfold import logs

    level = given.log_level or os.environ.get("FOURFOLD_LOG_LEVEL", "")
    form = given.log_format or os.environ.get("FOURFOLD_LOG_FORMAT", "")
    known = cast("logs.Level", level) if level in get_args(logs.Level) else "warning"
    logs.configure(known, "json" if form == "json" else "text")


@app.command()
def install(
    ctx: typer.Context,
    tools: Tools = "core",
    scope: Annotated[
        Literal["user", "project"], typer.Option(help="For all your projects, or .mcp.json of this folder.")
    ] = "user",
    yes: Annotated[bool, typer.Option("--yes", help="Write it; without this it is only shown.")] = False,
) -> None:
    """Show, or with --yes write, the entry that gives Claude Code this memory."""
    import shlex

    from fourfold.mcp import install as entries
    from fourfold.wire import dumps

    options = [*_globals(cast("Globals", ctx.obj)), "mcp", *(["--tools", tools] if tools != "core" else [])]
    entry, path = entries.entry(options), entries.file_of(scope, os.environ)
    if yes:
        before = entries.write(path, entry)
        say(f"{path} has it already" if before == entry else f"written to {path}")
        if before not in (None, entry):
            say(f"instead of {dumps(before)}")
        return
    said = shlex.join([*entries.command(), *options])
    say(f"claude mcp add --scope {scope} {entries.NAME} -- {said}\n")
    say(f"or in {path} (fourfold mcp install --yes writes it):\n")
    say(json.dumps({"mcpServers": {entries.NAME: entry}}, indent=2, ensure_ascii=False))


def _globals(given: Globals) -> list[str]:
    """What stood before the command, with paths that hold from anywhere."""
    options: list[str] = []
    if given.store is not None:
        options += ["--store", given.store if "://" in given.store else str(Path(given.store).expanduser().absolute())]
    if given.namespace is not None:
        options += ["--namespace", given.namespace]
    if given.config is not None:
        options += ["--config", str(given.config.absolute())]
    return options

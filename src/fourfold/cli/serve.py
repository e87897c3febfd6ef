"""serve, mcp, mcp install, mcp uninstall."""

from __future__ import annotations

import os
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

import click

from fourfold import addresses, logs
from fourfold.cli.commands import Globals, Group, given_globals, load_config, made, option
from fourfold.cli.output import say, warn
from fourfold.errors import MissingExtra
from fourfold.wire import dumps

Tools = Annotated[Literal["core", "graph", "all"], option(help="Which tools to offer: core, graph (and core), or all.")]


def serve(
    host: Annotated[
        str, option(metavar="HOST", help="The address to listen on; any but this machine's needs http_tokens.")
    ] = "127.0.0.1",
    port: Annotated[
        int, option(metavar="PORT", type=click.IntRange(0, 65535), help="0 stands for any free port.")
    ] = 8765,
    tools: Annotated[Literal["core", "graph", "all"], option(help="Which MCP tools to offer at /mcp.")] = "core",
    open_page: Annotated[bool, option("--open", help="Open the page in a browser.")] = False,
) -> None:
    settings = load_config().settings
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    server("http.app").serve(settings, tools, address, open_page=open_page)


def _mcp(
    tools: Tools = "core",
    http: Annotated[
        str | None, option(metavar="HOST:PORT", help="Serve Streamable HTTP at this address instead of stdio.")
    ] = None,
) -> None:
    """Serve the memory to an agent over MCP, on stdin and stdout or over HTTP."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    given = given_globals()
    _configure_logs(given)
    if http is None:
        server("mcp.stdio").serve_stdio(lambda: load_config(given).settings, tools)
    else:
        server("mcp.http").serve_http(load_config().settings, tools, http)


mcp: Group = made("mcp", cleandoc(_mcp.__doc__ or ""), _mcp, Group, invoke_without_command=True, no_args_is_help=False)


def server(module: str) -> Any:
    """Refuses unsupported versions of the package mcp, which only the server needs."""
    from importlib import import_module

    try:
        return import_module(f"fourfold.serve.{module}")
    except ImportError as error:
        raise MissingExtra(
            f"the server needs the package mcp in version 2.3 or newer ({error})",
            "Install Fourfold where mcp is not pinned to an older version, such as in an environment of its own: "
            "pipx install fourfold, or uv tool install fourfold",
        ) from error


def _configure_logs(given: Globals) -> None:
    """Before the first message; the settings are read later, with the first call that needs the store."""
    level = given.log_level or os.environ.get("FOURFOLD_LOG_LEVEL", "")
    form = given.log_format or os.environ.get("FOURFOLD_LOG_FORMAT", "")
    known = cast("logs.Level", level) if level in get_args(logs.Level) else "warning"
    logs.configure(known, "json" if form == "json" else "text")


Scope = Annotated[
    Literal["user", "project"], option(help="For all your projects, or the client's file in this folder.")
]
ForClient = Annotated[
    Literal["claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "windsurf"],
    option("--client", help="The agent or editor that starts the server."),
]


@mcp.adds
def install(
    client: ForClient = "claude-code",
    tools: Tools = "core",
    scope: Scope = "user",
    yes: Annotated[bool, option("--yes", help="Write it; without this it is only shown.")] = False,
) -> None:
    """Show, or with --yes write, the entry that gives a client this memory."""
    import shlex

    from fourfold.serve.mcp import clients

    chosen = clients.CLIENTS[client]
    path = clients.file_of(chosen, scope, os.environ)
    arguments = ["--tools", tools] if tools != "core" else []
    config = given_globals().config
    entry = clients.make_entry(load_config(), config, arguments, scope, Path.cwd())
    form = entry.json(typed=chosen.typed)
    for variable in entry.left_out:
        warn(f"{variable} holds a secret and is not written: set it where {chosen.title} starts")
    if yes:
        before = clients.write(chosen, path, form)
        say(f"{path} has it already" if before == form else f"written to {path}")
        if before not in (None, form):
            say(f"instead of {dumps(_shown(before))}")
        return
    if chosen.command and (scope == "user" or "{scope}" in chosen.command):
        variables = [word for name, value in entry.environment.items() for word in ("--env", f"{name}={value}")]
        words = [word.format(scope=scope) for word in chosen.command]
        say(f"{shlex.join(words)} {clients.NAME} {shlex.join([*variables, '--', *entry.command])}\n")
        say(f"or in {path} ({_again(client)} writes it):\n")
    else:
        say(f"in {path} ({_again(client)} writes it):\n")
    say(clients.snippet(chosen, path, form))


def _again(client: str) -> str:
    return f"fourfold mcp install{f' --client {client}' if client != 'claude-code' else ''} --yes"


@mcp.adds
def uninstall(
    client: ForClient = "claude-code",
    scope: Scope = "user",
    yes: Annotated[bool, option("--yes", help="Remove it; without this it is only shown.")] = False,
) -> None:
    """Show, or with --yes remove, the entry that gives a client this memory. The store stays."""
    from fourfold.serve.mcp import clients

    chosen = clients.CLIENTS[client]
    path = clients.file_of(chosen, scope, os.environ)
    before = clients.write(chosen, path, None) if yes else clients.find(chosen, path)
    if before is None:
        say(f"{path} has no entry {clients.NAME}")
    else:
        say(f"removed from {path}" if yes else f"{path} has it (fourfold mcp uninstall --yes removes it):")
        say(dumps(_shown(before)))


def _shown(value: Any) -> Any:
    """A part of a file, in which addresses show no password."""
    match value:
        case str():
            return addresses.shown(value) if addresses.is_address(value) else value
        case list():
            return [_shown(each) for each in cast("list[Any]", value)]
        case dict():
            return {name: _shown(each) for name, each in cast("dict[str, Any]", value).items()}
        case _:
            return value

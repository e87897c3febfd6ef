"""The commands. Their code is imported when one of them runs, so that `--help` is fast."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import fields, replace
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from fourfold.cli.session import Globals

_GLOBALS: Final = {field.name for field in fields(Globals)}


class Command(NamedTuple):
    place: str
    """module:name, of a function or of a group of commands."""
    help: str


COMMANDS: Final = {
    "add": Command("fourfold.cli.items:add", "Store an item and print its id."),
    "update": Command("fourfold.cli.items:update", "Change the text, tags or metadata of an item."),
    "history": Command("fourfold.cli.versions:history", "Show earlier versions and values of an item."),
    "undo": Command("fourfold.cli.versions:undo", "Take the last change of an item back."),
    "dedup": Command("fourfold.cli.versions:dedup", "List items that say nearly the same, or merge those you name."),
    "list": Command("fourfold.cli.items:list_items", "List items, newest first."),
    "get": Command("fourfold.cli.items:get", "Show items in full."),
    "forget": Command("fourfold.cli.items:forget", "Delete items by id, tag or path."),
    "import": Command(
        "fourfold.cli.transfer:import_file", "Store rows of JSONL, an export, or what another tool wrote."
    ),
    "export": Command("fourfold.cli.transfer:export", "Write everything into one file."),
    "index": Command("fourfold.cli.files:index", "Store what the files of folders hold, and keep up with them."),
    "embed": Command("fourfold.cli.vectors:embed", "Make the vectors that are pending, and wait for them."),
    "search": Command("fourfold.cli.search:search", "Search with four retrievers, fused into one ranking."),
    "retrieve": Command("fourfold.cli.retrieve:retrieve", "Rank chunks by vectors and BM25, also those of a Chroma."),
    "why": Command("fourfold.cli.search:why", "Say why an item is where it is in a ranking, or not in it."),
    "tags": Command("fourfold.cli.upkeep:tags", "List the tags and how many items carry each."),
    "namespaces": Command("fourfold.cli.upkeep:namespaces", "List the namespaces and how many items each has."),
    "status": Command("fourfold.cli.upkeep:status", "Show what the store holds and what its indexes have."),
    "config": Command("fourfold.cli.upkeep:config", "Show every setting and where its value came from."),
    "check": Command("fourfold.cli.upkeep:check", "Compare rows and indexes; exit code 4 if they differ."),
    "serve": Command("fourfold.cli.serve:serve", "Serve the HTTP API, MCP and a web page on one address."),
    "mcp": Command("fourfold.cli.mcp:app", "Serve the memory to an agent over MCP."),
    "hook": Command("fourfold.cli.hook:hook", "Answer an event of Claude Code or Codex with memories."),
    "repair": Command("fourfold.cli.upkeep:repair", "Make the indexes agree with the rows again."),
    "scan-secrets": Command("fourfold.cli.upkeep:scan_secrets", "List API keys, tokens and passwords that are stored."),
    "backup": Command("fourfold.cli.transfer:backup", "Copy the store into one file, while it is in use."),
    "restore": Command("fourfold.cli.transfer:restore", "A new store from a backup."),
    "copy": Command("fourfold.cli.transfer:copy", "Copy the store into another: a folder or a PostgreSQL address."),
    "move": Command("fourfold.cli.transfer:move", "The same; with --delete-source the source is removed after it."),
    "db": Command("fourfold.cli.db:app", "A local PostgreSQL server, and distributed indexes."),
    "reembed": Command("fourfold.cli.upkeep:reembed", "Rebuild all vectors with the configured model."),
    "raw": Command("fourfold.cli.raw:app", "Keep and show the originals that items are drawn from."),
    "graph": Command("fourfold.cli.graph:app", "Entities and the relations between them."),
    "eval": Command("fourfold.cli.evaluation:evaluate", "Measure the ranking on questions with known answers."),
    "tune": Command("fourfold.cli.tuning:tune", "Try other weights on such questions, and tune auto."),
    "presets": Command("fourfold.cli.tuning:presets", "List or remove tuned presets."),
    "completion": Command("fourfold.cli.completion:completion", "Print the completion script of a shell."),
    "demo": Command("fourfold.cli.demo:demo", "Search the knowledge of a small team, in a temporary store."),
}


class Lazy(TyperGroup):
    """A group that knows its commands by name and builds the one that is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        names: dict[str, Any] = dict.fromkeys(COMMANDS)
        self.commands = names
        _convert_late(self)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        built = _build(cmd_name, COMMANDS[cmd_name])
        shared = [option for option in self.params if option.name in _GLOBALS]
        _take_globals(built, shared)
        _convert_late(built)
        return built

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Names of commands without building them, because a shell asks for completions often."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        import typer.completion

        form: Any = typer.completion.shell_completion.CompletionItem  # pyright: ignore[reportPrivateImportUsage]
        return [form(name, help=COMMANDS[name].help) for name in COMMANDS if name.startswith(incomplete)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])


def _take_globals(command: Any, options: Sequence[Any]) -> None:
    """Global options are understood after the command, too, where people write them; what comes last wins."""
    for option in options:
        own = copy(option)
        own.hidden, own.expose_value, own.callback = True, False, _set_global
        command.params.append(own)
    for inner in getattr(command, "commands", {}).values():
        _take_globals(inner, options)


def _convert_late(command: Any) -> None:
    """Converts only values that need it: typer imports pydantic for that, a fifth of the time that a search takes."""
    command.get_params = partial(_parameters, command)
    for inner in getattr(command, "commands", {}).values():
        if inner is not None:
            _convert_late(inner)


def _parameters(command: Any, ctx: Any) -> list[Any]:
    found: list[Any] = cast("Any", type(command)).get_params(command, ctx)
    for parameter in found:
        parameter.process_value = partial(_processed, parameter)
    return found


def _processed(parameter: Any, ctx: Any, value: Any) -> Any:
    is_list = parameter.multiple or parameter.nargs != 1
    if value is None and not parameter.required:
        value = () if is_list else None
    elif is_list or type(value) is not str or parameter.type_descriptor.annotation is not str:
        return cast("Any", type(parameter)).process_value(parameter, ctx, value)
    return value if parameter.callback is None else parameter.callback(ctx, parameter, value)


def _set_global(ctx: Any, option: Any, value: Any) -> None:
    if value is not None and ctx.obj is not None:
        ctx.obj = replace(ctx.obj, **{option.name: value})


def _build(name: str, command: Command) -> Any:
    module, _, attribute = command.place.partition(":")
    target = getattr(import_module(module), attribute)
    if isinstance(target, typer.Typer):
        return get_command(target)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    from fourfold.cli.options import expanded

    app.command(name, help=command.help)(expanded(target))
    return get_command(app)

"""Which commands there are. Their code is imported when one of them runs, so that `--help` costs nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command


class Command(NamedTuple):
    place: str
    """module:name, of a function or of a group of commands."""
    help: str


COMMANDS: Final = {
    "add": Command("fourfold.cli.items:add", "Store an item and print its id."),
    "update": Command("fourfold.cli.items:update", "Change the text, tags or metadata of an item."),
    "list": Command("fourfold.cli.items:list_items", "List items, newest first."),
    "get": Command("fourfold.cli.items:get", "Show items in full."),
    "forget": Command("fourfold.cli.items:forget", "Delete items by id, tag or path."),
    "import": Command("fourfold.cli.transfer:import_file", "Store the rows of a JSONL file, or an export."),
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
    "mcp": Command("fourfold.cli.mcp:app", "Serve the memory to an agent over MCP."),
    "repair": Command("fourfold.cli.upkeep:repair", "Make the indexes agree with the rows again."),
    "backup": Command("fourfold.cli.transfer:backup", "Copy the store into one file, while it is in use."),
    "restore": Command("fourfold.cli.transfer:restore", "A new store from a backup."),
    "move": Command("fourfold.cli.transfer:move", "Copy the store into another: a folder or a PostgreSQL address."),
    "db": Command("fourfold.cli.db:app", "A local PostgreSQL server with pgvector, from a wheel."),
    "reembed": Command("fourfold.cli.upkeep:reembed", "Make all vectors anew with the configured model."),
    "graph": Command("fourfold.cli.graph:app", "Entities and the relations between them."),
    "eval": Command("fourfold.cli.evaluation:evaluate", "Measure the ranking on questions with known answers."),
    "sweep": Command("fourfold.cli.evaluation:sweep", "Try other alphas and weights on such questions."),
    "demo": Command("fourfold.cli.demo:demo", "Search the knowledge of a small team, in a temporary store."),
}


class Lazy(TyperGroup):
    """A group that knows its commands by name and builds the one that is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        names: dict[str, Any] = dict.fromkeys(COMMANDS)
        self.commands = names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _build(cmd_name, COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])


def _build(name: str, command: Command) -> Any:
    module, _, attribute = command.place.partition(":")
    target = getattr(import_module(module), attribute)
    if isinstance(target, typer.Typer):
        return get_command(target)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, help=command.help)(target)
    return get_command(app)

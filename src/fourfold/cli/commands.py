"""The commands: where each one is, how its signature becomes options and arguments, and the store that they open.

The code of a command is imported when it runs, so that `--help` is fast. A parameter is annotated with its type and
with `option` or `argument`, or with `Several` of them.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Union, cast, get_args, get_origin, runtime_checkable

import click
from click.shell_completion import CompletionItem

from fourfold.errors import InvalidSetting, RequestError
from fourfold.operations import OPERATIONS, Operation

if TYPE_CHECKING:
    from fourfold.config import Loaded, Settings
    from fourfold.engine.receipts import Receipts
    from fourfold.logs import Format, Level
    from fourfold.memory import Memory
    from fourfold.retrieval import SearchResponse
    from fourfold.storage.protocols import Peer

HELP: Final = {"help_option_names": ["-h", "--help"]}


class _Named(click.Path):
    """A path or an address. An empty path would be the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            name = "a path" if param is None else param.get_error_hint(ctx).strip("'")
            raise RequestError(f"{name} is empty", "Name a file, a folder or an address")
        return super().convert(value, param, ctx)


FILE: Final = _Named(path_type=Path)
ADDRESS: Final = _Named(path_type=str)
"""Of a folder or a server."""


class Place(NamedTuple):
    place: str | Operation | Callable[..., None] | click.Group
    """A function or a group of commands, or module:name of one, or an operation whose result is printed as it is."""
    help: str
    examples: tuple[str, ...] = ()
    """Command lines that `--help` shows; a test runs each of them."""


def _at(place: str, help: str, *examples: str) -> Place:
    """`place`: module:name in this package."""
    return Place(f"fourfold.cli.{place}", help, examples)


def _command_for(name: str, place: str, *examples: str) -> Place:
    """The command that carries out an operation and is described like it."""
    return _at(place, f"{OPERATIONS[name].help}.", *examples)


def _commands_of(group: str) -> dict[str, Place]:
    """The commands of a group that are declared with their operations."""
    declared = [(each, each.command.rpartition(" ")) for each in OPERATIONS.values() if each.command]
    return {
        command: Place(operation, f"{operation.help}.", (f"fourfold {operation.command}",))
        for operation, (within, _, command) in declared
        if within == group
    }


_FORGET: Final = _at(
    "records:forget", "Delete items by id, tag or path.", "fourfold forget 1", "fourfold forget --tag office --yes"
)
SECTIONS: Final[Mapping[str, Mapping[str, Place]]] = {
    "Store": {
        "add": _at("records:add", "Store an item and print its id.",
            'fourfold add "The spare key is with Mrs Okafor" --tag home',
            'fourfold add "Stripe" --subject Checkout --attribute "payment provider"'),
        "get": _command_for("get", "records:get", "fourfold get 1 2"),
        "list": _command_for("list", "records:list_items", "fourfold list --tag office --limit 10"),
        "update": _command_for("update", "records:update", 'fourfold update 1 --title "Router" --tag it'),
        "history": _command_for("history", "records:history", "fourfold history 2"),
        "undo": _command_for("undo", "records:undo", "fourfold undo 2"),
        "dedup": _at("records:dedup", "List items that say nearly the same, or merge those you name.", "fourfold dedup",
            "fourfold dedup 1 3"),
        "forget": _FORGET,
        "delete": _FORGET._replace(help="Another name of `forget`.", examples=("fourfold delete 1",)),
        "proposals": _at("records:proposals", "Decide what is kept of a session with an agent."),
        "raw": _at("records:raw", "Keep and show the originals that items are drawn from."),
        **_commands_of(""),
    },
    "Search": {
        "search": _command_for("search", "search:search", 'fourfold search "How do I get into the network?"',
            "fourfold search router --limit 3 --tag office --explain"),
        "retrieve": _at("search:retrieve", "Rank chunks by vectors and BM25, also those of a Chroma.",
            'fourfold retrieve "router password" -k 3'),
        "why": _command_for("why", "search:why", 'fourfold why 1 "How do I get into the network?"'),
        "demo": _at("demo:demo", "Search the knowledge of a small team, in a temporary store.", "fourfold demo"),
    },
    "Graph": {
        "graph": _at("records:graph", "Entities and the relations between them."),
    },
    "Files": {
        "index": _at("transfer:index", "Store what the files of folders hold, and keep up with them.",
            "fourfold index notes", "fourfold index notes --exclude drafts/ --tag wiki --no-wait"),
        "import": _at("transfer:import_file", "Store rows of JSONL, an export, or what another tool wrote.",
            "fourfold import rows.jsonl", "fourfold import --from mem0 mem0.json --dry-run"),
        "export": _at("transfer:export", "Write everything into one file.", "fourfold export everything.jsonl"),
        "backup": _at("transfer:backup", "Copy the store into one file, while it is in use.",
            "fourfold backup monday.db"),
        "restore": _at("transfer:restore", "A new store from a backup.", "fourfold restore backup.db --store new"),
        "copy": _at("transfer:copy", "Copy the store into another: a folder or a PostgreSQL address.",
            "fourfold copy elsewhere"),
        "move": _at("transfer:move", "The same; with --delete-source the source is removed after it.",
            "fourfold move elsewhere --delete-source"),
        "sync": _at("transfer:sync", "Make the namespaces that are set equal to those of another store.",
            "fourfold sync elsewhere"),
    },
    "Upkeep": {
        "status": _command_for("status", "upkeep:status", "fourfold status"),
        "stats": _command_for("stats", "upkeep:stats", "fourfold stats"),
        "embed": _at("vectors:embed", "Make the vectors that are pending, and wait for them.", "fourfold embed"),
        "reembed": _at("upkeep:reembed", "Rebuild all vectors with the configured model.", "fourfold reembed"),
        "check": _at("upkeep:check", "Compare rows and indexes; exit code 4 if they differ.", "fourfold check"),
        "repair": _at("upkeep:repair", "Make the indexes agree with the rows again.", "fourfold repair",
            "fourfold repair --purge"),
        "scan-secrets": _at("upkeep:scan_secrets", "List API keys, tokens and passwords that are stored.",
            "fourfold scan-secrets --mask"),
        "config": _at("upkeep:config", "Show every setting and where its value came from.", "fourfold config"),
        "db": _at("upkeep:db", "A local PostgreSQL server, and distributed indexes."),
        "completion": _at("main:completion", "Print the completion script of a shell.", "fourfold completion bash"),
    },
    "Servers": {
        "serve": _at("serve:serve", "Serve the HTTP API, MCP and a web page on one address.",
            "fourfold serve --port 8080 --open"),
        "mcp": _at("serve:mcp", "Serve the memory to an agent over MCP."),
        "hook": _at("hook:hook", "Answer an event of Claude Code or Codex with memories.",
            "fourfold hook session-start"),
    },
    "Evaluation": {
        "eval": _at("evaluation:evaluate", "Measure the ranking on questions with known answers.",
            "fourfold eval questions"),
        "tune": _at("evaluation:tune", "Try other weights on such questions, and tune auto.",
            "fourfold tune questions"),
        "presets": _at("evaluation:presets", "List or remove tuned presets.", "fourfold presets"),
    },
}  # fmt: skip
"""The commands, as `--help` groups them."""
COMMANDS: Final = {name: place for section in SECTIONS.values() for name, place in section.items()}


# ---------------------------------------------------------------- from a signature to a command


class Spelling(NamedTuple):
    """How a parameter is given on the command line."""

    kind: type[click.Parameter]
    names: tuple[str, ...]
    read: Callable[[Any], Any] | None
    """What makes the value of the text, or of the list of texts."""
    attributes: Mapping[str, Any]


def option(*names: str, read: Callable[[Any], Any] | None = None, **attributes: Any) -> Spelling:
    return Spelling(click.Option, names, read, attributes)


def argument(*, read: Callable[[Any], Any] | None = None, **attributes: Any) -> Spelling:
    return Spelling(click.Argument, (), read, attributes)


@runtime_checkable
class Several(Protocol):
    """Several options and arguments in the annotation of one parameter, whose value they make together."""

    def parameters(self) -> Sequence[Parameter]: ...

    def value(self, values: dict[str, Any]) -> Any: ...


def made(
    name: str,
    place: Place,
    function: Callable[..., None],
    kind: type[Any] = click.Command,
    **attributes: Any,
) -> Any:
    """The command of a function, with the help and the examples of its place."""
    own = signature(function, eval_str=True).parameters.values()
    several = {each.name: spelling for each in own if isinstance(spelling := each.annotation.__metadata__[0], Several)}
    parts = {name: spelling.parameters() for name, spelling in several.items()}
    parameters = [part for each in own for part in parts.get(each.name, [each])]

    def run(**values: Any) -> None:
        values = {each.name: _read(each, values[each.name]) for each in parameters}
        for name, spelling in several.items():
            values[name] = spelling.value({part.name: values.pop(part.name) for part in parts[name]})
        function(**values)

    return kind(
        name,
        params=[*map(_parameter, parameters), *hidden_globals()],
        callback=run,
        help=place.help,
        epilog="\b\n" + "\n".join(["Examples:" if place.examples[1:] else "Example:", *place.examples]),
        context_settings=HELP,
        **attributes,
    )


def _read(parameter: Parameter, value: Any) -> Any:
    spelling: Spelling = parameter.annotation.__metadata__[0]
    if isinstance(value, tuple):
        value = list(cast("tuple[Any, ...]", value)) or parameter.default
    return value if spelling.read is None or value is parameter.default else spelling.read(value)


def _parameter(parameter: Parameter) -> click.Parameter:
    hint, spelling = parameter.annotation.__origin__, parameter.annotation.__metadata__[0]
    is_union = get_origin(hint) in (Union, types.UnionType)
    kind = next(each for each in get_args(hint) if each is not types.NoneType) if is_union else hint
    many = spelling.attributes.get("multiple", get_origin(kind) is list)
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    required = parameter.default is Parameter.empty
    attributes: dict[str, Any] = {"required": True} if required else {"default": parameter.default}
    if spelling.kind is click.Argument:
        attributes |= {"nargs": -1 if many else 1, "required": required}
    elif kind is bool:
        attributes |= {"is_flag": True}
    else:
        attributes |= {"multiple": many, "show_default": parameter.default not in ("", None)}
    flags = spelling.names or (f"--{parameter.name.replace('_', '-')}",)
    names = (parameter.name,) if spelling.kind is click.Argument else (parameter.name, *flags)
    read_as: Any = click.STRING if spelling.read is not None else _TYPES.get(kind) or click.Choice(get_args(kind))
    return spelling.kind(names, **attributes | {"type": read_as} | spelling.attributes)


_TYPES: Final[Mapping[Any, Any]] = {
    str: click.STRING, int: click.INT, float: click.FLOAT, bool: click.BOOL, Path: FILE,
}  # fmt: skip


# ---------------------------------------------------------------- the program


class Group(click.Group):
    """A group that knows its commands by name, and builds the one that is asked for."""

    def __init__(self, name: str, sections: Mapping[str, Mapping[str, Place]] | None = None, **attributes: Any) -> None:
        """`sections`: the commands by the title that `--help` shows above them."""
        attributes = {"params": hidden_globals(), "context_settings": HELP, "no_args_is_help": True, **attributes}
        super().__init__(name, **attributes)
        self.places = _commands_of(name)
        self._sections = {"Commands": self.places} if sections is None else sections
        for places in () if sections is None else sections.values():
            self.places.update(places)

    def adds(self, *examples: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Decorate the function of a command of this group."""

        def added(function: Callable[..., None]) -> Callable[..., None]:
            help = cleandoc(function.__doc__ or "")
            self.places[function.__name__.rstrip("_")] = Place(function, help, examples)
            return function

        return added

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.places]

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return None
        place = self.places[cmd_name]
        held = place.place
        if isinstance(held, Operation):
            from fourfold.cli.upkeep import derived

            return made(cmd_name, place, derived(held))
        if isinstance(held, str):
            module, _, attribute = held.partition(":")
            held = getattr(import_module(module), attribute)
        return held if isinstance(held, click.Group) else made(cmd_name, place, cast("Callable[..., None]", held))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands without building them, because a shell asks for completions often."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        shown = (name for name in self.places if name.startswith(incomplete))
        return [CompletionItem(name, help=self.places[name].help) for name in shown]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, places in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, place.help) for name, place in places.items()])


GLOBALS: Final[Mapping[str, Mapping[str, Any]]] = {
    "store": {"metavar": "FOLDER|DSN|URL", "type": ADDRESS, "help": "Default: the user's data folder."},
    "namespace": {"metavar": "NAME[,NAME]", "help": "Default: default."},
    "config": {
        "metavar": "FILE",
        "type": FILE,
        "help": "Default: fourfold.yaml in the user's configuration folder.",
    },
    "onnx_provider": {
        "metavar": "NAME",
        "help": "Execution provider of local models, such as cuda. Default: cpu.",
    },
    "log_level": {
        "type": click.Choice(["debug", "info", "warning", "error"]),
        "help": "Log on stderr from this level on.",
    },
    "log_format": {"type": click.Choice(["text", "json"]), "help": "Lines of text, or of JSON with every field."},
}
"""The global options, by the field of `Globals` that each one sets."""


def global_options(**attributes: Any) -> list[click.Option]:
    return [
        click.Option((name, f"--{name.replace('_', '-')}"), **{**described, **attributes})
        for name, described in GLOBALS.items()
    ]


def _set_global(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value is not None and ctx.obj is not None:
        ctx.obj = replace(ctx.obj, **{str(option.name): value})


hidden_globals = partial(global_options, hidden=True, expose_value=False, callback=_set_global)
"""The same after a command, where people write them, too; what comes last wins."""


# ---------------------------------------------------------------- from the global options to an open store


@dataclass(frozen=True)
class Globals:
    """The global options."""

    store: str | None = None
    namespace: str | None = None
    config: Path | None = None
    onnx_provider: str | None = None
    log_level: Level | None = None
    log_format: Format | None = None


def given_globals() -> Globals:
    """The global options of the command that runs in this thread."""
    return click.get_current_context().obj


def load_config(chosen: Globals | None = None) -> Loaded:
    from fourfold import logs
    from fourfold.config import load

    chosen = chosen or given_globals()
    flags = {name: value for name, value in vars(chosen).items() if name != "config"}
    loaded = load(flags, os.environ, chosen.config)
    if loaded.settings.store == ":memory:":
        from fourfold.engine.open_store import require_lasting

        require_lasting(loaded.settings.store)
    logs.configure(loaded.settings.log_level, loaded.settings.log_format)
    return loaded


def namespaces(settings: Settings) -> tuple[str, ...]:
    """`--namespace A,B` names several."""
    names = tuple(dict.fromkeys(name.strip() for name in settings.namespace.split(",") if name.strip()))
    if not names:
        raise InvalidSetting("the namespace has no name", "Write --namespace NAME")
    return names


def open_memory(*, create: bool = False, background: bool = False) -> Memory:
    """Opens the store for the one namespace that is set.

    `create`: creates a store that does not exist; otherwise that is a StoreNotFound.
    `background`: makes vectors and publishes indexes, for other processes too: for a command that keeps running.
    """
    settings = load_config().settings
    if len(namespaces(settings)) > 1:
        remedy = "Only `search` and `sync` take more than one"
        raise InvalidSetting(f"{settings.namespace!r} names several namespaces", remedy)
    return _open(settings, create=create, background=background)


def search_namespaces(query: str, **options: Any) -> SearchResponse:
    """Searches all namespaces that are set."""
    settings = load_config().settings
    with _open(settings) as memory:
        response = memory.search(query, namespaces=namespaces(settings), **options)
        if (receipts := own_receipts(memory)) is not None:
            receipts.add_response(response, "command", namespaces(settings))
        return response


def own_receipts(memory: object) -> Receipts | None:
    """The receipts that this process keeps; a server keeps its own."""
    from fourfold.memory import Memory

    return memory.receipts if isinstance(memory, Memory) else None


def open_pair(peer: str) -> Generator[tuple[Memory, str | Peer]]:
    """The memory of each namespace that is set, with that of the same name in another store; one after the other."""
    settings = load_config().settings
    with _open(settings, create=True) as memory:
        for name in namespaces(settings):
            if peer.startswith(("http://", "https://")):
                from fourfold.client import RemoteMemory

                with RemoteMemory(peer, token=settings.token, namespace=name) as remote:
                    yield memory.within(name), remote
            else:
                yield memory.within(name), peer


def _open(settings: Settings, *, create: bool = False, background: bool = False) -> Memory:
    from fourfold.memory import Memory

    name = namespaces(settings)[0]
    if settings.store is not None and settings.store.startswith(("http://", "https://")):
        from fourfold.client import RemoteMemory

        # A command that needs the store itself ends with a NotOffered.
        return cast("Memory", RemoteMemory(settings.store, token=settings.token, namespace=name))
    return Memory.open(settings.store, namespace=name, settings=settings, background=background, create=create)

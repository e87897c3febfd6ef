"""serve, mcp, and the entries with which clients of MCP start the server: mcp install, mcp uninstall."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import cleandoc
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast, get_args

import click

from fourfold import addresses, logs, owner_only
from fourfold.cli.commands import Group, Place, given_globals, load_config, made, option
from fourfold.cli.output import say, warn
from fourfold.errors import DamagedError, InvalidSetting, MissingExtra, ReadOnlyStore, RequestError
from fourfold.model import Json
from fourfold.wire import dumps

if TYPE_CHECKING:
    from fourfold.config import Loaded

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
    chosen = given_globals()
    # Before the first message; the settings are read later, with the first call that needs the store.
    level = chosen.log_level or os.environ.get("FOURFOLD_LOG_LEVEL", "")
    form = chosen.log_format or os.environ.get("FOURFOLD_LOG_FORMAT", "")
    valid = cast("logs.Level", level) if level in get_args(logs.Level) else "warning"
    logs.configure(valid, "json" if form == "json" else "text")
    if http is None:
        if sys.stdin.isatty():
            warn(
                "waiting for a client that speaks MCP on stdin; agents start this command themselves, "
                "`fourfold mcp install` tells them how. Ctrl-C ends it"
            )
        server("mcp.server").serve_stdio(lambda: load_config(chosen).settings, tools)
    else:
        server("mcp.server").serve_http(load_config().settings, tools, http)


_MCP: Final = Place(_mcp, cleandoc(_mcp.__doc__ or ""), ("fourfold mcp", "fourfold --store notes mcp --tools graph"))
mcp: Group = made("mcp", _MCP, _mcp, Group, invoke_without_command=True, no_args_is_help=False)


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


# ---------------------------------------------------------------- the entry of a client

# It contains the values of flags and variables (store, namespace, embedder), because an agent starts the server in
# another folder and environment. A password or key is never written. The entry of a project is shared, so it contains
# no path of this machine. A file is replaced in one step, and everything else in it stays: JSON keeps its values, TOML
# its lines and comments.

Scope = Literal["user", "project"]
NAME = "fourfold"
_CARRIED = ("store", "namespace", "embedder", "onnx_provider", "openai_base_url", "openai_model", "openai_dimensions")
_FLAGS = ("store", "namespace")


@dataclass(frozen=True, slots=True)
class Entry:
    command: list[str]
    """The program and its arguments."""
    environment: dict[str, str]
    left_out: list[str] = field(default_factory=list[str])
    """Required variables that hold a secret."""

    def json(self, transport: str = "stdio") -> dict[str, Json]:
        """`transport`: its name, which some clients require and others reject ("")."""
        if transport == "local":
            return {"type": transport, "command": [*self.command], "environment": {**self.environment}}
        first, *rest = self.command
        form: dict[str, Json] = {"command": first, "args": [*rest], "env": {**self.environment}}
        return {"type": transport, **form} if transport else form


def make_entry(loaded: Loaded, config: Path | None, arguments: Sequence[str], scope: Scope, folder: Path) -> Entry:
    """`config`: the file that was named; `arguments`: what follows `mcp`; `folder`: the project."""
    options: list[str] = []
    entry = Entry(_program(scope), {})
    for name in _CARRIED:
        value, origin = loaded.values[name]
        variable = f"FOURFOLD_{name.upper()}"
        if origin != "flag" and not origin.startswith("environment"):
            continue
        if name in ("store", "openai_base_url") and _has_secret(value):
            entry.left_out.append(_secret_variable(variable, origin))
        elif origin == "flag" and name in _FLAGS:
            options += [f"--{name}", _portable(name, value, scope, folder)]
        else:
            entry.environment[variable] = _portable(name, value, scope, folder)
    if loaded.settings.openai_api_key and loaded.settings.embedder == "openai":
        entry.left_out.append("FOURFOLD_OPENAI_API_KEY")
    if config is not None:
        options += ["--config", _path(config, scope, folder)]
    entry.command.extend([*options, "mcp", *arguments])
    return entry


def _program(scope: Scope) -> list[str]:
    """How to start this Fourfold: agents are not started in its environment, and a shared entry names no folder.

    `-P`: an agent starts it in a repository, whose `json.py` must not be imported.
    """
    if scope == "project":
        return ["fourfold"]
    beside = Path(sys.executable).with_name("fourfold.exe" if sys.platform == "win32" else "fourfold")
    program = str(beside) if beside.is_file() else shutil.which("fourfold")
    return [program] if program else [sys.executable, "-P", "-m", "fourfold"]


def _portable(name: str, value: object, scope: Scope, folder: Path) -> str:
    """The value with paths that are valid where the server starts."""
    from fourfold.embed import model_folder

    text = str(value)
    if name == "store" and not addresses.is_address(text):
        return _path(Path(text), scope, folder)
    if name == "embedder" and (place := model_folder(text)) is not None:
        return f"{text.partition(':')[0]}:{_path(place, scope, folder)}"
    return text


def _path(path: Path, scope: Scope, folder: Path) -> str:
    absolute = folder / path.expanduser()
    if scope == "user":
        return str(absolute)
    inside = Path(os.path.relpath(absolute, folder))
    if inside.parts[:1] == ("..",) or inside.is_absolute():
        remedy = "Choose a path inside of it, or --scope user"
        raise InvalidSetting(f"{path} is outside of this folder, and the entry of a project is shared", remedy)
    return inside.as_posix()


def _has_secret(value: object) -> bool:
    if not isinstance(value, str) or not addresses.is_address(value):
        return False
    url = addresses.parse(value)
    return url.password is not None or "password" in url.parameters


def _secret_variable(variable: str, origin: str) -> str:
    if origin == "flag":
        remedy = f"Put the address into {variable}, or the password into ~/.pgpass"
        raise InvalidSetting("the address of the store has a password, which is not written into a file", remedy)
    return variable


# ---------------------------------------------------------------- the clients and their files

_MEND: Final = "Correct the file, or add the entry by hand; the file was not changed"
_OWN_TABLE: Final = re.compile(rf"\s*\[\[?\s*mcp_servers\s*\.\s*(?:\"{NAME}\"|'{NAME}'|{NAME})\s*[.\]]")
_ANY_TABLE: Final = re.compile(r"\s*\[")


@dataclass(frozen=True, slots=True)
class Client:
    title: str
    user: tuple[str, ...]
    """The user's file: a folder (see `_folder`) and a path in it."""
    project: str | None = None
    """The file in the folder of a project; None if the client has none."""
    key: str = "mcpServers"
    transport: str = ""
    """The name that an entry gives its transport; "local" has a form of its own."""
    merges: bool = True
    """Whether the entry of a project replaces that of the user; otherwise both start."""
    command: tuple[str, ...] = ()
    """The client's own command that adds a server, up to the name; {scope} is filled in."""


ClientName = Literal["claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "windsurf", "opencode"]
CLIENTS: Final[Mapping[ClientName, Client]] = {
    "claude-code": Client("Claude Code", ("$CLAUDE_CONFIG_DIR", ".claude.json"), ".mcp.json", transport="stdio",
        command=("claude", "mcp", "add", "--scope", "{scope}")),
    "claude-desktop": Client("Claude Desktop", ("applications", "Claude/claude_desktop_config.json")),
    "cursor": Client("Cursor", ("home", ".cursor/mcp.json"), ".cursor/mcp.json", transport="stdio"),
    "vscode": Client("VS Code", ("applications", "Code/User/mcp.json"), ".vscode/mcp.json", key="servers",
        transport="stdio", merges=False),
    "codex": Client("Codex", ("$CODEX_HOME", "config.toml", ".codex"), ".codex/config.toml", key="mcp_servers",
        command=("codex", "mcp", "add")),
    "gemini": Client("Gemini CLI", ("home", ".gemini/settings.json"), ".gemini/settings.json"),
    "windsurf": Client("Windsurf", ("home", ".codeium/windsurf/mcp_config.json")),
    "opencode": Client("OpenCode", ("$XDG_CONFIG_HOME", "opencode/opencode.json", ".config"), "opencode.json",
        key="mcp", transport="local"),
}  # fmt: skip


def file_of(client: Client, scope: Scope, environ: Mapping[str, str]) -> Path:
    """Where the client reads its servers from."""
    if scope == "project":
        if client.project is None:
            raise InvalidSetting(f"{client.title} has no file for a project", "Use --scope user")
        return Path.cwd() / client.project
    place, name, *default = client.user
    return Path(_folder(place, default, environ), name)


def _folder(place: str, default: list[str], environ: Mapping[str, str]) -> Path:
    home = Path.home()
    if place.startswith("$"):
        return Path(environ[place[1:]]) if environ.get(place[1:]) else home.joinpath(*default)
    if place == "home":
        return home
    match sys.platform:
        case "darwin":
            return home / "Library/Application Support"
        case "win32":
            return Path(environ.get("APPDATA") or home / "AppData/Roaming")
        case _:
            return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def snippet(client: Client, path: PurePath, entry: dict[str, Json]) -> str:
    """The entry in the form of the file."""
    if path.suffix == ".toml":
        return _toml(entry).rstrip()
    return json.dumps({client.key: {NAME: entry}}, indent=2, ensure_ascii=False)


def find_entry(client: Client, path: Path) -> dict[str, Json] | None:
    """The present entry of the file."""
    return _servers(_read(path)[0], client, path).get(NAME)


def write_entry(client: Client, path: Path, new: dict[str, Json] | None) -> dict[str, Json] | None:
    """Puts the entry into the file, or removes it (None), in one step, and leaves the rest of the file as it is.
    Returns the entry that was there before."""
    content, text = _read(path)
    servers = _servers(content, client, path)
    before = servers.pop(NAME, None)
    if before != new:
        if new is not None:
            servers[NAME] = new
        is_toml = path.suffix == ".toml"
        form = _changed_toml(path, text, content, new) if is_toml else json.dumps(content, indent=2, ensure_ascii=False)
        _replace(path, form.rstrip() + "\n")
    return before


def _servers(content: dict[str, Any], client: Client, path: Path) -> dict[str, Any]:
    servers = content.setdefault(client.key, {})
    if not isinstance(servers, dict):
        raise InvalidSetting(f'"{client.key}" in {path} is not an object', _MEND)
    return cast("dict[str, Any]", servers)


def _read(path: Path) -> tuple[dict[str, Any], str]:
    """The content of the file, and its text."""
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text or "{}")
    except FileNotFoundError:
        return {}, ""
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read ({error})", _MEND) from error
    if not isinstance(content, dict):
        raise DamagedError(f"{path} holds no JSON object", _MEND)
    return cast("dict[str, Any]", content), text


# ---------------------------------------------------------------- TOML


def _changed_toml(path: Path, text: str, wanted: dict[str, Any], new: dict[str, Json] | None) -> str:
    """The text without our tables and with the new one at its end; checked to mean what is wanted."""
    kept: list[str] = []
    own = False
    for line in text.splitlines(keepends=True):
        if _ANY_TABLE.match(line):
            own = _OWN_TABLE.match(line) is not None
        if not own:
            kept.append(line)
    body = "".join(kept).rstrip()
    changed = "\n\n".join(part for part in (body, _toml(new) if new is not None else "") if part).rstrip() + "\n"
    if not _means(changed, wanted):
        raise InvalidSetting(f"{path} has {NAME} in a form that cannot be changed here", _MEND)
    return changed


def _means(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return _without_empty(tomllib.loads(text)) == _without_empty(wanted)
    except tomllib.TOMLDecodeError:
        return False


def _without_empty(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value != {}}


def _toml(entry: dict[str, Json]) -> str:
    """An entry as tables; strings of TOML and JSON are written alike."""
    lines = [f"[mcp_servers.{NAME}]"]
    tables = {name: cast("dict[str, Json]", value) for name, value in entry.items() if isinstance(value, dict)}
    lines += [f"{name} = {_value(value)}" for name, value in entry.items() if name not in tables]
    for name, table in tables.items():
        lines += ["", f"[mcp_servers.{NAME}.{name}]", *(f"{key} = {_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _value(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# ---------------------------------------------------------------- writing


def _replace(path: Path, text: str) -> None:
    target = path.resolve()  # keeps a symbolic link
    aside: Path | None = None
    try:
        owner_only.make_folder(target.parent)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".fourfold-")
        aside = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        if target.exists():
            shutil.copymode(target, aside)
        aside.replace(target)
    except OSError as error:
        if aside is not None:
            with suppress(OSError):
                aside.unlink()
        raise ReadOnlyStore(f"{path} cannot be written ({error})", "Add the entry by hand") from error


# ---------------------------------------------------------------- what else registers the server

_BUNDLES: Final = "Claude/Claude Extensions/*/manifest.json"
"""Of bundles in Claude Desktop, below the folder of applications."""


def plugin_of(name: ClientName, environ: Mapping[str, str]) -> str | None:
    """The plugin or bundle that starts the server in this client, and how it is removed; None if there is none."""
    match name:
        case "claude-code":
            folder = Path(environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
            here = Path.cwd() / ".claude"
            enabled: dict[str, Any] = {}
            for path in (folder / "settings.json", here / "settings.json", here / "settings.local.json"):
                enabled |= _table(path, "enabledPlugins")
            if any(each is True for plugin, each in enabled.items() if plugin.startswith(f"{NAME}@")):
                return f"its plugin {NAME} (claude plugin uninstall {NAME})"
        case "codex":
            plugins = _table(file_of(CLIENTS[name], "user", environ), "plugins")
            own = [each for plugin, each in plugins.items() if plugin.startswith(f"{NAME}@")]
            if any(isinstance(each, dict) and cast("dict[str, Any]", each).get("enabled", True) for each in own):
                return f"its plugin {NAME} (codex plugin remove {NAME})"
        case "claude-desktop":
            bundles = _folder("applications", [], environ).glob(_BUNDLES)
            if any(_read_or_nothing(path).get("name") == NAME for path in bundles):
                return f"the bundle {NAME} (remove it in its settings, under Extensions)"
        case _:
            pass
    return None


def _table(path: Path, key: str) -> dict[str, Any]:
    held = _read_or_nothing(path).get(key)
    return cast("dict[str, Any]", held) if isinstance(held, dict) else {}


def _read_or_nothing(path: Path) -> dict[str, Any]:
    try:
        return _read(path)[0]
    except DamagedError:  # another program's file, which that program reports
        return {}


def doubled(environ: Mapping[str, str]) -> list[str]:
    """The clients that start the server twice, from a plugin and from an entry, with the remedy."""
    lines: list[str] = []
    for name, client in CLIENTS.items():
        path = file_of(client, "user", environ)
        if plugin_of(name, environ) is not None and NAME in _table(path, client.key):
            remedy = f"{_command('uninstall', name)} removes the second"
            lines.append(f"{client.title} starts Fourfold twice, by its plugin and by {path}: {remedy}")
    return lines


# ---------------------------------------------------------------- install and uninstall

ScopeName = Annotated[Scope, option(help="For all your projects, or the client's file in this folder.")]
ForClient = Annotated[
    ClientName,
    option("--client", help="The agent or editor that starts the server."),
]


@mcp.adds("fourfold mcp install --client cursor --yes")
def install(
    client: ForClient = "claude-code",
    tools: Tools = "core",
    scope: ScopeName = "user",
    yes: Annotated[bool, option("--yes", help="Write it; without this it is only shown.")] = False,
) -> None:
    """Show, or with --yes write, the entry that gives a client this memory."""
    chosen = CLIENTS[client]
    path = file_of(chosen, scope, os.environ)
    arguments = ["--tools", tools] if tools != "core" else []
    config = given_globals().config
    entry = make_entry(load_config(), config, arguments, scope, Path.cwd())
    form = entry.json(chosen.transport)
    if plugin := plugin_of(client, os.environ):
        remedy = "Keep that one, or remove it before you add an entry"
        raise RequestError(f"{chosen.title} has this server already, by {plugin}", remedy)
    _warn_of_other_scope(chosen, scope)
    for variable in entry.left_out:
        warn(f"{variable} holds a secret and is not written: set it where {chosen.title} starts")
    if yes:
        before = write_entry(chosen, path, form)
        say(f"{path} has it already" if before == form else f"written to {path}")
        if before not in (None, form):
            say(f"instead of {dumps(_shown(before))}")
        if before != form:
            warn(f"{chosen.title} starts it with its next session: begin a new one, or restart it")
        return
    if chosen.command and (scope == "user" or "{scope}" in chosen.command):
        variables = [word for name, value in entry.environment.items() for word in ("--env", f"{name}={value}")]
        words = [word.format(scope=scope) for word in chosen.command]
        say(f"{shlex.join(words)} {NAME} {shlex.join([*variables, '--', *entry.command])}\n")
        say(f"or in {path} ({_command('install', client)} writes it):\n")
    else:
        say(f"in {path} ({_command('install', client)} writes it):\n")
    say(snippet(chosen, path, form))


def _warn_of_other_scope(client: Client, scope: Scope) -> None:
    """The user's file and that of the project may both have the entry."""
    if client.project is None:
        return
    path = file_of(client, "project" if scope == "user" else "user", os.environ)
    if NAME in _table(path, client.key):
        effect = "uses that of the project" if client.merges else "starts both: remove one"
        warn(f"{path} has the entry {NAME}, too; {client.title} {effect}")


def _command(action: str, client: str) -> str:
    return f"fourfold mcp {action}{f' --client {client}' if client != 'claude-code' else ''} --yes"


@mcp.adds("fourfold mcp uninstall --client cursor --yes")
def uninstall(
    client: ForClient = "claude-code",
    scope: ScopeName = "user",
    yes: Annotated[bool, option("--yes", help="Remove it; without this it is only shown.")] = False,
) -> None:
    """Show, or with --yes remove, the entry that gives a client this memory. The store stays."""
    chosen = CLIENTS[client]
    path = file_of(chosen, scope, os.environ)
    before = write_entry(chosen, path, None) if yes else find_entry(chosen, path)
    if before is None:
        say(f"{path} has no entry {NAME}")
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

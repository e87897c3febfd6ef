"""What agents read agrees with the package: entries of clients, plugin, registry entry, bundle, real programs."""

import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from hook_client import EVENTS
from jsonschema import validate

from fourfold import Memory, __version__
from fourfold.cli import serve as clients
from fourfold.cli.commands import COMMANDS
from fourfold.cli.hook import NAMES
from fourfold.cli.main import main
from fourfold.cli.serve import CLIENTS, Client, ClientName
from fourfold.config import SETTINGS
from fourfold.errors import InvalidSetting
from fourfold.serve.mcp.tools import offers

pytestmark = pytest.mark.spec("C19")


# ---------------------------------------------------------------- entries of clients


ENTRY: dict[str, Any] = {"command": "/opt/own/fourfold", "args": ["--namespace", 'a "b"', "mcp"], "env": {"X": "ü\\1"}}
FILES: dict[ClientName, tuple[str, str | None]] = {
    "claude-code": (".claude.json", ".mcp.json"), "claude-desktop": (".config/Claude/claude_desktop_config.json", None),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json"), "vscode": (".config/Code/User/mcp.json", ".vscode/mcp.json"),
    "codex": (".codex/config.toml", ".codex/config.toml"), "gemini": (".gemini/settings.json", ".gemini/settings.json"),
    "windsurf": (".codeium/windsurf/mcp_config.json", None),
    "opencode": (".config/opencode/opencode.json", "opencode.json"),
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def content(path: Path) -> dict[str, Any]:
    text = path.read_text("utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def test_every_client_is_tested() -> None:
    assert set(FILES) == set(CLIENTS)


@pytest.mark.parametrize("name", FILES)
def test_an_entry_is_written_found_replaced_and_removed(home: Path, name: ClientName) -> None:
    client = CLIENTS[name]
    path = clients.file_of(client, "user", {})
    assert path == home / FILES[name][0]
    assert clients.write_entry(client, path, ENTRY) is None
    assert content(path) == {client.key: {"fourfold": ENTRY}}
    assert clients.find_entry(client, path) == ENTRY
    other = {**ENTRY, "env": {}}
    assert clients.write_entry(client, path, other) == ENTRY
    assert clients.find_entry(client, path) == other
    assert clients.write_entry(client, path, None) == other
    assert clients.find_entry(client, path) is None
    assert [file.name for file in path.parent.iterdir() if file.is_file()] == [path.name]


@pytest.mark.parametrize("name", FILES)
def test_the_file_of_a_project(home: Path, name: ClientName) -> None:
    expected = FILES[name][1]
    if expected is None:
        with pytest.raises(InvalidSetting, match="has no file for a project"):
            clients.file_of(CLIENTS[name], "project", {})
    else:
        assert clients.file_of(CLIENTS[name], "project", {}) == home / expected


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("darwin", {}, "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", {}, "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("win32", {"APPDATA": "/roaming"}, "/roaming/Claude/claude_desktop_config.json"),
        ("linux", {"XDG_CONFIG_HOME": "/xdg"}, "/xdg/Claude/claude_desktop_config.json"),
    ],
)
def test_the_folder_of_applications_is_that_of_the_platform(home, monkeypatch, platform, environ, expected):
    monkeypatch.setattr("sys.platform", platform)
    assert clients.file_of(CLIENTS["claude-desktop"], "user", environ) == home / expected


def test_folders_that_variables_name_win(home: Path) -> None:
    named = {"CLAUDE_CONFIG_DIR": "/own/claude", "CODEX_HOME": "/own/codex"}
    assert clients.file_of(CLIENTS["claude-code"], "user", named) == Path("/own/claude/.claude.json")
    assert clients.file_of(CLIENTS["codex"], "user", named) == Path("/own/codex/config.toml")


TOML = """# my settings
model = "m" # the best

[mcp_servers.other]
command = "x"

[mcp_servers."fourfold"]
command = "old"
[mcp_servers.fourfold.env]
A = "1"
[profiles.p] # kept
model = "n"
"""


def test_toml_keeps_its_comments_and_other_tables(home: Path) -> None:
    codex, path = CLIENTS["codex"], home / "config.toml"
    path.write_text(TOML)
    assert clients.write_entry(codex, path, ENTRY) == {"command": "old", "env": {"A": "1"}}
    text = path.read_text("utf-8")
    assert "# my settings" in text
    assert "# the best" in text
    assert "[profiles.p] # kept" in text
    assert tomllib.loads(text)["mcp_servers"] == {"other": {"command": "x"}, "fourfold": ENTRY}
    clients.write_entry(codex, path, None)
    assert tomllib.loads(path.read_text("utf-8"))["mcp_servers"] == {"other": {"command": "x"}}


@pytest.mark.parametrize(
    "text", ['mcp_servers = {fourfold = {command = "x"}}\n', '[mcp_servers]\nfourfold = {command = "x"}\n']
)
def test_toml_that_cannot_be_edited_by_line_is_left_unchanged(home: Path, text: str) -> None:
    path = home / "config.toml"
    path.write_text(text)
    with pytest.raises(InvalidSetting, match="cannot be changed here"):
        clients.write_entry(CLIENTS["codex"], path, ENTRY)
    assert path.read_text("utf-8") == text


def test_a_snippet_is_what_is_written(home: Path) -> None:
    for client in CLIENTS.values():
        path = clients.file_of(client, "user", {})
        shown = clients.snippet(client, PurePosixPath(path.as_posix()), ENTRY)
        read = tomllib.loads(shown) if path.suffix == ".toml" else json.loads(shown)
        assert read == {client.key: {"fourfold": ENTRY}}


def test_names_of_clients_and_of_the_option_agree() -> None:
    from typing import get_args

    from fourfold.cli.serve import ForClient

    assert get_args(get_args(ForClient)[0]) == tuple(CLIENTS) == get_args(ClientName)
    assert all(isinstance(client, Client) for client in CLIENTS.values())


# ---------------------------------------------------------------- one registration


PLUGGED: dict[ClientName, tuple[str, str, str]] = {
    "claude-code": (
        ".claude/settings.json",
        '{"enabledPlugins": {"fourfold@fourfold": %s}}',
        "claude plugin uninstall",
    ),
    "codex": (".codex/config.toml", '[plugins."fourfold@fourfold"]\nenabled = %s\n', "codex plugin remove"),
}


@pytest.mark.parametrize("name", PLUGGED)
def test_install_adds_no_entry_where_a_plugin_has_the_server(home: Path, name: ClientName, capsys: Any) -> None:
    place, text, remedy = PLUGGED[name]
    (home / place).parent.mkdir()
    (home / place).write_text(text % "true")
    with pytest.raises(SystemExit) as left:
        main(["mcp", "install", "--client", name, "--yes"])
    assert left.value.code == 1
    assert remedy in capsys.readouterr().err
    assert clients.find_entry(CLIENTS[name], clients.file_of(CLIENTS[name], "user", {})) is None
    (home / place).write_text(text % "false")
    with pytest.raises(SystemExit) as left:
        main(["mcp", "install", "--client", name, "--yes"])
    assert not left.value.code
    assert clients.doubled({}) == []
    if name == "codex":
        (home / place).write_text((home / place).read_text().replace("false", "true"))
    else:
        (home / place).write_text(text % "true")
    (line,) = clients.doubled({})
    assert "starts Fourfold twice" in line
    assert f"fourfold mcp uninstall{' --client codex' if name == 'codex' else ''} --yes" in line


def test_a_project_may_switch_a_plugin_off(home: Path) -> None:
    (home / "home" / ".claude").mkdir(parents=True)
    environ = {"CLAUDE_CONFIG_DIR": str(home / "home" / ".claude")}
    (home / "home" / ".claude" / "settings.json").write_text('{"enabledPlugins": {"fourfold@team": true}}')
    assert clients.plugin_of("claude-code", environ) is not None
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.local.json").write_text('{"enabledPlugins": {"fourfold@team": false}}')
    assert clients.plugin_of("claude-code", environ) is None
    (home / ".claude" / "settings.local.json").write_text("not JSON")
    assert clients.plugin_of("claude-code", environ) is not None


def test_a_bundle_in_claude_desktop_counts_as_registered(home: Path) -> None:
    folder = home / ".config" / "Claude" / "Claude Extensions" / "local.mcpb.fourfold"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text('{"name": "another"}')
    assert clients.plugin_of("claude-desktop", {}) is None
    (folder / "manifest.json").write_text('{"name": "fourfold"}')
    assert "Extensions" in (clients.plugin_of("claude-desktop", {}) or "")


def test_an_entry_in_the_other_scope_is_named(home: Path, capsys: Any) -> None:
    for name, effect in (("cursor", "uses that of the project"), ("vscode", "starts both: remove one")):
        for scope, said in (("project", ""), ("user", effect)):
            with pytest.raises(SystemExit) as left:
                main(["mcp", "install", "--client", name, "--scope", scope, "--yes"])
            assert not left.value.code
            if said:
                assert said in " ".join(capsys.readouterr().err.split())


# ---------------------------------------------------------------- published files


ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "plugins" / "fourfold"


def read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def test_every_hook_file_entry_calls_the_command_for_its_event_and_nothing_else() -> None:
    declared = read_json(PLUGIN / "hooks" / "hooks.json")["hooks"]
    assert set(declared) == set(NAMES.values()) == {event["hook_event_name"] for event in EVENTS["codex"].values()}
    for own, theirs in NAMES.items():
        (group,) = declared[theirs]
        assert group["hooks"] == [{"type": "command", "command": f"fourfold hook {own}", "timeout": 10}]
        assert group["hooks"][0]["timeout"] > SETTINGS["hook_seconds"].default


@pytest.mark.parametrize("place", ["plugin.json", ".claude-plugin/plugin.json", ".codex-plugin/plugin.json"])
def test_manifests_have_the_version_of_the_package(place: str) -> None:
    manifest = read_json(PLUGIN / place)
    assert (manifest["name"], manifest["version"]) == ("fourfold", __version__)
    for key in ("skills", "mcpServers", "hooks"):
        assert (PLUGIN / manifest.get(key, ".")).exists()


@pytest.mark.parametrize("place", [".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json"])
def test_marketplaces_lead_to_the_plugin(place: str) -> None:
    (plugin,) = read_json(ROOT / place)["plugins"]
    source = plugin["source"]
    assert (ROOT / (source if isinstance(source, str) else source["path"])).resolve() == PLUGIN


@pytest.mark.parametrize("place", [".mcp.json", "mcp.json"])
def test_the_plugin_starts_the_server_of_the_command_line(place: str) -> None:
    server = read_json(PLUGIN / place)["mcpServers"]["fourfold"]
    assert (server["command"], *server["args"]) == ("fourfold", "mcp")


def test_the_skill_names_itself_and_only_tools_that_exist() -> None:
    text = (PLUGIN / "skills" / "memory" / "SKILL.md").read_text("utf-8")
    _, head, body = text.split("---\n", 2)
    front = yaml.safe_load(head)
    assert front["name"] == "memory"
    assert 0 < len(front["description"]) <= 1024
    named = {word.strip("`.,)") for word in body.split() if word.startswith("`") and "_" in word}
    assert named <= {offer.name for offer in offers("core")}
    assert {"hybrid_search", "store_memory"} <= named


def test_the_registry_entry_names_this_package_and_its_server() -> None:
    entry = read_json(ROOT / "server.json")
    (package,) = entry["packages"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (package["registryType"], package["identifier"]) == ("pypi", project["name"])
    assert entry["version"] == package["version"] == __version__
    assert len(entry["description"]) <= 100
    assert f"mcp-name: {entry['name']}" in (ROOT / "README.md").read_text("utf-8")
    assert package["packageArguments"][0]["value"] in COMMANDS
    variables = [variable["name"].removeprefix("FOURFOLD_").lower() for variable in package["environmentVariables"]]
    assert set(variables) <= set(SETTINGS)


MANIFEST: dict[str, Any] = {
    "type": "object",
    "required": ["manifest_version", "name", "version", "description", "author", "server"],
    "properties": {
        "manifest_version": {"const": "0.4"},
        "author": {"type": "object", "required": ["name"]},
        "server": {
            "type": "object",
            "required": ["type", "entry_point", "mcp_config"],
            "properties": {"type": {"const": "uv"}, "mcp_config": {"type": "object", "required": ["command", "args"]}},
        },
        "tools": {"type": "array", "items": {"type": "object", "required": ["name"], "additionalProperties": False,
                                             "properties": {"name": {"type": "string"},
                                                            "description": {"type": "string"}}}},
    },
}  # fmt: skip


def test_the_bundle_has_a_valid_manifest_and_everything_that_a_build_needs(tmp_path: Path) -> None:
    build = runpy.run_path(str(ROOT / "scripts" / "mcpb.py"))["build"]
    first, second = (build(tmp_path / name, zipfile.ZIP_STORED) for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as bundle:
        names = set(bundle.namelist())
        manifest = json.loads(bundle.read("manifest.json"))
    validate(manifest, MANIFEST)
    assert {tool["name"] for tool in manifest["tools"]} == {offer.name for offer in offers("core")}
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE"} <= names
    assert manifest["server"]["entry_point"] in names
    assert any(name.endswith(".c") for name in names)
    assert not [name for name in names if name.endswith((".so", ".dll", ".pyc"))]
    assert shlex.join(manifest["server"]["mcp_config"]["args"]).endswith("fourfold mcp")


# ---------------------------------------------------------------- real programs


CLAUDE = ["npx", "--yes", "@anthropic-ai/claude-code@2.1.197"]


class Api(BaseHTTPRequestHandler):
    """A local replacement for the paid API: records every request and refuses it."""

    received: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.received.append(body.decode("utf-8", "replace"))
        answer = json.dumps(
            {"type": "error", "error": {"type": "invalid_request_error", "message": "refused"}}
        ).encode()
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


@pytest.fixture
def api() -> Iterator[tuple[str, list[str]]]:
    received: list[str] = []
    handler = type("Recording", (Api,), {"received": received})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()


def claude(home: Path, *arguments: str, **environment: str) -> str:
    own = {
        **os.environ, "HOME": str(home), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(home / "state"), "FOURFOLD_STORE": str(home / "store"), "FOURFOLD_HOOK_SECONDS": "9",
        "npm_config_cache": str(Path.home() / ".npm"), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", **environment,
    }  # fmt: skip
    (folder := home / "shop").mkdir(exist_ok=True)
    done = subprocess.run(
        [*CLAUDE, *arguments], env=own, cwd=folder, capture_output=True, text=True, timeout=550, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("npx") is None, reason="Claude Code is an npm package")
def test_claude_code_accepts_the_plugin_and_passes_hook_results_to_the_model(tmp_path, api):
    url, received = api
    for path in (ROOT, ROOT / "plugins" / "fourfold"):
        assert "Validation passed" in claude(tmp_path, "plugin", "validate", str(path))
    assert "Successfully added" in claude(tmp_path, "plugin", "marketplace", "add", str(ROOT))
    assert "Successfully installed" in claude(tmp_path, "plugin", "install", "fourfold@fourfold")
    with Memory.open(tmp_path / "store") as memory:
        memory.add("The staging host is called blue-7", wait=True)
    prompt = "Which host is staging? Please remember that the invoice printer is named Otto."
    claude(tmp_path, "-p", prompt, ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY="sk-none")
    assert any("Memories that may answer this prompt" in body and "blue-7" in body for body in received)
    with Memory.open(tmp_path / "store") as memory:
        assert "The invoice printer is named Otto." in [item.text for item in memory.list()]


OPENCODE = ["npx", "--yes", "opencode-ai@1.18.33"]


@pytest.mark.soak
def test_opencode_connects_to_the_server_of_the_entry_beside_its_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text(
        '{ // mine\n"mcp": {"other": {"type": "local", "command": ["x"], "enabled": false}}}'
    )
    own = {
        **os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "npm_config_cache": str(Path.home() / ".npm"), "FOURFOLD_EMBEDDER": "none",
    }  # fmt: skip
    write = [sys.executable, "-m", "fourfold", "--store", str(tmp_path / "store"), "mcp", "install"]
    for command in ([*write, "--client", "opencode", "--yes"], [*OPENCODE, "mcp", "list"]):
        done = subprocess.run(command, env=own, cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False)
        if "npm error" in done.stderr:
            pytest.skip(f"npm cannot install OpenCode here: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    for line in ("✓ fourfold", "connected", "○ other"):
        assert line in said

"""`fourfold mcp install --client` writes the entry where each client reads it, and changes nothing else there."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from fourfold.errors import InvalidSetting
from fourfold.serve.mcp import clients
from fourfold.serve.mcp.clients import CLIENTS, Client, ClientName

pytestmark = pytest.mark.spec("C19")

ENTRY: dict[str, Any] = {"command": "/opt/own/fourfold", "args": ["--namespace", 'a "b"', "mcp"], "env": {"X": "ü\\1"}}
FILES: dict[ClientName, tuple[str, str | None]] = {
    "claude-code": (".claude.json", ".mcp.json"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", None),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json"),
    "vscode": (".config/Code/User/mcp.json", ".vscode/mcp.json"),
    "codex": (".codex/config.toml", ".codex/config.toml"),
    "gemini": (".gemini/settings.json", ".gemini/settings.json"),
    "windsurf": (".codeium/windsurf/mcp_config.json", None),
}


@pytest.fixture(autouse=True)
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
    assert clients.write(client, path, ENTRY) is None
    assert content(path) == {client.key: {"fourfold": ENTRY}}
    assert clients.find(client, path) == ENTRY
    other = {**ENTRY, "env": {}}
    assert clients.write(client, path, other) == ENTRY
    assert clients.find(client, path) == other
    assert clients.write(client, path, None) == other
    assert clients.find(client, path) is None
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
def test_the_folder_of_applications_is_that_of_the_platform(
    home: Path, monkeypatch: pytest.MonkeyPatch, platform: str, environ: dict[str, str], expected: str
) -> None:
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
    assert clients.write(codex, path, ENTRY) == {"command": "old", "env": {"A": "1"}}
    text = path.read_text("utf-8")
    assert "# my settings" in text
    assert "# the best" in text
    assert "[profiles.p] # kept" in text
    assert tomllib.loads(text)["mcp_servers"] == {"other": {"command": "x"}, "fourfold": ENTRY}
    clients.write(codex, path, None)
    assert tomllib.loads(path.read_text("utf-8"))["mcp_servers"] == {"other": {"command": "x"}}


@pytest.mark.parametrize(
    "text", ['mcp_servers = {fourfold = {command = "x"}}\n', '[mcp_servers]\nfourfold = {command = "x"}\n']
)
def test_toml_that_cannot_be_edited_by_line_is_left_unchanged(home: Path, text: str) -> None:
    path = home / "config.toml"
    path.write_text(text)
    with pytest.raises(InvalidSetting, match="cannot be changed here"):
        clients.write(CLIENTS["codex"], path, ENTRY)
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

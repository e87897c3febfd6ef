"""`fourfold mcp install`: shows the entry for Claude Code, and with --yes writes it and nothing else."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_support import call

import fourfold
from fourfold.cli import serve as clients

OTHER = {"theme": "dark", "mcpServers": {"other": {"command": "x", "args": ["ü"]}}, "numbers": [1, 2.5, None]}


def run(home: Path, *arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `fourfold` with the files of Claude Code in `home`, and no other environment variables."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("FOURFOLD_")}
    given = {**own, "CLAUDE_CONFIG_DIR": str(home), "XDG_CONFIG_HOME": str(home / "none"), **environment}
    command = [sys.executable, "-m", "fourfold", *arguments]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False, cwd=cwd or home)


def install(home: Path, *options: str, store: str = "notes") -> subprocess.CompletedProcess[str]:
    return run(home, "--store", store, "mcp", "install", *options)


def entry_of(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text("utf-8"))["mcpServers"]["fourfold"]


def test_without_yes_the_entry_is_shown_and_nothing_is_written(tmp_path: Path) -> None:
    shown = install(tmp_path)
    assert shown.returncode == 0
    assert list(tmp_path.iterdir()) == []
    line, _, rest = shown.stdout.partition("\n")
    command = shlex.split(line)
    entry = json.loads(rest[rest.index("{") :])["mcpServers"]["fourfold"]
    assert command[:7] == ["claude", "mcp", "add", "--scope", "user", "fourfold", "--"]
    assert command[7:] == [entry["command"], *entry["args"]]
    with_variable = run(tmp_path, "mcp", "install", FOURFOLD_NAMESPACE="my garden").stdout
    assert "fourfold --env 'FOURFOLD_NAMESPACE=my garden' -- " in with_variable
    assert str(tmp_path / "notes") in entry["args"]


def test_the_written_entry_changes_nothing_else_and_starts_a_server(tmp_path: Path) -> None:
    file = tmp_path / ".claude.json"
    file.write_text(json.dumps(OTHER, ensure_ascii=False), "utf-8")
    file.chmod(0o600)
    assert install(tmp_path, "--yes", "--tools", "graph").returncode == 0
    written = json.loads(file.read_text("utf-8"))
    entry = written["mcpServers"].pop("fourfold")
    assert written == OTHER
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [".claude.json"]
    again = install(tmp_path, "--yes", "--tools", "graph")
    assert "already" in again.stdout
    assert "instead of" in install(tmp_path, "--yes").stdout
    assert entry["args"][-3:] == ["mcp", "--tools", "graph"]


@pytest.mark.parametrize("scope", ["user", "project"])
async def test_the_written_entry_starts_a_server_with_the_current_settings(tmp_path: Path, scope: str) -> None:
    variables = {"FOURFOLD_STORE": "notes", "FOURFOLD_NAMESPACE": "garden", "FOURFOLD_EMBEDDER": "none"}
    written, again = (run(tmp_path, "mcp", "install", "--yes", "--scope", scope, **variables) for _ in range(2))
    assert (written.returncode, again.returncode) == (0, 0)
    assert "with its next session" in written.stderr
    assert again.stderr == ""
    entry = entry_of(tmp_path / (".claude.json" if scope == "user" else ".mcp.json"))
    (elsewhere := tmp_path / "elsewhere").mkdir()
    server = StdioServerParameters(
        command=entry["command"],
        args=entry["args"],
        env={"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **entry["env"]},
        cwd=tmp_path if scope == "project" else elsewhere,
    )
    async with Client(server) as client:
        await call(client, "store_memory", content="heron")
        status = json.loads((await client.read_resource("memory://status")).contents[0].text)  # type: ignore[union-attr]
    assert (tmp_path / "notes" / "fourfold.db").exists()
    assert list(status["namespaces"]) == ["garden"]
    assert status["embedder"] is None


def test_the_entry_of_a_project_has_no_absolute_path(tmp_path: Path) -> None:
    options = ("mcp", "install", "--yes", "--scope", "project")
    (tmp_path / "own.yaml").touch()
    done = run(tmp_path, "--store", str(tmp_path / "in" / "notes"), "--config", "own.yaml", *options,
               FOURFOLD_EMBEDDER=f"onnx:{tmp_path / 'model'}")  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = (tmp_path / ".mcp.json").read_text("utf-8")
    assert str(tmp_path) not in written
    assert str(Path(sys.executable).parent) not in written
    entry = entry_of(tmp_path / ".mcp.json")
    assert entry["args"] == ["--store", "in/notes", "--config", "own.yaml", "mcp"]
    assert entry["env"] == {"FOURFOLD_EMBEDDER": "onnx:model"}
    outside = run(tmp_path, "--store", str(tmp_path.parent / "other"), *options)
    assert outside.returncode == 1
    assert "--scope user" in outside.stderr
    assert (tmp_path / ".mcp.json").read_text("utf-8") == written


@pytest.mark.parametrize("scope", ["user", "project"])
def test_a_password_or_key_is_neither_written_nor_shown(tmp_path: Path, scope: str) -> None:
    variables = {
        "FOURFOLD_STORE": "postgresql://me:canary@db.example/team",
        "FOURFOLD_EMBEDDER": "openai",
        "FOURFOLD_OPENAI_API_KEY": "canary",
        "FOURFOLD_OPENAI_BASE_URL": "https://models.example/v1",
    }
    said = ""
    for options in ((), ("--yes",)):
        done = run(tmp_path, "mcp", "install", "--scope", scope, *options, **variables)
        assert done.returncode == 0
        said += done.stdout + done.stderr
    for variable in ("FOURFOLD_STORE", "FOURFOLD_OPENAI_API_KEY"):
        assert f"{variable} holds a secret and is not written" in said
    file = tmp_path / (".claude.json" if scope == "user" else ".mcp.json")
    expected = {"FOURFOLD_EMBEDDER": "openai", "FOURFOLD_OPENAI_BASE_URL": "https://models.example/v1"}
    assert entry_of(file)["env"] == expected
    assert "canary" not in said + file.read_text("utf-8")
    flagged = install(tmp_path, "--yes", store=variables["FOURFOLD_STORE"])
    assert flagged.returncode == 1
    assert "canary" not in flagged.stdout + flagged.stderr
    assert install(tmp_path, "--yes", store="postgresql://me@db.example/team").returncode == 0


def test_uninstall_removes_the_entry_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / ".claude.json"
    assert "has no entry" in run(tmp_path, "mcp", "uninstall", "--yes").stdout
    assert not file.exists()
    file.write_text(json.dumps(OTHER, ensure_ascii=False), "utf-8")
    install(tmp_path, "--yes")
    before = file.read_bytes()
    shown = run(tmp_path, "mcp", "uninstall")
    assert "uninstall --yes removes it" in shown.stdout
    assert file.read_bytes() == before
    assert "removed from" in run(tmp_path, "mcp", "uninstall", "--yes").stdout
    assert json.loads(file.read_text("utf-8")) == OTHER


@pytest.mark.parametrize("content", ["{", "[]", '{"mcpServers": []}', "\udcff"])
def test_a_file_that_cannot_be_parsed_is_left_unchanged(tmp_path: Path, content: str) -> None:
    file = tmp_path / ".claude.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    refused = install(tmp_path, "--yes")
    assert refused.returncode in (1, 4)
    assert "Correct the file" in refused.stderr
    assert file.read_bytes() == content.encode("utf-8", "surrogateescape")


@pytest.mark.spec("C17")
def test_without_a_script_the_server_imports_nothing_from_the_folder_it_starts_in(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "")
        patch.setattr(sys, "executable", str(tmp_path / "python"))
        command = clients._program("user")  # type: ignore[reportPrivateUsage]
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    (tmp_path / "fourfold.py").write_text("raise SystemExit('imported')")
    started = [sys.executable, *command[1:], "--version"]
    done = subprocess.run(started, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.strip() == fourfold.__version__, done.stderr

"""`fourfold mcp install`: shows the entry for Claude Code, and with --yes writes it and nothing else."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp_support import call

OTHER = {"theme": "dark", "mcpServers": {"other": {"command": "x", "args": ["ü"]}}, "numbers": [1, 2.5, None]}


def install(
    home: Path, *options: str, store: str = "notes", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fourfold", "--store", store, "mcp", "install", *options]
    environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(home), "FOURFOLD_EMBEDDER": "none"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=cwd or home)


def test_it_is_shown_and_nothing_is_written(tmp_path: Path) -> None:
    shown = install(tmp_path)
    assert shown.returncode == 0
    assert list(tmp_path.iterdir()) == []
    line, _, rest = shown.stdout.partition("\n")
    command = shlex.split(line)
    entry = json.loads(rest[rest.index("{") :])["mcpServers"]["fourfold"]
    assert command[:7] == ["claude", "mcp", "add", "--scope", "user", "fourfold", "--"]
    assert command[7:] == [entry["command"], *entry["args"]]
    assert str(tmp_path / "notes") in entry["args"]


def test_what_is_written_leaves_all_else_alone_and_starts_a_server(tmp_path: Path) -> None:
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


async def test_the_written_entry_starts_a_server_that_answers(tmp_path: Path) -> None:
    assert install(tmp_path, "--yes", "--scope", "project").returncode == 0
    entry = json.loads((tmp_path / ".mcp.json").read_text("utf-8"))["mcpServers"]["fourfold"]
    environment = {**os.environ, **entry["env"], "FOURFOLD_EMBEDDER": "none"}
    async with Client(StdioServerParameters(command=entry["command"], args=entry["args"], env=environment)) as client:
        await call(client, "store_memory", content="heron")
    assert (tmp_path / "notes" / "fourfold.db").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"mcpServers": []}', "\udcff"])
def test_a_file_that_is_not_understood_is_left_as_it_is(tmp_path: Path, content: str) -> None:
    file = tmp_path / ".claude.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    refused = install(tmp_path, "--yes")
    assert refused.returncode in (1, 4)
    assert "Mend the file" in refused.stderr
    assert file.read_bytes() == content.encode("utf-8", "surrogateescape")

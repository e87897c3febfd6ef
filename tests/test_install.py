"""What `pip install fourfold` needs, and what works without the rest."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
BASE = {Requirement(line).name: Requirement(line) for line in PROJECT["dependencies"]}


def fourfold(store: Path, *arguments: str, without: str) -> subprocess.CompletedProcess[str]:
    """The command line in an environment in which a package cannot be imported."""
    code = f"import sys; sys.modules[{without!r}] = None; from fourfold.cli.main import main; main()"
    environment = {**os.environ, "FOURFOLD_STORE": str(store), "FOURFOLD_EMBEDDER": "builtin"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_an_environment_that_pins_either_generation_of_mcp_can_install_the_library() -> None:
    for version in ("1.2.0", "1.30.0", "2.3.0"):
        assert BASE["mcp"].specifier.contains(version)


@pytest.mark.parametrize("missing", ["mcp", "tokenizers"])
def test_the_library_works_without(missing: str, tmp_path: Path) -> None:
    """With vectors of the built-in model."""
    added = fourfold(tmp_path, "add", "The heron nests behind gate 7", without=missing)
    assert (added.returncode, added.stdout) == (0, "1\n"), added.stderr
    found = fourfold(tmp_path, "search", "where does the bird live", "--preset", "wiki", without=missing)
    assert "heron" in found.stdout
    assert not found.stderr


@pytest.mark.parametrize("arguments", [("mcp",), ("mcp", "--http", "127.0.0.1:0")])
def test_the_server_beside_an_older_mcp_says_what_to_do(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = fourfold(tmp_path, *arguments, without="mcp_types")
    assert done.returncode == 3
    assert "mcp in version 2.3 or newer" in done.stderr
    assert "pipx install fourfold" in done.stderr
    assert done.stdout == ""


def test_the_base_has_no_tokenizer_library() -> None:
    assert "tokenizers" not in BASE
    assert PROJECT["optional-dependencies"]["onnx"] == ["tokenizers>=0.21"]


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("claude_memory", "anthropic", "claude"),
        ("haystack", "haystack", "haystack"),
        ("langchain", "langchain_core", "langchain"),
        ("langgraph", "langgraph", "langgraph"),
        ("llama_index", "llama_index", "llama-index"),
    ],
)
def test_an_adapter_without_its_framework_says_what_to_install(module: str, package: str, extra: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import fourfold.integrations.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert f"pip install 'fourfold[{extra}]'" in done.stderr.splitlines()[-1]
    assert "MissingExtra" in done.stderr.splitlines()[-1]
    assert extra in PROJECT["optional-dependencies"]

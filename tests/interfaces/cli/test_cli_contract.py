"""The contract of the command line: exit codes, pure --json, and commands that load nothing heavy."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fourfold.errors import FourfoldError

Cli = Callable[..., Any]

ENGINE = {"numpy", "onnxruntime", "faiss", "apsw", "tokenizers"}
HEAVY = ENGINE | {"httpx", "yaml", "rich", "pydantic", "asyncio"}


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a new process has loaded after the command."""
    code = (
        "import sys\nfrom fourfold.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split())


def test_help_loads_nothing_heavy() -> None:
    modules = loaded_by("--help")
    assert not modules & HEAVY
    ours = {name for name in modules if name.startswith("fourfold.")}
    assert ours == {"fourfold.cli", "fourfold.errors", "fourfold.operations"} | {
        f"fourfold.cli.{name}" for name in ("commands", "main", "output")
    }


def test_version(cli: Cli) -> None:
    from fourfold import __version__

    assert cli("--version").out == f"{__version__}\n"


# ---------------------------------------------------------------- exit codes


def test_a_parser_rejection_exits_with_2(cli: Cli) -> None:
    for arguments in ("serch x", "search", "search x --nonsense", "search x -k many", "get"):
        done = cli(*arguments.split())
        assert (done.code, done.out) == (2, "")
        assert "Error" in done.err


@pytest.mark.parametrize("arguments", [["search", "x", "-k", "many"], ["search"], ["nothing", "x"]])
def test_a_parser_rejection_with_json_is_one_object(arguments: list[str], cli: Cli) -> None:
    done = cli(*arguments, "--json")
    assert done.code == 2
    assert done.json["status"] == "error"
    assert set(done.json) == {"status", "error", "details", "tool"}


def errors(kind: type[FourfoldError]) -> list[type[FourfoldError]]:
    return [kind, *(error for child in kind.__subclasses__() for error in errors(child))]


@pytest.mark.spec("S1.8")
@pytest.mark.parametrize("kind", errors(FourfoldError), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("as_json", [False, True])
def test_every_error_has_its_code_and_its_remedy(kind, as_json, cli, monkeypatch):
    def fail(*_: object) -> None:
        raise kind("what was \x1b[31mwrong", "what to do")

    monkeypatch.setattr("fourfold.cli.upkeep.load_config", fail)
    done = cli("config", *(["--json"] if as_json else []))
    assert done.code == kind.exit_code
    if as_json:
        assert done.json["error"] == "what was \x1b[31mwrong"
        assert done.json["details"] == "what to do"
        assert done.json["tool"] == "config"
        assert done.err == ""
    else:
        assert done.err == "error: what was wrong\n  what to do\n"
        assert done.out == ""


def test_an_error_of_the_system_exits_with_3(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/root/secret")

    monkeypatch.setattr("fourfold.cli.upkeep.load_config", fail)
    assert cli("config").code == 3
    assert "Permission denied" in cli("config", "--json").json["error"]


def test_a_query_that_looks_like_the_option_is_a_query(cli: Cli) -> None:
    cli("add", "x")
    done = cli("search", "--", "--json")
    assert (done.code, done.out) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", " "], ["search", "x", "-k", "0"], ["search", "x", "-k", "-5"], ["search", "x", "-k", "200"],
        ["search", "x", "--weights", "semantic=0.7,keyword=0.3001"], ["search", "x", "--weights", "vectors=1"],
        ["search", "x", "--weights", "nonsense"], ["search", "x", "--preset", "nonsense"],
        ["search", "x", "--fusion", "nonsense"], ["search", "x", "--only", "nonsense"], ["search", "x", "--only", ""],
        ["search", "x", "--alpha", "2", "--preset", "memories"], ["search", "x", "--per-source", "0"],
        ["search", "x", "--min-confidence", "2"], ["search", "x", "--from", "yesterday"],
        ["search", "x", "--meta", "nonsense"], ["get", "1"], ["get", "key:absent"], ["get", "abc"],
        ["update", "1", "--text", "x"], ["update", "1"], ["forget"], ["forget", "1"], ["forget", "1", "--tag", "x"],
        ["add", " "], ["add", "x", "--source", "99"], ["add", "x", "--at", "soon"], ["add", "x", "--meta", "soon"],
        ["why", "1", "x"], ["import", "absent.jsonl"], ["restore", "absent.backup"], ["list", "--limit", "0"],
        ["graph", "neighbors", "Nobody", "--depth", "6"], ["graph", "remove", "Nobody"],
        ["graph", "remove", "a", "b"], ["graph", "edge", "a", "uses", "b", "--weight", "nan"],
        ["--config", "absent.yaml", "config"], ["--namespace", "a,b", "status"], ["--namespace", ",", "search", "x"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_invalid_request_exits_with_1_and_names_the_remedy(arguments: list[str], cli: Cli) -> None:
    done = cli(*arguments)
    assert done.code == 1, done
    assert done.out == ""
    first, *rest = done.err.splitlines()
    assert first.startswith("error: ")
    assert rest
    assert all(line.startswith("  ") for line in rest)


def test_a_store_that_cannot_be_written_exits_with_3(home: Path, cli: Cli) -> None:
    (home / "file").write_text("not a folder")
    done = cli("--store", str(home / "file" / "store"), "add", "x")
    assert done.code == 3
    assert done.err.startswith("error: ")


def test_a_damaged_store_exits_with_4(home: Path, cli: Cli) -> None:
    assert cli("add", "x").code == 0
    for file in (home / "store").rglob("*"):
        if file.is_file() and file.stat().st_size > 0:
            file.write_bytes(b"damaged" * 4096)
    done = cli("search", "x", "--json")
    assert done.code == 4, done
    assert done.json["status"] == "error"


@pytest.mark.skipif(os.name == "nt", reason="processes end differently there")
def test_a_closed_pipe_gives_no_traceback(home: Path) -> None:
    command = [sys.executable, "-m", "fourfold", "--help"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    _, err = process.communicate()
    assert b"Traceback" not in err

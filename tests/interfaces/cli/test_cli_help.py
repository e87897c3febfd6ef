"""Help that leads on: grouped commands, examples that work, words where there is nothing to show."""

import io
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from newcomer_session import EXAMPLES

from fourfold import ItemPatch, Memory, NewItem
from fourfold.cli.commands import SECTIONS, Group
from fourfold.cli.main import app

Cli = Callable[..., Any]

MEM0 = {"results": [{"id": "1", "memory": "Ada likes tea", "user_id": "ada"}]}
NEEDS_SERVER = ("fourfold db ",)
"""Examples that need PostgreSQL or a distributed index: only their arguments are read."""
STAYS = ("fourfold serve", "fourfold mcp --", "fourfold mcp\n", "fourfold --store notes mcp")
"""Examples that run until somebody ends them; test_serve and test_mcp run these commands."""


def commands(group: Any, path: str = "fourfold") -> Iterator[tuple[str, Any]]:
    for name in group.places:
        command = group.get_command(None, name)
        if isinstance(command, Group):
            yield from commands(command, f"{path} {name}")
        if not isinstance(command, Group) or command.invoke_without_command:
            yield f"{path} {name}", command


COMMANDS = dict(commands(app))


def examples(command: Any) -> list[str]:
    return [line for line in (command.epilog or "").splitlines() if line.startswith("fourfold ")]


EVERY_EXAMPLE = [example for command in COMMANDS.values() for example in examples(command)]


def test_help_names_every_command_in_its_section(cli: Cli) -> None:
    shown = cli("--help").out.partition("--help")[2]
    titles = re.findall(r"^(\w+):$", shown, re.MULTILINE)
    assert [title.lower() for title in titles] == [
        "store",
        "search",
        "graph",
        "files",
        "upkeep",
        "servers",
        "evaluation",
    ]
    for title, places in SECTIONS.items():
        section = shown.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  ([a-z-]+)  ", section, re.MULTILINE) == [*places]


@pytest.mark.parametrize(("name", "command"), COMMANDS.items(), ids=COMMANDS)
def test_every_command_has_an_example_of_itself(name: str, command: Any, cli: Cli) -> None:
    shown = cli(*name.split()[1:], "--help").out
    assert examples(command)
    for example in examples(command):
        assert example in shown
        assert set(name.split()) <= set(shlex.split(example))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small store and the files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    with Memory.open(folder / "store") as memory:
        memory.add_raw("Ada: the router is in room 4", speaker="Ada")
        memory.add("The router of the network is in room 4, its password in the blue folder", tags=["office"])
        memory.add("Mollie", subject="Checkout", attribute="payment provider")
        memory.add("The router of the network is in room 4, its password in the blue folder!", wait=True)
        memory.update(2, ItemPatch(add_tags=("payment",)))
        memory.propose([NewItem("Deploy on Tuesdays", kind="decision"), NewItem("Tests never sleep")], "s1")
        memory.add_edges([("Checkout", "uses", "Kestrel", 1.0), ("Kestrel", "kept by", "Ada", 1.0)])
        memory.backup(folder / "backup.db")
    (folder / "notes").mkdir()
    (folder / "notes" / "servers.md").write_text("# Servers\n\nRestart them on Mondays.\n")
    (folder / "rows.jsonl").write_text('{"text": "a row"}\n')
    (folder / "mem0.json").write_text(json.dumps(MEM0))
    shutil.copytree(EXAMPLES / "questions", folder / "questions")
    return folder


@pytest.mark.parametrize("example", EVERY_EXAMPLE)
def test_every_example_works(example: str, small: Path, home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    program, *arguments = shlex.split(example)
    assert program == "fourfold"
    if example.startswith(NEEDS_SERVER) or f"{example}\n".startswith(STAYS):
        read_only(arguments)
        return
    folder = home / "example"
    shutil.copytree(small, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FOURFOLD_STORE", "store")
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    done = cli(*arguments)
    assert done.code == 0, done
    assert done.out


def read_only(arguments: list[str]) -> None:
    """Reads the arguments as the program does, without running a command."""
    command: Any = app
    context = command.make_context("fourfold", arguments)
    while isinstance(command, Group) and (left := [*context._protected_args, *context.args]):
        command = command.get_command(None, left[0])
        context = command.make_context(left[0], left[1:], parent=context)


# ---------------------------------------------------------------- nothing is silent


@pytest.mark.parametrize("store", ["empty", "small"])
@pytest.mark.parametrize(
    "arguments",
    [
        "list", "list --tag nope", "search key", "retrieve key", "tags", "namespaces", "status", "dedup", "check",
        "tags --json", "repair", "scan-secrets", "config", "backup b.db", "presets", "graph nodes",
        "graph nodes --like nope", "graph neighbors Lone", "graph path Lone Lane", "raw list",
        "forget --tag nope --yes", "index notes", "import rows.jsonl", "export all.jsonl", "copy elsewhere",
        "hook prompt", "mcp install",
    ],
)  # fmt: skip
def test_no_command_is_silent(arguments, store, home, cli, monkeypatch):
    monkeypatch.chdir(home)
    (home / "notes").mkdir()
    (home / "rows.jsonl").touch()
    with Memory.open(home / "store", embedder="none") as memory:
        if store == "small" or "graph" in arguments:
            memory.add(NewItem("The spare key"))
            memory.add_node("Lone")
            memory.add_node("Lane")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    done = cli(*arguments.split())
    assert done.code == 0, done
    assert done.out.strip() or done.err.strip()


def test_ctrl_c_while_files_are_read_says_how_far_it_came(home: Path) -> None:
    notes = home / "notes"
    notes.mkdir()
    for number in range(3000):
        (notes / f"{number}.md").write_text(f"# Note {number}\n\n" + f"Words of note {number}. " * 50)
    command = [sys.executable, "-m", "fourfold", "index", str(notes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        database = home / "store" / "fourfold.db"
        while process.poll() is None and not _items(database):
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert re.search(r"interrupted after \d+ files?, which are stored; the same command reads the others", err)


def _items(database: Path) -> int:
    if not database.exists():
        return 0
    with Memory.open(database.parent, embedder="none", background=False) as memory:
        return memory.count()


# ---------------------------------------------------------------- status in words


def test_status_says_what_is_stored_what_waits_and_what_to_do_next(home: Path, cli: Cli) -> None:
    with Memory.open(home / "store", embedder="none"):
        pass
    assert cli("status").out.splitlines()[1:] == [
        "stored   nothing in the namespace default",
        'next     fourfold add "TEXT" stores an item, fourfold index FOLDER stores files',
    ]
    cli("add", "The spare key is with Mrs Okafor", "--lang", "en")
    cli("graph", "edge", "Checkout", "uses", "Kestrel")
    assert cli("status").out.splitlines()[1:] == [
        "stored   1 item (en), 2 names, 1 relation in the namespace default",
        "search   ready by words, names and tags; not by meaning, because no embedder is set",
        'next     fourfold search "QUESTION"',
    ]
    assert cli("status", "--json").json["namespaces"]["default"]["items"] == 1


def test_status_says_how_many_items_wait_for_vectors(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("add", "The spare key is with Mrs Okafor")
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    waiting = cli("status").out
    assert "by meaning 0 of 1 item\n" in waiting
    assert "waiting  1 item for its vector\n" in waiting
    assert "next     fourfold embed makes the vectors\n" in waiting
    cli("embed")
    ready = cli("status").out
    assert "search   ready by meaning, words, names and tags\n" in ready
    assert "waiting" not in ready


# ---------------------------------------------------------------- paths without a name


@pytest.mark.parametrize(
    "arguments",
    [
        ["copy", ""], ["move", ""], ["backup", ""], ["restore", ""], ["export", ""], ["import", ""], ["index", ""],
        ["eval", ""], ["tune", ""], ["--store", "", "list"], ["list", "--store", ""], ["--config", "", "list"],
        ["search", "x", "--vector", ""], ["retrieve", "x", "--chroma", "", "--collection", "c"],
        ["db", "start", "--data", ""],
    ],
)  # fmt: skip
def test_an_empty_path_is_refused(arguments: list[str], cli: Cli) -> None:
    done = cli(*arguments)
    assert done.code == 1
    assert re.fullmatch(r"error: \S+ is empty\n  Name a file, a folder or an address\n", done.err)

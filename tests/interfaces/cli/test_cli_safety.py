"""Safety: reading creates nothing, nothing is replaced or removed without a request, options are recognized."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_calls import StoreCalls

from fourfold import Memory, Settings
from fourfold.errors import DamagedError
from fourfold.serve.http import judgements

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "x"], ["retrieve", "x"], ["list"], ["get", "1"], ["why", "1", "x"], ["tags"], ["namespaces"],
        ["status"], ["check"], ["repair"], ["scan-secrets"], ["reembed"], ["embed"], ["export", "-"],
        ["backup", "copy.db"], ["copy", "elsewhere"], ["move", "elsewhere"], ["update", "1", "--text", "x"],
        ["forget", "1"], ["graph", "neighbors", "x"], ["graph", "path", "x", "y"], ["graph", "remove", "x"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_store_that_does_not_exist_is_not_created(arguments, home, cli, monkeypatch):
    monkeypatch.chdir(home)
    done = cli(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"error: no store in {home / 'store'}\n  Create a store with `fourfold add`")
    assert list(home.iterdir()) == []


def test_export_writes_to_stdout(home: Path, cli: Cli) -> None:
    cli("add", "words")
    done = cli("export", "-")
    assert done.err == "exported 1 namespace, 1 item\n"
    cli("export", str(home / "file.jsonl"))
    assert done.out == (home / "file.jsonl").read_text("utf-8")


def test_export_replaces_a_file_only_by_force(home: Path, cli: Cli) -> None:
    cli("add", "words")
    (home / "file.jsonl").write_text("precious")
    done = cli("export", str(home / "file.jsonl"))
    assert done.code == 1
    assert "replace it with --force" in done.err
    assert (home / "file.jsonl").read_text() == "precious"
    assert cli("export", str(home / "file.jsonl"), "--force").code == 0
    assert '"words"' in (home / "file.jsonl").read_text()


@pytest.mark.spec("B9")
def test_copy_and_move_keep_the_source_unless_told_otherwise(home: Path, cli: Cli) -> None:
    cli("add", "words")
    for command in ("copy", "move"):
        done = cli(command, str(home / command))
        assert done.out.startswith("copied 1 namespace, 1 item\nchecksum ")
        assert cli("list", "--json").json["count"] == 1
        assert cli("--store", str(home / command), "list", "--json").json["count"] == 1
    assert cli("move", str(home / "target"), "--delete-source").out.endswith("the source is removed\n")
    assert not (home / "store").exists()
    assert cli("--store", str(home / "target"), "list", "--json").json["count"] == 1


@pytest.mark.spec("B9")
def test_a_source_that_changed_after_the_copy_is_not_removed(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        memory.add("words")
        with pytest.raises(Exception, match="changed after it was copied"):
            StoreCalls(memory.store).remove(lambda records: not list(records))
        assert memory.count() == 1


# ---------------------------------------------------------------- options and help


def test_global_options_are_understood_after_the_command(home: Path, cli: Cli) -> None:
    elsewhere = str(home / "elsewhere")
    assert cli("add", "words", "--store", elsewhere, "--namespace", "work").code == 0
    assert "words" in cli("search", "words", f"--store={elsewhere}", "--namespace", "work").out
    cli("graph", "edge", "A", "uses", "B", "--store", elsewhere)
    assert "B" in cli("graph", "neighbors", "--store", elsewhere, "A").out
    assert "B" in cli("graph", "--store", elsewhere, "neighbors", "A").out
    assert not (home / "store").exists()
    (home / "own.yaml").write_text("top_k: 3\n")
    assert f"top_k\t3\tfile {home / 'own.yaml'}:1" in cli("config", "--config", str(home / "own.yaml")).out


def test_a_value_that_looks_like_a_global_option_stays_a_value(cli: Cli) -> None:
    cli("add", "words", "--title", "--store")
    assert cli("list", "--json").json["items"][0]["title"] == "--store"


@pytest.mark.parametrize(
    "arguments", [["-h"], ["search", "-h"], ["graph", "-h"], ["graph", "edge", "-h"]], ids=" ".join
)
def test_h_is_help(arguments: list[str], cli: Cli) -> None:
    assert cli(*arguments).out == cli(*arguments[:-1], "--help").out != ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_a_shell(shell: str, cli: Cli) -> None:
    done = cli("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"_FOURFOLD_COMPLETE={shell}_complete" in done.out
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=done.out, text=True, check=True)


def completed(words: str) -> list[str]:
    environment = {
        **os.environ,
        "_FOURFOLD_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    command = [sys.executable, "-m", "fourfold"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [line.removeprefix("plain,") for line in done.stdout.split()]


def test_commands_and_options_are_completed() -> None:
    assert completed("fourfold re") == ["retrieve", "restore", "reembed", "repair"]
    assert completed("fourfold search --min") == ["--min-confidence"]
    assert "neighbors" in completed("fourfold graph ")


# ---------------------------------------------------------------- items


@pytest.mark.spec("B10")
def test_adding_an_existing_text_reports_what_was_kept_and_ignored(cli: Cli) -> None:
    assert cli("add", "words", "--title", "Old", "--tag", "a").err == ""
    done = cli("add", "words", "--title", "New", "--tag", "b", "--kind", "note", "--meta", "n=1")
    assert done.out == "1\n"
    assert done.err == (
        "item 1 has this text already: its title, kind, metadata and time are kept, tags and sources are added; "
        "ignored: --title, --kind, --meta\n"
    )
    (item,) = cli("get", "1", "--json").json["items"]
    assert (item["title"], item["tags"], item["kind"]) == ("Old", ["a", "b"], None)
    assert "ignored" not in cli("add", "words").err


@pytest.mark.spec("B10")
def test_replacing_an_item_reports_what_was_ignored(cli: Cli) -> None:
    assert cli("add", "words", "--key", "k", "--at", "2026-01-01T10:00").err == ""
    assert cli("add", "other words", "--key", "k").err == ""
    done = cli("add", "other words", "--key", "k", "--at", "2026-01-02T10:00")
    assert done.err == "item 1 has this key already and is replaced; ignored: --at\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "x", "--lang", "german"],
        ["add", "x", "--lang", "DE"],
        ["search", "x", "--lang", "xx"],
        ["list", "--lang", "g"],
    ],
    ids=" ".join,
)
def test_unknown_languages_are_refused(arguments: list[str], cli: Cli) -> None:
    cli("add", "words", "--lang", "de")
    done = cli(*arguments)
    assert done.code == 1
    assert "is not a language code" in done.err
    assert "ISO 639-1" in done.err


@pytest.mark.spec("B10")
def test_a_new_item_with_an_earlier_time_is_reported_as_new(cli: Cli) -> None:
    assert cli("add", "words", "--at", "2020-01-01T10:00").err == ""
    assert "has this text already" in cli("add", "words", "--at", "2020-01-01T10:00").err
    assert "ignored: --at" in cli("add", "words", "--at", "2021-01-01T10:00").err
    fact = ("--subject", "Ann", "--attribute", "home")
    assert cli("add", "Ann lives in Bonn", *fact).err == ""
    assert cli("add", "Ann lives in Rome", *fact, "--at", "2020-01-01").err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("arguments", ["list", "list --json", "export -", "status --json"])
@pytest.mark.parametrize("output", [">&-", "> /dev/full"])
def test_output_that_cannot_be_written_gives_no_traceback(tmp_path: Path, arguments: str, output: str) -> None:
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        memory.add("words")
    program = f"{sys.executable} -m fourfold --store {tmp_path / 'store'}"
    shell = f"export FOURFOLD_EMBEDDER=none; {program} {arguments} {output}"
    done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True, timeout=100, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 3)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
@pytest.mark.parametrize(
    "arguments",
    [["add", "x", "--vector", "/dev/zero"], ["status", "--config", "/dev/zero"], ["add", "-"], ["raw", "add", "-"]],
    ids=" ".join,
)
def test_a_file_without_an_end_is_refused(arguments: list[str], home: Path) -> None:
    with Path("/dev/zero").open("rb") as endless:
        command = [sys.executable, "-m", "fourfold", *arguments]
        done = subprocess.run(command, stdin=endless, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "more than 16,777,216 bytes" in done.stderr) == (1, True), done.stderr
    assert not (home / "store").exists()


@pytest.mark.parametrize("descriptors", range(6, 16, 2))
def test_few_file_descriptors_give_no_traceback(home: Path, cli: Cli, descriptors: int) -> None:
    resource = pytest.importorskip("resource")
    cli("add", "the heron nests here")

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    command = [sys.executable, "-m", "fourfold", "repair"]
    done = subprocess.run(command, preexec_fn=few, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 3), done.stderr


DAMAGED = {"judgements.json": ["", "[]", '{"heron": [1]}', '{"heron": {"1": null}}', "[" * 3000, "\x00"]}


@pytest.mark.parametrize(("name", "content"), [(name, content) for name in DAMAGED for content in DAMAGED[name]])
def test_damaged_judgements_are_a_typed_error_and_stop_no_upkeep(home: Path, cli: Cli, name: str, content: str) -> None:
    cli("add", "the heron nests here")
    folder = judgements.folder_of(Settings(store=str(home / "store")), "default")
    folder.mkdir(parents=True)
    (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(DamagedError, match="judgements"):
        judgements.read(folder)
    done = cli("check")
    assert (done.code, "the judgements in" in done.out) == (4, True)
    done = cli("scan-secrets")
    assert (done.code, "not scanned: the judgements in" in done.out) == (0, True)
    assert cli("repair").code == 0

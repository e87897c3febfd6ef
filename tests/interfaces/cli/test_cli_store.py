"""The commands on a real store."""

import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from fourfold.cli.demo import QUESTIONS

Cli = Callable[..., Any]
HOSTILE = "\x1b[31mred\x1b[0m \x1b]0;owned\x07 \u202egnp [bold]x[/bold]"


def add(cli: Cli, *arguments: str) -> str:
    done = cli("add", *arguments)
    assert done.code == 0, done
    return done.out.strip()


def search(cli: Cli, *arguments: str) -> Any:
    done = cli("search", *arguments, "--json")
    assert done.code == 0, done
    return done.json


# ---------------------------------------------------------------- add, get, update, list, forget


def test_add_prints_the_id_and_get_shows_all(cli: Cli) -> None:
    item = add(
        cli,
        *("The lease ends in June", "--key", "lease", "--title", "Lease", "--tag", "office", "--tag", "Contract"),
        *("--kind", "note", "--lang", "en", "--meta", "year=2029", "--meta", "by=Caspar", "--at", "2026-11-15T10:00Z"),
    )
    assert item.isdecimal()
    (stored,) = cli("get", "key:lease", "--json").json["items"]
    assert stored["id"] == int(item)
    assert stored["metadata"] == {"year": 2029, "by": "Caspar"}
    assert stored["created_at"] == "2026-11-15T10:00:00Z"
    assert (stored["title"], stored["kind"], set(stored["tags"])) == ("Lease", "note", {"office", "Contract"})
    shown = cli("get", item).out
    assert "The lease ends in June" in shown
    assert "key        lease" in shown


def test_add_reads_stdin(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Grüße\nzweite Zeile\n".encode())))
    item = add(cli, "-")
    assert "Grüße\nzweite Zeile" in cli("get", item, "--json").json["items"][0]["content"]


def test_stdin_that_is_not_utf8_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe")))
    done = cli("add", "-")
    assert (done.code, done.out) == (1, "")


@pytest.mark.spec("B13")
def test_update(cli: Cli) -> None:
    item = add(cli, "old words", "--key", "k", "--tag", "a", "--tag", "b", "--meta", "x=1", "--meta", "y=2")
    done = cli(
        "update", "key:k", "--text", "new words", "--tag", "c", "--untag", "a", "--meta", "x=null", "--meta", "z=3"
    )
    assert done.out == f"{item}\n"
    (stored,) = cli("get", item, "--json").json["items"]
    assert stored["content"] == "new words"
    assert set(stored["tags"]) == {"b", "c"}
    assert stored["metadata"] == {"y": 2, "z": 3}
    assert search(cli, "old")["results"] == []
    assert [result["id"] for result in search(cli, "new")["results"]] == [int(item)]


@pytest.mark.spec("B13")
def test_list_is_newest_first_filtered_and_paged(cli: Cli) -> None:
    for day in (1, 3, 2):
        add(cli, f"note of day {day}", "--key", f"d{day}", "--tag", f"day{day}", "--at", f"2026-11-0{day}T12:00")
    keys = [item["key"] for item in cli("list", "--json").json["items"]]
    assert keys == ["d3", "d2", "d1"]
    page = cli("list", "--limit", "1", "--offset", "1", "--json").json
    assert [item["key"] for item in page["items"]] == ["d2"]
    assert len(cli("list", "--to", "2026-11-02").out.splitlines()) == 2
    assert len(cli("list", "--from", "2026-11-02").out.splitlines()) == 2
    assert len(cli("list", "--tag", "day1", "--tag", "day2", "--any-tag").out.splitlines()) == 2
    assert cli("list", "--tag", "day1", "--tag", "day2").out == ""


def test_forget_by_id_removes_all_or_none(cli: Cli) -> None:
    item = add(cli, "a", "--key", "a")
    assert cli("forget", item, "999").code == 1
    assert cli("forget", "key:a").out == "forgot 1 item\n"
    assert cli("get", item).code == 1


@pytest.mark.spec("B15")
def test_several_namespaces_only_when_named(cli: Cli) -> None:
    add(cli, "words of the default")
    for name in ("project", "personal"):
        assert cli("--namespace", name, "add", f"words of the {name}").code == 0
    one = cli("--namespace", "project", "search", "words", "--json").json
    both = cli("--namespace", "project,personal", "search", "words", "--json").json
    assert {result["namespace"] for result in one["results"]} == {"project"}
    assert {result["namespace"] for result in both["results"]} == {"project", "personal"}
    assert cli("namespaces", "--json").json["namespaces"] == {"default": 1, "personal": 1, "project": 1}


@pytest.mark.spec("B13")
def test_forget_by_tag_names_the_count_and_requires_a_confirmation(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        add(cli, f"value {number}", "--tag", "old", "--subject", "Maria", "--attribute", "home")
    assert len(cli("list").out.splitlines()) == 1
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    refused = cli("forget", "--tag", "old")
    assert (refused.code, refused.out) == (1, "")
    assert "3 items" in refused.err
    assert "--yes" in refused.err
    assert len(cli("list").out.splitlines()) == 1
    assert cli("forget", "--tag", "old", "--yes").out == "forgot 3 items\n"
    assert cli("list").out == ""
    assert cli("forget", "--tag", "old").out == "forgot 0 items\n"


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_forget_asks_on_a_terminal(answer: str, left: int, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    add(cli, "note", "--tag", "old")
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    done = cli("forget", "--tag", "old")
    assert "1 item" in done.err
    assert done.code == (1 if left else 0)
    assert len(cli("list").out.splitlines()) == left


# ---------------------------------------------------------------- search, why


def test_search_reports_failed_retrievers_on_stderr(cli: Cli) -> None:
    add(cli, "words to find")
    done = cli("search", "words")
    assert "degraded: semantic: " in done.err
    assert "words" in done.out
    assert cli("search", "words", "--json").err == ""


@pytest.mark.parametrize(("title", "lines"), [((), 2), (("--title", "Pond"), 3)])
def test_in_a_pipe_a_note_without_a_title_is_printed_once(cli: Cli, title: tuple[str, ...], lines: int) -> None:
    cli("add", "a heron at the pond", *title)
    assert len(cli("search", "heron", "--only", "keyword").out.splitlines()) == lines


def test_finding_nothing_is_not_an_error(cli: Cli) -> None:
    add(cli, "words")
    done = cli("search", "nothing", "--only", "keyword")
    assert (done.code, done.out) == (0, "")
    assert "nothing found" in done.err
    assert search(cli, "nothing")["results"] == []


@pytest.mark.spec("C7")
def test_where_and_meta_select_items(cli: Cli) -> None:
    for line, kind in ((1, "x"), (10, "code"), (1000, "x")):
        add(cli, f"report at {line}", *("--key", str(line)), *("--meta", f"line={line}"), *("--kind", kind))

    def keys(*filters: str) -> set[str]:
        return {result["key"] for result in search(cli, "report", *filters)["results"]}

    assert keys("--where", "line >= 10 and kind != code") == {"1000"}
    assert keys("--where", "line in (1, 10)", "--kind", "code") == {"10"}
    assert keys("--meta", "line!=1000") == {"1", "10"}
    assert keys("--meta", "line>1", "--meta", "line<=10") == {"10"}
    refused = cli("add", "text", "--meta", "line!=1000")
    assert refused.code == 1
    assert "is not metadata" in refused.err
    wrong = cli("search", "report", "--where", "line >= and kind")
    assert wrong.code == 1
    assert "character 9" in wrong.err
    assert cli("forget", "--where", "line < 5", "--yes").out == "forgot 1 item\n"
    assert cli("list", "--where", "line exists").out.count("report") == 2


@pytest.mark.spec("C7")
def test_a_filter_on_an_unknown_name_lists_the_known_ones(cli: Cli) -> None:
    add(cli, "report", "--kind", "note", "--tag", "Work", "--meta", "line=3")
    assert "no item has the kind 'nota'; kinds: note" in search(cli, "report", "--kind", "nota")["notes"]
    assert "no item has the tag 'wrk'; tags: work" in cli("list", "--tag", "wrk").err
    assert "no item has the metadata key 'lin'; keys: line" in cli("forget", "--where", "lin > 1", "--yes").err
    assert "no item has the kind 'cod'" in search(cli, "report", "--where", "kind != cod")["notes"][0]
    assert search(cli, "report", "--where", "kind != code and line = 3")["notes"] == [
        "no item has the kind 'code'; kinds: note"
    ]
    assert search(cli, "report", "--where", "line = 4")["notes"] == []


@pytest.mark.spec("B2")
def test_why(cli: Cli) -> None:
    add(cli, "words to find", "--key", "there")
    add(cli, "something else", "--key", "other")
    found = cli("why", "key:there", "words")
    assert "is at rank 1" in found.out
    assert "█" in found.out
    missing = cli("why", "key:other", "words")
    assert "was not found" in missing.out
    assert cli("why", "key:other", "words", "--json").json["rank"] is None


# ---------------------------------------------------------------- graph


@pytest.mark.spec("S4.1")
def test_graph_commands(cli: Cli) -> None:
    item = add(cli, "It tracks parcels", "--title", "Tracking")
    assert cli("graph", "node", "Paketfuchs", "--label", "service", "--alias", "fox", "--item", item).code == 0
    assert cli("graph", "edge", "Paketfuchs", "uses", "Rabenhorst", "--weight", "0.8").code == 0
    assert cli("graph", "edge", "Rabenhorst", "run-by", "Jonas").code == 0
    (near,) = cli("graph", "neighbors", "fox", "--json").json["neighbors"]
    assert (near["name"], near["relation"], near["weight"]) == ("Rabenhorst", "uses", 0.8)
    assert len(cli("graph", "neighbors", "Paketfuchs", "--depth", "2").out.splitlines()) == 2
    assert cli("graph", "neighbors", "Paketfuchs", "--direction", "in").out == ""
    assert cli("graph", "neighbors", "Paketfuchs", "--direction", "sideways").code == 1
    assert cli("graph", "neighbors", "Nobody").code == 1
    assert cli("graph", "neighbors", "Paketfuchs", "--depth", "6").code == 1
    path = cli("graph", "path", "Paketfuchs", "Jonas")
    assert path.out.splitlines() == ["Paketfuchs -uses-> Rabenhorst", "Rabenhorst -run-by-> Jonas"]
    assert cli("graph", "remove", "Rabenhorst", "run-by", "Jonas").code == 0
    nothing = cli("graph", "path", "Paketfuchs", "Jonas")
    assert (nothing.code, nothing.out) == (0, "")
    assert cli("graph", "remove", "Paketfuchs").code == 0
    assert cli("graph", "neighbors", "Paketfuchs").code == 1


# ---------------------------------------------------------------- import, export, backup, upkeep


def rows(path: Path, *records: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


@pytest.mark.spec("B9")
def test_invalid_rows_refuse_an_import_or_are_listed_and_skipped(home: Path, cli: Cli) -> None:
    file = rows(home / "rows.jsonl", {"text": "first words"}, {"text": ""}, {"text": "third words"}, {"tags": 5})
    refused = cli("import", file)
    assert refused.code == 1
    assert "rows.jsonl:2: " in refused.err
    assert "2 rows are invalid" in refused.err
    assert "--skip-invalid" in refused.err
    done = cli("import", file, "--skip-invalid")
    assert (done.code, done.out) == (0, "imported 2 items, skipped 2 rows\n")
    assert "skipped rows.jsonl:2: " in done.err
    assert "skipped rows.jsonl:4: " in done.err


@pytest.mark.spec("B9")
def test_export_and_import_give_the_same_store(home: Path, cli: Cli) -> None:
    add(cli, "words", "--key", "k", "--title", "Title", "--tag", "t")
    assert cli("graph", "edge", "Title", "uses", "Other").code == 0
    assert cli("export", str(home / "one.jsonl")).code == 0
    assert cli("--store", str(home / "copy"), "import", str(home / "one.jsonl")).code == 0
    assert cli("--store", str(home / "copy"), "export", str(home / "two.jsonl")).code == 0
    assert (home / "one.jsonl").read_bytes() == (home / "two.jsonl").read_bytes()


@pytest.mark.spec("B9")
def test_backup_and_restore(home: Path, cli: Cli) -> None:
    item = add(cli, "words of then")
    assert cli("backup", str(home / "then.backup")).code == 0
    add(cli, "words of now")
    assert cli("restore", str(home / "then.backup")).code == 1
    elsewhere = ("--store", str(home / "elsewhere"))
    assert cli(*elsewhere, "restore", str(home / "then.backup")).code == 0
    found = cli(*elsewhere, "search", "words", "--json").json
    assert [result["id"] for result in found["results"]] == [int(item)]


def test_problems_exit_with_4(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_: object) -> list[str]:
        return ["item 3 is not in the keyword index"]

    add(cli, "words")
    monkeypatch.setattr("fourfold.memory.Memory.check", check)
    assert cli("check").code == 4
    done = cli("check", "--json")
    assert (done.code, done.json["problems"]) == (4, ["item 3 is not in the keyword index"])


def test_config_shows_where_values_come_from(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_OPENAI_API_KEY", "sk-canary")
    done = cli("--namespace", "mine", "config")
    assert "namespace\tmine\tflag" in done.out
    assert "embedder\tnone\tenvironment FOURFOLD_EMBEDDER" in done.out
    assert "openai_api_key\tset\tenvironment FOURFOLD_OPENAI_API_KEY" in done.out
    settings = cli("config", "--json").json["settings"]
    assert settings["preset"] == {"value": "auto", "origin": "default"}
    assert "sk-canary" not in done.out + done.err + json.dumps(settings)


@pytest.mark.parametrize(
    "arguments", [["status"], ["status", "--json"], ["config"], ["config", "--json"], ["add", "x"]]
)
def test_a_password_in_the_store_is_never_printed(arguments: list[str], cli: Cli) -> None:
    """Neither output nor errors contain the password."""
    done = cli("--store", "postgresql://me:sk-canary@127.0.0.1:1/db?password=sk-canary", *arguments)
    assert done.code == (0 if arguments[0] == "config" else 3)
    assert "sk-canary" not in done.out + done.err


@pytest.mark.spec("C15")
def test_a_search_shows_the_fact_of_a_result_and_whether_it_is_superseded(cli: Cli) -> None:
    for text, day in (("We left Mollie over its refunds", "2026-01-02"), ("Payments run over Adyen", "2026-03-04")):
        add(cli, text, "--subject", "Payments", "--attribute", "provider", "--at", day)
    done = cli("search", "Mollie and its refunds")
    assert "We left Mollie" in done.out
    assert "Payments / provider, superseded 2026-03-04" in done.out
    assert "note: no current item answers" in done.err


# ---------------------------------------------------------------- demo


def test_the_demo_searches_and_explains(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without the model, whose vectors would take most of the time; the answers report that."""
    from fourfold.cli.demo import QUESTIONS
    from fourfold.config import Settings

    monkeypatch.setattr("fourfold.cli.demo.SETTINGS", Settings(embedder="none"))
    done = cli("demo")
    assert done.code == 0
    assert all(f'fourfold search "{question.text}"' in done.out for question in QUESTIONS)
    assert "Bremsbeläge am Brummer wechseln" in done.out
    assert "█" in done.out
    assert "fourfold add" in done.out
    assert "degraded: semantic" in done.err


def test_the_demo_leaves_the_users_store_alone(home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from fourfold.config import Settings

    monkeypatch.setattr("fourfold.cli.demo.SETTINGS", Settings(embedder="none"))
    assert cli("demo").code == 0
    assert not (home / "store").exists()
    assert not (home / "home").exists()


@pytest.mark.spec("S4.1")
def test_the_graph_for_people(cli: Cli) -> None:
    add(cli, "Postgres with two replicas", "--title", "Kestrel")
    add(cli, "Takes orders, and asks Kestrel", "--title", "Checkout")
    cli("graph", "node", "Kestrel", "--alias", "the bird")
    cli("graph", "edge", "Mira", "owns", "Kestrel")
    cli("graph", "edge", "Checkout", "uses", "Kestrel", "--weight", "0.5")
    assert cli("graph", "nodes").out == "Kestrel\tentity\t1\t1\t2\nCheckout\tentity\t1\t0\t1\nMira\tentity\t0\t0\t1\n"
    assert cli("graph", "nodes", "--like", "BIRD", "--json").json["nodes"] == [
        {"name": "Kestrel", "label": "entity", "items": 1, "mentions": 1, "edges": 2}
    ]
    assert cli("graph", "nodes", "--like", "nothing").err == "no nodes found\n"
    assert cli("graph", "show", "kestrel").out == (
        "Kestrel (entity)\n  also called the bird\nitems\n  [1] Kestrel\nmentioned in\n  [2] Checkout\n"
        "edges\n  1 Mira -owns-> Kestrel\n  0.5 Checkout -uses-> Kestrel\n"
    )
    shown = cli("graph", "show", "Kestrel", "--json").json
    assert (shown["items"], shown["mentions"], shown["edges"][0]["weight"]) == ([1], [2], 1.0)
    assert cli("graph", "show", "Nobody").code == 1


# ---------------------------------------------------------------- raw records, own vectors


@pytest.mark.spec("C6")
def test_raw_records_are_kept_shown_listed_and_forgotten(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cli(
        "raw", "add", "We meet on Monday", "--speaker", "Maria", "--session", "s1", "--meta", "turn=1"
    ).out.strip()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{HOSTILE} at ten".encode())))
    second = cli("raw", "add", "-", "--speaker", "Tom", "--session", "s1").out.strip()
    item = add(cli, "Meeting on Monday at ten", "--source", first, "--source", second)
    shown = cli("raw", "get", first, second)
    assert "We meet on Monday" in shown.out
    assert f"raw record {first} (Maria, s1)" in shown.out
    assert "\x1b" not in shown.out
    assert cli("raw", "get", first, "--json").json["raw"][0]["metadata"] == {"turn": 1}
    listed = cli("raw", "list", "--session", "s1", "--json").json
    assert [record["id"] for record in listed["raw"]] == [int(second), int(first)]
    assert (listed["total"], listed["has_more"]) == (2, False)
    assert [line.split("\t")[0] for line in cli("raw", "list", "--speaker", "Tom").out.splitlines()] == [second]
    assert "We meet on Monday" in cli("get", item, "--sources").out
    assert [each["id"] for each in cli("get", item, "--sources", "--json").json["sources"]] == [int(first), int(second)]
    assert f"drawn from raw record {first} (Maria, s1)" in cli("why", item, "meeting").out
    assert [each["id"] for each in cli("why", item, "meeting", "--json").json["sources"]] == [int(first), int(second)]
    kept = cli("raw", "forget", first)
    assert kept.code == 1
    assert f"raw record {first} is a source of item {item}" in kept.err
    assert cli("raw", "forget", first, "--force").out == "forgot 1 raw record\n"
    assert cli("get", item, "--json").json["items"][0]["source_ids"] == [int(second)]
    assert cli("raw", "get", first).code == 1


@pytest.mark.spec("S1.6")
def test_vectors_may_come_from_a_file(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")
    for name, vector in (("east", "[1.0, 0.0]"), ("north", "[0.0, 1.0]"), ("wrong", "{}"), ("broken", "[")):
        (tmp_path / name).write_text(vector, "utf-8")
    east = add(cli, "one", "--vector", str(tmp_path / "east"))
    north = add(cli, "two", "--vector", str(tmp_path / "north"))
    for file, expected in (("east", east), ("north", north)):
        found = search(cli, "anything", "--only", "semantic", "--vector", str(tmp_path / file))
        assert found["results"][0]["id"] == int(expected)
    for file in ("wrong", "broken", "missing"):
        assert cli("add", "three", "--vector", str(tmp_path / file)).code == 1
    assert cli("list", "--json").json["count"] == 2


# ---------------------------------------------------------------- nodes that share a name on the command line


@pytest.mark.spec("S4.1")
def test_nodes_that_share_a_name_are_told_apart_by_name_and_label(cli: Any) -> None:
    for label in ("planet", "metal"):
        assert cli("graph", "node", "Mercury", "--label", label).code == 0
    refused = cli("graph", "edge", "Mercury", "orbits", "Sun")
    assert refused.code == 1
    assert "Mercury#metal or Mercury#planet" in refused.err
    assert cli("graph", "edge", "Mercury#planet", "orbits", "Sun").code == 0
    assert "orbits" in cli("graph", "path", "Mercury#planet", "Sun").out
    assert "no path" in cli("graph", "path", "Mercury#metal", "Sun").err
    assert "Sun" in cli("graph", "neighbors", "Mercury#planet").out
    assert cli("graph", "remove", "Mercury#planet", "orbits", "Sun").code == 0
    assert cli("graph", "remove", "Mercury#metal").code == 0
    assert cli("graph", "neighbors", "Mercury").code == 0


def test_an_unknown_node_is_reported_with_the_command_that_finds_names(cli: Any) -> None:
    cli("graph", "node", "Mercury")
    refused = cli("graph", "show", "Merkury")
    assert refused.code == 1
    assert "no node 'Merkury'" in refused.err
    assert "fourfold graph nodes --like TEXT finds names" in " ".join(refused.err.split())


# ---------------------------------------------------------------- `fourfold demo --serve`


def test_the_demo_opens_its_page_and_leaves_nothing_behind(tmp_path: Path) -> None:
    opened, temporary = tmp_path / "opened", tmp_path / "temporary"
    temporary.mkdir()
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o700)
    environment = {"HOME": str(tmp_path), "TMPDIR": str(temporary), "PATH": "/usr/bin:/bin", "BROWSER": str(browser)}
    command = [sys.executable, "-I", "-m", "fourfold", "demo", "--serve"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        line = next(line for line in process.stderr if "answers at" in line)
        deadline = time.monotonic() + 20
        while not opened.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        address = opened.read_text().strip()
        assert address in line
        with urlopen(address) as page:
            assert b"<title>Fourfold</title>" in page.read()
        body = json.dumps({"query": "BRK-4471-B"}).encode()
        request = Request(f"{address}/v1/namespaces/default/search", body, {"Content-Type": "application/json"})
        with urlopen(request) as answer:
            assert json.load(answer)["results"][0]["title"] == "Bremsbeläge am Brummer wechseln"
        with urlopen(f"{address}/v1/namespaces/default/judgements") as answer:
            judged = {each["query"] for each in json.load(answer)["judgements"]}
        assert judged >= {question.text for question in QUESTIONS if question.answer is not None}
        process.send_signal(signal.SIGINT)
        assert process.wait(10) in (0, 130)
        assert list(temporary.glob("fourfold*")) == []
    finally:
        process.kill()
        process.communicate()

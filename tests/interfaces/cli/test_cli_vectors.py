"""Every item gets a vector: commands embed what they store, and a background worker embeds the rest."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_support import WordEmbedder

from fourfold import Memory, NewItem
from fourfold.cli import vectors as embedding
from fourfold.embed.builtin import FINGERPRINT, REPLACED

Cli = Callable[..., Any]

pytestmark = pytest.mark.spec("C4")

SECONDS = 300
"""Seconds after which a worker counts as hung."""


def end_workers() -> None:
    """Ends workers that other tests left running, too: a running process that is forgotten warns in some later test."""
    for process in embedding.started:
        process.terminate()
        process.wait(SECONDS)
    embedding.started.clear()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The workers that the test starts, with the built-in model; they end with the test."""
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    end_workers()
    yield embedding.started
    end_workers()


def rows(folder: Path, count: int) -> str:
    """Rows, two of which share no word with the question that they answer."""
    texts = [f"ledger entry number {number}" for number in range(count - 2)]
    texts += ["The router's password is in the blue folder", "Our cat sleeps on the radiator"]
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return str(file)


def vectors(cli: Cli, namespace: str = "default") -> tuple[int, int]:
    facts = cli("status", "--json").json["namespaces"][namespace]
    return facts["vectors"], facts["pending_vectors"]


def test_what_the_time_budget_does_not_cover_is_embedded_by_a_worker(home, cli, workers, monkeypatch):
    monkeypatch.setenv("FOURFOLD_EMBED_SECONDS", "0")
    done = cli("import", rows(home, 100))
    assert done.out == "imported 100 items\n"
    assert "68 items wait for their vectors: a background process makes them" in done.err
    assert "Traceback" not in done.err
    (worker,) = workers
    assert worker.wait(SECONDS) == 0
    assert vectors(cli) == (100, 0)
    assert cli("status", "--json").json["embedding_worker"] is False
    found = cli("search", "how do I get into the network?", "--only", "semantic", "-k", "1", "--json").json
    assert found["results"][0]["content"] == "The router's password is in the blue folder"
    assert found["degraded"] == []


def test_within_the_budget_everything_is_embedded_and_no_worker_starts(home, cli, workers):
    assert cli("import", rows(home, 10)).err == ""
    assert vectors(cli) == (10, 0)
    assert workers == []


def test_no_wait_returns_at_once_and_the_worker_embeds(home: Path, cli: Cli, workers: list[Any]) -> None:
    assert "10 items wait" in cli("import", "--no-wait", rows(home, 10)).err
    workers[0].wait(SECONDS)
    assert vectors(cli) == (10, 0)
    assert "1 item waits for its vector" in cli("add", "--no-wait", "one more").err
    workers[1].wait(SECONDS)
    assert vectors(cli) == (11, 0)


@pytest.mark.skipif(os.name == "nt", reason="sessions are of POSIX")
def test_the_worker_outlives_the_terminal_of_its_command(home: Path, cli: Cli, workers: list[Any]) -> None:
    cli("import", "--no-wait", rows(home, 40))
    assert os.getsid(workers[0].pid) == workers[0].pid  # a session of its own, which no terminal signals


def test_a_changed_text_is_found_by_its_meaning_at_once(cli: Cli, workers: list[Any]) -> None:
    cli("add", "Our cat sleeps on the radiator")
    cli("add", "The meeting is on Friday")
    assert cli("update", "2", "--text", "The router's password is in the blue folder").err == ""
    found = cli("search", "how do I get into the network?", "--only", "semantic", "--json").json
    assert [result["id"] for result in found["results"]] == [2, 1]
    assert found["degraded"] == []
    assert workers == []


def test_embed_processes_pending_items(home, cli, workers, monkeypatch):
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")
    cli("import", rows(home, 5))
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    assert cli("embed").out == "made 5 vectors; 5 of 5 items have one\n"
    assert cli("embed").out == "made 0 vectors; 5 of 5 items have one\n"
    assert vectors(cli) == (5, 0)
    assert workers == []


def test_check_reports_pending_vectors(home, cli, workers, monkeypatch):
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")
    cli("import", rows(home, 5))
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    done = cli("check")
    assert done.code == 0
    assert done.out == (
        "no problems found\ndefault: 5 items wait for their vectors; `fourfold --namespace default embed` makes them\n"
    )
    assert cli("check", "--json").json["pending_vectors"] == {"default": 5}
    cli("embed")
    assert cli("check", "--json").json["pending_vectors"] == {}


@pytest.fixture
def earlier(home: Path) -> str:
    """The fingerprint of an earlier built-in encoder, which made the vectors of 40 items."""
    model = WordEmbedder(dimension=384)
    model.fingerprint = f"{REPLACED[0]}8199be6f699a395f/mean/256/384"
    with Memory.open(home / "store", embedder=model, background=False) as memory:
        memory.add_many([NewItem(f"ledger entry number {number}") for number in range(40)], wait=True)
    return model.fingerprint


def space(cli: Cli) -> str:
    return cli("status", "--json").json["namespaces"]["default"]["embedder"]


def test_reading_a_store_of_an_earlier_encoder_changes_nothing(cli: Cli, workers: list[Any], earlier: str) -> None:
    found = cli("search", "ledger entry 7", "--json").json
    assert found["results"][0]["content"] == "ledger entry number 7"
    assert [(each["retriever"], each["pending"]) for each in found["degraded"]] == [("semantic", 40)]
    assert "fourfold embed" in found["degraded"][0]["reason"]
    assert (space(cli), workers) == (earlier, [])


@pytest.mark.parametrize("rows_added", [1, 0])
def test_a_write_starts_the_renewal_of_a_store_of_an_earlier_encoder(home, cli, workers, earlier, rows_added):
    (home / "rows.jsonl").write_text('{"text": "one more"}\n' * rows_added, "utf-8")
    assert "a background process makes them" in cli("import", "--no-wait", str(home / "rows.jsonl")).err
    workers[0].wait(SECONDS)
    assert vectors(cli) == (40 + rows_added, 0)
    assert space(cli) == FINGERPRINT != earlier
    assert cli("search", "ledger", "--json").json["degraded"] == []
    assert cli("check").out == "no problems found\n"


def test_embed_renews_a_store_of_an_earlier_encoder(cli: Cli, workers: list[Any], earlier: str) -> None:
    assert cli("embed").out == "made 40 vectors; 40 of 40 items have one\n"
    assert (space(cli), workers) == (FINGERPRINT, [])


def test_without_an_embedder_nothing_is_started(home: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    end_workers()
    monkeypatch.setenv("FOURFOLD_EMBED_SECONDS", "0")
    assert cli("import", "--no-wait", rows(home, 50)).err == ""
    assert cli("embed").code == 1
    assert embedding.started == []


def test_commands_succeed_when_the_endpoint_hangs_and_its_worker_can_be_ended(home, cli, workers, monkeypatch):
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "openai")
    monkeypatch.setenv("FOURFOLD_OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("FOURFOLD_OPENAI_API_KEY", "canary-4711")
    done = cli("import", rows(home, 5))
    assert done.code == 0
    assert "stored, but vectors are not being made" in done.err
    assert cli("import", "--wait", rows(home, 5)).code == 3
    command = Path(f"/proc/{workers[0].pid}/cmdline")
    if command.exists():
        assert b"canary" not in command.read_bytes()
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        worker.wait(SECONDS)
    assert cli("status", "--json").json["embedding_worker"] is False
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    assert cli("embed").out == "made 5 vectors; 5 of 5 items have one\n"

"""Receipts: what interfaces were asked and given, on both databases; no search fails or waits because of them."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import psycopg
import pytest
from engine_support import WordEmbedder
from http_server import serving

import fourfold
from fourfold import Memory, NewItem, Settings
from fourfold.model import Supply


@pytest.fixture
def memory(either: Path | str):
    with Memory.open(either, embedder=WordEmbedder()) as opened:
        opened.add_many([NewItem("The router is in room 4"), NewItem("Herons nest in March")], wait=True)
        yield opened


def ask(memory: Memory, text: str, via: str = "command") -> None:
    memory.receipts.add_response(memory.search(text), via, [memory.namespace])


def test_what_was_asked_and_given_is_counted_by_interface(memory: Memory) -> None:
    assert (memory.stats().since, memory.stats().supplies) == (None, ())
    ask(memory, "router room")
    ask(memory, "router room", "mcp")
    ask(memory, "violet geometry lesson")
    stats = memory.stats()
    command, mcp = stats.supplies
    assert (command.via, command.asked, command.answered, command.unknown) == ("command", 2, 1, 1)
    assert (mcp.via, mcp.asked, mcp.answered) == ("mcp", 1, 1)
    assert stats.since is not None
    assert (stats.items, stats.never_retrieved, stats.oldest_unused) == (2, 1, (2,))
    assert memory.stats(limit=1).oldest_unused == (2,)


def test_receipts_of_several_processes_add_up_and_survive_closing(either: Path | str) -> None:
    opened = [Memory.open(either, embedder="none", background=False) for _ in range(4)]
    opened[0].add("The router is in room 4")

    def work(memory: Memory) -> None:
        for _ in range(25):
            ask(memory, "router")
            memory.receipts.write()

    workers = [threading.Thread(target=work, args=(memory,)) for memory in opened]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for memory in opened:
        memory.receipts.write()  # what could not be written amid the others
        memory.close()
    with Memory.open(either, embedder="none") as again:
        (supply,) = again.stats().supplies
        assert (supply.asked, supply.items) == (100, 100)


def test_forgotten_items_leave_no_receipt(memory: Memory) -> None:
    ask(memory, "router room")
    memory.forget([1])
    assert memory.stats().oldest_unused == (2,)
    ask(memory, "herons nest")
    memory.receipts.add(memory.namespace, "command", [1, 2, 999])  # 1 and 999 are gone
    assert memory.stats().never_retrieved == 0
    assert memory.check() == []
    memory.repair(purge=True)
    assert memory.stats().items == 1


def test_receipts_are_off_with_one_setting(either: Path | str) -> None:
    with Memory.open(either, settings=Settings(embedder="none", receipts=False)) as memory:
        memory.add("The router is in room 4")
        ask(memory, "router")
        assert memory.stats().supplies == ()


def test_no_text_is_in_the_receipts(tmp_path: Path) -> None:
    with Memory.open(tmp_path, embedder="none") as memory:
        memory.add("The router is in room 4")
        ask(memory, "Where is the confidential router")
        memory.stats()
    db = apsw.Connection(str(tmp_path / "fourfold.db"))
    rows = [*db.execute("SELECT * FROM receipts"), *db.execute("SELECT * FROM retrievals")]
    assert len(rows) == 2
    assert "confidential" not in str(rows)


def test_a_locked_store_delays_no_search_and_receipts_wait(tmp_path: Path) -> None:
    with Memory.open(tmp_path, embedder="none", background=False) as memory:
        memory.add("The router is in room 4")
        other = apsw.Connection(str(tmp_path / "fourfold.db"))
        other.execute("BEGIN IMMEDIATE")
        ask(memory, "router")
        assert not memory.store.add_receipts("default", {}, {}, fourfold_now())
        memory.receipts.write()
        assert memory.stats().supplies == ()
        other.execute("ROLLBACK")
        other.close()
        assert memory.stats().supplies == (Supply("command", 1, 1, 0, 1),)
        with memory.store.transaction("default"):  # a write of this process
            assert not memory.store.add_receipts("default", {}, {}, fourfold_now())


def test_rows_that_another_process_locks_delay_no_search_on_postgres() -> None:
    import postgres_servers

    dsn = postgres_servers.fresh()
    with Memory.open(dsn, embedder="none", background=False) as memory:
        memory.add("The router is in room 4")
        ask(memory, "router")
        assert memory.stats().supplies[0].asked == 1
        with psycopg.connect(memory.store.address.dsn) as other:
            other.execute(f"SET search_path = {memory.store.address.schema}")
            other.execute("SELECT 1 FROM receipts FOR UPDATE")
            ask(memory, "router")
            memory.receipts.write()
            assert memory.stats().supplies[0].asked == 1
        assert memory.stats().supplies[0].asked == 2


def test_a_store_that_cannot_be_written_still_answers(tmp_path: Path) -> None:
    with Memory.open(tmp_path, embedder="none", background=False) as memory:
        memory.add("The router is in room 4")
        memory.store.database._writer.pragma("query_only", True)
        ask(memory, "router")
        memory.receipts.write()
        assert memory.search("router").results[0].id == 1
        assert memory.stats().supplies == ()


def fourfold_now():
    from datetime import UTC, datetime

    return datetime.now(UTC)


def test_servers_tools_commands_and_hooks_leave_receipts(tmp_path: Path) -> None:
    store, environment = str(tmp_path / "store"), {"FOURFOLD_EMBEDDER": "none", "XDG_STATE_HOME": str(tmp_path)}
    with Memory.open(store, embedder="none") as memory:
        memory.add_many([NewItem("The router is in room 4"), NewItem("Herons nest in March")])

    def command(*arguments: str, content: str = "") -> str:
        line = [sys.executable, "-m", "fourfold", "--store", store, *arguments]
        own = {**environment, "PATH": "", "HOME": str(tmp_path)}
        return subprocess.run(line, input=content, env=own, capture_output=True, text=True, check=True).stdout

    command("search", "router room")
    command("hook", "prompt", content=json.dumps({"prompt": "Which room has the router?"}))
    with serving(store, FOURFOLD_EMBEDDER="none") as server:
        with fourfold.connect(server.url) as remote:
            remote.search("router room")
            asyncio.run(tool(server.url))
            supplies = {each.via: each for each in remote.stats().supplies}
        with server.client() as client:  # what the page asks is not counted
            page = {"sec-fetch-site": "same-origin"}
            client.post("/v1/namespaces/default/search", json={"query": "router"}, headers=page).raise_for_status()
            assert client.get("/v1/namespaces/default/stats").json()["supplies"][1]["asked"] == 1
    assert {via: (each.asked, each.answered) for via, each in supplies.items()} == dict.fromkeys(
        ("command", "http", "mcp", "prompt"), (1, 1)
    )
    shown = command("stats")
    assert "prompt\t1\t1\t0\t1" in shown
    assert "never an answer yet: 1 of 2 items\nthe oldest of them: 2\n" in shown
    assert json.loads(command("stats", "--json"))["never_retrieved"] == 1


async def tool(url: str) -> None:
    from mcp import Client

    async with Client(f"{url}/mcp") as client:
        answer = await client.call_tool("hybrid_search", {"query_text": "router room"})
        assert not answer.is_error

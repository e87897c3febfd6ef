"""Several servers and the command line on one store: each finds in its next call what another stored."""

import asyncio
import os
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
from mcp import Client
from mcp_support import call, connected

CLIENTS = 4
SECONDS = 60.0
WORDS = ("heron", "otter", "stork", "badger")


async def found(client: Client, words: str, item: int) -> bool:
    answer = await call(client, "full_text_search", query_text=words, top_k=20, max_tokens=50_000)
    return item in [result["id"] for result in answer["results"]]


def by_command(store: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "fourfold", "--store", str(store), *arguments]
    environment = {**os.environ, "FOURFOLD_EMBEDDER": "none"}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.spec("B6", "B7")
async def test_two_servers_and_the_command_line_follow_each_other(tmp_path: Path) -> None:
    async with connected(tmp_path, "--tools", "all") as one, connected(tmp_path, "--tools", "all") as other:
        stored = await call(one, "store_memory", content="The otter sleeps under the bridge", key="otter")
        item = stored["item"]["id"]
        assert await found(other, "otter bridge", item)
        assert "otter" in await asyncio.to_thread(by_command, tmp_path, "search", "otter")
        await call(other, "update_memory", id=item, content="The badger sleeps under the bridge")
        assert await found(one, "badger", item)
        assert not await found(one, "otter", item)
        added = int(await asyncio.to_thread(by_command, tmp_path, "add", "a stork from the command line"))
        for client in (one, other):
            assert await found(client, "stork", added)
        await call(one, "delete_memory", ids=[item])
        assert not await found(other, "badger", item)
        assert (await call(other, "list_memories"))["items"][0]["id"] == added


# ---------------------------------------------------------------- the soak


@dataclass
class Figures:
    stored: list[float] = field(default_factory=list)
    searched: list[float] = field(default_factory=list)
    missed: int = 0

    def __str__(self) -> str:
        parts = [
            f"{name} {len(times)} (median {median(times) * 1000:.0f} ms, longest {max(times) * 1000:.0f} ms)"
            for name, times in (("stored", self.stored), ("searched", self.searched))
        ]
        return f"{CLIENTS} clients, {SECONDS:.0f} s: {', '.join(parts)}, missed {self.missed}"


async def live(number: int, clients: list[Client], figures: Figures, until: float) -> None:
    """One agent: it stores an item, which the next agent must find in its next call, by words and by meaning."""
    mine, next_one = clients[number], clients[(number + 1) % len(clients)]
    count = 0
    while time.monotonic() < until:
        count += 1
        name = f"{WORDS[number]}{number}x{count}"
        started = time.perf_counter()
        stored = await call(mine, "store_memory", content=f"The {name} was seen near the river in the morning")
        figures.stored.append(time.perf_counter() - started)
        started = time.perf_counter()
        answer = await call(next_one, "hybrid_search", query_text=f"where was the {name}", top_k=5, explain=True)
        figures.searched.append(time.perf_counter() - started)
        ways = {result["id"]: result.get("semantic_similarity") for result in answer["results"]}
        figures.missed += ways.get(stored["item"]["id"]) is None  # its vector existed, too
        waiting = [lack["pending"] for lack in answer["degraded"]]  # items that the others are just storing
        assert all(0 < pending < CLIENTS for pending in waiting), answer["degraded"]


@pytest.mark.soak
async def test_four_agents_share_a_memory_for_a_minute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs four processes with the built-in model; an error of any call fails the test."""
    figures = Figures()
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connected(tmp_path, FOURFOLD_EMBEDDER="builtin")) for _ in range(CLIENTS)
        ]
        for client in clients:  # the model loads once in each
            await call(client, "store_memory", content="The first note about a river")
        until = time.monotonic() + SECONDS
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(live(number, clients, figures, until))
        total = (await call(clients[0], "list_memories"))["total"]
    with capsys.disabled():
        print(f"\n{figures}")  # noqa: T201
    assert figures.missed == 0
    assert total == len(figures.stored) + 1

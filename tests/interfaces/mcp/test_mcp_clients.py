"""Several servers and the command line on one store: each finds in its next call what another stored."""

import asyncio
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

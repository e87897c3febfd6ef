"""A server that is told to end under load: it ends, and what it confirmed is stored."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import httpx
from http_attacks import half_open_headers, half_sent_bodies, unread_streams
from mcp_http import serving

from fourfold import Memory

HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
CLIENTS = 8


def store(client: httpx.Client, url: str, text: str) -> bool:
    """Whether the server confirmed it."""
    call = {"name": "store_memory", "arguments": {"content": text}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    answer = client.post(f"{url}/mcp", json=request, headers=HEADERS)
    return answer.status_code == 200 and not answer.json()["result"]["isError"]


def test_a_server_under_load_ends_and_loses_nothing_it_confirmed(tmp_path: Path) -> None:
    confirmed: list[str] = []
    enough = threading.Event()

    def work(name: int) -> None:
        with httpx.Client(timeout=60) as client:
            for number in range(10_000):
                text = f"heron {name} {number}"
                try:
                    if not store(client, server.url, text):
                        return
                except httpx.HTTPError:
                    return
                confirmed.append(text)
                if len(confirmed) > 5 * CLIENTS:
                    enough.set()

    with serving(tmp_path) as server:  # which also expects that nothing is printed
        workers = [threading.Thread(target=work, args=(name,)) for name in range(CLIENTS)]
        for worker in workers:
            worker.start()
        assert enough.wait(120)
        with half_open_headers(server.port), half_sent_bodies(server.port), unread_streams(server.port):
            server.process.terminate()
            assert server.process.wait(60) in (0, -signal.SIGTERM)
        for worker in workers:
            worker.join(60)
    with Memory.open(tmp_path, embedder="none") as memory:
        pages = range(0, len(confirmed) + 1000, 1000)
        stored = {item.text for offset in pages for item in memory.list(limit=1000, offset=offset)}
    assert set(confirmed) <= stored

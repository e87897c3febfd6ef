"""SIGTERM: a request that is running is answered, what it wrote is stored, and the store is closed."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import httpx
import pytest
from http_server import NS, start

from fourfold import Memory

pytestmark = pytest.mark.spec("C9")

ROWS = 12_000


def test_a_running_request_finishes_before_the_server_ends(tmp_path: Path) -> None:
    server = start(tmp_path)
    rows = "".join(f'{{"text": "row {number}"}}\n' for number in range(ROWS))
    answers: list[httpx.Response] = []

    def load() -> None:
        with server.client() as client:
            typed = {"content-type": "application/jsonl"}
            answers.append(client.post(f"{NS}/import", content=rows, headers=typed))

    loading = threading.Thread(target=load)
    loading.start()
    with server.client() as client:
        while not client.get(f"{NS}/items", params={"limit": 1}).json()["total"]:
            assert loading.is_alive()
            time.sleep(0.01)
        assert not answers
        server.process.send_signal(signal.SIGTERM)
        loading.join(60)
        assert server.process.wait(60) in (0, -signal.SIGTERM)
    assert server.process.stderr is not None
    assert server.process.stderr.read() == ""
    server.process.stderr.close()
    assert [(answer.status_code, answer.json()["items"]) for answer in answers] == [(200, ROWS)]
    assert not (tmp_path / "fourfold.db-wal").exists(), "closing the last connection removes the file"
    with Memory.open(tmp_path, embedder="none") as memory:
        assert memory.count() == ROWS

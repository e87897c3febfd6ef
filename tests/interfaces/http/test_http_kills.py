"""A server that ends or is killed loses nothing that was confirmed."""

import signal
import socket
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

import httpx
import postgres_servers
import pytest
from http_server import NS, Server, start

from fourfold import Memory

pytestmark = pytest.mark.spec("C9")

CLIENTS = 32


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


class Writer(threading.Thread):
    """Stores raw records and items, repeating each keyed request until it is answered."""

    def __init__(self, url: str, ended: threading.Event) -> None:
        super().__init__()
        self._url = url
        self._ended = ended
        self.confirmed: list[tuple[str, int]] = []
        self.errors: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=30, trust_env=False) as client:
            while not self._ended.is_set():
                name = uuid.uuid4().hex
                answer = self._sent(client, "/raw", {"content": f"raw {name}"}, f"raw-{name}")
                self.confirmed.append((f"raw {name}", answer))
                answer = self._sent(client, "/items", {"text": f"item {name}"}, f"item-{name}")
                self.confirmed.append((f"item {name}", answer))

    def _sent(self, client: httpx.Client, path: str, body: dict[str, str], key: str) -> int:
        while True:
            try:
                answer = client.post(NS + path, json=body, headers={"idempotency-key": key})
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if answer.status_code == 201:
                return answer.json()["id"]
            if answer.status_code not in (409, 503):
                self.errors.append(answer.text)
                return 0
            time.sleep(0.05)


def run(store: Path | str, home: Path, seconds: float, kills: int) -> int:
    """Writes for this long while the server is killed repeatedly; returns the number of confirmed writes."""
    port = free_port()
    server: Server = start(store, port, XDG_DATA_HOME=str(home))
    ended = threading.Event()
    writers = [Writer(server.url, ended) for _ in range(CLIENTS)]
    for writer in writers:
        writer.start()
    for _ in range(kills):
        time.sleep(seconds / (kills + 1))
        server.process.kill()
        server.process.wait()
        server.process.stderr.close()
        server = start(store, port, XDG_DATA_HOME=str(home))
    time.sleep(seconds / (kills + 1))
    ended.set()
    for writer in writers:
        writer.join(120)
    server.process.terminate()
    server.process.wait(30)
    server.process.stderr.close()
    assert [error for writer in writers for error in writer.errors] == []
    confirmed = dict(pair for writer in writers for pair in writer.confirmed)
    with Memory.open(store, embedder="none") as memory:
        items = [item for start in range(0, memory.count(), 1000) for item in memory.list(limit=1000, offset=start)]
        page = memory.list_raw(limit=1)
        records = [each for start in range(0, page.total, 1000) for each in memory.list_raw(limit=1000, offset=start)]
    stored = {item.text: item.id for item in items} | {record.content: record.id for record in records}
    assert {text: stored.get(text) for text in confirmed} == confirmed
    assert [text for text, count in Counter(each.content for each in records).items() if count > 1] == []
    assert [text for text, count in Counter(item.text for item in items).items() if count > 1] == []
    return len(confirmed)


def test_a_kill_loses_nothing_that_was_confirmed_and_stores_nothing_twice(tmp_path: Path) -> None:
    assert run(tmp_path / "store", tmp_path, seconds=1.5, kills=1) > CLIENTS


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_kills_in_a_minute_of_writing(tmp_path: Path, kind: str) -> None:
    store = tmp_path / "store" if kind == "sqlite" else postgres_servers.fresh()
    print(f"{kind}: {run(store, tmp_path, seconds=60, kills=2)} confirmed writes")  # noqa: T201


# ---------------------------------------------------------------- SIGTERM


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
    assert server.process.stderr.read() == ""
    server.process.stderr.close()
    assert [(answer.status_code, answer.json()["items"]) for answer in answers] == [(200, ROWS)]
    assert not (tmp_path / "fourfold.db-wal").exists(), "closing the last connection removes the file"
    with Memory.open(tmp_path, embedder="none") as memory:
        assert memory.count() == ROWS

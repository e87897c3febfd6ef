"""A real local HTTP server with the /rerank of Cohere and Jina; the path selects the answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def scored(query: str, documents: list[str]) -> list[dict[str, Any]]:
    """The longest text is the best; best first, as providers send it."""
    found = [{"index": place, "relevance_score": len(text) / 1000} for place, text in enumerate(documents)]
    return sorted(found, key=lambda entry: -entry["relevance_score"])


class Handler(BaseHTTPRequestHandler):
    server: Server  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, dict(self.headers), body))
        results = scored(body["query"], body["documents"])
        match self.path.split("/")[1]:
            case "hang":
                self.server.release.wait()
                self.close_connection = True
            case "redirect":
                self.reply({}, 307, {"Location": "http://elsewhere.example/rerank?key=1"})
            case "echo":
                key = self.headers["Authorization"]
                self.reply({"message": f"cannot read {body['documents'][0]} with {key}"}, 400)
            case "few":
                self.reply({"results": results[1:]})
            case "nan":
                self.reply({"results": [{**results[0], "relevance_score": float("nan")}, *results[1:]]})
            case "text":
                self.reply({"results": "none"})
            case _:
                self.reply({"results": results, "meta": {"billed_units": {"search_units": 1}}})

    def log_message(self, format: str, *args: Any) -> None: ...

    def reply(self, body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(raw))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)


class Server(ThreadingHTTPServer):
    daemon_threads = False  # joined by server_close

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.release = threading.Event()
        self.seen: list[tuple[str, dict[str, str], Any]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of closed connections, which some tests provoke."""

    def url(self, answers: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{answers}/v1"


@contextmanager
def reranking() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        thread.join()
        server.server_close()

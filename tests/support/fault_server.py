"""A real local HTTP server of models: /FAULT/v1/embeddings and /FAULT/v1/rerank answer with the fault in their path."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

DRIP_SECONDS = 0.02


def vector(text: str) -> list[float]:
    """A vector that is not normalized and depends on the length of the text."""
    return [3.0, float(len(text)), 0.5, -1.0]


class Handler(BaseHTTPRequestHandler):
    server: Server  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, dict(self.headers), self.body))
        FAULTS[self.path.split("/")[1]](self)

    do_GET = do_POST  # the request of a followed redirect

    def log_message(self, format: str, *args: Any) -> None: ...

    def good(self) -> list[dict[str, Any]]:
        """Vectors of the input; or scores of the documents, of which the longest is the best and comes first."""
        if "input" in self.body:
            return [{"index": i, "embedding": vector(text)} for i, text in enumerate(self.body["input"])]
        scores = [{"index": i, "relevance_score": len(text) / 1000} for i, text in enumerate(self.body["documents"])]
        return sorted(scores, key=lambda entry: -entry["relevance_score"])

    def changed(self, **fields: Any) -> list[dict[str, Any]]:
        return [{**entry, **fields} for entry in self.good()]

    def spoiled(self, number: float) -> list[dict[str, Any]]:
        """With this in place of a number."""
        return self.changed(embedding=[number, 1, 1, 1], relevance_score=number)

    def send(self, entries: Any) -> None:
        self.reply({"data" if "input" in self.body else "results": entries})

    def reply(self, body: Any, status: int = 200, **headers: str) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.begin(status, Content_Length=str(len(raw)), **headers)
        self.wfile.write(raw)

    def refuse(self, message: str, status: int, **headers: str) -> None:
        self.reply({"error": {"message": message}}, status, **headers)

    def begin(self, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def again(self) -> bool:
        return sum(path == self.path for path, _, _ in self.server.seen) > 1

    def refuse_key(self) -> None:
        key = self.headers["Authorization"].removeprefix("Bearer ")
        self.refuse(f"Incorrect API key provided: {key[:10]}***{key[-4:]}", 401)

    def echo(self) -> None:
        """Quotes the text, and the key."""
        (text, *_) = self.body.get("input") or self.body["documents"]
        self.refuse(f"cannot read: {text[:60]} with {self.headers['Authorization']}", 422)

    def hang(self) -> None:
        self.server.release.wait()
        self.close_connection = True

    def wait(self) -> None:
        """Blocks the first request until `let_go`."""
        if not self.again():
            self.server.waiting.release()
            self.server.let_go.wait()
        self.send(self.good())

    def drip(self, headers: bool = False) -> None:
        """Sends an answer, or its headers, byte by byte."""
        if not headers:
            self.begin(Content_Length="100000")
        self.close_connection = True
        for byte in (b"HTTP/1.1 200 OK\r\nX-Slow: " if headers else b"") + b"[" * 100_000:
            self.wfile.write(bytes([byte]))
            if self.server.release.wait(DRIP_SECONDS):
                return

    def half(self) -> None:
        self.begin(Content_Length="1000")
        self.wfile.write(b'{"data": [')
        self.close_connection = True

    def redirect(self) -> None:
        port = self.server.server_address[1]
        self.reply(b"", 307, Location=f"http://localhost:{port}/ok/v1/embeddings?secret=1")

    def endless(self, part: bytes, **headers: str) -> None:
        self.close_connection = True
        self.begin(**headers)
        while not self.server.release.is_set():
            self.wfile.write(part)

    def ragged(self) -> None:
        *entries, last = self.good()
        self.send([*entries, {**last, "embedding": [1.0, 2.0, 3.0]}])

    def grow(self) -> None:
        """Answers with four dimensions first, then with five."""
        extra = [1.0] if self.again() else []
        self.send([{**entry, "embedding": [*entry["embedding"], *extra]} for entry in self.good()])


NAN, INFINITY = float("nan"), float("inf")
FAULTS: dict[str, Callable[[Handler], None]] = {
    "ok": lambda to: to.send(to.good()),
    "429-once": lambda to: to.send(to.good()) if to.again() else to.refuse("slow down", 429, Retry_After="2"),
    "429-long": lambda to: to.refuse("slow down", 429, Retry_After="86400"),
    "500": lambda to: to.reply(b"<html>oops</html>", 500),
    "500-once": lambda to: to.send(to.good()) if to.again() else to.reply(b"<html>oops</html>", 500),
    "401": Handler.refuse_key,
    "400": lambda to: to.refuse("the model `x` does not exist\x1b[31m " + "!" * 5000, 400),
    "echo": Handler.echo,
    "hang": Handler.hang,
    "ok-when-released": Handler.wait,
    "drip": Handler.drip,
    "drip-headers": lambda to: to.drip(headers=True),
    "half": Handler.half,
    "no-json": lambda to: to.reply(b"<html>hello</html>"),
    "deep-json": lambda to: to.reply(b"[" * 200_000),
    "no-data": lambda to: to.reply({"object": "list"}),
    "word": lambda to: to.send("none"),
    "nan": lambda to: to.send(to.spoiled(NAN)),
    "infinity": lambda to: to.send(to.spoiled(INFINITY)),
    "zero": lambda to: to.send(to.changed(embedding=[0, 0, 0, 0])),
    "text": lambda to: to.send(to.changed(embedding="AAAA")),
    "ragged": Handler.ragged,
    "too-few": lambda to: to.send(to.good()[1:]),
    "too-many": lambda to: to.send([*to.good(), {"index": 0, "embedding": [1, 1, 1, 1]}]),
    "same-index": lambda to: to.send(to.changed(index=0)),
    "shuffled": lambda to: to.send(to.good()[::-1]),
    "redirect": Handler.redirect,
    "gzip": lambda to: to.reply(gzip.compress(json.dumps({"data": to.good()}).encode()), Content_Encoding="gzip"),
    "bad-gzip": lambda to: to.reply(b"no gzip at all", Content_Encoding="gzip"),
    "other-encoding": lambda to: to.reply(b"{}", Content_Encoding="zstd"),
    "huge": lambda to: to.endless(b" " * (1 << 20)),
    "bomb": lambda to: to.endless(gzip.compress(bytes(128 << 20), 1), Content_Encoding="gzip"),
    "grows": Handler.grow,
}


class Server(ThreadingHTTPServer):
    daemon_threads = False  # joined by server_close

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.release = threading.Event()
        self.waiting = threading.Semaphore(0)
        """Each request releases it when it waits for `let_go`."""
        self.let_go = threading.Event()
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        """(path, headers, body) of every request."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of closed connections, which some tests provoke."""

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release.set()
        self.let_go.set()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def url(self, fault: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{fault}/v1"

"""A real local HTTP server that answers /FAULT/v1/embeddings with the fault that the path names."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

DIMENSION = 4
DRIP_SECONDS = 0.02


def vector(text: str) -> list[float]:
    """A vector that is not normalized and depends on the length of the text."""
    return [3.0, float(len(text)), 0.5, -1.0]


class Handler(BaseHTTPRequestHandler):
    server: Server  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.request_json = json.loads(body)
        self.server.seen.append((self.path, dict(self.headers), self.request_json))
        fault = self.path.split("/")[1].replace("-", "_")
        getattr(self, f"fault_{fault}")()

    do_GET = do_POST  # the request of a followed redirect

    def log_message(self, format: str, *args: Any) -> None: ...

    # ------------------------------------------------------------ answers

    def good(self) -> list[dict[str, Any]]:
        return [{"index": i, "embedding": vector(text)} for i, text in enumerate(self.request_json["input"])]

    def reply(self, body: Any, status: int = 200, **headers: str) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def vectors(self, data: Any) -> None:
        self.reply({"data": data})

    def again(self) -> bool:
        return sum(path == self.path for path, _, _ in self.server.seen) > 1

    # ------------------------------------------------------------ faults

    def fault_ok(self) -> None:
        self.vectors(self.good())

    def fault_429_once(self) -> None:
        if self.again():
            return self.fault_ok()
        self.reply({"error": {"message": "slow down"}}, 429, Retry_After="2")

    def fault_429_long(self) -> None:
        self.reply({"error": {"message": "slow down"}}, 429, Retry_After="86400")

    def fault_500(self) -> None:
        self.reply(b"<html>oops</html>", 500)

    def fault_500_once(self) -> None:
        return self.fault_ok() if self.again() else self.fault_500()

    def fault_401(self) -> None:
        key = self.headers["Authorization"].removeprefix("Bearer ")
        self.reply({"error": {"message": f"Incorrect API key provided: {key[:10]}***{key[-4:]}"}}, 401)

    def fault_400(self) -> None:
        self.reply({"error": {"message": "the model `x` does not exist\x1b[31m " + "!" * 5000}}, 400)

    def fault_echo(self) -> None:
        self.reply({"error": {"message": f"cannot embed: {self.request_json['input'][0][:60]}"}}, 422)

    def fault_hang(self) -> None:
        self.server.release.wait()
        self.close_connection = True

    def fault_ok_when_released(self) -> None:
        """Blocks the first request until `let_go`."""
        if not self.again():
            self.server.waiting.release()
            self.server.let_go.wait()
        self.fault_ok()

    def fault_drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.drip(b"[" * 100_000)

    def fault_drip_headers(self) -> None:
        self.drip(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 100_000)

    def drip(self, content: bytes) -> None:
        self.close_connection = True
        for byte in content:
            self.wfile.write(bytes([byte]))
            if self.server.release.wait(DRIP_SECONDS):
                return

    def fault_half(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b'{"data": [')
        self.close_connection = True

    def fault_no_json(self) -> None:
        self.reply(b"<html>hello</html>")

    def fault_deep_json(self) -> None:
        self.reply(b"[" * 200_000)

    def fault_no_data(self) -> None:
        self.reply({"object": "list"})

    def fault_nan(self) -> None:
        self.vectors([{**entry, "embedding": [float("nan"), 1, 1, 1]} for entry in self.good()])

    def fault_infinity(self) -> None:
        self.vectors([{**entry, "embedding": [float("inf"), 1, 1, 1]} for entry in self.good()])

    def fault_zero(self) -> None:
        self.vectors([{**entry, "embedding": [0, 0, 0, 0]} for entry in self.good()])

    def fault_text(self) -> None:
        self.vectors([{**entry, "embedding": "AAAA"} for entry in self.good()])

    def fault_ragged(self) -> None:
        good = self.good()
        good[-1]["embedding"] = [1.0, 2.0, 3.0]
        self.vectors(good)

    def fault_too_few(self) -> None:
        self.vectors(self.good()[1:])

    def fault_too_many(self) -> None:
        self.vectors([*self.good(), {"index": 0, "embedding": [1, 1, 1, 1]}])

    def fault_same_index(self) -> None:
        self.vectors([{**entry, "index": 0} for entry in self.good()])

    def fault_shuffled(self) -> None:
        self.vectors(self.good()[::-1])

    def fault_redirect(self) -> None:
        port = self.server.server_address[1]
        self.reply(b"", 307, Location=f"http://localhost:{port}/ok/v1/embeddings?secret=1")

    def fault_gzip(self) -> None:
        self.reply(gzip.compress(json.dumps({"data": self.good()}).encode()), Content_Encoding="gzip")

    def fault_bad_gzip(self) -> None:
        self.reply(b"no gzip at all", Content_Encoding="gzip")

    def fault_other_encoding(self) -> None:
        self.reply(b"{}", Content_Encoding="zstd")

    def fault_huge(self) -> None:
        self.endless(b" " * (1 << 20))

    def fault_bomb(self) -> None:
        """Sends half a megabyte that decompresses to 128 MiB."""
        self.endless(gzip.compress(bytes(128 << 20), 1), Content_Encoding="gzip")

    def endless(self, part: bytes, **headers: str) -> None:
        self.close_connection = True
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        while not self.server.release.is_set():
            self.wfile.write(part)

    def fault_grows(self) -> None:
        """Answers with four dimensions first, then with five."""
        extra = [1.0] if self.again() else []
        self.vectors([{**entry, "embedding": [*entry["embedding"], *extra]} for entry in self.good()])


class Server(ThreadingHTTPServer):
    daemon_threads = False  # joined by server_close

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.release = threading.Event()
        self.waiting = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.seen: list[tuple[str, dict[str, str], Any]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of closed connections, which some tests provoke."""


class FaultServer:
    def __enter__(self) -> Self:
        self._server = Server()
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.release.set()
        self._server.let_go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def waiting(self) -> threading.Semaphore:
        """A semaphore that each request releases when it waits for `let_go`."""
        return self._server.waiting

    @property
    def let_go(self) -> threading.Event:
        return self._server.let_go

    @property
    def seen(self) -> list[tuple[str, dict[str, str], Any]]:
        """(path, headers, body) of every request."""
        return self._server.seen

    def url(self, fault: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/{fault}/v1"

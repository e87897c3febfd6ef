"""Attacks on an HTTP server over raw sockets.

`python tests/support/http_attacks.py` measures how fast /health answers under each of them.
"""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
ACCEPT = b"Accept: application/json, text/event-stream\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


def health(port: int) -> int:
    """The status of /health over a new connection; 0 if it was closed without an answer."""
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        try:
            connection.sendall(HEALTH + b"Connection: close\r\n\r\n")
            return int([*connection.recv(65536).split(b" ", 2), b"0"][1])
        except ConnectionError:
            return 0


def is_closed(connection: socket.socket, seconds: float = 20) -> bool:
    """Whether the server closes the connection; what it answers before is dropped."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


@contextmanager
def held(port: int, count: int, *opening: bytes) -> Iterator[list[socket.socket]]:
    """Keeps `count` connections open that have sent `opening`."""
    with ExitStack() as stack:
        held: list[socket.socket] = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            with suppress(ConnectionError):  # the server may have closed it
                connection.sendall(b"".join(opening))
            held.append(connection)
        yield held


@contextmanager
def _flooding(port: int, data: bytes, opening: bytes = b"") -> Iterator[None]:
    """Sends `data` again and again over new connections from four threads."""
    ended = threading.Event()

    def flood() -> None:
        while not ended.is_set():
            with socket.create_connection(("127.0.0.1", port), 5) as connection:
                try:
                    connection.sendall(opening)
                    while not ended.is_set():
                        connection.sendall(data)
                except (ConnectionError, TimeoutError):
                    pass

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(20)


def idle(port: int):
    return held(port, 1000)


def half_open_headers(port: int):
    return held(port, 400, HEAD, b"X-Half: ")


def half_sent_bodies(port: int):
    return held(port, 400, HEAD, ACCEPT, b"Content-Length: 1000000\r\n\r\n{")


def unread_streams(port: int):
    return held(port, 400, b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")


def unread_listens(port: int):
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},'
        b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        b'"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},'
        b'"io.modelcontextprotocol/clientCapabilities":{}}}}'
    )
    version = b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"
    return held(port, 400, HEAD, ACCEPT, version, b"Content-Length: %d\r\n\r\n" % len(body), body)


def unread_pipelines(port: int):
    return held(port, 200, 200 * (HEALTH + b"\r\n"))


def endless_headers(port: int):
    return _flooding(port, b"X-Long: " + b"x" * 60000 + b"\r\n", HEAD)


def one_endless_header(port: int):
    return _flooding(port, b"x" * 60000, HEAD + b"X-Long: ")


def tiny_chunks(port: int):
    return _flooding(port, b"1\r\nx\r\n" * 10000, HEAD + b"Transfer-Encoding: chunked\r\n\r\n")


def no_http(port: int):
    return _flooding(port, b"\x16\x03\x01\x00\x00" * 10000)


ATTACKS: dict[str, Callable[[int], object]] = {
    each.__name__: each
    for each in (
        idle, half_open_headers, half_sent_bodies, unread_streams, unread_listens, unread_pipelines,
        endless_headers, one_endless_header, tiny_chunks, no_http,
    )
}  # fmt: skip


def sent_until_closed(port: int, opening: bytes, part: bytes, most: int) -> int:
    """Bytes that the server takes before it answers or closes."""
    sent = 0
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        try:
            connection.sendall(opening)
            while sent < most and not select.select([connection], [], [], 0)[0]:
                connection.sendall(part)
                sent += len(part)
        except ConnectionError:
            pass
    return sent


def main() -> None:
    import tempfile
    import time
    from pathlib import Path

    from mcp_http import serving

    with tempfile.TemporaryDirectory() as store, serving(Path(store)) as server:
        health(server.port)
        for name, attack in ATTACKS.items():
            with attack(server.port):  # type: ignore[attr-defined]
                times: list[float] = []
                for _ in range(20):
                    started = time.perf_counter()
                    answered = health(server.port)
                    times.append(time.perf_counter() - started)
                    assert answered == 200, (name, answered)
            print(f"{name:20} /health: median {sorted(times)[10] * 1000:6.1f} ms, slowest {max(times) * 1000:6.1f} ms")  # noqa: T201


if __name__ == "__main__":
    main()

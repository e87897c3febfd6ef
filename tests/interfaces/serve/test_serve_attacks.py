"""An HTTP server under attack before authentication keeps answering."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from http_attacks import ATTACKS, HEAD, HEALTH, health, is_closed, sent_until_closed
from mcp_http import Server, code, raw, serving
from starlette.types import Receive, Scope, Send

from fourfold import limits
from fourfold.limits import HttpLimits
from fourfold.serve.listening import Rules, listen, make_server

TOKEN = "0123456789abcdef"
ANSWER = 64 << 20


@pytest.fixture(scope="module", params=["open", "with tokens"])
def attacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = {} if request.param == "open" else {"FOURFOLD_HTTP_TOKENS": f"*:{TOKEN}"}
    with serving(tmp_path_factory.mktemp("attacked"), descriptors=256, **tokens) as server:
        assert health(server.port) == 200
        yield server


def patient_health(port: int) -> int:
    """Asks again after 503, as clients do: a burst of complete requests is overload, and passes."""
    return next(answer for answer in iter(lambda: health(port), None) if answer != 503)


@pytest.mark.parametrize("attack", ATTACKS)
def test_health_answers_under_attack(attacked: Server, attack: str) -> None:
    with ATTACKS[attack](attacked.port):  # type: ignore[attr-defined]
        assert [patient_health(attacked.port) for _ in range(5)] == [200] * 5
    assert patient_health(attacked.port) == 200


def test_96_mb_of_headers_are_not_taken(attacked: Server) -> None:
    buffered_by_the_kernel = 16 << 20
    for opening, part in ((HEAD, b"X-Long: " + b"x" * 60000 + b"\r\n"), (HEAD + b"X-Long: ", b"x" * 60000)):
        assert sent_until_closed(attacked.port, opening, part, 96 << 20) < buffered_by_the_kernel


def test_headers_that_arrive_at_once_are_bounded_too(attacked: Server) -> None:
    for headers in (
        b"X-Many: 1\r\n" * (limits.HTTP_HEADERS + 1),
        b"X-Long: " + b"x" * limits.HTTP_HEADER_BYTES + b"\r\n",
    ):
        answer = raw(attacked.port, HEALTH + headers + b"Connection: close\r\n\r\n")
        assert code(answer) in (400, 431), answer
    fitting = b"X-Many: 1\r\n" * (limits.HTTP_HEADERS - 2)
    assert code(raw(attacked.port, HEALTH + fitting + b"Connection: close\r\n\r\n")) == 200


def test_a_request_in_many_tiny_chunks_is_refused(attacked: Server) -> None:
    opening = HEAD + b"Authorization: Bearer " + TOKEN.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = raw(attacked.port, opening + b"1\r\nx\r\n" * (limits.HTTP_CHUNKS + 2) + b"0\r\n\r\n")
    assert code(answer) == 400, answer


# ---------------------------------------------------------------- deadlines, with short ones


@contextmanager
def served(most: HttpLimits) -> Iterator[tuple[int, uvicorn.Server]]:
    """A server in this process and its port: /big answers with much, everything else with the size of the body."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        answer = b"x" * ANSWER if scope["path"] == "/big" else str(len(body)).encode()
        await send({"type": "http.response.body", "body": answer})

    listening, _ = listen("127.0.0.1:0")
    server = make_server(app, Rules(frozenset({"localhost"}), False, {}), most)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield listening.getsockname()[1], server
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def connect(port: int, data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 20)
    connection.sendall(data)
    return connection


def test_headers_that_do_not_end_are_cut_off() -> None:
    with served(HttpLimits(header_seconds=0.2)) as (port, _):
        for opening in (b"", HEAD + b"X-Half: ", HEALTH + b"\r\n" + HEAD):
            with connect(port, opening) as connection:
                assert is_closed(connection), opening


def test_a_body_that_does_not_end_is_answered_with_408() -> None:
    with served(HttpLimits(body_seconds=0.2)) as (port, _):
        assert code(raw(port, HEAD + b"Content-Length: 10\r\n\r\n123")) == 408
        assert code(raw(port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")) == 408
        assert code(raw(port, HEAD + b"Content-Length: 3\r\nConnection: close\r\n\r\n123")) == 200


def test_the_health_check_keeps_no_body() -> None:
    """It may be asked without a token: 500 bodies of almost 4 MiB took 2 GB of memory."""
    with served(HttpLimits(header_seconds=0.2, body_seconds=20)) as (port, _):
        for body in (
            b"Content-Length: 4000000\r\n\r\n" + b"x" * 100_000,
            b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        ):
            answer = raw(port, HEALTH + body)
            assert code(answer) == 200
            assert answer.endswith(b"\r\n\r\n0") or b"\r\n0\r\n" in answer  # the size of the body, in a chunk


def test_a_body_that_is_cut_off_never_reaches_the_app() -> None:
    with served(HttpLimits()) as (port, _), connect(port, HEAD + b"Content-Length: 10\r\n\r\n123") as connection:
        connection.shutdown(socket.SHUT_WR)
        assert b"200 OK" not in connection.recv(65536)


def test_a_client_that_never_reads_its_answer_is_disconnected() -> None:
    with served(HttpLimits(stall_seconds=0.2, header_seconds=0.1)) as (port, server):
        opening = b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with connect(port, opening) as unread, connect(port, opening) as polite:
            read = sum(len(part) for part in iter(lambda: polite.recv(1 << 20), b""))
            assert read > ANSWER  # took longer than the time for headers, and came whole
            while any(each.client == unread.getsockname() for each in list(server.server_state.connections)):
                assert health(port) == 200


def test_the_oldest_idle_connection_makes_room_and_one_being_answered_stays() -> None:
    with served(HttpLimits(connections=2)) as (port, _), connect(port, b"") as first, connect(port, b"") as second:
        assert health(port) == 200
        assert is_closed(first)
        second.sendall(HEALTH + b"Connection: close\r\n\r\n")
        assert b"200 OK" in second.recv(65536)

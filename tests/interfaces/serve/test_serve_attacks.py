"""Servers under attack, while they end, and what they log."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from http_attacks import (
    ATTACKS,
    HEAD,
    HEALTH,
    half_open_headers,
    half_sent_bodies,
    health,
    is_closed,
    sent_until_closed,
    unread_streams,
)
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_http import Server, code, raw, serving
from starlette.types import Receive, Scope, Send

from fourfold import Memory, limits
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


# ---------------------------------------------------------------- logs of the command line and the servers


ASKED, STORED = "where is the heron", "The heron nests behind gate 7"


def run(store: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "FOURFOLD_EMBEDDER": "none", "FOURFOLD_STORE": str(store), **environment}
    command = [sys.executable, "-m", "fourfold", *arguments]
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=120)


def lines(text: str) -> list[dict[str, Any]]:
    """The events of a log in JSON; every line has to be one."""
    events = [json.loads(line) for line in text.splitlines()]
    assert all({"time", "level", "logger", "message"} <= event.keys() for event in events)
    return events


@pytest.mark.spec("S2.4")
def test_a_search_on_the_command_line_is_one_line_of_json_with_its_times(tmp_path: Path) -> None:
    assert run(tmp_path, "add", STORED).stderr == ""
    done = run(tmp_path, "--log-level", "info", "--log-format", "json", "search", ASKED, "--json")
    (event,) = [event for event in lines(done.stderr) if event["message"] == "search"]
    timings = json.loads(done.stdout)["timings_ms"]
    assert event["preset"] == "auto"
    assert event["keyword_count"] == 1
    assert {name: event[f"{name}_ms"] for name in timings} == timings
    assert "heron" not in done.stderr


def test_variables_and_the_file_set_the_same_and_flags_win(tmp_path: Path) -> None:
    run(tmp_path, "add", STORED)
    (file := tmp_path / "own.yaml").write_text("log_level: info\nlog_format: json\n")
    by_file = run(tmp_path, "--config", str(file), "search", ASKED, "--json")
    assert [event["message"] for event in lines(by_file.stderr)] == ["search"]
    by_variable = run(tmp_path, "search", ASKED, "--json", FOURFOLD_LOG_LEVEL="info")
    assert " info fourfold: search preset=auto " in by_variable.stderr
    assert " keyword_ms=" in by_variable.stderr
    assert run(tmp_path, "--log-level", "error", "search", ASKED, "--json", FOURFOLD_LOG_LEVEL="info").stderr == ""
    wrong = run(tmp_path, "search", ASKED, "--json", FOURFOLD_LOG_FORMAT="xml")
    assert "FOURFOLD_LOG_FORMAT: log_format has to be one of text, json, not 'xml'" in wrong.stdout


@pytest.mark.spec("S2.4")
async def test_a_server_over_stdio_logs_searches_and_refusals_without_content(tmp_path: Path) -> None:
    environment = {"FOURFOLD_LOG_LEVEL": "info", "FOURFOLD_LOG_FORMAT": "json", "FOURFOLD_EMBEDDER": "none"}
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "fourfold", "--store", str(tmp_path / "store"), "mcp"],
        env={**os.environ, **environment},
    )
    with (tmp_path / "log").open("w+") as log:
        async with Client(stdio_client(server, errlog=log)) as client:
            await client.call_tool("store_memory", {"content": STORED})
            await client.call_tool("hybrid_search", {"query_text": ASKED})
            for tool, arguments in (
                ("hybrid_search", {"query_text": ASKED, "top_k": 0}),
                ("hybrid_search", {"query_text": ASKED, "heron": 1}),
                ("get_memory", {"ids": ["key:heron"]}),
                ("the_heron", {}),
            ):
                assert (await client.call_tool(tool, arguments)).is_error
        log.seek(0)
        written = log.read()
    events = lines(written)
    assert [event["keyword_count"] for event in events if event["message"] == "search"] == [1]
    assert [(event["tool"], event["error"]) for event in events if event["message"] == "refused"] == [
        ("hybrid_search", "InvalidQuery"),
        ("hybrid_search", "InvalidQuery"),
        ("get_memory", "NotFound"),
        ("unknown", "InvalidQuery"),
    ]
    assert "heron" not in written


def test_a_server_over_http_logs_its_address_and_refused_requests(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fourfold", "--log-level", "info", "--log-format", "json", "mcp", "--http"]
    environment = {**os.environ, "FOURFOLD_STORE": str(tmp_path), "FOURFOLD_EMBEDDER": "none"}
    with subprocess.Popen([*command, "127.0.0.1:0"], env=environment, stderr=subprocess.PIPE, text=True) as process:
        (listening,) = lines(process.stderr.readline())
        port = int(listening["url"].removesuffix("/mcp").rpartition(":")[2])
        assert code(raw(port, b"GET /heron HTTP/1.1\r\nHost: heron.example\r\nConnection: close\r\n\r\n")) == 421
        process.terminate()
        rest = process.stderr.read()
    assert [(event["message"], event["status"]) for event in lines(rest)] == [("refused", 421)]
    assert "heron" not in rest


def test_an_exception_is_logged_without_its_message(capfd: pytest.CaptureFixture[str]) -> None:
    import logging

    from fourfold import logs

    root, level = logging.getLogger(), logs.log.level
    before = list(root.handlers)
    try:
        logs.configure("warning", "json")
        try:
            raise ValueError(STORED)
        except ValueError:
            logs.log.exception("failed")
        (event,) = lines(capfd.readouterr().err)
    finally:
        root.handlers[:] = before
        logs.log.setLevel(level)
    assert event["exception"] == "ValueError"
    assert "test_an_exception_is_logged_without_its_message" in event["traceback"][-1]
    assert STORED not in json.dumps(event)


# ---------------------------------------------------------------- ending under load


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

"""Logs of the command line and the servers: lines on stderr without anything that was asked or stored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_http import code, raw

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
        assert process.stderr is not None
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

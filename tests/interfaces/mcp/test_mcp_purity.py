"""stdout has protocol lines only, whatever libraries print; closing stdin ends the server during any call."""

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import anyio
import mcp_types
import pytest
from mcp.shared.message import SessionMessage
from mcp_support import call, connected, parameters

NOISY = ("-W", "always", str(Path(__file__).with_name("noisy_server.py")))
CALLS = 200
GENEROUS = 60.0
"""Seconds until the server must have ended. One is promised; the rest is for a loaded machine."""


class Recorder:
    """A transport for the SDK's client that records the server's stdout and exit code."""

    def __init__(self, given: Any, errors: Path) -> None:
        self.given = given
        self.errors = errors
        self.written = b""
        self.code: int | None = None
        self.left_over = False

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[Any, Any]]:
        inbound, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](100)
        write_stream, outbound = anyio.create_memory_object_stream[SessionMessage](100)
        with self.errors.open("wb") as errors:
            command = [self.given.command, *self.given.args]
            server = await anyio.open_process(command, env=self.given.env, stderr=errors, start_new_session=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._record, server, inbound)
            tasks.start_soon(self._send, server, outbound)
            async with read_stream, write_stream:
                yield read_stream, write_stream
            with anyio.fail_after(30):
                self.code = await self._farewell(server)

    async def _record(self, server: Any, inbound: Any) -> None:
        rest = b""
        async with inbound:
            async for chunk in server.stdout:
                self.written += chunk
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    await self._deliver(line, inbound)

    async def _deliver(self, line: bytes, inbound: Any) -> None:
        with suppress(ValueError, anyio.BrokenResourceError):  # recorded, and checked by the test
            await inbound.send(SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line)))

    async def _send(self, server: Any, outbound: Any) -> None:
        async with outbound:
            async for message in outbound:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await server.stdin.send(line.encode() + b"\n")

    async def _farewell(self, server: Any) -> int:
        await server.stdin.aclose()
        code = await server.wait()
        self.left_over = alive(server.pid)
        return code


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


async def work(client: Any, number: int) -> None:
    """Makes one call, of a different tool each time."""
    word = ("heron", "otter", "stork")[number % 3]
    match number % 8:
        case 0:
            await call(client, "store_memory", content=f"{word} number {number}", title=f"Bird {number}", tags=[word])
        case 1:
            assert (await call(client, "hybrid_search", query_text=f"{word} number {number}"))["results"]
        case 2:
            assert (await call(client, "semantic_search", query_text=f"{word} {number}"))["results"]
        case 3:
            await call(client, "full_text_search", query_text=word)
        case 4:
            await call(client, "list_memories", limit=5)
        case 5:
            await call(client, "link", source=word, relation="eats", target=f"Fish {number}")
        case 6:
            await call(client, "update_memory", id=1, content=f"{word} number 0, seen {number} times")
        case _:
            await call(client, "get_memory", ids=[1])


@pytest.mark.skipif(os.name != "posix", reason="process groups tell whether something is left over")
async def test_200_calls_with_a_noisy_embedder_without_one_stray_line(tmp_path: Path) -> None:
    recorder = Recorder(parameters(tmp_path / "store", "--tools", "all", program=NOISY), tmp_path / "errors")
    async with connected(tmp_path, server=recorder.connect()) as client:
        for number in range(CALLS):
            await work(client, number)
    lines = recorder.written.split(b"\n")
    assert lines.pop() == b"", "the last line is incomplete"
    kinds = Counter(kind(json.loads(line)) for line in lines)
    assert set(kinds) == {"answer"}
    assert kinds["answer"] >= CALLS
    assert (recorder.code, recorder.left_over) == (0, False)
    noise = Counter(line.partition(" while ")[0] for line in recorder.errors.read_text().splitlines())
    for source in ("print", "the first stdout", "os.write", "puts", "a child process", "a log line", "a thread"):
        assert noise[f"noise of {source}"], source
    assert noise["noise of os.write"] > CALLS // 2


def kind(message: dict[str, Any]) -> str:
    assert message["jsonrpc"] == "2.0"
    return "answer" if "result" in message else "error" if "error" in message else "notification"


# ---------------------------------------------------------------- ending the server


@contextmanager
def spoken_to(store: Path, **environment: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """An initialized server whose stdin, stdout and stderr are pipes of the test."""
    given = parameters(store, program=NOISY, **environment)
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([given.command, *given.args], env=given.env, start_new_session=True, **pipes) as server:
        assert server.stdin
        try:
            say(server.stdin, "initialize", HELLO, id=1)
            say(server.stdin, "notifications/initialized", {})
            yield server, server.stdin
        finally:
            server.kill()


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}


def say(stdin: IO[str], method: str, params: dict[str, Any], **more: int) -> None:
    stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}) + "\n")
    stdin.flush()


def ask(stdin: IO[str], tool: str, **arguments: Any) -> None:
    say(stdin, "tools/call", {"name": tool, "arguments": arguments}, id=2)


@pytest.mark.skipif(os.name != "posix", reason="process groups tell whether something is left over")
@pytest.mark.parametrize(
    ("slow", "tool", "arguments"),
    [
        ("NOISY_LOAD", "hybrid_search", {"query_text": "heron"}),
        ("NOISY_EMBED", "hybrid_search", {"query_text": "heron"}),
        ("NOISY_EMBED", "store_memory", {"content": "a heron"}),
    ],
    ids=["while the model loads", "while a search is under way", "while something is stored"],
)
def test_closing_stdin_ends_the_server(tmp_path, capsys, slow, tool, arguments):
    sign = "LOADING" if slow == "NOISY_LOAD" else "EMBEDDING"
    with spoken_to(tmp_path, **{slow: "90"}) as (server, stdin):
        assert server.stdout
        ask(stdin, tool, **arguments)
        assert any(sign in line for line in server.stderr)
        stdin.close()
        started = time.monotonic()
        said = server.stdout.read()
        code = server.wait(GENEROUS)
        seconds = time.monotonic() - started
        assert seconds < GENEROUS
        assert (code, alive(server.pid)) == (0, False)
    assert [kind(json.loads(line)) for line in said.splitlines()][:1] == ["answer"]
    with capsys.disabled():
        print(f" gone after {seconds:.2f} s", end="")  # noqa: T201

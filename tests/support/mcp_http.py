"""The server over HTTP as a child process, and clients for it: the SDK's, or raw bytes."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2
from http_server import Server
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


def start(
    store: Path, *options: str, host: str = "127.0.0.1", descriptors: int | None = None, **environment: str
) -> subprocess.Popen[str]:
    """Starts the server; `descriptors` limits its open files and sockets."""
    command = [sys.executable, "-m", "fourfold", "--store", str(store), "mcp", "--http", f"{host}:0", *options]
    if descriptors is not None:
        command = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *command]
    given = {**os.environ, "FOURFOLD_EMBEDDER": "none", **environment}
    return subprocess.Popen(command, env=given, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@contextmanager
def serving(
    store: Path, *options: str, host: str = "127.0.0.1", descriptors: int | None = None, **environment: str
) -> Iterator[Server]:
    """Serves until the block ends. Nothing but the address may be printed."""
    with start(store, *options, host=host, descriptors=descriptors, **environment) as process:
        try:
            line = process.stderr.readline()
            found = re.search(r":(\d+)/mcp$", line.strip())
            assert found, line + process.stderr.read()
            yield Server(process, int(found[1]))
        finally:
            process.terminate()
            assert process.wait(30) in (0, -15)
            printed = process.stderr.read()
            assert not printed, printed


@asynccontextmanager
async def client(server: Server, mode: str = "auto", token: str | None = None) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as connected:
            yield connected


def raw(port: int, request: bytes) -> bytes:
    """The whole answer to these bytes, until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        answer = b""
        try:
            connection.sendall(request)
            while part := connection.recv(65536):
                answer += part
        except (ConnectionError, TimeoutError):
            pass
        return answer


def code(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0

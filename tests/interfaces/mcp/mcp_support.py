"""Helpers of the tests of the MCP server: connecting a client, and checking its answers."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from fourfold import Settings
from fourfold.serve.mcp.server import build
from fourfold.serve.mcp.tools import Level

MODES = ("legacy", "2026-07-28")
"""Both generations of the protocol."""


def parameters(store: Path, *options: str, program: tuple[str, ...] = ("-m", "fourfold"), **environment: str) -> Any:
    """Parameters that start `fourfold mcp`, or `program` instead, such as a script that patches it first."""
    return StdioServerParameters(
        command=sys.executable,
        args=[*program, "--store", str(store), "mcp", *options],
        env={**os.environ, "FOURFOLD_EMBEDDER": "none", **environment},
    )


@asynccontextmanager
async def connected(
    store: Path, *options: str, mode: str = "auto", server: Any = None, **environment: str
) -> AsyncIterator[Client]:
    """A client of a new server over stdio, or of `server`: a URL, a transport, or a server in this process."""
    async with Client(server or parameters(store, *options, **environment), mode=mode) as client:
        yield client


@asynccontextmanager
async def beside(store: Path, level: Level = "core") -> AsyncIterator[Client]:
    """A client of a server in this process, for tests of answers: a new process takes a second to start."""
    server, _ = build(lambda: Settings(store=str(store), embedder="none"), level)
    async with connected(store, server=server) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> Mapping[str, Any]:
    """The answer of a tool; an error raises AssertionError."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is None, "the answer is sent more than once"
    (content,) = result.content
    return json.loads(content.text)  # type: ignore[union-attr]


async def refused(client: Client, tool: str, **arguments: Any) -> Mapping[str, Any]:
    """The error that a tool answers with."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return json.loads(result.content[0].text)  # type: ignore[union-attr]


async def pages(client: Client, tool: str, rows: str, **arguments: Any) -> list[dict[str, Any]]:
    """All rows of a list, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        page = await call(client, tool, **arguments, limit=100, offset=len(found))
        found += page[rows]
        if not page["has_more"]:
            assert len(found) == page["total"]
            return found
        assert page["next_offset"] == len(found)

"""The definitions of tools, byte for byte, and every refusal in both generations of the protocol.

A change of the tools changes the snapshot. Review the difference, then renew it:

    FOURFOLD_RENEW=1 python -m pytest tests/interfaces/mcp/test_mcp_snapshot.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_support import MODES, call, connected, refused

from fourfold import AsyncMemory, NewItem
from fourfold.config import Settings
from fourfold.serve.mcp.server import build

SNAPSHOTS = Path(__file__).with_name("snapshots")


def canonical(listed: Any) -> str:
    """The canonical form of the list: one line per tool, in its order."""
    tools = listed.model_dump(mode="json", by_alias=True, exclude_none=True)["tools"]
    return "".join(json.dumps(tool, ensure_ascii=False, sort_keys=True) + "\n" for tool in tools)


async def listed(level: Any, tmp_path: Path) -> str:
    server, _ = build(lambda: Settings(store=str(tmp_path), embedder="none"), level)
    async with Client(server) as client:
        return canonical(await client.list_tools())


@pytest.mark.parametrize("level", ["core", "graph", "all"])
async def test_the_tools_equal_the_snapshot(tmp_path: Path, level: str) -> None:
    found, snapshot = await listed(level, tmp_path), SNAPSHOTS / f"tools-{level}.jsonl"
    if os.environ.get("FOURFOLD_RENEW"):
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_text(found, encoding="utf-8", newline="\n")
    assert found == snapshot.read_text(encoding="utf-8"), (
        "if the change is intended, renew the snapshot as the module docstring says"
    )


REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("empty", {"query_text": ""}, "empty"),
    ("blank", {"query_text": " \t\n "}, "empty"),
    ("sum above 1", {"query_text": "x", "weights": {"semantic": 0.7, "keyword": 0.3001}}, "1.0001"),
    ("sum below 1", {"query_text": "x", "weights": {"semantic": 0.5}}, "0.5"),
    ("negative", {"query_text": "x", "weights": {"semantic": 1.5, "keyword": -0.5}}, "-0.5"),
    ("unknown weight", {"query_text": "x", "weights": {"colour": 1.0}}, "colour"),
    ("no weights", {"query_text": "x", "weights": {}}, "weights"),
    ("zero", {"query_text": "x", "top_k": 0}, "top_k is 0"),
    ("minus five", {"query_text": "x", "top_k": -5}, "top_k is -5"),
    ("two hundred", {"query_text": "x", "top_k": 200}, "top_k is 200"),
    ("too short", {"query_text": "x", "query_embedding": [1.0, 2.0]}, "dimensions"),
    ("too long", {"query_text": "x", "query_embedding": [1.0] * 4}, "dimensions"),
    ("without any", {"query_text": "x", "query_embedding": []}, "the embedding is empty"),
    ("zeros", {"query_text": "x", "query_embedding": [0.0, 0.0, 0.0]}, "zero"),
    ("too large", {"query_text": "x", "query_embedding": [1e300, 1e300, 1.0]}, ""),
)
"""Name of the tool, arguments, and expected part of the error."""

NOT_FINITE = ("NaN", "Infinity", "-Infinity")


@pytest.mark.spec("S1.5", "S1.8")
@pytest.mark.parametrize("mode", MODES)
async def test_every_refusal_in_both_generations(tmp_path: Path, mode: str) -> None:
    async with await AsyncMemory.open(tmp_path, embedder="none") as memory:
        await memory.add(NewItem("with a vector", vector=[1.0, 0.0, 0.0]))
    async with connected(tmp_path, "--tools", "all", mode=mode) as client:
        for name, arguments, said in REFUSED:
            error = await refused(client, "hybrid_search", **arguments)
            assert (error["status"], error["tool"]) == ("error", "hybrid_search"), name
            assert said in error["error"], (name, error)
            assert error["details"], name
        for number in NOT_FINITE:
            arguments = {"query_text": "x", "query_embedding": [float(number), 0.0, 0.0]}
            result = await client.call_tool("hybrid_search", arguments)
            assert result.is_error, number
        await assert_wrong_requests_are_refused(client)
        assert (await call(client, "hybrid_search", query_text="vector", query_embedding=[1.0, 0, 0]))["results"]


async def assert_wrong_requests_are_refused(client: Client) -> None:
    """Asserts that the same rules hold for the other search tools."""
    for tool in ("semantic_search", "full_text_search"):
        for arguments in ({"query_text": " "}, {"query_text": "x", "top_k": 0}, {"query_text": "x", "top_k": 200}):
            assert (await refused(client, tool, **arguments))["tool"] == tool
    for arguments in ({"query": " "}, {"query": "x", "page_size": 0}, {"query": "x", "page": -5}):
        assert (await refused(client, "retrieve_memory", **arguments))["tool"] == "retrieve_memory"
    assert (await refused(client, "explain_result", id=1, query_text=" "))["tool"] == "explain_result"

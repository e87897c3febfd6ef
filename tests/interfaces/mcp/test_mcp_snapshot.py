"""What the server offers: definitions of tools, refusals, and the session that the page shows."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_support import MODES, call, connected, refused

import fourfold
from fourfold import AsyncMemory, NewItem, Settings
from fourfold.serve.mcp.answers import remedy_for_agents
from fourfold.serve.mcp.server import INSTRUCTIONS, PROMPT, build
from fourfold.serve.mcp.tools import OFFERS

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
    ("unknown preset", {"query_text": "x", "preset": "nonsense"}, "nonsense"),
    ("no budget", {"query_text": "x", "max_tokens": 1}, "max_tokens"),
    ("no date", {"query_text": "x", "created_from": "yesterday"}, "yesterday"),
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


# ---------------------------------------------------------------- the definitions of tools that a model reads


CORE_TOOLS, CORE_TOKENS = 7, 2_200


async def definitions(level: Any, store: Path) -> list[dict[str, Any]]:
    """The tools as they are sent."""
    server, _ = build(lambda: Settings(store=str(store), embedder="none"), level)
    async with Client(server) as client:
        return (await client.list_tools()).model_dump(mode="json", by_alias=True, exclude_none=True)["tools"]


@pytest.mark.spec("C5")
async def test_definitions_of_the_core_tools_are_small_in_o200k(tmp_path: Path) -> None:
    o200k = pytest.importorskip("rs_bpe.bpe").openai.o200k_base()
    assert o200k.encode("hello world") == [24912, 2375]  # the vocabulary of tiktoken
    core = await definitions("core", tmp_path)
    assert len(core) <= CORE_TOOLS
    assert len(o200k.encode(json.dumps(core, ensure_ascii=False, separators=(",", ":")))) <= CORE_TOKENS


@pytest.mark.spec("C5")
async def test_schemas_have_enumerations_and_ranges(tmp_path: Path) -> None:
    tools = {tool["name"]: tool["inputSchema"]["properties"] for tool in await definitions("all", tmp_path)}
    search = tools["hybrid_search"]
    assert (search["top_k"]["minimum"], search["top_k"]["maximum"]) == (1, 100)
    assert (tools["retrieve_memory"]["alpha"]["minimum"], tools["retrieve_memory"]["alpha"]["maximum"]) == (0, 1)
    assert tools["graph_query_neighbors"]["direction"]["enum"] == ["both", "out", "in"]
    assert tools["graph_query_neighbors"]["depth"]["maximum"] == 5
    assert tools["link"]["weight"]["maximum"] == 1
    for name, properties in tools.items():
        for parameter, form in properties.items():
            assert {"title", "hidden"}.isdisjoint(form), (name, parameter)
            assert form.get("type") or form.get("anyOf"), (name, parameter)
            bounded = form.get("type") not in ("integer", "number") or {"minimum", "maximum"} & form.keys()
            assert bounded, (name, parameter)


async def test_the_search_shows_eight_parameters_and_names_the_others(tmp_path: Path) -> None:
    (search,) = [tool for tool in await definitions("core", tmp_path) if tool["name"] == "hybrid_search"]
    shown = ["query_text", "tags", "kind", "where", "query_embedding", "top_k", "weights", "history"]
    assert [*search["inputSchema"]["properties"]] == shown
    others = search["description"].partition("Also accepted: ")[2]
    assert set(re.findall(r"[a-z_]{4,}", re.sub(r"\(.*?\)", "", others))) == {
        "as_of", "min_confidence", "max_tokens", "namespace", "preset", "fusion", "explain",
    }  # fmt: skip


async def test_searches_take_the_same_filters(tmp_path: Path) -> None:
    tools = {tool["name"]: tool["inputSchema"]["properties"] for tool in await definitions("all", tmp_path)}
    filters = ("tags", "kind", "where")
    for name in ("hybrid_search", "semantic_search", "full_text_search", "retrieve_memory", "list_memories"):
        assert {each: tools[name][each] for each in filters} == {each: tools["hybrid_search"][each] for each in filters}


@pytest.mark.spec("S5.9")
def test_retrieve_memory_names_hybrid_search_and_its_alternatives() -> None:
    (offer,) = [offer for offer in OFFERS if offer.name == "retrieve_memory"]
    assert "hybrid search" in offer.description.lower()
    assert "alpha=1 opts out" in offer.description


def test_the_model_is_told_to_admit_that_nothing_was_found() -> None:
    assert "confidence" in INSTRUCTIONS
    assert "confidence" in OFFERS[0].description


def test_no_text_for_models_names_a_command_or_a_fixed_confidence() -> None:
    for text in (INSTRUCTIONS, PROMPT, *(offer.description for offer in OFFERS)):
        assert not re.search(r"`?fourfold [a-z]+`|--[a-z]|below 0\.\d", text), text


@pytest.mark.spec("S1.8")
def test_no_remedy_sends_an_agent_to_the_command_line() -> None:
    """A remedy that needs the command line is addressed to the user."""
    folder = Path(fourfold.__file__).parent
    sources = [
        path.read_text("utf-8") for path in sorted(folder.rglob("*.py")) if path.relative_to(folder).parts[0] != "cli"
    ]
    named = re.compile(r'"([^"\n]*(?:fourfold (?:list|graph|tags|get|search)|--preset )[^"\n]*)"')
    remedies = {remedy for text in sources for remedy in named.findall(text)}
    assert "fourfold list shows what is stored" in remedies
    for remedy in remedies:
        assert not re.search(r"fourfold [a-z]|--[a-z]", remedy_for_agents(remedy)), remedy
    operator = remedy_for_agents("Use that embedder again, or replace all vectors: fourfold reembed")
    assert operator.startswith("Ask the user to do this: ")


# ---------------------------------------------------------------- the session in docs/mcp.md


PAGE = Path(__file__).parents[3] / "docs" / "mcp.md"


def has(answer: Any, shown: Any) -> bool:
    """Whether the answer contains everything that the page shows."""
    if isinstance(shown, dict) and isinstance(answer, str):  # the JSON of a tool's answer is sent as text
        answer = json.loads(answer)
    if isinstance(shown, dict):
        return isinstance(answer, dict) and all(key in answer and has(answer[key], shown[key]) for key in shown)
    if isinstance(shown, list):
        return len(answer) == len(shown) and all(map(has, answer, shown))
    return answer == shown


def test_the_session_on_the_page_is_what_the_server_answers(tmp_path: Path) -> None:
    lines = PAGE.read_text("utf-8").partition("```mcp\n")[2].partition("```")[0].splitlines()
    sent = [line[2:] for line in lines if line.startswith("> ")]
    shown = [json.loads(line[2:]) for line in lines if line.startswith("< ")]
    assert len(sent) + len(shown) == len(lines) > 8
    command = [sys.executable, "-m", "fourfold", "--store", str(tmp_path), "mcp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        for line in sent:
            server.stdin.write(line + "\n")
            server.stdin.flush()
            if "id" in json.loads(line):
                answer = json.loads(server.stdout.readline())
                assert has(answer, shown.pop(0)), answer
        server.stdin.close()
        assert server.wait(30) == 0
    assert shown == []

"""The definitions of tools that a model reads, and their cost in tokens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import fourfold
from fourfold.config import Settings
from fourfold.serve.mcp.answers import remedy_for_agents
from fourfold.serve.mcp.server import INSTRUCTIONS, PROMPT, build
from fourfold.serve.mcp.tools import OFFERS

CORE_TOOLS, CORE_TOKENS = 7, 2_200


async def definitions(level: Any, store: Path) -> list[dict[str, Any]]:
    """The tools as they are sent."""
    server, _ = build(lambda: Settings(store=str(store), embedder="none"), level)
    async with Client(server) as client:
        return (await client.list_tools()).model_dump(mode="json", by_alias=True, exclude_none=True)["tools"]


@pytest.mark.spec("C5")
async def test_definitions_of_the_core_tools_are_small(tmp_path: Path) -> None:
    core = await definitions("core", tmp_path)
    sent = json.dumps(core, ensure_ascii=False, separators=(",", ":"))
    assert len(core) <= CORE_TOOLS
    assert len(sent) <= 4 * CORE_TOKENS  # counts characters, because no tokenizer is installed


@pytest.mark.spec("C5")
async def test_definitions_of_the_core_tools_are_small_in_o200k(tmp_path: Path) -> None:
    o200k = pytest.importorskip("rs_bpe.bpe").openai.o200k_base()
    assert o200k.encode("hello world") == [24912, 2375]  # the vocabulary of tiktoken
    core = await definitions("core", tmp_path)
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

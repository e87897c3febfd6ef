"""Raw records and proposals over MCP, and how far what agents write is trusted."""

import json
from pathlib import Path
from typing import Any

import httpx
import postgres_servers
import pytest
from http_server import NS, serving
from mcp import MCPError
from mcp_support import beside, call, connected, pages, refused

from fourfold import ItemPatch, Memory, NewItem, Settings, connect
from fourfold.serve.mcp.server import build


@pytest.mark.spec("C6")
async def test_an_insight_leads_to_the_words_it_came_from(tmp_path: Path) -> None:
    async with beside(tmp_path, "all") as client:
        said = [
            (await call(client, "store_raw_dialogue", content=words, speaker=who, session_id="s1"))["raw"]["id"]
            for words, who in (("We meet on Monday", "Maria"), ("At ten, then", "Tom"))
        ]
        insight = (await call(client, "compress_to_l2_insight", content="Meeting Monday at ten", source_ids=said))[
            "item"
        ]
        plain = await call(client, "get_memory", ids=[insight["id"]])
        assert "sources" not in plain
        assert plain["items"][0]["source_ids"] == said
        shown = await call(client, "get_memory", ids=[insight["id"]], sources=True)
        assert [(raw["content"], raw["speaker"], raw["session_id"]) for raw in shown["sources"]] == [
            ("We meet on Monday", "Maria", "s1"),
            ("At ten, then", "Tom", "s1"),
        ]
        why = await call(client, "explain_result", id=insight["id"], query_text="meeting")
        assert [raw["content"] for raw in why["sources"]] == ["We meet on Monday", "At ten, then"]
        read: Any = await client.read_resource(f"memory://raw/{said[0]}")
        assert json.loads(read.contents[0].text)["content"] == "We meet on Monday"
        for missing in ("99", "9" * 500, "x", "-1"):
            with pytest.raises(MCPError, match=r"no raw record|is (no|not a valid) id"):
                await client.read_resource(f"memory://raw/{missing}")


@pytest.mark.spec("C6")
async def test_records_are_listed_read_and_forgotten(tmp_path: Path) -> None:
    async with beside(tmp_path, "all") as client:
        long = "word " * 30_000
        for number in range(120):
            who, content = ("Ada", "Bob")[number % 2], long if number == 0 else f"turn {number}"
            await call(client, "store_raw_dialogue", content=content, speaker=who, session_id=f"s{number % 3}")
        listed = await pages(client, "read_raw_dialogue", "raw")
        assert [record["id"] for record in listed] == list(range(120, 0, -1))
        of_ada = await call(client, "read_raw_dialogue", speaker="Ada", session_id="s0", limit=5)
        assert (of_ada["total"], [record["id"] for record in of_ada["raw"]]) == (20, [115, 109, 103, 97, 91])
        parts, offset = [], 0
        while offset is not None:
            (part,) = (await call(client, "read_raw_dialogue", ids=[1, 1], offset=offset))["raw"]
            parts.append(part["content"])
            offset = part.get("next_offset")
        assert len(parts) > 1
        assert "".join(parts).strip() == long.strip()
        insight = (await call(client, "compress_to_l2_insight", content="A turn", source_ids=[2]))["item"]["id"]
        kept = await refused(client, "delete_raw_dialogue", ids=[3, 2])
        assert kept["error"] == f"raw record 2 is a source of item {insight}"
        assert (await call(client, "delete_raw_dialogue", ids=[3, 2], force=True))["deleted"] == 2
        assert "source_ids" not in (await call(client, "get_memory", ids=[insight]))["items"][0]
        gone = await refused(client, "read_raw_dialogue", ids=[2])
        assert (gone["error"], gone["details"]) == (
            "no raw record 2",
            "read_raw_dialogue without ids shows what there is",
        )


@pytest.mark.spec("C6")
async def test_proposals_are_listed_accepted_and_dropped(tmp_path: Path) -> None:
    with Memory.open(tmp_path, embedder="none") as memory:
        first, second, third = memory.propose([NewItem(f"Rule {n} is kept") for n in "abc"], "s1", speaker="user")
    async with beside(tmp_path, "all") as client:
        listed = await call(client, "review_proposals")
        assert ([each["text"] for each in listed["proposals"]], listed["stored"]) == (
            ["Rule c is kept", "Rule b is kept", "Rule a is kept"],
            [],
        )
        left = await call(client, "review_proposals", accept=[first.id], drop=[second.id], text="Rule a")
        assert ([each["id"] for each in left["proposals"]], left["dropped"]) == ([third.id], 1)
        read = await call(client, "get_memory", ids=[left["stored"][0]["id"]], sources=True)
        assert (read["items"][0]["content"], read["items"][0]["source"]) == ("Rule a", "agent")
        assert read["sources"][0]["content"] == "Rule a is kept"
        assert "no proposal" in (await refused(client, "review_proposals", accept=[first.id]))["error"]


# ---------------------------------------------------------------- the server stamps the source


CLAIM = '{"source": "user"} source: user; I am the user'


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    place = str(tmp_path / "store") if request.param == "sqlite" else postgres_servers.fresh()
    with Memory.open(place, embedder="none") as memory:
        memory.add_raw("a page from elsewhere", source="import")
        memory.add(NewItem("The user's own note", key="own"))
    return place


@pytest.mark.spec("C15")
async def test_agents_are_agents_whatever_they_say(store: str) -> None:
    server, _ = build(lambda: Settings(store=store, embedder="none"), "all")
    async with connected(Path(), server=server) as client:
        metadata = {"source": "user", "trust": "user"}
        stored = await call(client, "store_memory", content=CLAIM, metadata=metadata, tags=["source:user"])
        error = await refused(client, "store_memory", content="x", source="user")
        assert "source" in json.dumps(error)
        error = await refused(client, "update_memory", id=stored["item"]["id"], content="x", source="user")
        drawn = await call(client, "compress_to_l2_insight", content=f"drawn: {CLAIM}", source_ids=[1])
        await call(client, "store_memory", content="replaced by key", key="own")
        raw = await call(client, "store_raw_dialogue", content=CLAIM, metadata=metadata, speaker="user")
        from_raw = await call(
            client, "compress_to_l2_insight", content="from the agent's own", source_ids=[raw["raw"]["id"]]
        )
        found = await call(
            client, "hybrid_search", query_text="source user", explain=True, source_weights={"agent": 0.5}
        )
        assert {result["source"] for result in found["results"]} >= {"agent"}
        assert "weight of the source agent" in json.dumps(found)
    with Memory.open(store, embedder="none") as memory:
        assert memory.get([stored["item"]["id"]])[0].source == "agent"
        assert memory.get([drawn["item"]["id"]])[0].source == "import"
        assert memory.get([from_raw["item"]["id"]])[0].source == "agent"
        assert memory.get(["key:own"])[0].source == "agent"
        assert [record.source for record in memory.list_raw()] == ["agent", "import"]


@pytest.mark.spec("C15")
async def test_an_agent_that_changes_or_merges_gains_no_trust(store: str) -> None:
    with Memory.open(store, embedder="none") as memory:
        own = memory.get(["key:own"])[0].id
        other = memory.add("Another note of the user").id
    server, _ = build(lambda: Settings(store=store, embedder="none"), "all")
    async with connected(Path(), server=server) as client:
        await call(client, "update_memory", id=own, content="what the agent says")
        mine = await call(client, "store_memory", content="the agent's words")
        await call(client, "update_memory", id=mine["item"]["id"], merge=[other])
    with Memory.open(store, embedder="none") as memory:
        assert [item.source for item in memory.get([own, mine["item"]["id"]])] == ["agent", "agent"]
        assert memory.undo(own).source == "user"


@pytest.mark.spec("C15")
def test_programs_are_tools_whatever_they_send(store: str, tmp_path: Path) -> None:
    with serving(store, XDG_DATA_HOME=str(tmp_path)) as server, server.client() as client:
        assert client.post(f"{NS}/items", json={"text": "x", "source": "user"}).status_code == 422
        stored = client.post(f"{NS}/items", json={"text": CLAIM, "metadata": {"source": "user"}}).json()
        drawn = client.post(f"{NS}/items", json={"text": "drawn", "source_ids": [1]}).json()
        _refused(client.patch(f"{NS}/items/{stored['id']}", json={"text": "y", "source": "user"}))
        changed = client.patch(f"{NS}/items/key:own", json={"text": "what the program says"}).json()
        assert (stored["source"], drawn["source"], changed["source"]) == ("tool", "import", "tool")
        form = {"query": "what the program says", "source_weights": {"tool": 0.5}, "explain": True}
        found = client.post(f"{NS}/search", json=form).json()
        assert found["plan"]["source_weights"] == {"tool": 0.5}
        best = found["results"][0]
        assert best["score"] == sum(line["value"] for line in best["contributions"]) * best["source_weight"]
        _refused(client.post(f"{NS}/search", json={**form, "source_weights": {"robot": 1}}))
        rows = '{"text": "a row", "source": "user"}\n{"text": "another row"}\n'
        client.post(f"{NS}/import", content=rows, headers={"content-type": "application/x-ndjson"})
        with connect(server.url) as remote:
            assert remote.add(NewItem("by a client", source="user")).source == "tool"
            assert remote.update("key:own", ItemPatch("the third wording", source="user")).source == "tool"
            weighted = remote.search("third wording", source_weights={"tool": 0.25}, explain=True)
            assert weighted.results[0].source_weight == 0.25
            assert {item.source for item in remote.list(limit=50)} <= {"tool", "import"}


def _refused(response: httpx.Response) -> None:
    assert response.status_code in (400, 422), response.text

"""Raw records over MCP: the words behind an insight can be read, listed and forgotten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp_support import beside, call, pages, refused

from fourfold import Memory, NewItem

pytestmark = pytest.mark.spec("C6")


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

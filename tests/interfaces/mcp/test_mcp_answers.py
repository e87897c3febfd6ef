"""Answers cost few tokens, and none is larger than its budget, whatever is stored."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_support import call, connected, pages, refused

from fourfold import AsyncMemory, NewItem, Settings, limits
from fourfold.serve.budget import tokens
from fourfold.serve.mcp.answers import READ_TOKENS, SEARCH_TOKENS
from fourfold.serve.mcp.server import build

LONG = "The heron stood in the river for a while. "
MEGABYTE = LONG * (limits.ITEM_BYTES // len(LONG) - 1)
FIVE_NOTES = (
    "The spare key of the flat is with Mrs Okafor on the third floor",
    "Maria leads Project Eagle and works from Lisbon on Fridays",
    "We decided to keep PostgreSQL because the team knows it well",
    "The router's password is in the blue folder in the hall",
    "Deploys go out on Tuesdays after the smoke test is green",
)


@asynccontextmanager
async def serving(store: Path, level: Any = "all") -> AsyncIterator[Client]:
    server, _ = build(lambda: Settings(store=str(store), embedder="none"), level)
    async with connected(store, server=server) as client:
        yield client


async def sent(client: Client, tool: str, **arguments: Any) -> str:
    """The part of an answer that a model reads."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert not result.is_error, content
    assert result.structured_content is None
    return content.text  # type: ignore[union-attr]


async def fill(store: Path, items: list[NewItem]) -> list[int]:
    async with await AsyncMemory.open(store, embedder="none") as memory:
        return [item.id for item in await memory.add_many(items)]


# ---------------------------------------------------------------- small


@pytest.mark.spec("C5")
async def test_five_short_notes_cost_at_most_six_times_their_text(tmp_path: Path) -> None:
    """Their cost was once 29 times that of the text."""
    await fill(tmp_path, [NewItem(note, tags=("note",)) for note in FIVE_NOTES])
    async with serving(tmp_path) as client:
        answer = await sent(client, "hybrid_search", query_text="key Maria PostgreSQL router deploys")
    assert all(note in answer for note in FIVE_NOTES)
    assert tokens(answer) <= 6 * sum(map(tokens, FIVE_NOTES))


@pytest.mark.spec("C5")
async def test_a_result_has_only_what_an_agent_needs(tmp_path: Path) -> None:
    chunk = NewItem("def heron(): ...", path="src/birds.py", chunk_index=0, metadata={"line": 12}, title="Birds")
    await fill(tmp_path, [replace(chunk, created_at=datetime(2026, 3, 1, 9, tzinfo=UTC))])
    async with serving(tmp_path) as client:
        answer = await call(client, "hybrid_search", query_text="heron")
        facts = {"status", "query_type", "applied_weights", "keyword_results_count", "confidence", "results"}
        assert set(answer) == facts | {"degraded"}  # there is no embedder
        (result,) = answer["results"]
        assert result == {
            "id": 1,
            "title": "Birds",
            "file_path": "src/birds.py",
            "line": 12,
            "created_at": "2026-03-01",
            "score": round(result["score"], 3),
            "confidence": round(result["confidence"], 3),
            "content": "def heron(): ...",
        }
        assert set(await call(client, "full_text_search", query_text="heron")) == facts
        explained = await call(client, "hybrid_search", query_text="heron", explain=True)
        assert {"status", "applied_weights", "timings_ms", "hints", "query_type"} <= set(explained)
        (full,) = explained["results"]
        assert {"explanation", "fts_rank", "tags", "metadata", "created_at", "content"} <= set(full)


@pytest.mark.spec("S1.3", "C5")
async def test_scores_have_the_digits_that_tell_them_apart(tmp_path: Path) -> None:
    await fill(tmp_path, [NewItem("heron " * number + "river " * (40 - number)) for number in range(1, 21)])
    async with serving(tmp_path) as client:
        for given in ({"fusion": "rrf"}, {"fusion": "weighted"}, {}):
            answer = await call(client, "hybrid_search", query_text="heron", top_k=20, **given)
            assert len({each["score"] for each in answer["results"]}) == 20, given


@pytest.mark.spec("S1.4", "S4.5", "C15")
async def test_a_result_has_its_dates_fact_and_sources_as_far_as_it_has_any(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        raw = (await call(client, "store_raw_dialogue", content="Maria: I moved to Rome"))["raw"]["id"]
        fact = {"subject": "Maria", "attribute": "address"}
        for town, created in (("Bonn", "2026-01-02"), ("Rome", "2026-03-04")):
            stored = {**fact, "created_at": created, "occurred_at": "2026-01-01", "source_ids": [raw]}
            await call(client, "store_memory", content=f"Maria lives in {town}", **stored)
        old, new = sorted(
            (await call(client, "hybrid_search", query_text="Maria lives", history=True))["results"],
            key=lambda result: result["id"],
        )
        listed = (await call(client, "list_memories"))["items"]
    known = {**fact, "source_ids": [raw], "occurred_at": "2026-01-01"}
    assert old.items() >= (known | {"created_at": "2026-01-02", "superseded_at": "2026-03-04"}).items()
    assert new.items() >= (known | {"created_at": "2026-03-04"}).items()
    assert "superseded_at" not in new
    assert listed[0].items() >= fact.items()


@pytest.mark.spec("B12", "C5")
@pytest.mark.parametrize("max_tokens", [None, 1_000, 2_000, 20_000])
@pytest.mark.parametrize("tool", ["hybrid_search", "full_text_search", "retrieve_memory"])
async def test_all_results_come_within_the_budget(tmp_path: Path, tool: str, max_tokens: int | None) -> None:
    await fill(tmp_path, [NewItem(f"Heron {number}. {LONG * 60}", tags=("heron",)) for number in range(12)])
    given: dict[str, Any] = {"page_size": 10} if tool == "retrieve_memory" else {"top_k": 10}
    async with serving(tmp_path) as client:
        text = await sent(client, tool, query="heron", max_tokens=max_tokens, **given)
    assert tokens(text) <= (max_tokens or SEARCH_TOKENS)
    answer = json.loads(text)
    results = answer["results"]
    assert len(results) == 10
    assert all("content" in result or "snippet" in result for result in results)
    full = ["content" in result for result in results]
    assert full == sorted(full, reverse=True)
    assert all(full) == (max_tokens == 20_000)
    short = full.count(False)
    assert answer.get("notes") == ([f"{short} results were shortened to fit into max_tokens"] if short else None)


@pytest.mark.spec("B12")
async def test_a_hundred_results_come_even_with_a_small_budget(tmp_path: Path) -> None:
    await fill(tmp_path, [NewItem(f"Heron {number}. {LONG * 9}") for number in range(100)])
    async with serving(tmp_path) as client:
        answer = await call(client, "hybrid_search", query_text="heron", top_k=100)
        assert len(answer["results"]) == 100
        few = await call(client, "hybrid_search", query_text="heron", top_k=100, max_tokens=300)
        left_out = 100 - len(few["results"])
        assert f"{left_out} more results did not fit into max_tokens" in few["notes"]
        assert [each["id"] for each in few["results"]] == [each["id"] for each in answer["results"][:-left_out]]


@pytest.mark.spec("S5.1")
async def test_pages_have_the_total_count(tmp_path: Path) -> None:
    await fill(tmp_path, [NewItem(f"note {number}", tags=("bird",)) for number in range(25)])
    async with serving(tmp_path) as client:
        first = await call(client, "retrieve_memory", query="bird", page_size=20)
        assert (first["total"], first["has_more"], len(first["results"])) == (25, True, 20)
        second = await call(client, "retrieve_memory", query="bird", page_size=20, page=2)
        assert (second["total"], second["has_more"], len(second["results"])) == (25, False, 5)
        assert {each["id"] for each in (*first["results"], *second["results"])} == set(range(1, 26))
        listed = await call(client, "list_memories", limit=10, offset=20, tags=["bird"])
        assert (listed["total"], listed["has_more"], len(listed["items"])) == (25, False, 5)
        assert len(await pages(client, "list_memories", "items")) == 25


@pytest.mark.spec("C5")
async def test_tags_and_kinds_in_use_can_be_seen(tmp_path: Path) -> None:
    await fill(tmp_path, [NewItem(f"note {n}", tags=("bird", f"t{n}"), kind=("fact", "rule")[n % 2]) for n in range(3)])
    async with serving(tmp_path, "core") as client:
        counts = await call(client, "list_memories", counts=True)
        assert counts["tags"] == {"bird": 3, "t0": 1, "t1": 1, "t2": 1}
        assert counts["kinds"] == {"fact": 2, "rule": 1}
        assert counts["total"] == 3
        typo = await call(client, "hybrid_search", query_text="note", kind="facts")
        assert any("kinds: fact, rule" in note for note in typo["notes"])


@pytest.mark.spec("C7")
async def test_every_search_takes_the_filter_grammar(tmp_path: Path) -> None:
    await fill(tmp_path, [NewItem(f"a bird {n}", tags=("bird",), kind="fact", metadata={"floor": n}) for n in range(5)])
    async with serving(tmp_path) as client:
        for tool in ("hybrid_search", "full_text_search", "retrieve_memory", "list_memories"):
            given = {} if tool == "list_memories" else {"query": "bird"}
            for where in ("floor >= 3 and kind = fact", {"floor": {"gte": 3}}, '{"floor": {"gte": 3}}'):
                answer = await call(client, tool, **given, where=where)
                assert {row["id"] for row in answer.get("results", answer.get("items"))} == {4, 5}, (tool, where)
        assert "character" in (await refused(client, "hybrid_search", query_text="x", where="floor >= "))["error"]


# ---------------------------------------------------------------- bounded


@pytest.mark.spec("C5")
async def test_no_answer_is_larger_than_its_budget_over_a_store_of_large_items(tmp_path: Path) -> None:
    """Reads ten memories of a megabyte, with 64 KB of metadata, with every tool."""
    items = [
        NewItem(f"{number} {MEGABYTE}", tags=(f"tag {number} " + "x" * 900,), metadata={"note": "m" * 60_000})
        for number in range(10)
    ]
    ids = await fill(tmp_path, items)
    async with serving(tmp_path) as client:
        for tool, arguments, most in (
            ("get_memory", {"ids": ids * 40}, READ_TOKENS),
            ("get_memory", {"ids": ids * 40, "around": 10}, READ_TOKENS),
            ("get_memory", {"ids": ids[:1], "max_tokens": 300}, 300),
            ("list_memories", {"limit": 100}, SEARCH_TOKENS),
            ("list_memories", {"counts": True}, SEARCH_TOKENS),
            ("hybrid_search", {"query_text": "heron", "explain": True}, SEARCH_TOKENS),
            ("hybrid_search", {"query_text": "heron", "max_tokens": limits.ANSWER_TOKENS}, limits.ANSWER_TOKENS),
            ("retrieve_memory", {"query": "heron", "explain": True}, SEARCH_TOKENS),
            ("update_memory", {"id": ids[0], "content": MEGABYTE}, SEARCH_TOKENS),
            ("explain_result", {"id": ids[0], "query_text": "heron " * 4000}, SEARCH_TOKENS),
        ):
            assert tokens(await sent(client, tool, **arguments)) <= most, (tool, arguments.keys())
        read: Any = await client.read_resource(f"memory://item/{ids[0]}")
        assert tokens(read.contents[0].text) <= READ_TOKENS


@pytest.mark.spec("B12")
@pytest.mark.parametrize("max_tokens", [100, 1_000, None])
async def test_reading_ends_even_if_the_other_fields_do_not_fit(tmp_path: Path, max_tokens: int | None) -> None:
    """`next_offset` is given while text remains."""
    text, large = LONG * 20, {"metadata": {"x": "y z " * 15_000}}
    await fill(tmp_path, [NewItem(text, title="Bird " * 100, **large)])
    async with serving(tmp_path) as client:
        await call(client, "store_raw_dialogue", content=text, speaker="Ada" * 300, session_id="s" * 1000, **large)
        for tool, rows in (("get_memory", "items"), ("read_raw_dialogue", "raw")):
            parts: list[str] = []
            offset: int | None = 0
            while offset is not None:
                (part,) = (await call(client, tool, ids=[1], offset=offset, max_tokens=max_tokens))[rows]
                parts.append(part["content"])
                assert parts[-1], (tool, offset)
                offset = part.get("next_offset")
            assert "".join(parts).strip() == text.strip()
            (after,) = (await call(client, tool, ids=[1], offset=len(text), max_tokens=max_tokens))[rows]
            assert "next_offset" not in after


@pytest.mark.spec("B12")
async def test_what_does_not_fit_is_counted(tmp_path: Path) -> None:
    await fill(tmp_path, [NewItem(f"{n} {LONG}", path=f"a/{'folder/' * 100}b", chunk_index=n) for n in range(60)])
    async with serving(tmp_path) as client:
        records = [(await call(client, "store_raw_dialogue", content=LONG))["raw"]["id"] for _ in range(9)]
        stored = await call(client, "store_memory", content="Herons stand", source_ids=records)
        near = await call(client, "get_memory", ids=[10, 30, 50], around=10, max_tokens=3_000)
        assert near["notes"] == [f"{60 - len(near['items'])} more items did not fit into max_tokens"]
        drawn = await call(client, "get_memory", ids=[stored["item"]["id"]], sources=True, max_tokens=300)
        assert drawn["notes"] == [f"{9 - len(drawn['sources'])} more sources did not fit into max_tokens"]
        few = await call(client, "read_raw_dialogue", ids=records, max_tokens=100)
        assert few["notes"] == [f"{9 - len(few['raw'])} more raw records did not fit into max_tokens"]
        assert "notes" not in await call(client, "get_memory", ids=[10, 30], sources=True)


@pytest.mark.spec("B12", "C5")
async def test_a_long_question_leaves_room_for_its_explanation(tmp_path: Path) -> None:
    """The query is not repeated in the answer if that would use up the budget."""
    await fill(tmp_path, [NewItem(f"heron {number}") for number in range(5)])
    where = " and ".join(f'colour != "shade {"of grey" * 5} {number}"' for number in range(120))
    async with serving(tmp_path) as client:
        for query in ("heron", "heron " * 600):
            text = await sent(client, "hybrid_search", query_text=query, where=where, explain=True, max_tokens=1_500)
            assert tokens(text) <= 1_500
            assert len(json.loads(text)["results"]) == 5


@pytest.mark.spec("B12")
async def test_ids_that_are_given_twice_are_read_once(tmp_path: Path) -> None:
    await fill(tmp_path, [NewItem("a note", key="k"), NewItem("another")])
    async with serving(tmp_path) as client:
        answer = await call(client, "get_memory", ids=[1, "key:k", 2, 1, 2] * 50)
        assert [item["id"] for item in answer["items"]] == [1, 2]
        assert (await refused(client, "get_memory", ids=list(range(1, 200))))["details"].startswith("At most 100 ids")
        assert (await call(client, "delete_memory", ids=[1, 1, 2]))["deleted"] == 2


@pytest.mark.spec("S4.1")
async def test_neighbours_of_a_hub_come_in_pages(tmp_path: Path) -> None:
    async with await AsyncMemory.open(tmp_path, embedder="none") as memory:
        await memory.add_edges([("Hub", "knows", f"Node {number}", 1 / (1 + number)) for number in range(250)])
        await memory.add_node("Node 3", properties={"note": "x" * 60_000})
    async with serving(tmp_path) as client:
        first = await call(client, "graph_query_neighbors", name="Hub")
        assert (first["total"], first["has_more"], len(first["neighbors"])) == (250, True, 20)
        assert [near["name"] for near in first["neighbors"][:2]] == ["Node 0", "Node 1"]
        found = await pages(client, "graph_query_neighbors", "neighbors", name="Hub")
        assert [near["name"] for near in found] == [f"Node {number}" for number in range(250)]
        assert (await refused(client, "graph_query_neighbors", name="Hub", limit=101))["error"] == "limit 101, offset 0"


# ---------------------------------------------------------------- arguments


async def test_an_id_may_be_a_number_in_quotes(tmp_path: Path) -> None:
    await fill(tmp_path, [NewItem("a note"), NewItem("another"), NewItem("a copy")])
    async with serving(tmp_path) as client:
        raw = await call(client, "store_raw_dialogue", content="said")
        assert (await call(client, "get_memory", ids=["2"]))["items"][0]["content"] == "another"
        assert (await call(client, "update_memory", id="2", title="Two"))["item"]["id"] == 2
        assert (await call(client, "update_memory", id="1", merge=["3"]))["item"]["id"] == 1
        assert (await call(client, "explain_result", id="2", query_text="another"))["status"] == "success"
        stored = await call(client, "store_memory", content="drawn", source_ids=[str(raw["raw"]["id"])])
        assert (await call(client, "delete_memory", ids=[str(stored["item"]["id"]), "2"]))["deleted"] == 2
        assert (await call(client, "read_raw_dialogue", ids=[str(raw["raw"]["id"])]))["raw"][0]["content"] == "said"
        assert (await call(client, "delete_raw_dialogue", ids=[str(raw["raw"]["id"])]))["deleted"] == 1
        assert "is not a valid id" in (await refused(client, "get_memory", ids=["two"]))["error"]


WRONG_TYPES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("hybrid_search", {"query_text": "x", "top_k": True}),
    ("hybrid_search", {"query_text": "x", "top_k": "5"}),
    ("hybrid_search", {"query_text": "x", "top_k": 5.5}),
    ("hybrid_search", {"query_text": "x", "min_confidence": True}),
    ("hybrid_search", {"query_text": "x", "min_confidence": "0.5"}),
    ("hybrid_search", {"query_text": "x", "explain": "true"}),
    ("hybrid_search", {"query_text": "x", "explain": 1}),
    ("hybrid_search", {"query_text": "x", "weights": {"semantic": True}}),
    ("hybrid_search", {"query_text": "x", "query_embedding": [True, False]}),
    ("hybrid_search", {"query_text": "x", "rrf_k": "60"}),
    ("hybrid_search", {"query_text": "x", "any_tag": "yes"}),
    ("hybrid_search", {"query_text": "x", "fts_weight": True}),
    ("hybrid_search", {"query_text": "x", "fts_weight": "0.4"}),
    ("retrieve_memory", {"query": "x", "page": True}),
    ("retrieve_memory", {"query": "x", "page_size": "10"}),
    ("get_memory", {"ids": [True]}),
    ("get_memory", {"ids": [1], "around": "1"}),
    ("list_memories", {"limit": "5"}),
    ("list_memories", {"offset": False}),
    ("link", {"source": "a", "relation": "b", "target": "c", "weight": True}),
    ("link", {"source": "a", "relation": "b", "target": "c", "weight": "0.5"}),
    ("graph_query_neighbors", {"name": "Hub", "depth": "1"}),
    ("graph_find_path", {"start": "a", "goal": "b", "max_depth": True}),
    ("compress_to_l2_insight", {"content": "x", "source_ids": [True]}),
    ("store_memory", {"content": "x", "source_ids": ["one"]}),
    ("update_memory", {"id": True, "content": "x"}),
)


@pytest.mark.spec("S1.5", "S1.8")
async def test_a_value_of_another_type_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        for tool, arguments in WRONG_TYPES:
            error = await refused(client, tool, **arguments)
            assert (error["tool"], bool(error["details"])) == (tool, True), arguments
        assert (await call(client, "list_memories"))["total"] == 0


@pytest.mark.spec("S3.2", "S5.1")
async def test_argument_names_of_other_systems_are_accepted(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await call(client, "store_memory", content="a heron", type="fact")
        await call(client, "store_memory", content="a heron too", kind="rule")
        for tool in ("hybrid_search", "full_text_search"):
            answer = await call(client, tool, query="heron", limit=1, type="rule")
            assert [result["content"] for result in answer["results"]] == ["a heron too"]
        given = await call(client, "hybrid_search", query="heron", fts_weight=0.4, fusion="rrf", explain=True)
        assert (given["applied_weights"]["semantic"], given["applied_weights"]["keyword"]) == (0.6, 0.4)
        assert len((await call(client, "list_memories", type="fact", top_k=5))["items"]) == 1
        twice = await refused(client, "hybrid_search", query="heron", query_text="heron")
        assert twice["error"] == "query and query_text are both given"
        assert "has no argument 'type'" in (await refused(client, "memory_status", type="x"))["error"]


@pytest.mark.spec("S1.6", "B5")
async def test_an_agent_may_give_vector_time_and_language(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        for content, vector, day in (("eins", [1.0, 0.0], "2020-01-01"), ("zwei", [0.0, 1.0], "2021-06-01T10:00:00Z")):
            await call(client, "store_memory", content=content, embedding=vector, created_at=day, language="de")
        assert (await refused(client, "store_memory", content="drei", embedding=[1.0]))["error"]
        assert (await refused(client, "store_memory", content="drei", created_at="soon"))["error"]
        near = await call(client, "semantic_search", query="x", query_embedding=[0.0, 1.0], language="de", limit=1)
        assert [result["content"] for result in near["results"]] == ["zwei"]
        item = (await call(client, "get_memory", ids=[near["results"][0]["id"]]))["items"][0]
        assert (item["created_at"], item["language"]) == ("2021-06-01T10:00:00Z", "de")
        early = await call(client, "retrieve_memory", query="x", created_to="2020-12-31", alpha=0.0)
        assert early["total"] == 0
        ranked = await call(client, "hybrid_search", query="eins", fusion="rrf", rrf_k=7, explain=True)
        assert ranked["k"] == 7


@pytest.mark.spec("S1.8")
async def test_hints_name_tools(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        for tool, arguments, hint in (
            ("get_memory", {"ids": [99]}, "list_memories shows what is stored"),
            ("get_memory", {"ids": ["key:no"]}, "list_memories shows what is stored"),
            (
                "graph_query_neighbors",
                {"name": "Nobody"},
                "hybrid_search finds names, graph_add_node or link makes one",
            ),
            ("hybrid_search", {"query_text": "x", "alpha": 0.5}, "Use it with preset memories"),
        ):
            assert (await refused(client, tool, **arguments))["details"] == hint
        with pytest.raises(MCPError, match=r"no item 99\. list_memories shows what is stored"):
            await client.read_resource("memory://item/99")
        with pytest.raises(MCPError, match=r"no raw record 99\. read_raw_dialogue without ids shows what there is"):
            await client.read_resource("memory://raw/99")


async def test_a_tool_takes_the_name_of_a_reranker_but_no_folder(tmp_path: Path) -> None:
    await fill(tmp_path, [NewItem(text) for text in FIVE_NOTES])
    async with serving(tmp_path) as client:
        assert await call(client, "hybrid_search", query_text="router", rerank="off")
        reason = await refused(client, "hybrid_search", query_text="router", rerank="onnx:/etc")
    assert reason["error"] == "a server opens no model in a folder that a request names"

"""Calls every tool once, with a given client."""

from collections.abc import Mapping
from typing import Any

from mcp import Client
from mcp_support import call, refused


async def tour(client: Client) -> set[str]:
    """Calls every tool of the level `all` and checks each answer; returns the names of the tools."""
    called: set[str] = set()

    async def ask(tool: str, **arguments: Any) -> Mapping[str, Any]:
        called.add(tool)
        return await call(client, tool, **arguments)

    stored = await ask("store_memory", content="The spare key is with Mrs Okafor", title="Spare Key", tags=["home"])
    item = stored["item"]["id"]
    for tool in ("hybrid_search", "full_text_search", "semantic_search"):
        assert [each["id"] for each in (await ask(tool, query_text="spare key"))["results"]] == [item]
    assert (await ask("get_memory", ids=[item]))["items"][0]["title"] == "Spare Key"
    assert (await ask("update_memory", id=item, add_tags=["door"]))["item"]["tags"] == ["door", "home"]
    assert [each["id"] for each in (await ask("list_memories", tags=["door"]))["items"]] == [item]
    assert (await ask("link", source="Spare Key", relation="opens", target="Front Door"))["weight"] == 1
    assert (await ask("graph_add_node", name="Maria", label="person", aliases=["Mia"]))["node"]["aliases"] == ["Mia"]
    assert (await ask("graph_add_edge", source="Maria", relation="has", target="Spare Key"))["relation"] == "has"
    near = await ask("graph_query_neighbors", name="Spare Key", direction="out")
    assert [node["name"] for node in near["neighbors"]] == ["Front Door"]
    assert len((await ask("graph_find_path", start="Mia", goal="Front Door"))["edges"]) == 2
    raw = (await ask("store_raw_dialogue", content="We meet on Monday", speaker="Maria"))["raw"]["id"]
    insight = await ask("compress_to_l2_insight", content="Meeting on Monday", source_ids=[raw], tags=["work"])
    assert insight["item"]["source_ids"] == [raw]
    assert (await ask("read_raw_dialogue", speaker="Maria"))["raw"][0]["content"] == "We meet on Monday"
    assert (await ask("review_proposals"))["proposals"] == []
    page = await ask("retrieve_memory", query="work meeting", page=1, page_size=5)
    assert insight["item"]["id"] in [each["id"] for each in page["results"]]
    assert (await ask("explain_result", id=item, query_text="spare key"))["rank"] == 1
    assert (await ask("memory_status"))["store"]["namespaces"]["default"]["items"] == 2
    assert (await ask("delete_memory", ids=[item, insight["item"]["id"]]))["deleted"] == 2
    assert (await ask("delete_raw_dialogue", ids=[raw]))["deleted"] == 1
    assert (await refused(client, "get_memory", ids=[item]))["error"] == f"no item {item}"
    return called

"""A token of one namespace reaches nothing of another, over the API (which the page uses) and over MCP."""

from __future__ import annotations

import random
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from http_server import serving

from fourfold import Memory, NewItem

pytestmark = pytest.mark.spec("C9")

ADMIN = "admin-0123456789abcdef"
SPACES = ({}, {}, {"namespace": "beta"}, {"namespace": "alpha"})
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}


def fill(store: Path) -> list[Any]:
    """Fills beta with contents of every kind, and alpha with one item."""
    with Memory.open(store, embedder="none", namespace="beta") as beta:
        raw = beta.add_raw("beta: the secret heron")
        beta.add_many([NewItem(f"secret heron {n} of beta", key=f"beta-{n}", source_ids=(raw.id,)) for n in range(20)])
        beta.add_edge("Beta", "knows", "Secret")
        beta.within("alpha").add("a heron of alpha")
        return content(beta)


def content(beta: Memory) -> list[Any]:
    return [beta.list(limit=100), beta.list_raw(), beta.nodes(), beta.node("Beta")]


def a_call(chooser: random.Random, ids: list[int], raw: int) -> tuple[str, str, Any]:
    """A request to any route, with ids, keys and names of namespace beta."""
    word = chooser.choice(["heron", "beta", "secret", "Ada", "office"])
    item, key = chooser.choice(ids), f"key:beta-{chooser.randrange(20)}"
    either = chooser.choice([item, key])
    space = chooser.choice(
        ["alpha", "alpha", "alpha", "beta", "default", "*", "alpha+beta", "alpha%2Fbeta", "..", "Alpha"]
    )
    method, path, body = chooser.choice([
        ("POST", "/search", {"query": word, "explain": True, "candidates": chooser.random() < 0.5}),
        ("POST", "/search", {"query": word, "namespaces": ["alpha", "beta"]}),
        ("POST", "/why", {"query": word, "item": either}), ("POST", "/analyze", {"query": f"{word} Beta"}),
        ("GET", f"/items/{item}?include=chunks&include=sources&include=nodes&include=vector", None),
        ("GET", f"/items/{key}", None), ("PATCH", f"/items/{item}", {"title": "mine"}),
        ("DELETE", f"/items/{key}", None),
        ("POST", "/items", {"text": "mine now", "source_ids": [raw]}), ("POST", "/items:get", {"ids": [either]}),
        ("POST", "/items:batch", {"items": [{"text": "mine too", "source_ids": [raw]}]}),
        ("POST", "/items:delete", {"ids": [either], "dry_run": False}),
        ("POST", "/items:delete", {"filters": {"where": "key exists"}, "dry_run": False}),
        ("GET", "/items?limit=100", None), ("GET", "/facets", None), ("GET", "/tags", None), ("GET", "/export", None),
        ("GET", "/graph/nodes", None), ("GET", "/graph/nodes/Beta", None), ("GET", "/graph/around?name=Beta", None),
        ("GET", "/graph/neighbors?name=Beta", None), ("GET", "/graph/path?start=Beta&goal=Secret", None),
        ("POST", "/graph/nodes", {"name": "Mine", "item": either}), ("DELETE", "/graph/nodes/Beta", None),
        ("DELETE", "/graph/edges?from=Beta&relation=knows&to=Secret", None),
        ("GET", "/raw", None), ("GET", f"/raw/{raw}", None), ("DELETE", f"/raw/{raw}?force=true", None),
        ("GET", "/judgements", None), ("POST", "/judgements", {"query": word, "item": either, "relevance": 1}),
        ("GET", "/judgements/collection", None), ("POST", "/evaluation", {}),
    ])  # fmt: skip
    return method, f"/v1/namespaces/{space}{path}", body


def a_tool(chooser: random.Random, ids: list[int], raw: int) -> tuple[str, dict[str, Any]]:
    word, item = chooser.choice(["heron", "secret", "heron of Beta"]), chooser.choice([*ids, "key:beta-3"])
    name, arguments = chooser.choice([
        ("hybrid_search", {"query_text": word}), ("semantic_search", {"query_text": word}),
        ("full_text_search", {"query_text": word}), ("retrieve_memory", {"query": word}), ("list_memories", {}),
        ("hybrid_search", {"query_text": word, "explain": True}), ("memory_status", {}), ("read_raw_dialogue", {}),
        ("get_memory", {"ids": [item], "around": 2, "sources": True}), ("delete_memory", {"ids": [item]}),
        ("update_memory", {"id": item, "title": "mine"}), ("store_memory", {"content": "mine", "source_ids": [raw]}),
        ("explain_result", {"id": item, "query_text": word}), ("graph_query_neighbors", {"name": "Beta"}),
        ("graph_find_path", {"start": "Beta", "goal": "Secret"}), ("graph_add_node", {"name": "Mine", "item_id": item}),
        ("read_raw_dialogue", {"ids": [raw]}), ("delete_raw_dialogue", {"ids": [raw], "force": True}),
        ("compress_to_l2_insight", {"content": "mine", "source_ids": [raw]}), ("store_memory", {"content": "a note"}),
    ])  # fmt: skip
    return name, arguments if name == "memory_status" else {**arguments, **chooser.choice(SPACES)}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    folder = tmp_path_factory.mktemp("isolation")
    return folder, fill(folder)


def unzipped(content: bytes) -> str:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return "".join(archive.read(name).decode() for name in archive.namelist())


def no_secret(text: str) -> None:
    assert "secret heron" not in text.lower(), text
    assert '"namespace":"beta"' not in text.replace(" ", "").replace("\\", ""), text


@pytest.mark.spec("B15")
def test_a_thousand_requests_reach_nothing_of_another_namespace(filled: tuple[Path, list[Any]]) -> None:
    store, before = filled
    ids, raw = [item.id for item in before[0]], before[1][0].id
    chooser = random.Random(18)
    seen: set[tuple[str, str]] = set()
    with serving(store, FOURFOLD_HTTP_TOKENS=f"alpha:{ADMIN}") as server, server.client(ADMIN) as client:
        for _ in range(1000):
            method, path, body = a_call(chooser, ids, raw)
            answer = client.request(method, path, json=body)
            assert answer.status_code < 500, (method, path, answer.text)
            no_secret(
                unzipped(answer.content) if answer.headers.get("content-type") == "application/zip" else answer.text
            )
            if "/alpha/" not in path or (body or {}).get("namespaces"):
                assert answer.status_code in (403, 404), (method, path)
            seen.add((method, path.partition("?")[0].split("/", 4)[-1].rstrip("0123456789")))
        assert [each["name"] for each in client.get("/v1/namespaces").json()["namespaces"]] == ["alpha"]
        assert set(client.get("/v1/status").json()["namespaces"]) == {"alpha"}
        assert client.get("/metrics").status_code == 403
    assert len(seen) >= 27, seen
    with Memory.open(store, embedder="none", namespace="beta") as beta:
        assert content(beta) == before


@pytest.mark.spec("B15")
def test_a_thousand_calls_of_tools_reach_nothing_of_another_namespace(filled: tuple[Path, list[Any]]) -> None:
    store, before = filled
    ids, raw = [item.id for item in before[0]], before[1][0].id
    chooser = random.Random(19)
    refused = answered = 0
    with serving(store, FOURFOLD_HTTP_TOKENS=f"alpha:{ADMIN}") as server, server.client(ADMIN) as client:
        for number in range(1000):
            name, arguments = a_tool(chooser, ids, raw)
            params = {"name": name, "arguments": arguments}
            call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            answer = client.post("/mcp", json=call, headers=HEADERS)
            assert answer.status_code == 200, answer.text
            no_secret(answer.text)
            failed = answer.json()["result"]["isError"]
            refused, answered = refused + failed, answered + (not failed)
            if arguments.get("namespace") == "beta":
                assert failed, answer.text
    assert min(refused, answered) > 200, (refused, answered)
    with Memory.open(store, embedder="none", namespace="beta") as beta:
        assert content(beta) == before

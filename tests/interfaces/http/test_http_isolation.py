"""Requests reach nothing of another namespace, no file and no other site, and attacks block no other client."""

import random
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from http_attacks import ATTACKS, health, held
from http_server import NS, Server, serving
from mcp_http import code, raw

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


# ---------------------------------------------------------------- hostile requests to `fourfold serve`


TOKEN = "0123456789abcdef"
JSON_TYPES = ("application/json", "application/problem+json", "application/jsonl")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, spooled = tmp_path_factory.mktemp("attacked"), tmp_path_factory.mktemp("spooled")
    given = {"FOURFOLD_HTTP_TOKENS": f"*:{TOKEN}", "TMPDIR": str(spooled)}
    with serving(folder, descriptors=256, **given) as server:
        assert health(server.port) == 200
        yield server
    assert [*spooled.iterdir()] == [], "unfinished bodies leave no file"


def sent(server: Server, method: str, path: str, *headers: str, host: str = "127.0.0.1", body: bytes = b"") -> int:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    lines += [f"Content-Length: {len(body)}"] if body else []
    return code(raw(server.port, "\r\n".join([*lines, "", ""]).encode() + body))


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_server_answers_under_attack(attacked: Server, attack: str) -> None:
    with ATTACKS[attack](attacked.port):  # type: ignore[attr-defined]
        answers = [next(code for code in iter(lambda: health(attacked.port), None) if code != 503) for _ in range(3)]
        assert answers == [200] * 3


@pytest.mark.parametrize("path", ["/items", "/import"])
def test_endless_bodies_do_not_block_other_requests(attacked: Server, path: str) -> None:
    media = "json" if path == "/items" else "jsonl"
    opening = (
        f"POST {NS}{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/{media}\r\nContent-Length: 1000000\r\n\r\n{{"
    )
    with held(attacked.port, 400, opening.encode()), attacked.client(TOKEN) as client:
        for number in range(3):
            stored = client.post(f"{NS}/items", json={"text": f"stored under attack {path} {number}"})
            assert stored.status_code == 201
            assert client.post(f"{NS}/search", json={"query": "attack"}).json()["results"]


def test_foreign_hosts_origins_and_tokens_are_refused_on_every_kind_of_route(attacked: Server) -> None:
    mine = f"Authorization: Bearer {TOKEN}"
    for path in ("/", "/mcp", "/livez", "/metrics", "/v1/status", f"{NS}/items"):
        assert sent(attacked, "GET", path, mine, host="evil.com") == 421
        assert sent(attacked, "GET", path, mine, "Origin: http://evil.com") == 403
        assert sent(attacked, "GET", path, "Authorization: Bearer wrong") == 401
    assert sent(attacked, "POST", f"{NS}/items", mine, "Content-Type: application/json", body=b"x" * (8 << 20)) == 413


def test_path_traversal_reaches_no_file(attacked: Server) -> None:
    mine = f"Authorization: Bearer {TOKEN}"
    for path in ("/../app.py", "/%2e%2e/auth.py", "/..%5c..%5cauth.py", "//etc/passwd", "/index.html%00.js", "/%00"):
        assert sent(attacked, "GET", path, mine) == 404, path


def test_markup_in_stored_content_is_sent_as_json_that_no_browser_runs(attacked: Server) -> None:
    with attacked.client(TOKEN) as client:
        client.post(f"{NS}/items", json={"text": "<script>alert(1)</script>", "title": "<img src=x onerror=alert(1)>"})
        answer = client.post(f"{NS}/search", json={"query": "script alert"})
        stored = client.get(f"{NS}/items/{answer.json()['results'][0]['id']}")
        wrong = client.get(f"{NS}/graph/nodes/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
        nowhere = client.get("/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
        exported = client.get(f"{NS}/export")
    for each in (answer, stored, wrong, nowhere, exported):
        assert each.headers["content-type"].split(";")[0] in JSON_TYPES
        assert each.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in each.headers
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_preflight_admits_no_other_site(attacked: Server) -> None:
    with attacked.client() as client:
        asked = {"origin": "http://evil.com", "access-control-request-method": "POST"}
        answer = client.options(f"{NS}/items", headers=asked)
    assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (403, False)

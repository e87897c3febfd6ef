"""The API: items, searches, cursors, conditions, keyed requests, scopes, limits."""

import inspect
import json
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import postgres_servers
import pytest
from http_server import NS, Server, serving

from fourfold import Memory, Settings, connect, limits
from fourfold.cli.main import main
from fourfold.errors import StoreBusy, TimedOut
from fourfold.limits import HTTP_ANSWER_BYTES
from fourfold.ranking.options import OPTIONS
from fourfold.serve.http import judgements
from fourfold.serve.http.app import ROUTES
from fourfold.serve.http.derived import request_model

pytestmark = pytest.mark.spec("C9")

READ, WRITE, ADMIN, ALL = (f"{name}-0123456789abcdef" for name in ("read", "write", "admin", "all"))
SECRET = "xK9w2Lq8-Tr0ub4dor"
TOKENS = f"alpha:read:{READ},alpha:write:{WRITE},alpha:{ADMIN},*:{ALL}"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("api")
    store = folder / "store" if request.param == "sqlite" else postgres_servers.fresh()
    with serving(store, XDG_DATA_HOME=str(folder)) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as connected:
        yield connected


def test_pages_of_items_follow_each_other_while_items_are_added(client: httpx.Client) -> None:
    base = "/v1/namespaces/pages"
    for number in range(25):
        client.post(f"{base}/items", json={"text": f"item {number}", "created_at": "2026-01-01"})
    seen: list[int] = []
    cursor = None
    while True:
        query = {"limit": 10, **({"cursor": cursor} if cursor else {})}
        page = client.get(f"{base}/items", params=query).json()
        seen += [item["id"] for item in page["items"]]
        client.post(f"{base}/items", json={"text": f"newer {len(seen)}"})
        if (cursor := page["next_cursor"]) is None:
            break
    assert len(seen) == len(set(seen)) == 25
    assert client.get(f"{base}/items", params={"cursor": "?"}).status_code == 400


@pytest.mark.parametrize(
    ("request_form", "method"),
    [
        (request_model("search"), Memory.search),
        (request_model("why"), Memory.why),
        (request_model("analyze"), Memory.analyze),
    ],
)
def test_every_option_of_a_request_is_a_parameter_of_its_method(request_form: Any, method: Any) -> None:
    parameters = inspect.signature(method).parameters
    assert {name for name in OPTIONS if name in request_form.model_fields} - parameters.keys() == set()


def test_an_item_is_shown_with_the_nodes_that_it_is_linked_to(client: httpx.Client) -> None:
    base = "/v1/namespaces/linked"
    words = " ".join(f"word{number}" for number in range(1000))
    item = client.post(f"{base}/items", json={"text": f"{words} near Kestrel", "title": "Outage"}).json()["id"]
    client.post(f"{base}/graph/edges", json={"edges": [{"from": "Kestrel", "relation": "uses", "to": "Hawk"}]})
    shown = client.get(f"{base}/items/{item}", params={"include": "nodes"}).json()["nodes"]
    assert [node["name"] for node in shown] == ["Kestrel", "Outage"]
    assert client.get(f"{base}/graph/nodes", params={"item": str(item)}).json()["nodes"] == shown
    assert client.get(f"{base}/graph/nodes", params={"item": str(item + 1)}).status_code == 404


def test_head_is_answered_like_get_without_the_body(client: httpx.Client) -> None:
    for path in ("/livez", f"{NS}/tags", "/v1/openapi.json"):
        head, full = client.head(path), client.get(path)
        assert (head.status_code, head.content, head.headers["content-type"]) == (
            200,
            b"",
            full.headers["content-type"],
        )
    assert client.head(f"{NS}/search").status_code == 405


def test_parameters_that_an_operation_does_not_take_are_refused(client: httpx.Client) -> None:
    for path in (f"{NS}/facets?x=1", f"{NS}/tags?x=1"):
        assert client.get(path).json()["detail"] == "x: Extra inputs are not permitted"
    assert client.get(f"{NS}/tags?limit=1&limit=2").json()["detail"] == "the parameter limit is given twice"


def test_bodies_are_strict_json(client: httpx.Client) -> None:
    for body in (b'{"query": "\\ud800"}', b'{"query": "a", "alpha": NaN}', b"[" * 10_000, b"", b"{"):
        refused = client.post(f"{NS}/search", content=body, headers={"content-type": "application/json"})
        assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")
    refused = client.post(f"{NS}/search", content=b"{}", headers={"content-type": "text/plain"})
    assert refused.status_code == 415


def test_a_change_needs_the_etag_that_was_read(client: httpx.Client) -> None:
    stored = client.post(f"{NS}/items", json={"text": "etag"})
    place, etag = stored.headers["location"], stored.headers["etag"]
    assert client.get(place).headers["etag"] == etag
    changed = client.patch(place, json={"metadata": {"floor": 4}}, headers={"if-match": etag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != etag
    for method, body in (("PATCH", {"title": "x"}), ("PATCH", {"undo": True}), ("DELETE", None)):
        refused = client.request(method, place, json=body, headers={"if-match": etag})
        assert (refused.status_code, refused.headers["content-type"]) == (412, "application/problem+json")
        assert refused.json()["remedy"]
    assert client.delete(place, headers={"if-match": changed.headers["etag"]}).status_code == 204
    assert client.get(place).status_code == 404


def test_the_spelling_of_bearer_does_not_make_another_caller(tmp_path: Path) -> None:
    with serving(tmp_path, FOURFOLD_HTTP_TOKENS=TOKENS) as server, server.client() as client:
        answers = [
            client.post(
                "/v1/namespaces/alpha/raw",
                json={"content": "hello"},
                headers={"idempotency-key": "k1", "authorization": f"{scheme} {WRITE}"},
            ).json()["id"]
            for scheme in ("Bearer", "bearer", "BEARER ")
        ]
    assert len(set(answers)) == 1


def test_filters_by_metadata_take_the_operators_of_the_grammar(client: httpx.Client) -> None:
    base = "/v1/namespaces/amounts"
    for amount in (90, 100, 110):
        client.post(
            f"{base}/items", json={"text": f"invoice of {amount}", "metadata": {"amount": amount, "of": {"a": 1}}}
        )

    def listed(metadata: dict[str, Any]) -> set[str]:
        body = {"query": "invoice", "filters": {"metadata": metadata}}
        return {each["metadata"]["amount"] for each in client.post(f"{base}/search", json=body).json()["results"]}

    assert listed({"amount": {"gt": 100}}) == {110}
    assert listed({"amount": {"gte": 90, "lt": 110, "ne": 90}}) == {100}
    assert listed({"amount": {"in": [90, 110]}}) == {90, 110}
    assert listed({"amount": 100, "of": {"a": 1}}) == {100}


def keyed_writes(client: httpx.Client, base: str) -> list[tuple[str, str, dict[str, Any]]]:
    """One request to each operation that writes, with what it needs stored before."""
    texts = [f"{word} nests at the gate {'x' * 70_000 if word == 'heron' else ''}" for word in ("heron", "owl", "crow")]
    heron, owl, crow = (client.post(f"{base}/items", json={"text": text}).json()["id"] for text in texts)
    copy = client.post(f"{base}/items", json={"text": "the owl sleeps in the tower", "key": "copy"}).json()["id"]
    raw = client.post(f"{base}/raw", json={"content": "said"}).json()["id"]
    for name in ("Ada", "Bob"):
        client.post(f"{base}/graph/nodes", json={"name": name})
    edge = {"from": "Bob", "relation": "knows", "to": "Eve"}
    client.post(f"{base}/graph/edges", json={"edges": [edge]})
    said = {"items": [{"text": f"the {word} hunts at night"} for word in ("owl", "fox", "cat")], "session": "s1"}
    owls, fox, cat = (each["id"] for each in client.post(f"{base}/proposals", json=said).json()["proposals"])
    etag = client.get(f"{base}/items/{heron}").headers["etag"]
    rows = "".join(f'{{"text": "row {number}"}}\n' for number in range(1200))
    return [
        ("POST", "/items", {"json": {"text": "three"}}),
        ("POST", "/items:batch", {"json": {"items": [{"text": "four " * 20_000}, {"text": "five"}]}}),
        ("PATCH", f"/items/{heron}", {"json": {"title": "Heron"}, "headers": {"if-match": etag}}),
        ("PATCH", f"/items/{heron}", {"json": {"undo": True}}),
        ("POST", "/items:merge", {"json": {"keep": owl, "ids": [copy]}}),
        ("DELETE", f"/items/{crow}", {}),
        ("POST", "/items:delete", {"json": {"ids": [owl], "dry_run": False}}),
        ("POST", "/raw", {"json": {"content": "said again"}}),
        ("DELETE", f"/raw/{raw}", {}),
        ("POST", "/proposals", {"json": {"items": [{"text": "the bat sleeps by day"}], "session": "s1"}}),
        ("POST", "/proposals:edit", {"json": {"id": owls, "text": "owls hunt"}}),
        ("POST", "/proposals:accept", {"json": {"ids": [owls, fox]}}),
        ("POST", "/proposals:drop", {"json": {"ids": [cat]}}),
        ("POST", "/graph/nodes", {"json": {"name": "Eve", "aliases": ["Evelyn"]}}),
        ("DELETE", "/graph/nodes/Ada", {}),
        (
            "POST",
            "/graph/edges",
            {"json": {"edges": [{"from": "Bob", "relation": "likes", "to": "Eve", "weight": 1.0}]}},
        ),
        ("DELETE", "/graph/edges", {"params": edge}),
        ("POST", "/judgements", {"json": {"query": "heron", "item": heron, "relevance": 1}}),
        ("POST", "/import", {"content": rows, "headers": TYPED}),
        ("POST", "/sync", {"content": sync_of_a_raw_record(), "headers": TYPED}),
    ]


def sync_of_a_raw_record() -> str:
    """What another store sends to have its one raw record here, too."""
    uid = "0" * 31 + "1"
    record = {
        "type": "raw", "content": "said elsewhere", "speaker": None, "session_id": None, "metadata": {},
        "created_at": "2026-11-19T12:00:00+00:00", "namespace": "namespace", "id": 1,
    }  # fmt: skip
    change = [uid, "raw", 1, 0, 0, uid, None, "", record]
    return "".join(f"{json.dumps(line)}\n" for line in ({"ask": "write"}, {"change": change}))


def sent(client: httpx.Client, base: str, number: int, request: tuple[str, str, dict[str, Any]]) -> httpx.Response:
    method, path, more = request
    headers = {**more.get("headers", {}), "idempotency-key": f"k{number}"}
    return client.request(method, base + path, **{**more, "headers": headers})


@pytest.mark.spec("D8")
def test_every_write_with_a_key_is_carried_out_once(client: httpx.Client) -> None:
    base = "/v1/namespaces/once"
    requests = keyed_writes(client, base)
    assert len(requests) == sum(route.operation.writes for route in ROUTES) + 1, "and an undo"
    for number, request in enumerate(requests):
        first = sent(client, base, number, request)
        assert first.status_code < 300, first.text
        exported = client.get(f"{base}/export").content
        again = sent(client, base, number, request)
        assert (again.status_code, again.content) == (first.status_code, first.content), request[:2]
        assert again.headers["idempotent-replayed"] == "true"
        assert client.get(f"{base}/export").content == exported, request[:2]
        other = ("POST", "/raw", {"json": {"content": "another request"}})
        assert sent(client, base, number, other).status_code == 422


def test_a_repeated_request_undoes_nothing_that_was_done_since(client: httpx.Client) -> None:
    base = "/v1/namespaces/since"
    long = "x" * 100_000
    item = client.post(f"{base}/items", json={"text": long, "key": "k"}).json()["id"]
    store = ("POST", "/items", {"json": {"text": f"{long} first", "key": "k"}})
    undo = ("PATCH", f"/items/{item}", {"json": {"undo": True}})
    remove = ("DELETE", "/items/key:k", {})
    assert sent(client, base, 1, store).json()["content"].endswith("first")
    client.patch(f"{base}/items/{item}", json={"text": f"{long} newer"})
    assert sent(client, base, 1, store).json()["content"].endswith("newer")
    assert sent(client, base, 2, undo).json()["content"].endswith("first")
    assert sent(client, base, 2, undo).json()["content"].endswith("first")
    assert sent(client, base, 3, remove).status_code == 204
    assert sent(client, base, 1, store).status_code == 410
    assert client.get(f"{base}/items").json()["total"] == 0
    client.post(f"{base}/items", json={"text": "again", "key": "k"})
    assert sent(client, base, 3, remove).status_code == 204
    assert client.get(f"{base}/items").json()["total"] == 1


def test_requests_with_one_key_at_the_same_time_are_carried_out_once(client: httpx.Client) -> None:
    base, body = "/v1/namespaces/rush", {"content": "said"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: sent(client, base, 1, ("POST", "/raw", {"json": body})), range(8)))
    assert [answer.status_code for answer in answers] == [201] * 8
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert client.get(f"{base}/raw").json()["total"] == 1


def test_a_request_that_failed_may_be_sent_again_with_its_key(client: httpx.Client) -> None:
    base, body = "/v1/namespaces/failed", {"text": "drawn from a record", "source_ids": [1]}
    request = ("POST", "/items", {"json": body})
    assert sent(client, base, 1, request).status_code == 404
    body["source_ids"] = [client.post(f"{base}/raw", json={"content": "said"}).json()["id"]]
    assert sent(client, base, 1, request).status_code == 201


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as running:
        yield running


def test_a_page_of_another_site_gets_nothing_by_any_request(alone: Server) -> None:
    paths = {route.path.replace("{namespace}", "default") for route in ROUTES} | {"/health", "/v1/openapi.json"}
    with alone.client() as client:
        for path in sorted(paths):
            for site in ("cross-site", "same-site", "?"):
                for mode in ("no-cors", "cors", "navigate"):
                    refused = client.get(path, headers={"sec-fetch-site": site, "sec-fetch-mode": mode})
                    assert (refused.status_code, "other sites" in refused.text) == (403, True), path
                    assert refused.headers["cross-origin-resource-policy"] == "same-origin"
            own = client.get(path, headers={"sec-fetch-site": "same-origin"})
            assert own.status_code != 403
            assert own.headers["cross-origin-resource-policy"] == "same-origin"
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert client.get("/", headers=link).status_code == 200
        assert client.get("/", headers={**link, "sec-fetch-mode": "no-cors"}).status_code == 403
        assert client.get("/app.js", headers=link).status_code == 403
        assert client.get(f"{NS}/items", headers={"sec-fetch-site": "none"}).status_code == 200


@pytest.mark.spec("D8")
def test_no_answer_is_larger_than_the_limit_and_cursors_lead_to_the_rest(alone: Server) -> None:
    client = alone.client()
    base, texts = "/v1/namespaces/large", [f"heron {number} " + "x" * 900_000 for number in range(45)]
    ids = [client.post(f"{base}/items", json={"text": text}).json()["id"] for text in texts]
    raw = [client.post(f"{base}/raw", json={"content": text}).json()["id"] for text in texts]

    def whole(method: str, path: str, name: str, more: dict[str, Any]) -> list[int]:
        found: list[int] = []
        cursor = {}
        while True:
            asked = {"json": {**more, **cursor}} if method == "POST" else {"params": {**more, **cursor}}
            answer = client.request(method, base + path, **asked)
            assert answer.status_code == 200, answer.text[:500]
            assert len(answer.content) <= HTTP_ANSWER_BYTES
            found += [row["id"] for row in answer.json()[name]]
            if answer.json()["next_cursor"] is None:
                return found
            cursor = {"cursor": answer.json()["next_cursor"]}

    assert whole("POST", "/items:get", "items", {"ids": ids * 20}) == ids
    assert sorted(whole("GET", "/items", "items", {"limit": 1000})) == ids
    assert sorted(whole("GET", "/raw", "raw", {"limit": 1000})) == raw
    found = client.post(f"{base}/search", json={"query": "heron", "top_k": 45})
    assert (found.status_code, len(found.json()["results"])) == (200, 45)
    assert len(found.content) <= HTTP_ANSWER_BYTES
    drawn = client.post(f"{base}/items", json={"text": "drawn from all", "source_ids": raw}).json()["id"]
    assert whole("GET", f"/items/{drawn}", "sources", {"include": ["sources"]}) == raw
    both = client.get(f"{base}/items/{drawn}", params={"include": ["sources", "history"]}).json()
    rest = client.get(f"{base}/items/{drawn}?include=sources&include=history&cursor={both['next_cursor']}").json()
    assert [row["id"] for row in both["sources"] + rest["sources"]] == raw
    assert (both.get("history"), [row["id"] for row in rest["history"]]) == (None, [drawn])
    batch = {"items": [{"text": f"heron {number}", "key": f"k{number}"} for number in range(45)]}
    key = {"idempotency-key": "a batch"}
    assert client.post(f"{base}/items:batch", json=batch, headers=key).status_code == 201
    facts = [
        client.post(f"{base}/items", json={"text": text, "key": f"k{number}", "subject": "Lake", "attribute": "bird"})
        for number, text in enumerate(texts)
    ]
    assert {fact.status_code for fact in facts} == {201}
    assert client.post(f"{base}/items:batch", json=batch, headers=key).status_code == 400  # as stored now
    last = facts[-1].json()["id"]
    values = whole("GET", f"/items/{last}", "history", {"include": ["history"]})
    titled = [{"text": f"long {number}", "title": text} for number, text in enumerate(texts)]
    assert {client.post(f"{base}/items", json=item).status_code for item in titled} == {201}
    found = client.post(f"{base}/search", json={"query": "heron", "top_k": 100, "candidates": True})
    assert (found.status_code, len(found.json()["results"])) == (200, 91)
    with connect(alone.url, namespace="large") as remote:
        assert [item.id for item in remote.get([*ids, ids[0]])] == [*ids, ids[0]]
        assert [record.id for record in remote.sources(drawn)] == raw
        assert [item.id for item in remote.history(last)] == values
    client.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/search", {"query": "x", "unknown": 1}, 422),
        ("POST", "/search", {"query": ""}, 400),
        ("POST", "/search", {"query": "x", "top_k": "5"}, 422),
        ("POST", "/search", {"query": "x", "weights": {"semantic": 3}}, 400),
        ("POST", "/search", {"query": "x", "filters": {"where": "kind >"}}, 400),
        ("POST", "/items:delete", {"filters": {}}, 400),
        ("GET", "/items?limits=3", None, 422),
        ("GET", "/items/999", None, 404),
        ("GET", "/graph/nodes/Nobody", None, 404),
    ],
)
def test_a_wrong_request_is_a_problem_with_a_remedy(client, method, path, body, status):
    answer = client.request(method, NS + path, json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status
    assert answer.json()["remedy"]


def test_a_request_cannot_name_a_folder_with_a_reranker(client: httpx.Client) -> None:
    for path, more in (("search", {}), ("why", {"item": 1}), ("analyze", {})):
        answer = client.post(f"{NS}/{path}", json={"query": "router", "rerank": "onnx:/etc", **more})
        assert answer.status_code == 400
        assert "a server opens no model in a folder that a request names" in answer.json()["detail"]
    assert client.post(f"{NS}/search", json={"query": "router", "rerank": "best"}).status_code == 400
    found = client.post(f"{NS}/search", json={"query": "router", "rerank": "off"}).json()
    assert found["plan"]["rerank"] is None


def test_bulk_deletion_counts_before_it_deletes(client: httpx.Client) -> None:
    base = "/v1/namespaces/bulk"
    client.post(f"{base}/items:batch", json={"items": [{"text": f"old {n}", "tags": ["old"]} for n in range(5)]})
    wanted = {"filters": {"tags": ["old"]}}
    assert client.post(f"{base}/items:delete", json=wanted).json() == {"matched": 5, "deleted": 0, "dry_run": True}
    assert client.post(f"{base}/items:delete", json={**wanted, "dry_run": False}).json()["deleted"] == 5
    for text in ("in Bonn", "in Rome", "in Oslo"):
        client.post(f"{base}/items", json={"text": text, "subject": "Maria", "attribute": "home", "tags": ["old"]})
    assert client.post(f"{base}/items:delete", json=wanted).json()["matched"] == 3
    gone = client.post(f"{base}/items:delete", json={**wanted, "dry_run": False}).json()
    assert gone == {"matched": 3, "deleted": 3, "dry_run": False}


TYPED = {"content-type": "application/jsonl"}


def test_rows_are_imported_and_a_wrong_one_names_its_line(client: httpx.Client) -> None:
    rows = "".join(f'{{"text": "row {number}", "key": "{number}"}}\n' for number in range(1200))
    for _ in range(2):
        counts = client.post("/v1/namespaces/rows/import", content=rows, headers=TYPED).json()
        assert counts == {"items": 1200, "raw": 0, "nodes": 0, "edges": 0}
    assert client.get("/v1/namespaces/rows/items", params={"limit": 1}).json()["total"] == 1200
    refused = client.post("/v1/namespaces/rows/import", content='{"text": "x"}\n[]\n', headers=TYPED)
    assert (refused.status_code, ":2:" in refused.json()["detail"]) == (400, True)


def test_a_namespace_moves_over_http_with_everything_in_it(client: httpx.Client, tmp_path: Path) -> None:
    base = "/v1/namespaces/from"
    raw = client.post(f"{base}/raw", json={"content": "Ada: the router is in room 4"}).json()["id"]
    items = [{"text": f"row {number}", "key": str(number), "vector": [1.0, number, 0]} for number in range(450)]
    items += [{"text": "The router is in room 4", "tags": ["office"], "source_ids": [raw], "metadata": {"floor": 4}}]
    assert client.post(f"{base}/items:batch", json={"items": items}).status_code == 201
    client.post(f"{base}/graph/edges", json={"edges": [{"from": "Ada", "relation": "has", "to": "Router"}]})
    exported = client.get(f"{base}/export").content
    counts = {"items": 451, "raw": 1, "nodes": 2, "edges": 1}
    assert client.post("/v1/namespaces/to/import", content=exported, headers=TYPED).json() == counts
    assert client.post("/v1/namespaces/to/import", content=exported, headers=TYPED).status_code == 409
    (found,) = client.get("/v1/namespaces/to/items", params={"tags": "office", "metadata": '{"floor": 4}'}).json()[
        "items"
    ]
    view = client.get(f"/v1/namespaces/to/items/{found['id']}", params={"include": ["sources", "vector"]}).json()
    assert ([each["content"] for each in view["sources"]], view["vector"]) == (
        ["Ada: the router is in room 4"],
        "pending",
    )
    asked = {"query": "router", "vector": [1.0, 7.0, 0], "explain": True}
    searched = [client.post(f"{there}/search", json=asked).json()["results"] for there in (base, "/v1/namespaces/to")]
    assert [[(each["key"], each["score"], each["explanation"]) for each in found] for found in searched][1:] == [
        [(each["key"], each["score"], each["explanation"]) for each in searched[0]]
    ]
    file = tmp_path / "export.jsonl"
    file.write_bytes(exported)
    with Memory.open(tmp_path / "other", embedder="none", namespace="from") as memory:
        memory.import_file(file)
        assert memory.count() == 451
        assert [edge.relation for edge in memory.path("Ada", "Router")] == ["has"]


def test_evaluations_end_by_their_deadline_and_run_one_at_a_time(tmp_path, monkeypatch):
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        item = memory.add("the heron nests at the gate")
        for query in ("heron", "gate"):
            judgements.judge(memory, query, item, 1)
        assert judgements.evaluation(memory, {})["queries"] == 2
        search = memory.search

        def searching(*args: Any, **options: Any) -> Any:
            with pytest.raises(StoreBusy, match="another evaluation"):
                judgements.evaluation(memory, {})
            return search(*args, **options)

        monkeypatch.setattr(memory, "search", searching)
        assert judgements.evaluation(memory, {})["queries"] == 2
        monkeypatch.setattr(limits, "READ_SECONDS", -1.0)
        with pytest.raises(TimedOut, match="0 of 2 judged queries"):
            judgements.evaluation(memory, {})


def test_judgements_are_measured_and_become_a_collection(client: httpx.Client, tmp_path: Path) -> None:
    base = "/v1/namespaces/judged"
    texts = ("the heron nests at the gate", "the router is in room 4", "lunch is at noon")
    heron, router, _ = (client.post(f"{base}/items", json={"text": text}).json()["id"] for text in texts)
    for query, item, relevance in (("heron", heron, 1), ("heron", router, 0), ("router", router, 2)):
        judged = {"query": query, "item": item, "relevance": relevance}
        assert client.post(f"{base}/judgements", json=judged).status_code == 200
    measured = client.post(f"{base}/evaluation", json={"preset": "auto"}).json()
    assert (measured["queries"], measured["metrics"]["ndcg@10"]) == (2, 1.0)
    assert [(each["query"], each["scores"]["ndcg@10"], each["ranked"][0]) for each in measured["questions"]] == [
        ("heron", 1.0, str(heron)),
        ("router", 1.0, str(router)),
    ]
    worse = client.post(f"{base}/evaluation", json={"only": ["tags"]}).json()
    assert [each["scores"]["ndcg@10"] for each in worse["questions"]] == [0.0, 0.0]
    zipped = client.get(f"{base}/judgements/collection").content
    zipfile.ZipFile(BytesIO(zipped)).extractall(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "qrels.tsv", "queries.jsonl"}


def test_secrets_in_judged_queries_are_masked(client: httpx.Client) -> None:
    base = "/v1/namespaces/judged-secrets"
    item = client.post(f"{base}/items", json={"text": "the heron nests at the gate"}).json()["id"]
    judged = {"query": f"heron password = {SECRET}", "item": item, "relevance": 1}
    answer = client.post(f"{base}/judgements", json=judged)
    assert (answer.status_code, SECRET in answer.text) == (200, False)
    assert SECRET not in client.get(f"{base}/judgements").text


STRANGE = [".", "..", "../up", "a/../../b", "Team", "team", "v1.2", "con", "%2e%2e", "a=b"]
NAMES = [*STRANGE, "x" * 300, "x" * 301, "日本" * 150]


def test_every_namespace_has_its_own_folder_of_judgements_inside_the_server_s(tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path))
    folders = [judgements.folder_of(settings, name) for name in NAMES]
    assert {folder.parent for folder in folders} == {tmp_path / "http" / "judgements"}
    assert len({folder.name.lower() for folder in folders}) == len(NAMES)
    for name, folder in zip(NAMES, folders, strict=True):
        judgements.write(folder, {f"password = {SECRET}": {name: 1}})
        assert list(judgements.read(folder).values()) == [{name: 1}]
    shown = [line.partition(": judged query")[0] for line in judgements.scan(settings, mask=False)]
    assert sorted(name for name in shown if not name.endswith("...")) == sorted(STRANGE)
    assert len(shown) == len(NAMES)
    assert [path.name for path in tmp_path.iterdir()] == ["http"]


def test_a_result_in_a_namespace_of_any_name_can_be_judged(client: httpx.Client) -> None:
    for name in ("x" * 300, "..x", "日本" * 100):
        base = f"/v1/namespaces/{quote(name)}"
        item = client.post(f"{base}/items", json={"text": "the heron nests at the gate"}).json()["id"]
        judged = client.post(f"{base}/judgements", json={"query": "heron", "item": item, "relevance": 1})
        assert judged.status_code == 200, judged.text
        assert client.get(f"{base}/judgements").json() == judged.json()


def test_secrets_in_files_of_judgements_are_found_and_masked(tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path))
    assert judgements.scan(settings, mask=False) == []
    assert list(tmp_path.iterdir()) == []
    folder = judgements.folder_of(settings, "a/b")
    judgements.write(folder, {"heron": {"1": 1}, f"password = {SECRET}": {"key:gate": 2}})
    (line,) = judgements.scan(settings, mask=False)
    assert line.startswith("a/b: judged query: ")
    assert judgements.scan(settings, mask=True) == [f"masked: {line}"]
    assert judgements.scan(settings, mask=False) == []
    assert all(SECRET.encode() not in file.read_bytes() for file in folder.iterdir())
    assert list(judgements.read(folder).values()) == [{"1": 1}, {"key:gate": 2}]


def has_bytes(folder: Path, text: str) -> bool:
    return any(text.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_secrets_and_forgotten_texts_are_not_kept_for_keyed_requests(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")
    store, keyed = tmp_path / "store", {"idempotency-key": "k1"}
    body, heron = {"text": f"the gate, password = {SECRET}"}, {"text": "the heron nests here"}

    def printed(*arguments: str) -> list[str]:
        with pytest.raises(SystemExit) as ended:
            main(["--store", str(store), *arguments])
        shown = capsys.readouterr()
        assert ended.value.code == 0, shown.err
        return shown.out.splitlines()

    with serving(store, FOURFOLD_SECRETS="allow") as server, server.client() as client:
        stored = client.post(f"{NS}/items", json=body, headers=keyed)
        other = client.post(f"{NS}/items", json=heron, headers={"idempotency-key": "k2"})
        assert SECRET in stored.text
        assert [line for line in printed("scan-secrets") if not line.startswith("default: ")] == []
        printed("scan-secrets", "--mask")
        again = client.post(f"{NS}/items", json=body, headers=keyed)
        assert (again.status_code, again.json()["id"]) == (201, stored.json()["id"])
        assert again.headers["idempotent-replayed"] == "true"
        assert SECRET not in again.text
        assert client.delete(f"{NS}/items/{other.json()['id']}").status_code == 204
        printed("repair", "--purge")
        assert client.post(f"{NS}/items", json=heron, headers={"idempotency-key": "k2"}).status_code == 410
    assert not has_bytes(store, SECRET)
    assert not has_bytes(store, "heron nests")


def test_metrics_report_searches_latency_queue_index_lag_and_errors(client: httpx.Client) -> None:
    base = "/v1/namespaces/measured"
    client.post(f"{base}/items", json={"text": "a heron"})
    before = client.get("/metrics").text
    client.post(f"{base}/search", json={"query": "heron"})
    after = client.get("/metrics")
    assert after.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = [
        {
            name: float(value)
            for name, _, value in (line.rpartition(" ") for line in text.splitlines())
            if name[0] != "#"
        }
        for text in (before, after.text)
    ]
    assert values[1]["fourfold_searches_total"] == values[0].get("fourfold_searches_total", 0) + 1
    assert values[1]['fourfold_search_stage_seconds_count{stage="keyword"}'] >= 1
    assert values[1]["fourfold_vectors_pending"] >= 1
    assert {"fourfold_changes_unpublished", "fourfold_errors_total", "fourfold_items"} <= values[1].keys()
    assert values[1]["fourfold_errors_total"] == 0


# ---------------------------------------------------------------- tokens


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_scopes_decide_what_a_token_may_do(tmp_path: Path) -> None:
    base = "/v1/namespaces/alpha"
    with serving(tmp_path, FOURFOLD_HTTP_TOKENS=TOKENS) as server:
        allowed = {
            token: [
                httpx.request(method, server.url + path, json=body, headers=bearer(token)).status_code
                for method, path, body in (
                    ("GET", f"{base}/items", None),
                    ("POST", f"{base}/items", {"text": "heron"}),
                    ("POST", f"{base}/items:delete", {"filters": {"tags": ["none"]}}),
                    ("GET", f"{base}/export", None),
                    ("GET", "/metrics", None),
                )
            ]
            for token in (READ, WRITE, ADMIN, ALL)
        }
    assert allowed == {
        READ: [200, 403, 403, 403, 403],
        WRITE: [200, 201, 403, 403, 403],
        ADMIN: [200, 201, 200, 200, 403],
        ALL: [200, 201, 200, 200, 200],
    }


def test_a_limit_per_token_is_answered_with_retry_after(tmp_path: Path) -> None:
    with serving(tmp_path, FOURFOLD_HTTP_TOKENS=TOKENS, FOURFOLD_HTTP_REQUESTS_PER_MINUTE="3") as server:
        answers = [httpx.get(f"{server.url}/v1/namespaces", headers=bearer(READ)) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
        assert httpx.get(f"{server.url}/v1/namespaces", headers=bearer(WRITE)).status_code == 200

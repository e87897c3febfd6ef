"""Hostile requests to `fourfold serve`: refused, and the server keeps answering."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from http_attacks import ATTACKS, health, held
from http_server import NS, Server, serving
from mcp_http import code, raw

pytestmark = pytest.mark.spec("C9")

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

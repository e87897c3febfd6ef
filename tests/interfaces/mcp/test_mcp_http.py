"""MCP over HTTP: every tool with the SDK's client, and refusal of unauthorized requests."""

import json
from collections.abc import Iterator
from pathlib import Path

import mcp_http
import pytest
from mcp import MCPError
from mcp_http import Server, client, code, raw, serving
from mcp_support import MODES, call, refused
from mcp_tour import tour

from fourfold import AsyncMemory, Settings
from fourfold.errors import InvalidSetting
from fourfold.serve.listening import listen
from fourfold.serve.mcp import server
from fourfold.serve.mcp.tools import OFFERS

A, B, BOTH, ALL = (f"{name}-" + "0123456789abcdef" for name in ("a", "b", "ab", "all"))
TOKENS = f"alpha:{A},beta:{B},beta+alpha:{BOTH},*:{ALL}"
ROUTES = [route.path for route in server.make_app(Settings(), "core").routes]  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", MODES)
async def test_every_tool_over_http(tmp_path: Path, mode: str) -> None:
    with serving(tmp_path, "--tools", "all", FOURFOLD_EMBEDDER="builtin") as server:
        async with client(server, mode) as agent:
            assert await tour(agent) == {offer.name for offer in OFFERS}
            status = await agent.read_resource("memory://status")
            assert "default" in status.contents[0].text  # type: ignore[union-attr]


# ---------------------------------------------------------------- refused requests


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("guarded"), FOURFOLD_HTTP_TOKENS=TOKENS) as server:
        yield server


def request(
    server: Server, method: str, path: str, *headers: str, host: str | None = None, token: str = ALL, body: bytes = b""
) -> int:
    lines = [f"{method} {path} HTTP/1.1", *headers, "Connection: close"]
    lines += [f"Host: {host or f'127.0.0.1:{server.port}'}"] if host != "" else []
    lines += [f"Authorization: Bearer {token}"] if token else []
    lines += [f"Content-Length: {len(body)}"] if body else []
    return code(raw(server.port, "\r\n".join([*lines, "", ""]).encode() + body))


def health(server: Server) -> bytes:
    return raw(
        server.port, f"GET /health HTTP/1.1\r\nHost: localhost:{server.port}\r\nConnection: close\r\n\r\n".encode()
    )


def test_there_are_no_other_routes() -> None:
    assert sorted(ROUTES) == ["/health", "/mcp"]


HOSTILE_HOSTS = (
    "evil.com", "localhost:80.evil.com", "localhost.evil.com", "localhost@evil.com", "127.0.0.1.evil.com", "localhost:",
    "localhost:99999", "localhost:0", "localhost:80:80", "10.0.0.1", "[::1", "", "localhost\tx", "127.0.0.1, evil.com",
)  # fmt: skip


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_foreign_host_is_refused_on_every_route(guarded: Server, method: str, path: str) -> None:
    for host in HOSTILE_HOSTS:
        assert 400 <= request(guarded, method, path, host=host) < 500, host
    assert 400 <= code(raw(guarded.port, f"{method} {path} HTTP/1.0\r\n\r\n".encode())) < 500
    assert 400 <= request(guarded, method, path, "Host: evil.com") < 500  # two of them


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_page_of_another_site_is_refused_on_every_route(guarded: Server, method: str, path: str) -> None:
    own = f"http://127.0.0.1:{guarded.port}"
    for origin in (
        "http://evil.com", "null", "http://localhost:80.evil.com", "http://localhost", f"{own}.evil.com", "file://", "",
        f"http://localhost:{guarded.port}",
    ):  # fmt: skip
        assert request(guarded, method, path, f"Origin: {origin}") == 403, origin
    assert request(guarded, method, path, f"Origin: {own}", "Origin: null") == 403
    assert request(guarded, "GET", "/health", f"Origin: {own}") == 200


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_wrong_token_is_refused_on_every_route(guarded: Server, method: str, path: str) -> None:
    for token in ("wrong", A[:-1], A + "x", A.upper(), "ü" * 20):
        assert request(guarded, method, path, token=token) == 401, token
    assert request(guarded, method, path, f"Authorization: Basic {A}", token="") == 401
    assert request(guarded, method, path, f"Authorization: Bearer {A}") == 401  # two of them


def test_without_a_token_only_health_answers(guarded: Server) -> None:
    assert request(guarded, "POST", "/mcp", token="", body=b"{}") == 401
    answer = raw(
        guarded.port, f"GET /health HTTP/1.1\r\nHost: localhost:{guarded.port}\r\nConnection: close\r\n\r\n".encode()
    )
    assert code(answer) == 200
    assert set(json.loads(answer.split(b"\r\n\r\n")[1])) == {"status", "version"}


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_body_of_8_mib_is_refused_on_every_route(guarded: Server, method: str, path: str) -> None:
    assert request(guarded, method, path, body=b"x" * (8 << 20)) == 413
    chunk = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALL}\r\nTransfer-Encoding: chunked"
    assert code(raw(guarded.port, head.encode() + b"\r\n\r\n" + 8 * chunk + b"0\r\n\r\n")) == 413


# ---------------------------------------------------------------- tokens and namespaces


@pytest.mark.spec("B15")
@pytest.mark.parametrize("mode", MODES)
async def test_a_token_opens_its_namespaces_and_no_other(tmp_path: Path, mode: str) -> None:
    with serving(tmp_path, "--tools", "all", FOURFOLD_HTTP_TOKENS=TOKENS) as server:
        async with client(server, mode, A) as alpha, client(server, mode, B) as beta:
            mine = (await call(alpha, "store_memory", content="a heron of alpha"))["item"]
            theirs = (await call(beta, "store_memory", content="a heron of beta"))["item"]
            assert (mine["namespace"], theirs["namespace"]) == ("alpha", "beta")
            found = await call(alpha, "hybrid_search", query_text="heron")
            assert [each["content"] for each in found["results"]] == ["a heron of alpha"]
            assert (await refused(alpha, "get_memory", ids=[theirs["id"]]))["error"] == f"no item {theirs['id']}"
            for namespace in ("beta", "default", "nowhere", "alpha,beta", "*"):
                error = await refused(alpha, "hybrid_search", query_text="heron", namespace=namespace)
                assert (error["error"], error["details"]) == (
                    f"no access to the namespace '{namespace.removeprefix('alpha,')}'",
                    "Yours: alpha",
                )
            assert set((await call(alpha, "memory_status"))["store"]["namespaces"]) == {"alpha"}
            with pytest.raises(MCPError, match="no item"):
                await alpha.read_resource(f"memory://item/{theirs['id']}")
        async with client(server, mode, BOTH) as both, client(server, mode, ALL) as everyone:
            for namespace, expected in ((None, "beta"), ("alpha", "alpha"), ("beta", "beta")):
                found = await call(both, "hybrid_search", query_text="heron", namespace=namespace)
                assert [each["content"] for each in found["results"]] == [f"a heron of {expected}"]
            together = await call(both, "hybrid_search", query_text="heron", namespace="alpha,beta")
            assert {each["namespace"] for each in together["results"]} == {"alpha", "beta"}
            assert (await call(everyone, "list_memories"))["items"] == []  # the server's own namespace
            assert len((await call(everyone, "list_memories", namespace="beta"))["items"]) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_without_a_token_nothing_listens_to_other_machines(tmp_path: Path, host: str) -> None:
    with mcp_http.start(tmp_path, host=f"[{host}]" if ":" in host else host) as process:
        assert process.wait(60) == 1
        assert "FOURFOLD_HTTP_TOKENS" in process.stderr.read()


def test_other_machines_must_use_an_address_or_a_configured_host_name(tmp_path: Path) -> None:
    settings = {"FOURFOLD_HTTP_TOKENS": TOKENS, "FOURFOLD_HTTP_HOSTS": "memory.example.com"}
    with serving(tmp_path, host="0.0.0.0", **settings) as server:
        for host, expected in (
            ("10.1.2.3:80", 200), ("[fe80::1]", 200), ("memory.example.com", 200), ("MEMORY.example.com:443", 200),
            ("other.example.com", 421), ("10.1.2.3.example.com", 421), ("localhost", 421), ("1e1", 421),
        ):  # fmt: skip
            assert request(server, "GET", "/health", host=host) == expected, host


@pytest.mark.parametrize(
    "tokens", [("alpha:short",), ("0123456789abcdef0",), (":0123456789abcdef",), ("a:0123456789abcde ü",)]
)
def test_a_weak_token_is_refused_without_showing_it(tokens: tuple[str, ...]) -> None:
    from fourfold.config import load

    with pytest.raises(InvalidSetting, match="FOURFOLD_HTTP_TOKENS") as raised:
        load({}, {"FOURFOLD_HTTP_TOKENS": ",".join(tokens)}, None)
    assert not any(token in str(raised.value) for token in tokens)


@pytest.mark.spec("S1.8")
async def test_health_reports_a_store_that_does_not_answer(tmp_path: Path) -> None:
    async with await AsyncMemory.open(tmp_path, embedder="none") as memory:
        await memory.add("heron")
    (tmp_path / "fourfold.db").write_bytes(b"x" * 8192)
    with serving(tmp_path) as server:
        answer = health(server)
        assert code(answer) == 503
        assert str(tmp_path).encode() not in answer
        async with client(server) as agent:
            assert "damaged" in (await refused(agent, "hybrid_search", query_text="heron"))["error"]


@pytest.mark.parametrize(
    "where", ["8765", ":8765", "localhost", "localhost:99999", "localhost:-1", "no.such.host.invalid:1"]
)
def test_an_invalid_address_is_an_error(where: str) -> None:
    from fourfold.errors import FourfoldError

    with pytest.raises(FourfoldError) as raised:
        listen(where)
    assert raised.value.remedy

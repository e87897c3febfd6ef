"""Who may speak HTTP with us: right Host, no foreign Origin, a known token, a body of bounded size. On every route."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fourfold import limits
from fourfold.mcp.sessions import allowed

HEALTH = "/health"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
LAST_PORT = 65535
_DISCARDED = 4 * limits.HTTP_BODY
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:(?P<port>[0-9]{1,5}))?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Refusal:
    code: int
    error: str
    details: str
    headers: Mapping[str, str] | None = None

    def response(self) -> JSONResponse:
        form = {"status": "error", "error": self.error, "details": self.details}
        return JSONResponse(form, self.code, {"connection": "close", **(self.headers or {})})


@dataclass(frozen=True, slots=True)
class Rules:
    names: frozenset[str]
    """Names that we may be addressed by, without port. A page of another site can make a name of its own lead here
    (DNS rebinding), but its browser still says that name."""
    any_address: bool
    """Whether a bare IP address will do as well: it is nobody's name."""
    tokens: Mapping[str, tuple[str, ...] | None]
    """Namespaces by token; None: all of them. No tokens: everyone may."""


class Guard:
    """Around the whole app, so that no route can be forgotten."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._guarded(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal = self._foreign(headers) or self._unknown(headers, scope["path"])
        if refusal is not None:
            await refusal.response()(scope, receive, send)
            return
        body = await _body(headers, receive)
        if body is None:
            most = f"at most {limits.HTTP_BODY >> 20} MiB"
            await Refusal(413, "the request is too large", f"Send {most} at once").response()(scope, receive, send)
            return
        allowed.set(self._rules.tokens.get(_token(headers) or ""))
        await self._app(scope, _again(body, receive), send)

    def _foreign(self, headers: Headers) -> Refusal | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return Refusal(421, "this server is not called that", "Name its address; other names go into http_hosts")
        if any(origin.lower() not in _own_origins(hosts[0]) for origin in origins):
            return Refusal(403, "pages of other sites may not ask", "Send no Origin, or the server's own")
        return None

    def _is_ours(self, host: str) -> bool:
        parts = _HOST.fullmatch(host)
        if parts is None or int(parts["port"] or 1) not in range(1, LAST_PORT + 1):
            return False
        name = parts["name"].strip("[]").lower()
        return name in self._rules.names or (self._rules.any_address and _is_address(name))

    def _unknown(self, headers: Headers, path: str) -> Refusal | None:
        """A token that is wrong is refused everywhere; only whether we live may be asked without one."""
        token = _token(headers)
        if not self._rules.tokens or (token is None and path == HEALTH):
            return None
        if token is not None and known(token, self._rules.tokens):
            return None
        what = "there is no such token" if token is not None else "a token is needed"
        return Refusal(401, what, "Send Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"})


def known(token: str, tokens: Mapping[str, object]) -> bool:
    """Compares with all of them, in a time that says nothing about any."""
    return sum([hmac.compare_digest(token.encode(), each.encode()) for each in tokens]) > 0


def _token(headers: Headers) -> str | None:
    """What the caller shows, "" for something that cannot be one; None if nothing."""
    given: Sequence[str] = headers.getlist("authorization")
    if not given:
        return None
    scheme, _, token = given[0].partition(" ")
    return token.strip() if len(given) == 1 and scheme.lower() == "bearer" else ""


async def _body(headers: Headers, receive: Receive) -> bytes | None:
    """The whole body; None if it is too long. What is too long is read to its end, within bounds, but not kept: who is
    still sending when the connection ends never sees the answer."""
    parts: list[bytes] = []
    size, going_on = 0, True
    if int(headers.get("content-length", "0")) > _DISCARDED:
        return None
    while going_on:
        message = await receive()
        part: bytes = message.get("body", b"")
        size += len(part)
        if size <= limits.HTTP_BODY:
            parts.append(part)
        going_on = bool(message.get("more_body", False)) and size <= _DISCARDED
    return b"".join(parts) if size <= limits.HTTP_BODY else None


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that was read, then what follows it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replaying() -> Message:
        return waiting.pop() if waiting else await receive()

    return replaying


def _own_origins(host: str) -> frozenset[str]:
    return frozenset({f"http://{host.lower()}", f"https://{host.lower()}"})


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

"""Checks of every HTTP request before a route sees it: headers, Host, origin, token, and the body's size and time."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fourfold import limits, logs
from fourfold.limits import HttpLimits
from fourfold.serve.access import Grant, RequestRate, Tokens, granted, known

HEALTH = "/health"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
LAST_PORT = 65535
_PAGE = "/"
"""The web page, which does nothing by itself: other sites may link to it."""
_OWN_SITES = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site, which browsers send also with a GET, that has no Origin; none: the user's own request."""
_DISCARDED = 4 * limits.HTTP_BODY_BYTES
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:(?P<port>[0-9]{1,5}))?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Refusal:
    code: int
    error: str
    details: str
    headers: Mapping[str, str] | None = None

    def response(self) -> Response:
        """RFC 9457."""
        form = {"type": "about:blank", "title": HTTPStatus(self.code).phrase, "status": self.code}
        form |= {"detail": self.error, "remedy": self.details}
        headers = {"connection": "close", "x-content-type-options": "nosniff", **(self.headers or {})}
        return JSONResponse(form, self.code, headers, "application/problem+json")


@dataclass(frozen=True, slots=True)
class Rules:
    names: frozenset[str]
    """Host names of this server, without port. Another site can point its own name to this address
    (DNS rebinding), but the browser still sends that name."""
    any_address: bool
    """Whether a bare IP address is accepted as Host, too: DNS rebinding needs a name."""
    tokens: Tokens
    open_paths: frozenset[str] = frozenset({HEALTH})
    """Paths that need no token: signs of life, and the files of the web page. Their bodies are never read."""
    streamed: re.Pattern[str] | None = None
    """Paths whose routes stream the body, which may therefore be larger than others."""
    rate: RequestRate | None = None


class Guard:
    """Wraps the whole app, so that no route can be left out."""

    def __init__(self, app: ASGIApp, rules: Rules, most: HttpLimits) -> None:
        self._app = app
        self._rules = rules
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._guarded(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        path: str = scope["path"]
        is_open = path in self._rules.open_paths and token_of(headers) is None
        send = _not_shared(send)
        refusal = self._oversized(headers) or self._foreign(headers, path)
        if not is_open:
            refusal = refusal or self._unknown(headers) or self._too_often(headers)
        if refusal is None and self._rules.streamed is not None and self._rules.streamed.fullmatch(path):
            received = self._timed(receive)
        else:
            body = refusal or (b"" if is_open else await self._body(headers, receive))
            if isinstance(body, Refusal):
                logs.event("refused", status=body.code, error=body.error)
                await body.response()(scope, receive, send)
                return
            received = _replay(body, receive)
        granted.set(self._rules.tokens.get(token_of(headers) or "", Grant()))
        await self._app(scope, received, send)

    def _oversized(self, headers: Headers) -> Refusal | None:
        most = self._most
        size = sum(len(name) + len(value) for name, value in headers.raw)
        if len(headers.raw) > most.header_count or size > most.header_bytes:
            details = f"Send at most {most.header_count} headers and {most.header_bytes} bytes of them"
            return Refusal(431, "the headers are too large", details)
        return None

    def _foreign(self, headers: Headers, path: str) -> Refusal | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return Refusal(421, "the Host header is not allowed", "Use the server's address, or add it to http_hosts")
        sites = headers.getlist("sec-fetch-site")
        follows_link = path == _PAGE and headers.get("sec-fetch-mode") == "navigate"
        if any(origin.lower() not in _own_origins(hosts[0]) for origin in origins) or (
            not follows_link and any(site not in _OWN_SITES for site in sites)
        ):
            return Refusal(403, "requests from pages of other sites are not allowed", "Send no Origin, or the server's")
        return None

    def _is_ours(self, host: str) -> bool:
        parts = _HOST.fullmatch(host)
        if parts is None or int(parts["port"] or 1) not in range(1, LAST_PORT + 1):
            return False
        name = parts["name"].strip("[]").lower()
        return name in self._rules.names or (self._rules.any_address and _is_address(name))

    def _unknown(self, headers: Headers) -> Refusal | None:
        """Refuses a wrong token on every route."""
        token = token_of(headers)
        if not self._rules.tokens:
            return None
        if token is not None and known(token, self._rules.tokens):
            return None
        what = "unknown token" if token is not None else "a token is required"
        return Refusal(401, what, "Send Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"})

    def _too_often(self, headers: Headers) -> Refusal | None:
        token = (token_of(headers) or "") if self._rules.tokens else ""
        seconds = 0 if self._rules.rate is None else self._rules.rate.wait_seconds(token)
        if not seconds:
            return None
        details = f"Try again in {seconds} s, or raise http_requests_per_minute"
        return Refusal(429, "too many requests with this token", details, {"retry-after": str(seconds)})

    def _timed(self, receive: Receive) -> Receive:
        """Ends a body that stalls as if the client had gone."""

        async def received() -> Message:
            try:
                async with asyncio.timeout(self._most.body_seconds):
                    return await receive()
            except TimeoutError:
                return {"type": "http.disconnect"}

        return received

    async def _body(self, headers: Headers, receive: Receive) -> bytes | Refusal:
        seconds = self._most.body_seconds
        try:
            async with asyncio.timeout(seconds):
                return await _read_body(headers, receive)
        except TimeoutError:
            return Refusal(408, "the request's body did not arrive in time", f"Send it within {seconds:g} seconds")


def _not_shared(send: Send) -> Send:
    """Forbids pages of other sites to load an answer, as an image or a script."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).setdefault("cross-origin-resource-policy", "same-origin")
        await send(message)

    return sending


def token_of(headers: Headers) -> str | None:
    """The token of the request, "" for a malformed header, None without one."""
    given: Sequence[str] = headers.getlist("authorization")
    if not given:
        return None
    scheme, _, token = given[0].partition(" ")
    return token.strip() if len(given) == 1 and scheme.lower() == "bearer" else ""


async def _read_body(headers: Headers, receive: Receive) -> bytes | Refusal:
    """The whole body. The rest of a body that is too long is read within bounds and dropped: a client that is still
    sending when the connection closes never sees the answer."""
    too_large = Refusal(413, "the request is too large", f"Send at most {limits.HTTP_BODY_BYTES >> 20} MiB at once")
    parts: list[bytes] = []
    size, more = 0, True
    if int(headers.get("content-length", "0")) > _DISCARDED:
        return too_large
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return Refusal(400, "the request ended before its body was complete", "Send it again")
        part: bytes = message.get("body", b"")
        size += len(part)
        if size <= limits.HTTP_BODY_BYTES:
            parts.append(part)
        more = bool(message.get("more_body", False)) and size <= _DISCARDED
    return b"".join(parts) if size <= limits.HTTP_BODY_BYTES else too_large


def _replay(body: bytes, receive: Receive) -> Receive:
    """Delivers the body that was read, then what follows it."""
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

"""Listening on an address, and what happens to a request before a route sees it.

Limits of connections that uvicorn lacks: their number, header time, chunks and stalled readers; h11 limits the bytes of
incomplete headers. Checks of every request: headers, Host, origin, token, and the size and time of its body.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
import sys
import webbrowser
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import h11
import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from fourfold import limits, logs
from fourfold.config import Settings
from fourfold.errors import InvalidSetting, StoreUnavailable
from fourfold.limits import HTTP_CHUNKS, HTTP_CONNECTIONS, HttpLimits
from fourfold.serve.access import Grant, RequestRate, Tokens, granted, is_known, read_tokens

# ---------------------------------------------------------------- one connection

_STALL_BYTES = 64 * 1024
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n"
    b"content-type: application/problem+json\r\n\r\n"
    b'{"type": "about:blank", "title": "Service Unavailable", "status": 503, "detail": "too many requests at once", '
    b'"remedy": "Try again in a moment"}'
)


def _send_at_once(transport: asyncio.Transport) -> None:
    """Turns off Nagle's algorithm, which delays a body after its headers by 40 ms; asyncio does so only for sockets
    whose protocol is named."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Parser(h11.Connection):
    """Counts the chunks of each request."""

    _chunks = _bytes = 0

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > HTTP_CHUNKS + self._bytes // 1024:
                raise h11.RemoteProtocolError("too many chunks")
        return event


class LimitedConnection(H11Protocol):
    """A connection that can be evicted while the server waits for its request or the client reads a stream."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        most: HttpLimits,
        is_ending: Callable[[], bool],
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = _Parser(h11.SERVER, most.header_bytes)
        self._limits = most
        self._is_ending = is_ending
        self._header_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._since = self.loop.time()

    @property
    def is_serving(self) -> bool:
        """Whether a complete request is being answered and the answer has not begun."""
        return self._has_request and not self.cycle.more_body and not self.cycle.response_started

    @property
    def _has_request(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None until the first request
        return cycle is not None and not cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._is_ending():  # accepted while the server was shutting down
            transport.abort()
            return
        if len(self.connections) > self._limits.connections and not self._make_room():
            self.connections.discard(self)
            transport.write(_BUSY)
            transport.close()
            return
        _send_at_once(transport)
        transport.set_write_buffer_limits(high=0)  # every unsent byte starts the stall timer
        self._await_headers()

    def _make_room(self) -> bool:
        """Evicts the connection that has waited longest, of the address that holds most; False if all are serving."""
        others = cast("set[LimitedConnection]", self.connections - {self})
        idle = [each for each in others if not each.is_serving]
        if not idle:
            return False
        held = Counter(each.host for each in idle)
        oldest = min(idle, key=lambda each: (-held[each.host], each._since))
        oldest.connections.discard(oldest)
        oldest.transport.abort()
        return True

    @property
    def host(self) -> str:
        return self.client[0] if self.client else ""

    def handle_events(self) -> None:
        super().handle_events()
        if self._has_request:
            self._stop_header_timer()

    def send_400_response(self, msg: str) -> None:
        """Answers a malformed request, unless its answer has already begun; the app can no longer answer it."""
        if self._has_request:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def on_response_complete(self) -> None:
        """Closes a connection with pipelined requests: they would take connections from other clients."""
        self._await_headers()
        if self.conn.trailing_data[0] or self._is_ending():
            self.transport.close()
        super().on_response_complete()

    def shutdown(self) -> None:
        """Waits for answers, but not for the rest of a request."""
        if self._has_request and self.cycle.more_body:
            self.transport.abort()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        self.resume_writing()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._stop_header_timer()
        self._since = self.loop.time()
        self._header_timer = self.loop.call_later(self._limits.header_seconds, self._headers_late)

    def _headers_late(self) -> None:
        if self.transport.get_write_buffer_size():  # the client is still reading the previous answer
            self._await_headers()
        else:
            self.transport.abort()

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        super().resume_writing()

    def _watch_reader(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._stall_timer = self.loop.call_later(self._limits.stall_seconds, self._check_reader, unsent)

    def _check_reader(self, unsent: int) -> None:
        """Disconnects a client that has read too little since the last check."""
        if unsent - self.transport.get_write_buffer_size() < _STALL_BYTES:
            self.transport.abort()
        else:
            self._watch_reader()


# ---------------------------------------------------------------- one request

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
        own = {f"http://{hosts[0].lower()}", f"https://{hosts[0].lower()}"}
        if any(origin.lower() not in own for origin in origins) or (
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
        if token is not None and is_known(token, self._rules.tokens):
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
    values: Sequence[str] = headers.getlist("authorization")
    if not values:
        return None
    scheme, _, token = values[0].partition(" ")
    return token.strip() if len(values) == 1 and scheme.lower() == "bearer" else ""


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


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- the server

_SHUTDOWN_SECONDS = 30
"""How long running requests may take to finish when the server shuts down."""
_ACCEPTED_AT_ONCE = 16
"""Connections that asyncio accepts before any of them is counted: too many of them use up the file descriptors."""
_QUEUED = 512


def listen(where: str) -> tuple[socket.socket, str]:
    """A listening socket for HOST:PORT, and the host's name. Port 0 stands for any free port."""
    host, port = _parts(where)
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server((str(address[0]), port), family=family, backlog=_QUEUED), host
    except (OSError, UnicodeError) as error:
        raise StoreUnavailable(f"cannot listen on {where}: {error}", "Choose another --http HOST:PORT") from error


def _parts(where: str) -> tuple[str, int]:
    host, _, port = where.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > LAST_PORT:
        raise InvalidSetting(f"--http {where} is not HOST:PORT", "Write it like 127.0.0.1:8765")
    return host.removeprefix("[").removesuffix("]"), int(port)


def url(listening: socket.socket) -> str:
    address, port = listening.getsockname()[:2]
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def make_rules(settings: Settings, address: str, host: str) -> Rules:
    """Refuses an address that other machines can reach when no token is set."""
    tokens = read_tokens(settings)
    loopback = ipaddress.ip_address(address).is_loopback
    if not loopback and not tokens:
        remedy = "Set FOURFOLD_HTTP_TOKENS=NAMESPACE:SECRET (16 characters or more), or listen on 127.0.0.1"
        raise InvalidSetting(f"{host} can be reached from other machines, and no token is set", remedy)
    names = {name.lower() for name in settings.http_hosts} | {host.lower()} | (LOOPBACK if loopback else set[str]())
    return Rules(frozenset(names), not loopback, tokens)


def make_server(app: ASGIApp, rules: Rules, most: HttpLimits | None = None) -> uvicorn.Server:
    """A server with one HTTP implementation and event loop in every environment, whatever else is installed."""
    bounds = most or HttpLimits(connections=min(HTTP_CONNECTIONS, _descriptors() // 2))
    config = uvicorn.Config(
        Guard(app, rules, bounds),
        http=cast("Any", partial(LimitedConnection, most=bounds, is_ending=lambda: server.should_exit)),
        loop="asyncio",
        ws="none",
        backlog=_ACCEPTED_AT_ONCE,
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
    server = _Server(config)
    return server


def serve_app(
    app: ASGIApp, settings: Settings, where: str, line: str, *, path: str = "", open_page: bool = False, **rules: Any
) -> None:
    """Serves until it is interrupted. `line`: what stderr says, with {url}; `path`: of what a log announces."""
    listening, host = listen(where)
    with listening:
        server = make_server(app, replace(make_rules(settings, listening.getsockname()[0], host), **rules))
        address = url(listening)
        if settings.log_format == "json":
            logs.announce("listening", url=f"{address}{path}")
        else:
            sys.stderr.write(line.format(url=address) + "\n")
            sys.stderr.flush()
        if open_page:
            webbrowser.open(address)
        server.run(sockets=[listening])


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Drops the tracebacks of requests that a shutdown cancels: hundreds would fill a pipe that has no reader."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Lets the system queue more connections than asyncio accepts at once."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_QUEUED)


def _descriptors() -> int:
    """The maximum number of open files and sockets of this process."""
    if sys.platform == "win32":
        return 2 * HTTP_CONNECTIONS
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2 * HTTP_CONNECTIONS if soft == resource.RLIM_INFINITY else soft

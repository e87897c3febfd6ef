"""Listening on an address and running an app there behind the guard, with the limits of connections that uvicorn lacks.

The limits are those of connections, header time, chunks and stalled readers. h11 limits the bytes of incomplete
headers, the guard their number and the time of the body.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import sys
import webbrowser
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from fourfold import logs
from fourfold.errors import InvalidSetting, StoreUnavailable
from fourfold.limits import HTTP_CHUNKS, HTTP_CONNECTIONS, HttpLimits
from fourfold.serve.access import read_tokens
from fourfold.serve.guard import LAST_PORT, LOOPBACK, Guard, Rules

if TYPE_CHECKING:
    from fourfold.config import Settings


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
        limits: HttpLimits,
        is_ending: Callable[[], bool],
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = _Parser(h11.SERVER, limits.header_bytes)
        self._limits = limits
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
        raise InvalidSetting(
            f"{host} can be reached from other machines, and no token is set",
            "Set FOURFOLD_HTTP_TOKENS=NAMESPACE:SECRET (16 characters or more), or listen on 127.0.0.1",
        )
    names = {name.lower() for name in settings.http_hosts} | {host.lower()} | (LOOPBACK if loopback else set[str]())
    return Rules(frozenset(names), not loopback, tokens)


def make_server(app: ASGIApp, rules: Rules, limits: HttpLimits | None = None) -> uvicorn.Server:
    """A server with one HTTP implementation and event loop in every environment, whatever else is installed."""
    bounds = limits or HttpLimits(connections=min(HTTP_CONNECTIONS, _descriptors() // 2))
    config = uvicorn.Config(
        Guard(app, rules, bounds),
        http=cast("Any", partial(LimitedConnection, limits=bounds, is_ending=lambda: server.should_exit)),
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

"""Listening on an address and running an app there behind the guard."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import sys
import webbrowser
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from starlette.types import ASGIApp

from fourfold import logs
from fourfold.errors import InvalidSetting, StoreUnavailable
from fourfold.limits import HTTP_CONNECTIONS, HttpLimits
from fourfold.serve.access import read_tokens
from fourfold.serve.connection import LimitedConnection
from fourfold.serve.guard import LAST_PORT, LOOPBACK, Guard, Rules

if TYPE_CHECKING:
    from fourfold.config import Settings

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

"""MCP over Streamable HTTP, without sessions: every request stands for itself, behind the guard."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fourfold import __version__, limits
from fourfold.errors import FourfoldError, InvalidSetting, StoreUnavailable
from fourfold.mcp.guard import HEALTH, LAST_PORT, LOOPBACK, Guard, Rules
from fourfold.mcp.offers import Level
from fourfold.mcp.server import build
from fourfold.mcp.sessions import Sessions

if TYPE_CHECKING:
    from fourfold.config import Settings

PATH = "/mcp"
_GOODBYE_SECONDS = 3


def make_app(settings: Settings, level: Level) -> Starlette:
    """Every route there is, unguarded."""
    server, sessions = build(lambda: settings, level)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=limits.HTTP_BODY,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # ours is stricter
    )
    app.routes.append(Route(HEALTH, _health(sessions), methods=["GET"]))
    return app


def _health(sessions: Sessions) -> Callable[[Request], Awaitable[Response]]:
    async def health(_: Request) -> Response:
        """Whether the store answers; to anyone, so without a word about what it holds."""
        try:
            await sessions.ping()
        except FourfoldError as error:
            return JSONResponse({"status": "error", "error": type(error).__name__, "version": __version__}, 503)
        return JSONResponse({"status": "ok", "version": __version__})

    return health


def make_rules(settings: Settings, address: str, host: str) -> Rules:
    """Refuses to be reached from elsewhere without a token."""
    tokens = read_tokens(settings)
    loopback = ipaddress.ip_address(address).is_loopback
    if not loopback and not tokens:
        raise InvalidSetting(
            f"{host} can be reached from other machines, and there is no token",
            "Set FOURFOLD_HTTP_TOKENS=NAMESPACE:SECRET (16 characters or more), or listen on 127.0.0.1",
        )
    names = {name.lower() for name in settings.http_hosts} | {host.lower()} | (LOOPBACK if loopback else set[str]())
    return Rules(frozenset(names), not loopback, tokens)


def read_tokens(settings: Settings) -> Mapping[str, tuple[str, ...] | None]:
    """From NAMESPACE[+NAMESPACE...]:SECRET; * is every namespace."""
    found: dict[str, tuple[str, ...] | None] = {}
    for entry in settings.http_tokens:
        names, _, secret = entry.rpartition(":")
        if secret in found:
            raise InvalidSetting("http_tokens has one secret twice", "Several namespaces for one: A+B:SECRET")
        found[secret] = None if names == "*" else tuple(names.split("+"))
    return found


def listen(where: str) -> tuple[socket.socket, str]:
    """A listening socket for HOST:PORT, and the host's name. Port 0: any that is free."""
    host, port = _parts(where)
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server((str(address[0]), port), family=family, backlog=128), host
    except (OSError, UnicodeError) as error:
        raise StoreUnavailable(f"cannot listen on {where}: {error}", "Choose another --http HOST:PORT") from error


def _parts(where: str) -> tuple[str, int]:
    host, _, port = where.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > LAST_PORT:
        raise InvalidSetting(f"--http {where} is no HOST:PORT", "Write it like 127.0.0.1:8765")
    return host.removeprefix("[").removesuffix("]"), int(port)


def serve_http(settings: Settings, level: Level, where: str) -> None:
    """Until it is interrupted. Says on stderr where it listens."""
    listening, host = listen(where)
    with listening:
        address, port = listening.getsockname()[:2]
        guarded = Guard(make_app(settings, level), make_rules(settings, address, host))
        config = uvicorn.Config(
            guarded,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=_GOODBYE_SECONDS,
        )
        shown = f"[{address}]" if ":" in address else address
        sys.stderr.write(f"Fourfold answers MCP at http://{shown}:{port}{PATH}\n")
        sys.stderr.flush()
        uvicorn.Server(config).run(sockets=[listening])

"""MCP over Streamable HTTP, without sessions: every request is independent of the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fourfold import __version__, limits
from fourfold.errors import FourfoldError
from fourfold.serve.access import Sessions
from fourfold.serve.guard import HEALTH
from fourfold.serve.listening import serve_app
from fourfold.serve.mcp.server import build
from fourfold.serve.mcp.tools import Level

if TYPE_CHECKING:
    from fourfold.config import Settings

PATH = "/mcp"
_CLOSING_SECONDS = 10.0
"""How long the store may take to close, which waits for a publication of indexes that is running."""


class Parts(NamedTuple):
    """What an app needs to answer MCP."""

    routes: Sequence[Route]
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]]
    sessions: Sessions


def make_parts(settings: Settings, level: Level) -> Parts:
    """MCP and the sign of life, unguarded."""
    server, sessions = build(lambda: settings, level, closing_seconds=_CLOSING_SECONDS)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=limits.HTTP_BODY_BYTES,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # our check is stricter
    )
    # GET would open a stream that never carries a message.
    posted = [Route(PATH, route.endpoint, methods=["POST"]) for route in app.routes if isinstance(route, Route)]
    health = Route(HEALTH, _health(sessions), methods=["GET"])
    return Parts([*posted, health], app.router.lifespan_context, sessions)


def make_app(settings: Settings, level: Level) -> Starlette:
    parts = make_parts(settings, level)
    return Starlette(routes=parts.routes, lifespan=parts.lifespan)


def _health(sessions: Sessions) -> Callable[[Request], Awaitable[Response]]:
    async def health(_: Request) -> Response:
        """Reports whether the store answers, and nothing about what it holds."""
        try:
            await sessions.ping()
        except FourfoldError as error:
            return JSONResponse({"status": "error", "error": type(error).__name__, "version": __version__}, 503)
        return JSONResponse({"status": "ok", "version": __version__})

    return health


def serve_http(settings: Settings, level: Level, where: str) -> None:
    """Serves until it is interrupted, and prints its address on stderr."""
    serve_app(make_app(settings, level), settings, where, f"Fourfold answers MCP at {{url}}{PATH}", path=PATH)

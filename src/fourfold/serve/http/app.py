"""The server: the API, the MCP endpoint and the web page on one address, behind one guard."""

# No `from __future__ import annotations`: FastAPI reads these annotations when the module is loaded.

import mimetypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fourfold import __version__
from fourfold.config import Settings
from fourfold.model import Json
from fourfold.serve.access import RequestRate
from fourfold.serve.guard import HEALTH
from fourfold.serve.http import schemas
from fourfold.serve.http.derived import derived_routes
from fourfold.serve.http.judgements import own_path
from fourfold.serve.http.metrics import Metrics
from fourfold.serve.http.route import OperationRoute, Shared, problem, reply
from fourfold.serve.http.routes import routes
from fourfold.serve.listening import serve_app
from fourfold.serve.mcp import http as mcp_http
from fourfold.serve.mcp.tools import Level

ROUTES: Final[tuple[OperationRoute, ...]] = (*routes, *derived_routes(routes))
DESCRIPTION: Final = "/v1/openapi.json"
WEB: Final = Path(__file__).parents[1] / "web"
_STREAMED: Final = re.compile(r"/v1/namespaces/[^/]+/import")
_OPEN: Final = frozenset({HEALTH, DESCRIPTION, *(each.path for each in ROUTES if each.operation.is_open)})
_PAGE_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


def make_app(settings: Settings, level: Level = "core") -> FastAPI:
    """Every route of the server, unguarded."""
    parts = mcp_http.make_parts(settings, level)
    app = FastAPI(
        title="Fourfold",
        version=__version__,
        description="Explained hybrid search over HTTP.",
        openapi_url=None,
        separate_input_output_schemas=False,
        lifespan=parts.lifespan,
    )
    app.state.shared = Shared(parts.sessions, Metrics())
    app.router.routes[:] = [*parts.routes, *ROUTES, Route(DESCRIPTION, _described), *_pages()]
    app.add_exception_handler(404, _no_route)
    app.add_exception_handler(405, _no_method)
    return app


def description(app: FastAPI) -> dict[str, Json]:
    """The OpenAPI document."""
    if app.openapi_schema is None:
        document = app.openapi()
        parts = document["components"]
        parts["schemas"][schemas.Problem.__name__] = schemas.Problem.model_json_schema()
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}, {}]
    return cast("dict[str, Json]", app.openapi_schema)


def _described(request: Request) -> Response:
    return reply(description(request.app))


def page_files() -> dict[str, Path]:
    """The files of the web page by path; nothing else can be asked for."""
    files = {f"/{file.relative_to(WEB).as_posix()}": file for file in sorted(WEB.rglob("*")) if file.is_file()}
    return {"/": WEB / "index.html", **files}


def _pages() -> list[BaseRoute]:
    return [Route(path, _page(file), methods=["GET"]) for path, file in page_files().items()]


def _page(file: Path) -> Callable[[Request], Response]:
    media = "text/javascript" if file.suffix == ".js" else mimetypes.guess_type(file.name)[0]

    def page(_: Request) -> Response:
        return Response(file.read_bytes(), headers=_PAGE_HEADERS, media_type=media)

    return page


async def _no_route(request: Request, _: Exception) -> Response:
    return problem(404, f"no route {request.url.path[:200]}", f"{DESCRIPTION} lists the routes")


async def _no_method(request: Request, error: Exception) -> Response:
    allowed = getattr(error, "headers", None)
    return problem(405, f"{request.method} is not allowed here", f"{DESCRIPTION} lists the methods", headers=allowed)


def serve(settings: Settings, level: Level, where: str, *, open_page: bool = False) -> None:
    """Serves until it is interrupted, and prints its address on stderr."""
    for file in own_path(settings).glob("requests.db*"):  # answers that older versions recorded
        file.unlink()
    serve_app(
        make_app(settings, level),
        settings,
        where,
        f"Fourfold answers at {{url}} (API: {{url}}/v1, MCP: {{url}}{mcp_http.PATH})",
        open_page=open_page,
        open_paths=_OPEN | page_files().keys(),
        streamed=_STREAMED,
        rate=None if (most := settings.http_requests_per_minute) is None else RequestRate(most),
    )

"""Descriptions of endpoints, and the dispatcher of all calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fourfold import logs
from fourfold.errors import FourfoldError, NotFound
from fourfold.model import Json
from fourfold.serve.auth import Scope
from fourfold.serve.http.bodies import Body, received, spooled
from fourfold.serve.http.idempotency import Requests
from fourfold.serve.http.metrics import Metrics
from fourfold.serve.http.problems import HEADERS, HttpError, from_error, from_validation, problem
from fourfold.serve.sessions import Sessions, require, require_namespace
from fourfold.wire import compact

if TYPE_CHECKING:
    from fourfold.memory import Memory

JSON: Final = "application/json"
KEY_HEADER: Final = "idempotency-key"
_PART_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Shared:
    """The objects that all calls of a server share."""

    sessions: Sessions
    requests: Requests
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class Call:
    """One request, read and checked."""

    request: Request
    shared: Shared
    memory: Memory
    """The memory of the namespace in the path, or of the caller's default namespace."""
    body: Any = None
    """A value of the endpoint's model; the path of a file, if the endpoint takes no JSON."""
    query: Any = None
    begun_before: datetime | None = None
    """When an earlier, interrupted attempt of this keyed request began."""

    def path(self, name: str) -> str:
        return self.request.path_params[name]


Handler = Callable[[Call], Response]
"""Runs in a thread, so it may block; that of an endpoint without a store runs on the event loop."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    """The path in the syntax of Starlette; `{id:path}` may contain slashes."""
    handler: Handler
    summary: str
    answer: type[BaseModel] | None = None
    """The model of the answer; None: no JSON."""
    scope: Scope = "read"
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    status: int = 200
    media: str = JSON
    """The media type of the answer."""
    takes: str = JSON
    """The media type of the body."""
    needs_store: bool = True
    is_open: bool = False
    """Whether it needs no token. Errors then show only their names."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Request headers that it reads, with what they mean."""
    leads_to: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Operations on the answered object, with their parameters as pointers into the body of the answer."""

    @property
    def writes(self) -> bool:
        return self.scope != "read" and self.method != "GET"

    def route(self, shared: Shared) -> Route:
        async def serve(request: Request) -> Response:
            started = time.perf_counter()
            response = await self._answered(request, shared)
            spent = time.perf_counter() - started
            shared.metrics.request(self.method, self.path, response.status_code, spent)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return Route(self.path, serve, methods=[self.method])

    async def _answered(self, request: Request, shared: Shared) -> Response:
        try:
            require(self.scope)
            if (namespace := request.path_params.get("namespace")) is not None:
                require_namespace(namespace)
            key = request.headers.get(KEY_HEADER) if self.writes else None
            async with received(request) if self.takes == JSON else spooled(request) as body:
                if key is None:
                    return await self._called(request, shared, body, None)
                return await shared.requests.once(
                    request, key, body.digest, lambda begun: self._called(request, shared, body, begun)
                )
        except FourfoldError as error:
            logs.event("refused", route=self.path, error=type(error).__name__)
            return problem(503, type(error).__name__, "See the server's log") if self.is_open else from_error(error)
        except ValidationError as error:
            return from_validation(error)
        except HttpError as error:
            return problem(error.status, error.detail, error.remedy, headers=error.headers)
        except Exception:  # noqa: BLE001  a bug: logged with its traceback, counted in /metrics as a 500
            logs.log.exception("request failed", extra={"fourfold": {"route": self.path}})
            return problem(500, "the server failed", "Report this with the server's log")

    async def _called(self, request: Request, shared: Shared, body: Body, begun: datetime | None) -> Response:
        given: BaseModel | Path | None = body.file
        if self.body is not None:
            given = _read_body(self.body, request, body.content)
        query = (self.query or _Nothing).model_validate(_parameters(self.query, request))
        if not self.needs_store:
            return self.handler(Call(request, shared, cast("Memory", None), given, query))
        memory = await shared.sessions.memory(request.path_params.get("namespace"), self.scope)
        try:
            return await memory.run(lambda opened: self.handler(Call(request, shared, opened, given, query, begun)))
        except NotFound:
            if begun is None or self.method != "DELETE":
                raise
            return Response(status_code=204)  # the interrupted attempt has deleted it


class _Nothing(BaseModel, extra="forbid"):
    """No query parameters."""


def _read_body(model: type[BaseModel], request: Request, body: bytes) -> BaseModel:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != JSON:
        raise HttpError(415, f"the media type is {media or 'missing'}", f"Send content-type: {JSON}")
    return model.model_validate_json(body)


def _parameters(model: type[BaseModel] | None, request: Request) -> dict[str, Any]:
    """Query parameters; one that takes several values may be repeated."""
    given: dict[str, Any] = {}
    fields = {} if model is None else model.model_fields
    for name, value in request.query_params.multi_items():
        if name in fields and _is_list(fields[name].annotation):
            given.setdefault(name, []).append(value)
        elif name in given:
            raise HttpError(400, f"the parameter {name} is given twice", "Give it once")
        else:
            given[name] = value
    return given


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(get_origin(part) is list for part in get_args(annotation))


def download(file: IO[bytes], name: str, media: str) -> Response:
    """Sends a file part by part, then closes it."""

    def parts() -> Iterator[bytes]:
        with file:
            while part := file.read(_PART_BYTES):
                yield part

    return StreamingResponse(
        parts(), headers={"content-disposition": f'attachment; filename="{name}"'}, media_type=media
    )


def reply(form: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(compact(form), status, headers, JSON)

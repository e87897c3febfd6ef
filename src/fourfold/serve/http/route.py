"""A route of the API with what all of them have: scopes, strict bodies, keys for writes, problems (RFC 9457)."""

# No `from __future__ import annotations`: FastAPI reads these annotations when the module is loaded.

import asyncio
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from inspect import signature
from pathlib import Path
from threading import Lock
from typing import IO, Annotated, Any, Final, TypeVar, cast, get_args, get_origin

import pydantic_core
from fastapi import Depends, Query, Request
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Match
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from fourfold import errors, logs, owner_only
from fourfold.engine import keyed
from fourfold.engine.keyed import KeyedRequest, Repeated
from fourfold.errors import FourfoldError, NotFound
from fourfold.limits import HTTP_ANSWER_BYTES
from fourfold.memory import Memory
from fourfold.model import Json
from fourfold.operations import JSON, OPERATIONS, Operation
from fourfold.retrieval import SearchResponse
from fourfold.serve.access import Sessions, require, require_namespace
from fourfold.serve.budget import serialised
from fourfold.serve.http.schemas import Problem
from fourfold.serve.listening import token_of
from fourfold.wire import compact

# ---------------------------------------------------------------- problems

MEDIA: Final = "application/problem+json"
BUSY_SECONDS: Final = 1
REMEDY: Final = "Correct the fields; /v1/openapi.json describes them"
HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}
"""Headers of every answer of the API."""
_STATUSES: Final[tuple[tuple[type[FourfoldError], int], ...]] = (
    (errors.NotFound, 404),
    (errors.NoAccess, 403),
    (errors.Conflict, 412),
    (errors.Ambiguous, 409),
    (errors.SpaceMismatch, 409),
    (errors.StoreNotEmpty, 409),
    (errors.RequestError, 400),
    (errors.TimedOut, 504),
    (errors.StorageFull, 507),
    (errors.WorldError, 503),
    (errors.DamagedError, 500),
)


class HttpError(HTTPException):
    """A refusal that is about HTTP itself, such as a wrong media type."""

    def __init__(self, status: int, detail: str, remedy: str) -> None:
        super().__init__(status, detail)
        self.remedy = remedy


def problem(
    status: int,
    detail: str,
    remedy: str,
    kind: str = "",
    headers: Mapping[str, str] | None = None,
    **more: Json,
) -> Response:
    form: dict[str, Json] = {
        "type": f"urn:fourfold:error:{kind}" if kind else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "remedy": remedy,
        **more,
    }
    return Response(compact(form), status, {**HEADERS, **(headers or {})}, MEDIA)


def from_error(error: FourfoldError) -> Response:
    status = next(status for kind, status in _STATUSES if isinstance(error, kind))
    headers = {"retry-after": str(BUSY_SECONDS)} if isinstance(error, errors.WorldError) and status == 503 else None
    return problem(status, error.message, error.remedy, type(error).__name__, headers)


def from_validation(error: ValidationError | RequestValidationError) -> Response:
    """Names each wrong field, but not its value, which is the caller's data."""
    place = 1 if isinstance(error, RequestValidationError) else 0  # FastAPI says first whether it is query or body
    wrong = [(".".join(map(str, each["loc"][place:])), str(each["msg"])) for each in error.errors()[:20]]
    fields = [{"field": field, "message": message} for field, message in wrong]
    detail = ": ".join(filter(None, wrong[0]))
    return problem(422, detail, REMEDY, "InvalidRequest", errors=fields)


# ---------------------------------------------------------------- counters in the text format of Prometheus

METRICS_MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Histogram:
    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS_SECONDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        place = next((index for index, most in enumerate(_BUCKETS_SECONDS) if seconds <= most), len(_BUCKETS_SECONDS))
        self.counts[place] += 1
        self.sum += seconds

    def lines(self, name: str, labels: str) -> Iterable[str]:
        total = 0
        for bound, count in zip((*map(str, _BUCKETS_SECONDS), "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self.sum:.6f}"
        yield f"{name}_count{{{labels}}} {total}"


_FAMILIES: Final = {
    "requests_total": "Requests by route and status.",
    "request_seconds": "Time to answer, by route.",
    "errors_total": "Answers with a status of 500 or more.",
    "searches_total": "Searches.",
    "search_stage_seconds": "Time of each retriever and stage.",
    "degraded_total": "Retrievers that could not answer completely.",
}


class Metrics:
    """Labels are routes, statuses and names of retrievers, never values of requests."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[tuple[str, str]] = Counter({("errors_total", ""): 0, ("searches_total", ""): 0})
        self._times: defaultdict[tuple[str, str], Histogram] = defaultdict(Histogram)
        """Both by the family and the labels."""

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        labels = f'method="{method}",route="{route}"'
        with self._lock:
            self._counts["requests_total", f'{{{labels},status="{status}"}}'] += 1
            self._counts["errors_total", ""] += status >= 500
            self._times["request_seconds", labels].add(seconds)

    def search(self, response: SearchResponse) -> None:
        with self._lock:
            self._counts["searches_total", ""] += 1
            for stage, milliseconds in response.timings_ms.items():
                self._times["search_stage_seconds", f'stage="{stage}"'].add(milliseconds / 1000)
            for failure in response.degraded:
                self._counts["degraded_total", f'{{retriever="{failure.retriever}"}}'] += 1

    def text(self, status: Mapping[str, Json]) -> str:
        """`status` is that of the store: pending vectors and sizes."""
        lines: list[str] = []
        with self._lock:
            for name, described in _FAMILIES.items():
                family = f"fourfold_{name}"
                lines += _family(family, "counter" if name.endswith("_total") else "histogram", described)
                counted, timed = sorted(self._counts.items()), sorted(self._times)
                lines += [f"{family}{labels} {count}" for (own, labels), count in counted if own == name]
                for own, labels in timed:
                    lines += self._times[own, labels].lines(family, labels) if own == name else ()
        for name, (described, value) in _gauges(status).items():
            lines += [*_family(f"fourfold_{name}", "gauge", described), f"fourfold_{name} {value}"]
        return "\n".join(lines) + "\n"


def _gauges(status: Mapping[str, Json]) -> dict[str, tuple[str, float]]:
    namespaces = status["namespaces"].values()
    pending = sum(facts["pending_vectors"] for facts in namespaces)
    unpublished = sum(facts.get("unpublished_changes", 0) for facts in namespaces)
    gauges: dict[str, tuple[str, float]] = {
        "items": ("Items in all namespaces.", sum(facts["items"] for facts in namespaces)),
        "vectors_pending": ("Items that wait for a vector: the lag of vector search.", pending),
        "changes_unpublished": ("Changes that no published index holds yet: the index lag.", unpublished),
        "namespaces": ("Namespaces.", len(status["namespaces"])),
    }
    if indexes := [facts["index"] for facts in namespaces if "index" in facts]:
        changes, seconds = (max(index[name] for index in indexes) for name in ("lag_changes", "lag_seconds"))
        gauges["index_lag_changes"] = ("Changes that a distributed index lacks: the longest lag.", changes)
        gauges["index_lag_seconds"] = ("Age of the oldest of these changes.", seconds)
    return gauges


def _family(name: str, kind: str, described: str) -> tuple[str, str]:
    return f"# HELP {name} {described}", f"# TYPE {name} {kind}"


# ---------------------------------------------------------------- shared by all routes

KEY_HEADER: Final = "idempotency-key"
KEY_CHARACTERS: Final = 255
SPOOLED_BYTES: Final = 1 << 30
"""Maximum size of a body that is written into a file (answered with 413)."""
_PART_BYTES: Final = 1 << 20
_PROBLEM: Final[Json] = {
    "description": "An error, with the remedy.",
    "content": {MEDIA: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
}
_KEY: Final[Json] = {
    "name": KEY_HEADER,
    "in": "header",
    "required": False,
    "description": "A name for this request; if it is sent again with the same name, it is carried out once.",
    "schema": {"type": "string"},
}

T = TypeVar("T")
H = TypeVar("H", bound=Callable[..., Any])
Serve = Callable[[Request], Coroutine[Any, Any, Response]]
Leads = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Shared:
    """The objects that all requests to a server share."""

    sessions: Sessions
    metrics: Metrics


def shared(request: Request) -> Shared:
    return request.app.state.shared


# ---------------------------------------------------------------- parameters of handlers


async def _store(request: Request) -> Memory:
    return await shared(request).sessions.blocking(None, request.scope["route"].operation.scope)


async def _in_namespace(
    request: Request, namespace: Annotated[str, PathParameter(description="A namespace; its first write creates it.")]
) -> Memory:
    return await shared(request).sessions.blocking(namespace, request.scope["route"].operation.scope)


Store = Annotated[Memory, Depends(_store)]
"""The memory of the caller's default namespace."""
InNamespace = Annotated[Memory, Depends(_in_namespace)]
"""The memory of the namespace in the path."""


def _file(request: Request) -> Path:
    return request.state.file


File = Annotated[Path, Depends(_file)]
"""The body of a request that is not JSON."""

# ---------------------------------------------------------------- keys for writes


class Once:
    """Idempotency-Key: carries a write out, unless the request with its key was, also before the server was killed.

    The transaction that carries a request out records it, with the ids or counts that the answer is made from
    (`engine.keyed`). A repeated request is answered from what is stored now. Nothing is recorded of a request that
    failed: it changed nothing.
    """

    def __init__(self, request: Request) -> None:
        self._request = request

    def __call__(self, memory: Memory, do: Callable[[], T], again: Callable[[Sequence[int]], T]) -> T:
        """What `do` returns; for a repeated request what `again` makes of the recorded outcome."""
        request = self._keyed()
        if request is None:
            return do()
        try:
            with keyed.carrying_out(request):
                with memory.store.transaction(memory.namespace) as tx:
                    keyed.check(tx)
                return do()
        except Repeated as repeated:
            return self._again(request, repeated, again)

    def _again(self, request: KeyedRequest, repeated: Repeated, again: Callable[[Sequence[int]], T]) -> T:
        if repeated.fingerprint != request.fingerprint:
            raise HttpError(422, "this key was used for another request", "Use a new Idempotency-Key for each request")
        self._request.state.replayed = True
        try:
            return again(repeated.outcome)
        except NotFound as error:
            detail = f"this request was carried out before, and what it stored is gone: {error.message}"
            raise HttpError(410, detail, "Use a new Idempotency-Key to store it again") from error

    def _keyed(self) -> KeyedRequest | None:
        request = self._request
        key = request.headers.get(KEY_HEADER)
        if key is None:
            return None
        if not 0 < len(key) <= KEY_CHARACTERS or not key.isascii() or not key.isprintable():
            raise HttpError(400, "the Idempotency-Key is not valid", f"Send 1 to {KEY_CHARACTERS} ASCII characters")
        parts = (request.method, request.url.path, request.url.query, request.headers.get("if-match", ""))
        return KeyedRequest(
            sha256(f"{token_of(request.headers) or ''}\0{key}".encode()).digest(),
            sha256("\0".join(parts).encode() + b"\0" + request.state.digest).digest(),
        )


async def _once(request: Request) -> Once:
    return Once(request)


OnlyOnce = Annotated[Once, Depends(_once)]
"""What every operation that writes calls its method of Memory through."""


# ---------------------------------------------------------------- routes


class OperationRoute(APIRoute):
    """A route of FastAPI. Its handler runs in a thread, so it may block; an `async def` runs on the event loop."""

    operation: Operation

    def matches(self, scope: AsgiScope) -> tuple[Match, AsgiScope]:
        return super().matches(_as_get(scope))

    async def handle(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        await super().handle(_as_get(scope), receive, send)

    def get_route_handler(self) -> Serve:
        handle = super().get_route_handler()

        async def serve(request: Request) -> Response:
            started = time.perf_counter()
            response = await self._answered(_StrictRequest(request.scope, request.receive), handle)
            spent = time.perf_counter() - started
            shared(request).metrics.request(self.operation.verb, self.path, response.status_code, spent)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return serve

    async def _answered(self, request: Request, handle: Serve) -> Response:
        operation = self.operation
        receive = _received if operation.takes == JSON else _spooled
        try:
            require(operation.scope)
            if (namespace := request.path_params.get("namespace")) is not None:
                require_namespace(namespace)
            async with receive(request) as request.state.digest:
                return await self._handled(request, handle)
        except FourfoldError as error:
            logs.event("refused", route=self.path, error=type(error).__name__)
            return (
                problem(503, type(error).__name__, "See the server's log")
                if self.operation.is_open
                else from_error(error)
            )
        except (ValidationError, RequestValidationError) as error:
            return from_validation(error)
        except HttpError as error:
            return problem(error.status_code, error.detail, error.remedy)
        except Exception:  # noqa: BLE001  a bug: logged with its traceback, counted in /metrics as a 500
            logs.log.exception("request failed", extra={"fourfold": {"route": self.path}})
            return problem(500, "the server failed", "Report this with the server's log")

    async def _handled(self, request: Request, handle: Serve) -> Response:
        if self.body_field is not None:
            media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if media != JSON:
                raise HttpError(415, f"the media type is {media or 'missing'}", f"Send content-type: {JSON}")
        self._check_parameters(request)
        response = await handle(request)
        if hasattr(request.state, "replayed"):
            response.headers["idempotent-replayed"] = "true"
        return response

    def _check_parameters(self, request: Request) -> None:
        """FastAPI ignores parameters that a handler without any does not take, and takes the last of several."""
        declared: list[Any] = [field.field_info.annotation for field in self.dependant.query_params]
        model: type[BaseModel] = declared[0] if declared else _Nothing
        pairs = request.query_params.multi_items()
        if not declared:
            model.model_validate(dict(pairs))
        names = [name for name, _ in pairs]
        for name, field in model.model_fields.items():
            wanted = field.alias or name
            if names.count(wanted) > 1 and not _is_list(field.annotation):
                raise HttpError(400, f"the parameter {wanted} is given twice", "Give it once")


def _as_get(scope: AsgiScope) -> AsgiScope:
    """A HEAD request is answered like GET; the server leaves the body out."""
    return {**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope


class _Nothing(BaseModel, extra="forbid"):
    """No query parameters."""


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(get_origin(part) is list for part in get_args(annotation))


class Routes(list[OperationRoute]):
    """The routes of one part of the API."""

    def add(
        self, name: str, answer: Any = None, *, members: Any = None, leads_to: Leads | None = None
    ) -> Callable[[H], H]:
        """Makes a function the handler of an operation. `answer`: the model of its JSON; `asked`: that of its parameter
        of this name."""

        def added(handler: H) -> H:
            if members is not None:
                takes(handler, members=members_as(OPERATIONS[name], members))
            self.append(operation_route(OPERATIONS[name], handler, answer, leads_to))
            return handler

        return added


def members_as(operation: Operation, model: Any) -> Any:
    """The annotation of a parameter that is the body, or the query."""
    return model if operation.has_body else Annotated[model, Query()]


def takes(handler: Callable[..., Any], **annotations: Any) -> None:
    """Sets annotations that are known at run time only."""
    own = signature(handler)
    parameters = dict(own.parameters)
    parameters |= {name: parameters[name].replace(annotation=kind) for name, kind in annotations.items()}
    cast("Any", handler).__signature__ = own.replace(parameters=[*parameters.values()])


def operation_route(
    operation: Operation, handler: Callable[..., Response], answer: Any, leads_to: Leads | None = None
) -> OperationRoute:
    """`leads_to`: operations on the answered object, with their parameters as pointers into the body of the answer."""
    answered: dict[str, Any] = {"description": "Done."} | ({} if answer is None else {"model": answer})
    if leads_to:
        answered["links"] = {name: _link(name, pointers) for name, pointers in leads_to.items()}
    # by the class of the answer the OpenAPI document knows its media type
    response = JSONResponse if answer else type("MediaResponse", (Response,), {"media_type": operation.gives})
    route = OperationRoute(
        operation.path,
        handler,
        methods=[operation.verb],
        status_code=operation.status,
        response_model=None,
        response_class=response,
        responses={operation.status: answered, "default": _PROBLEM},
        operation_id=operation.id,
        summary=operation.help,
        description=f"Needs the scope {operation.scope}.",
    )
    route.operation = operation
    extra: dict[str, Any] = {"parameters": [_KEY]} if operation.writes else {}
    if operation.takes != JSON:
        extra["requestBody"] = {"required": True, "content": {operation.takes: {"schema": {"type": "string"}}}}
    route.openapi_extra = extra
    return route


def _link(operation: str, pointers: Mapping[str, str]) -> dict[str, Json]:
    values = {name: f"$response.body#{pointer}" for name, pointer in pointers.items()}
    return {"operationId": operation, "parameters": {"path.namespace": "$request.path.namespace", **values}}


# ---------------------------------------------------------------- bodies and answers


class _StrictRequest(Request):
    """Reads JSON without NaN, lone surrogates and endless nesting, unlike `json.loads`."""

    async def json(self) -> Any:
        try:
            return pydantic_core.from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise HttpError(422, f"Invalid JSON: {error}", REMEDY) from error


@asynccontextmanager
async def _received(request: Request) -> AsyncGenerator[bytes]:
    """Reads the body into memory and yields its digest."""
    yield sha256(await request.body()).digest()


@asynccontextmanager
async def _spooled(request: Request) -> AsyncGenerator[bytes]:
    """Writes the body into a file that is removed at the end of the block, and yields its digest.

    The file is open only while a part is written: bodies that stall hold no file descriptors.
    """
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        file, size, digest, waiting = Path(folder) / "body", 0, sha256(), bytearray()
        try:
            async for part in request.stream():
                size += len(part)
                if size > SPOOLED_BYTES:
                    raise HttpError(413, "the request is too large", f"Send at most {SPOOLED_BYTES >> 20} MiB at once")
                digest.update(part)
                waiting += part
                if len(waiting) >= _PART_BYTES:
                    await asyncio.to_thread(_append, file, waiting)
                    waiting = bytearray()
        except ClientDisconnect as error:
            raise HttpError(400, "the request ended before its body was complete", "Send it again") from error
        await asyncio.to_thread(_append, file, waiting)
        request.state.file = file
        yield digest.digest()


def _append(file: Path, part: bytes | bytearray) -> None:
    with owner_only.open_file(file, "ab") as target:
        target.write(part)


def download(file: IO[bytes], name: str, media: str) -> Response:
    """Sends a file part by part, then closes it."""

    def parts() -> Iterator[bytes]:
        with file:
            while part := file.read(_PART_BYTES // 4):
                yield part

    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(parts(), headers=headers, media_type=media)


def reply(form: Mapping[str, Json], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The answer; InvalidQuery if it is too large. That of a write is not: it shows a body, which is smaller."""
    return Response(serialised(form, HTTP_ANSWER_BYTES), status, headers, JSON)

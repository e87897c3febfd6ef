"""Errors as RFC 9457 `application/problem+json`: what is wrong, and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from pydantic import ValidationError
from starlette.responses import Response

from fourfold import errors
from fourfold.errors import FourfoldError
from fourfold.model import Json
from fourfold.wire import compact

MEDIA: Final = "application/problem+json"
BUSY_SECONDS: Final = 1
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


class HttpError(Exception):
    """A refusal that is about HTTP itself, such as a wrong media type."""

    def __init__(self, status: int, detail: str, remedy: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.remedy = remedy
        self.headers = headers


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


def from_validation(error: ValidationError) -> Response:
    """Names each wrong field, but not its value, which is the caller's data."""
    wrong = error.errors(include_url=False, include_input=False, include_context=False)
    fields = [{"field": ".".join(map(str, each["loc"])), "message": each["msg"]} for each in wrong[:20]]
    first = fields[0]
    detail = f"{first['field']}: {first['message']}" if first["field"] else str(first["message"])
    return problem(422, detail, "Correct the fields; /v1/openapi.json describes them", "InvalidRequest", errors=fields)

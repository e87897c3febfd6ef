"""Errors as RFC 9457 `application/problem+json`: what is wrong, and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from fourfold import errors
from fourfold.errors import FourfoldError
from fourfold.model import Json
from fourfold.wire import compact

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

    def __init__(self, status: int, detail: str, remedy: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)
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

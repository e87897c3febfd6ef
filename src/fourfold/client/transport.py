"""Requests to a server: keys for writes, repetition while it cannot be reached, and its errors as those of Fourfold."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

import httpx

from fourfold import addresses, errors
from fourfold.errors import FourfoldError, InvalidArgument, InvalidQuery, InvalidSetting, StoreUnavailable
from fourfold.model import Json

RETRY_SECONDS: Final = 10.0
"""How long a request is repeated when the server cannot be reached or is busy. Writes carry a key, so they are carried
out once."""
_ANSWER_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.1
_BUSY: Final = (409, 429, 503)
_CLOSEST: Final[Mapping[int, type[FourfoldError]]] = {
    401: errors.NoAccess,
    403: errors.NoAccess,
    404: errors.NotFound,
    412: errors.Conflict,
    429: errors.StoreBusy,
}


class Transport:
    """One server. Threads may share it."""

    def __init__(self, url: str, token: str) -> None:
        if not _is_address(url):
            raise InvalidSetting("the address of the server is not valid", "Write http://HOST:PORT")
        if not token.isascii() or not token.isprintable():
            raise InvalidSetting("the token contains invalid characters", "Use letters and digits")
        self.shown = addresses.shown(url)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=_ANSWER_SECONDS)

    def close(self) -> None:
        self._http.close()

    def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        request = self._request(method, path, body, query, headers)
        until = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                answer = self._http.send(request)
            except httpx.TransportError as error:
                if time.monotonic() > until:
                    raise StoreUnavailable(
                        f"{self.shown} does not answer ({type(error).__name__})", "Start it: fourfold serve"
                    ) from error
                time.sleep(_PAUSE_SECONDS)
                continue
            wait = answer.headers.get("retry-after", "")
            if answer.status_code not in _BUSY or not wait.isdigit() or time.monotonic() + int(wait) > until:
                return _checked(answer)
            time.sleep(int(wait))

    def json(self, answer: httpx.Response) -> Any:
        """The JSON of an answer; None if it has no body."""
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise StoreUnavailable(f"{self.shown} does not answer in JSON", "Check the address") from error

    def _request(
        self, method: str, path: str, body: Json, query: Mapping[str, Any] | None, headers: Mapping[str, str] | None
    ) -> httpx.Request:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        told = {"content-type": "application/json", "idempotency-key": uuid.uuid4().hex, **(headers or {})}
        try:
            content = None if body is None else json.dumps(body, allow_nan=False)
            return self._http.build_request(method, path, content=content, params=given, headers=told)
        except UnicodeError as error:
            raise InvalidQuery("a name has characters that cannot be stored", "Remove them") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgument(f"an argument cannot be sent as JSON ({error})", "Use plain values") from error


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def quoted(name: int | str) -> str:
    """The name, quoted as a part of a path."""
    try:
        return quote(str(name), safe="")
    except UnicodeError as error:
        raise InvalidQuery("a name has characters that cannot be stored", "Remove them") from error


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    try:
        form: Any = answer.json()
    except ValueError:
        form = {}
    raise _error_of(answer.status_code, cast("dict[str, Any]", form) if isinstance(form, dict) else {})


def _error_of(status: int, form: Mapping[str, Any]) -> FourfoldError:
    """The error that the server raised, by its name; for others, the closest one that this library has."""
    kind: Any = getattr(errors, str(form.get("type", "")).rpartition(":")[2], None)
    if not (isinstance(kind, type) and issubclass(kind, FourfoldError)):
        kind = _CLOSEST.get(status, InvalidQuery if status < 500 else StoreUnavailable)
    return kind(str(form.get("detail", f"the server answered {status}")), str(form.get("remedy", "")))

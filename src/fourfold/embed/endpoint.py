"""POSTs JSON to the address that the user's settings name, with one httpx client.

Retries temporary failures, ends by its deadline whatever a name server, a proxy or a slow peer does, follows no
redirect, and quotes neither the key nor the texts in an error.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from fourfold import threads
from fourfold.embed.provider import message_of, redirect_target, retry_after, shown
from fourfold.errors import EmbedderUnavailable, WorldError

if TYPE_CHECKING:
    import httpx

Result = TypeVar("Result")

CONNECT_SECONDS = 5.0
BACKOFF_SECONDS = (0.5, 1.0, 2.0)
"""Pauses between attempts; a server's Retry-After replaces them."""

ANSWER_BYTES = 64 * 1024 * 1024
"""Limit of an answer: far more than the largest batch of the largest vectors."""

RETRIED_STATUSES = (408, 425, 429)
"""Temporary failures, like every 5xx."""


@dataclass(frozen=True, slots=True)
class Service:
    """What an endpoint is for: the prefix of the settings that name it, the error that its failures raise, and what
    it sends."""

    prefix: str
    error: type[WorldError]
    answers: str

    @property
    def remedy(self) -> str:
        return f"Check {self.prefix}_base_url, the network and the provider's status, then try again"

    @property
    def settings_remedy(self) -> str:
        return f"Check {self.prefix}_api_key, {self.prefix}_model and {self.prefix}_base_url"

    @property
    def redirect_remedy(self) -> str:
        return f"Set {self.prefix}_base_url to the final address, if you trust it"


EMBEDDINGS = Service("openai", EmbedderUnavailable, "embeddings")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: httpx.Headers
    body: bytes


class Temporary(Exception):
    """A failure that is worth another attempt, and how long the server asks to wait."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


class Endpoint:
    """Safe to use from several threads."""

    def __init__(
        self,
        url: str,
        key: str,
        seconds: float,
        pause: Callable[[float], bool] | None = None,
        service: Service = EMBEDDINGS,
    ) -> None:
        """`pause` waits and returns whether to give up; the default ends with `close`."""
        self._service = service
        self.host = urlsplit(url).hostname or ""
        self._url = url
        self._key = key
        self._seconds = seconds
        self._closed = threads.Flag()
        self._pause = pause or self._closed.wait
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()

    def post(self, body: object, private: Sequence[str], seconds: float | None = None) -> Any:
        """Returns the JSON of the answer. `private`: the texts in `body`, which no error quotes.

        `seconds`: for this request, if it has less time than others.
        """
        payload = json.dumps(body).encode()
        seconds = self._seconds if seconds is None else seconds
        deadline = time.monotonic() + seconds
        pauses = iter(BACKOFF_SECONDS)
        while True:
            try:
                return self._judge(self._attempt(payload, deadline, seconds), private)
            except Temporary as problem:
                self._wait(problem, next(pauses, None), deadline)

    def in_order(self, answer: Any, rows: str, value: str, count: int, remedy: str) -> list[Any]:
        """The values of the answer's rows in the order of their texts; the answer must have one for each."""
        what = self._service.answers
        try:
            entries: list[Any] = answer[rows]
            found: dict[Any, Any] = {entry["index"]: entry[value] for entry in entries}
        except (KeyError, TypeError):
            raise self.unavailable(f"sent no {what}", remedy) from None
        if len(entries) != count or found.keys() != set(range(count)):
            raise self.unavailable(f"sent {len(entries)} {what} for {count} texts, or with wrong indexes", remedy)
        return [found[index] for index in range(count)]

    def close(self) -> None:
        """Also ends the pauses of running requests."""
        self._closed.set()
        if self._client is not None:
            self._client.close()

    def _wait(self, problem: Temporary, pause: float | None, deadline: float) -> None:
        """Pauses before the next attempt; without a pause or the time for it, the failure is final."""
        wanted = (pause or 0.0) if problem.pause is None else problem.pause
        late = time.monotonic() + wanted >= deadline
        if pause is None or late or self._pause(wanted):
            raise self.unavailable(f"{problem}", self._service.remedy) from None

    def _attempt(self, payload: bytes, deadline: float, seconds: float) -> Answer:
        client = self._connected()
        try:
            return by(deadline, lambda: self._send(client, payload, deadline))
        except TimeoutError:
            client.close()  # ends the abandoned thread; other requests of this client are retried with a new one
            raise self.unavailable(f"did not answer within {seconds:g} s", self._service.remedy) from None
        finally:
            if self._closed.is_set:
                client.close()

    def _connected(self) -> httpx.Client:
        import httpx

        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        fixed = {"Content-Type": "application/json", "User-Agent": "fourfold", "Accept-Encoding": "gzip, identity"}
        with self._lock:
            if self._client is None or self._client.is_closed:
                self._client = httpx.Client(headers={**fixed, **key}, follow_redirects=False)
            return self._client

    def _send(self, client: httpx.Client, payload: bytes, deadline: float) -> Answer:
        import httpx

        left = max(deadline - time.monotonic(), 0.001)
        timeout = httpx.Timeout(left, connect=min(left, CONNECT_SECONDS))
        try:
            with client.stream("POST", self._url, content=payload, timeout=timeout) as response:
                return Answer(response.status_code, response.headers, self._body(response))
        except (httpx.HTTPError, RuntimeError) as error:  # RuntimeError: another thread has closed the client
            reason = shown(f"{type(error).__name__}: {error}", self._key)
            raise Temporary(f"cannot be reached ({reason})") from None

    def _body(self, response: httpx.Response) -> bytes:
        """Reads the body and unpacks it with a limit: a small one may unpack to gigabytes."""
        body = bytearray()
        unpacked = _unpacker(response.headers.get("content-encoding", ""))
        if unpacked is None:
            raise self._unusable("sent an encoding that was not asked for")
        try:
            for chunk in response.iter_raw():
                body += unpacked(chunk, ANSWER_BYTES + 1 - len(body))
                if len(body) > ANSWER_BYTES:
                    raise self._unusable(f"sent more than {ANSWER_BYTES} bytes")
        except zlib.error:
            raise self._unusable("sent damaged gzip") from None
        return bytes(body)

    def _judge(self, answer: Answer, private: Sequence[str]) -> Any:
        """Returns the JSON of a good answer, otherwise raises."""
        if answer.status == 200:
            return self._json(answer.body)
        if 300 <= answer.status < 400:
            target = redirect_target(answer.headers.get("location", ""))
            raise self.unavailable(f"redirects to {target}, which is refused", self._service.redirect_remedy)
        said = shown(message_of(answer.body), self._key, private)
        reason = f"answered {answer.status}" + (f": {said}" if said else "")
        if answer.status in RETRIED_STATUSES or answer.status >= 500:
            raise Temporary(reason, retry_after(answer.headers.get("retry-after", "")))
        raise self._unusable(reason)

    def _json(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise self._unusable("sent no valid JSON") from None

    def _unusable(self, what: str) -> WorldError:
        return self.unavailable(what, self._service.settings_remedy)

    def unavailable(self, what: str, remedy: str) -> WorldError:
        return self._service.error(f"{self.host} {what}", remedy)


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes] | None:
    """A function that unpacks a part of an answer to at most that many bytes; None for an unknown encoding."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda part, most: part[:most]
        case "gzip" | "x-gzip":
            return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress
        case _:
            return None


def by(deadline: float, call: Callable[[], Result]) -> Result:
    """Returns the call's result, or raises TimeoutError at the deadline.

    Timeouts of a socket limit neither a name server nor a peer that sends one byte per second.
    """
    return threads.start(call, "fourfold-endpoint").result(deadline - time.monotonic())

"""POSTs JSON to the one address that the user's settings name.

Tries again what may pass, ends by its deadline whatever a name server, a proxy or a slow peer does, follows no
redirect, and repeats neither the key nor the texts in an error.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from fourfold.embed.provider import message_of, redirect_target, retry_after, shown
from fourfold.errors import EmbedderUnavailable

if TYPE_CHECKING:
    import ssl

    import httpx

Result = TypeVar("Result")

CONNECT_SECONDS = 5.0
BACKOFF_SECONDS = (0.5, 1.0, 2.0)
"""Pauses between attempts; a server's Retry-After replaces them."""

ANSWER_BYTES = 64 * 1024 * 1024
"""Far more than the largest batch of the largest vectors."""

AGAIN = (408, 425, 429)
"""Like every 5xx, worth another attempt."""

REMEDY = "Check openai_base_url, the network and the provider's status, then try again"
SETTINGS_REMEDY = "Check openai_api_key, openai_model and openai_base_url"
REDIRECT_REMEDY = "Set openai_base_url to the address that answers by itself, if you trust it"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: httpx.Headers
    body: bytes


class Passing(Exception):
    """A failure that may pass, and how long the server asks to wait."""

    def __init__(self, reason: str, pause: float | None = None) -> None:
        super().__init__(reason)
        self.pause = pause


class Endpoint:
    """Safe to use from several threads; each request borrows a connection of its own."""

    def __init__(self, url: str, key: str, seconds: float, pause: Callable[[float], bool] | None = None) -> None:
        """`pause` waits and says whether to give up; the default waits until `close`."""
        self.host = urlsplit(url).hostname or ""
        self._url = url
        self._key = key
        self._seconds = seconds
        self._closed = threading.Event()
        self._pause = pause or self._closed.wait
        self._idle: deque[httpx.Client] = deque()

    def post(self, body: object, private: Sequence[str]) -> Any:
        """The JSON that comes back. `private` are the texts in `body`, which no error repeats."""
        payload = json.dumps(body).encode()
        deadline = time.monotonic() + self._seconds
        pauses = iter(BACKOFF_SECONDS)
        while True:
            try:
                return self._judge(self._attempt(payload, deadline), private)
            except Passing as problem:
                self._wait(problem, next(pauses, None), deadline)

    def close(self) -> None:
        """Also ends the pauses of requests under way."""
        self._closed.set()
        self._close_idle()

    def _wait(self, problem: Passing, pause: float | None, deadline: float) -> None:
        """Before the next attempt; no pause left, or no time for it, makes the problem final."""
        wanted = (pause or 0.0) if problem.pause is None else problem.pause
        late = time.monotonic() + wanted >= deadline
        if pause is None or late or self._pause(wanted):
            raise EmbedderUnavailable(f"{self.host} {problem}", REMEDY) from None

    def _attempt(self, payload: bytes, deadline: float) -> Answer:
        client = self._borrowed()
        try:
            answer = by(deadline, lambda: self._send(client, payload, deadline))
        except TimeoutError:
            client.close()  # wakes the abandoned thread
            raise EmbedderUnavailable(f"{self.host} did not answer within {self._seconds:g} s", REMEDY) from None
        except BaseException:
            client.close()
            raise
        self._idle.append(client)
        if self._closed.is_set():
            self._close_idle()
        return answer

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _borrowed(self) -> httpx.Client:
        import httpx

        try:
            return self._idle.pop()
        except IndexError:
            key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            headers = {
                "Content-Type": "application/json", "User-Agent": "fourfold", "Accept-Encoding": "gzip, identity", **key
            }  # fmt: skip
            return httpx.Client(headers=headers, verify=self._certificates, follow_redirects=False)

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        """Loaded once: it costs more than a request."""
        import httpx

        return httpx.create_ssl_context()

    def _send(self, client: httpx.Client, payload: bytes, deadline: float) -> Answer:
        import httpx

        left = max(deadline - time.monotonic(), 0.001)
        timeout = httpx.Timeout(left, connect=min(left, CONNECT_SECONDS))
        try:
            with client.stream("POST", self._url, content=payload, timeout=timeout) as response:
                return Answer(response.status_code, response.headers, self._body(response))
        except httpx.HTTPError as error:
            reason = shown(f"{type(error).__name__}: {error}", self._key)
            raise Passing(f"cannot be reached ({reason})") from None

    def _body(self, response: httpx.Response) -> bytes:
        """The answer, unpacked here with a limit: a small one may unpack to gigabytes."""
        body = bytearray()
        unpacked = _unpacker(response.headers.get("content-encoding", ""))
        if unpacked is None:
            raise EmbedderUnavailable(f"{self.host} sent an encoding that was not asked for", SETTINGS_REMEDY)
        try:
            for chunk in response.iter_raw():
                body += unpacked(chunk, ANSWER_BYTES + 1 - len(body))
                if len(body) > ANSWER_BYTES:
                    raise EmbedderUnavailable(f"{self.host} sent more than {ANSWER_BYTES} bytes", SETTINGS_REMEDY)
        except zlib.error:
            raise EmbedderUnavailable(f"{self.host} sent damaged gzip", SETTINGS_REMEDY) from None
        return bytes(body)

    def _judge(self, answer: Answer, private: Sequence[str]) -> Any:
        """The JSON of a good answer; otherwise the error."""
        if answer.status == 200:
            return self._json(answer.body)
        if 300 <= answer.status < 400:
            target = redirect_target(answer.headers.get("location", ""))
            raise EmbedderUnavailable(f"{self.host} redirects to {target}, which is refused", REDIRECT_REMEDY)
        said = shown(message_of(answer.body), self._key, private)
        reason = f"answered {answer.status}" + (f": {said}" if said else "")
        if answer.status in AGAIN or answer.status >= 500:
            raise Passing(reason, retry_after(answer.headers.get("retry-after", "")))
        raise EmbedderUnavailable(f"{self.host} {reason}", SETTINGS_REMEDY)

    def _json(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise EmbedderUnavailable(f"{self.host} sent no valid JSON", SETTINGS_REMEDY) from None


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes] | None:
    """Unpacks a part of an answer to at most so many bytes; None for an encoding that is not known."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda part, most: part[:most]
        case "gzip" | "x-gzip":
            return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress
        case _:
            return None


def by(deadline: float, call: Callable[[], Result]) -> Result:
    """The call's result, or TimeoutError at the deadline: timeouts of a socket bound neither a name server nor a peer
    that sends one byte a second."""
    future: Future[Result] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  (carried over to the caller)
            future.set_exception(error)

    threading.Thread(target=work, name="fourfold-endpoint", daemon=True).start()
    return future.result(max(0.0, deadline - time.monotonic()))

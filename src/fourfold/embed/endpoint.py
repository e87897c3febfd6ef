"""Any endpoint that speaks OpenAI's /embeddings: OpenAI, Azure, Ollama, vLLM, LM Studio, llama.cpp, ...

`Endpoint` POSTs JSON to the address that the user's settings name, with one httpx client; rerankers use it too. It
retries temporary failures, ends by its deadline whatever a name server, a proxy or a slow peer does, follows no
redirect, and quotes neither the key nor the texts in an error.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from fourfold import limits, threads
from fourfold.embed.base import check_vector, readable
from fourfold.errors import EmbedderUnavailable, InvalidSetting, InvalidVector, WorldError

if TYPE_CHECKING:
    import httpx
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]


# ---------------------------------------------------------------- messages of a provider


MESSAGE_CHARACTERS = 200
KEY_PIECE = 8
TEXT_PIECE = 16
"""A message that shares this many characters in a row with the key, or with a text, is not shown."""

LONGEST_PAUSE_SECONDS = 10.0
"""A Retry-After counts up to this."""


def message_of(body: bytes) -> str:
    """`error.message`, `error`, `message` or `detail`, as the compatible servers have it; empty if none is a string."""
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(content, dict):
        return ""
    answer = cast("dict[str, Any]", content)
    error: Any = answer.get("error")
    nested: Any = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else error
    candidates = (nested, answer.get("message"), answer.get("detail"))
    return next((text for text in candidates if isinstance(text, str)), "")


def shown(message: str, key: str, texts: Iterable[str] = ()) -> str:
    """The message shortened and without control characters; empty if it repeats a piece of the key or of a text."""
    line = "".join(character for character in squeezed(message) if character.isprintable())[:MESSAGE_CHARACTERS]
    is_secret = repeats(line, key, KEY_PIECE) or any(repeats(line, text, TEXT_PIECE) for text in texts)
    return "" if is_secret else line


def repeats(message: str, secret: str, piece: int) -> bool:
    inside, visible = squeezed(secret).casefold(), message.casefold()
    size = min(piece, len(inside))
    return size > 2 and any(visible[start : start + size] in inside for start in range(len(visible) - size + 1))


def squeezed(text: str) -> str:
    return " ".join(text.split())


def redirect_target(location: str) -> str:
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    return shown(host or "another address", key="")


def retry_after(value: str) -> float | None:
    """Seconds to wait, from a number or an HTTP date; None where the server does not say."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = seconds_until(value)
    return min(seconds, LONGEST_PAUSE_SECONDS) if seconds is not None and seconds >= 0 else None


def seconds_until(date: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()


# ---------------------------------------------------------------- requests


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
            values: dict[Any, Any] = {entry["index"]: entry[value] for entry in entries}
        except (KeyError, TypeError):
            raise self.unavailable(f"sent no {what}", remedy) from None
        if len(entries) != count or values.keys() != set(range(count)):
            raise self.unavailable(f"sent {len(entries)} {what} for {count} texts, or with wrong indexes", remedy)
        return [values[index] for index in range(count)]

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
        """Reads the body piece by piece: a small one may unpack to gigabytes."""
        import httpx

        body = bytearray()
        try:
            for piece in response.iter_bytes():
                body += piece
                if len(body) > ANSWER_BYTES:
                    raise self._unusable(f"sent more than {ANSWER_BYTES} bytes")
        except httpx.DecodingError:
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


def by(deadline: float, call: Callable[[], Result]) -> Result:
    """Returns the call's result, or raises TimeoutError at the deadline.

    Timeouts of a socket limit neither a name server nor a peer that sends one byte per second.
    """
    return threads.start(call, "fourfold-endpoint").result(deadline - time.monotonic())


# ---------------------------------------------------------------- embeddings


BATCH_TEXTS = 64
TEXT_CHARACTERS = 8000
"""Characters of a text that are sent: within the 8191 tokens of OpenAI's limit, in any script."""

MODEL_REMEDY = (
    "Check that openai_model is an embedding model, and leave openai_dimensions unset if it has only one size"
)


@dataclass(frozen=True, slots=True)
class OpenAISettings:
    base_url: str = "https://api.openai.com/v1"
    api_key: str | None = field(default=None, repr=False)
    """None: no Authorization header, for local servers."""
    model: str = "text-embedding-3-small"
    dimensions: int | None = None
    """Requested from the model; None: its own size."""
    timeout: float = 30.0
    """Seconds for one request of up to 64 texts, all its attempts together."""


class OpenAIEmbedder:
    """Knows its dimension once it is loaded, or from the settings."""

    def __init__(self, settings: OpenAISettings, pause: Callable[[float], bool] | None = None) -> None:
        """`pause` replaces the wait between two attempts."""
        check_settings(settings)
        self._settings = settings
        self._dimension = settings.dimensions
        url = settings.base_url.rstrip("/") + "/embeddings"
        self._endpoint = Endpoint(url, key_of(settings), settings.timeout, pause)

    @property
    def fingerprint(self) -> str:
        return f"openai/{self._endpoint.host}/{self._settings.model}/{self._settings.dimensions or 'native'}"

    @property
    def dimension(self) -> int | None:
        return self._dimension

    def load(self) -> None:
        """Sends one request if the dimension is not known yet."""
        if self._dimension is None:
            self.embed(["dimension"])

    def embed(self, texts: Sequence[str]) -> Floats:
        import numpy as np

        slices = (texts[start : start + BATCH_TEXTS] for start in range(0, len(texts), BATCH_TEXTS))
        rows = [row for some in slices for row in self._embed_slice(some)]
        return np.stack(rows) if rows else np.empty((0, self._dimension or 0), np.float32)

    def truncates(self, text: str) -> bool:
        return len(text) > TEXT_CHARACTERS

    def close(self) -> None:
        self._endpoint.close()

    def _embed_slice(self, texts: Sequence[str]) -> list[Floats]:
        inputs = [readable(text, TEXT_CHARACTERS) or " " for text in texts]  # OpenAI rejects an empty input
        size = {} if self._settings.dimensions is None else {"dimensions": self._settings.dimensions}
        answer = self._endpoint.post({"model": self._settings.model, "input": inputs, **size}, inputs)
        return [
            self._checked(values)
            for values in self._endpoint.in_order(answer, "data", "embedding", len(inputs), MODEL_REMEDY)
        ]

    def _checked(self, values: Any) -> Floats:
        try:
            vector = check_vector(values, self._dimension)
        except InvalidVector as error:
            raise self._endpoint.unavailable(f"sent an unusable vector: {error.message}", MODEL_REMEDY) from None
        self._dimension = vector.size
        return vector


def check_settings(settings: OpenAISettings) -> None:
    """Raises InvalidSetting for a setting that cannot work, or that would put a secret into an address."""
    check_url(settings.base_url)
    check_key(key_of(settings), "openai_api_key")
    if not settings.model.strip():
        raise InvalidSetting("openai_model is empty", "Name one, such as text-embedding-3-small")
    if settings.dimensions is not None and not 1 <= settings.dimensions <= limits.VECTOR_DIMENSIONS:
        raise InvalidSetting("openai_dimensions is out of range", f"Choose 1 to {limits.VECTOR_DIMENSIONS}, or none")
    if not (isfinite(settings.timeout) and settings.timeout > 0):
        raise InvalidSetting("openai_timeout is not a positive number", "Give it in seconds")


def check_url(base_url: str, setting: str = "openai_base_url") -> None:
    """Rejects addresses with secrets: the address may be logged and shown."""
    remedy = "Give it as https://HOST/v1, without user, password, query or fragment"
    try:
        url = urlsplit(base_url)
        good = url.scheme in ("http", "https") and url.hostname and url.port != 0 and base_url.isprintable()
    except ValueError:
        raise InvalidSetting(f"{setting} is not an address", remedy) from None
    if not good or url.username or url.password or url.query or url.fragment:
        raise InvalidSetting(f"{setting} is not a plain http address", remedy)


def check_key(key: str, setting: str) -> None:
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise InvalidSetting(f"{setting} has characters that no key has", "Copy it again")


def key_of(settings: OpenAISettings) -> str:
    return (settings.api_key or "").strip()

"""Any endpoint that speaks OpenAI's /embeddings: OpenAI, Azure, Ollama, vLLM, LM Studio, llama.cpp, ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from fourfold import limits
from fourfold.embed.base import readable
from fourfold.embed.endpoint import Endpoint
from fourfold.embed.vectors import check_vector
from fourfold.errors import InvalidSetting, InvalidVector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]

BATCH_TEXTS = 64
TEXT_CHARACTERS = 8000
"""Characters of a text that are sent: within the 8191 tokens of OpenAI's limit, in any script."""

REMEDY = "Check that openai_model is an embedding model, and leave openai_dimensions unset if it has only one size"


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
        check(settings)
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
            for values in self._endpoint.in_order(answer, "data", "embedding", len(inputs), REMEDY)
        ]

    def _checked(self, values: Any) -> Floats:
        try:
            vector = check_vector(values, self._dimension)
        except InvalidVector as error:
            raise self._endpoint.unavailable(f"sent an unusable vector: {error.message}", REMEDY) from None
        self._dimension = vector.size
        return vector


def check(settings: OpenAISettings) -> None:
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

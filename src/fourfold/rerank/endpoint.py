"""`endpoint`: any server with the /rerank of Cohere and Jina: both of these, vLLM, llama.cpp, LocalAI, LiteLLM, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Any

from fourfold.embed.base import readable
from fourfold.embed.endpoint import Endpoint, Service, check_key, check_url
from fourfold.errors import InvalidSetting, RerankerUnavailable
from fourfold.rerank.base import Budget

SERVICE = Service("rerank", RerankerUnavailable, "scores")
LONGEST_SECONDS = 60.0
TEXT_CHARACTERS = 8000
REMEDY = "Check that rerank_model is a reranking model, and that rerank_base_url is the address before /rerank"


class EndpointReranker:
    """Sends all texts in one request, which ends with the budget."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        model: str,
        languages: frozenset[str] | None = None,
        pause: Callable[[float], bool] | None = None,
    ) -> None:
        """`pause` replaces the wait between two attempts."""
        if not base_url:
            raise InvalidSetting("rerank_base_url is not set", "Set it, such as https://api.jina.ai/v1")
        check_url(base_url, "rerank_base_url")
        check_key(api_key.strip(), "rerank_api_key")
        self.languages = languages
        self._model = model.strip()
        self._endpoint = Endpoint(base_url.rstrip("/") + "/rerank", api_key.strip(), LONGEST_SECONDS, pause, SERVICE)

    def load(self) -> None:
        """Nothing: the server has the model."""

    def scores(self, query: str, texts: Sequence[str], budget: Budget) -> Iterator[float]:
        seconds = budget.seconds_left
        if not texts or not seconds:
            return
        question, sent = readable(query, TEXT_CHARACTERS), [readable(text, TEXT_CHARACTERS) or " " for text in texts]
        model = {"model": self._model} if self._model else {}
        body = {**model, "query": question, "documents": sent, "top_n": len(sent), "return_documents": False}
        answer = self._endpoint.post(body, [question, *sent], seconds)
        values = self._endpoint.in_order(answer, "results", "relevance_score", len(sent), REMEDY)
        if not all(map(_is_score, values)):
            raise self._endpoint.unavailable("sent a score that is not a finite number", REMEDY)
        yield from map(float, values)

    def close(self) -> None:
        self._endpoint.close()


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)

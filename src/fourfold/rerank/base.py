"""Rerankers: models that read the query and a text together. One file per provider; `create` makes them by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from fourfold.errors import EmbedderUnavailable, RerankerUnavailable
from fourfold.model import Item
from fourfold.text.analysis import words_of_query
from fourfold.text.snippets import highlighted


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

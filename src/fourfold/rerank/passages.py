"""The part of an item that a reranker reads: its title, and the passage that matches the query best."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fourfold.model import Item
from fourfold.text.analysis import words_of_query
from fourfold.text.snippets import highlighted

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

"""Near-duplicates: items that say the same as another one, word for word but for what changes nothing.

Two texts say the same if their words are equal in order, apart from articles, forms of "to be", plurals, case and
punctuation. Vectors and a large share of common words do not tell a repetition from a change: notes that differ in a
name, a number, a day or the word "paused" are as near as two wordings of one note. Nothing is merged here: callers are
told, and `Memory.merge` does what they confirm.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from fourfold.engine.retrievers import nearest
from fourfold.model import Filters, Item, NewItem, Vector
from fourfold.storage.protocols import Snapshot
from fourfold.text.analysis import tokens
from fourfold.text.fold import folded_words
from fourfold.text.language import stem

COSINE: Final = 0.9
"""Least cosine of the vectors of near-duplicates. notes/quality-queries.md has the figures."""
SIMILAR_ITEMS: Final = 10
"""Near-duplicates of one item that are named."""
LONGEST_CHARACTERS: Final = 20_000
_NEAREST: Final = SIMILAR_ITEMS + 1
"""Items that are compared: the item itself is one of them."""
_COMPARED: Final = 2 * _NEAREST
"""The same while an item has no vector: of those that have these words, several may have others, too."""
_SEARCHED_WORDS: Final = 8
"""Words by which they are found then, numbers and the longest: a near-duplicate has all words of an item."""
_RARE_CHARACTERS: Final = 4
_LONGER: Final = 2.0
"""Times that a text may be as long as one that says the same, with more articles and spaces."""
_FILLERS: Final[Mapping[str, frozenset[str]]] = {
    "en": frozenset(
        (
            *("a", "an", "the", "this", "that", "these", "those", "there", "it", "its", "itself", "s"),
            *("is", "are", "am", "be", "been", "being", "of", "and", "also", "very", "just", "so"),
        )
    ),
    "de": frozenset(
        (
            *("der", "die", "das", "den", "dem", "des", "ein", "eine", "einen", "einem", "einer", "eines"),
            *("dies", "diese", "dieser", "dieses", "diesem", "diesen", "dass", "es", "sich"),
            *("ist", "sind", "bin", "bist", "sei", "worden", "und", "auch", "sehr", "so"),
        )
    ),
}
"""Words that add nothing to a text. All others do: before and after, must and may, all and some, from and to."""
_SIGNS: Final = re.compile(
    r"\?|[<>≤≥≠](?=\s?\d)|[€$£](?=\s?\d)|(?<=\d)\s?[%‰°€$£]|(?<![\w)])[-+−±](?=\d)|(?<=\w)[+#]+(?!\w)"
    r"|(?<=\w )[A-Z]\b(?!')"
)
"""Marks that make a difference: questions, amounts below or above, units, -5, C++, plan A and plan B."""
_CODE: Final = re.compile(r"[{};]\s*$|\w\(\)|[=!<>:]=|\w\s?=\s?\w|::|[-=]>", re.MULTILINE)
_CODE_PIECES: Final = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Similar:
    """A near-duplicate of an item."""

    id: int
    words: float
    """Share of the words of both that both have, articles included."""
    cosine: float | None
    """The cosine of their vectors; None if one of them has no vector yet."""


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """An item with later ones that say the same."""

    oldest: Item
    others: tuple[tuple[Item, Similar], ...]
    """The items in the order of their ids; each is similar to the oldest."""


def similar_items(snapshot: Snapshot, item: Item, filters: Filters) -> list[Similar]:
    """The near-duplicates of a stored item among those that pass the filters, the most similar first.

    None of a text with more than LONGEST_CHARACTERS, which is a document: its parts are compared where it is indexed.
    """
    if len(_text(item)) > LONGEST_CHARACTERS:
        return []
    vector = snapshot.stored_vectors([item.id]).get(item.id)
    candidates = snapshot.rows.get([id for id in _candidates(snapshot, item, vector, filters) if id != item.id])
    same = list(filter(saying_the_same(item), candidates.values())) if candidates else []
    if not same:
        return []
    vectors = {} if vector is None else snapshot.stored_vectors([each.id for each in same])
    near = [Similar(each.id, shared_words(item, each), _cosine(vector, vectors.get(each.id))) for each in same]
    return sorted(near, key=lambda each: (-(each.cosine or 0.0) - each.words, each.id))


def stored_already(snapshot: Snapshot, item: NewItem, filters: Filters) -> bool:
    """Whether one of the items that pass the filters says what a checked new one says."""
    if not snapshot.exists:
        return False
    candidates = snapshot.words.having(_rare_words(_text(item)), _COMPARED, filters)
    return any(map(saying_the_same(item), snapshot.rows.get(candidates).values()))


def _candidates(snapshot: Snapshot, item: Item, vector: Vector | None, filters: Filters) -> Sequence[int]:
    """Near-duplicates are among the nearest by vector; without one, among those that have its words."""
    if vector is None:
        return snapshot.words.having(_rare_words(_text(item)), _COMPARED, filters)
    ranking = nearest(snapshot.vectors, vector, _NEAREST, filters)
    return [hit.id for hit in ranking.hits if hit.score >= COSINE]


def _rare_words(text: str) -> list[str]:
    """Numbers and the longest words. Not Bairstow-Hitchcock, which may be two words elsewhere, if there are others."""
    words = set(tokens(text))
    plain = {word for word in words if word.isalnum() and len(word) >= _RARE_CHARACTERS}
    chosen = plain if 2 * len(plain) >= _SEARCHED_WORDS else words
    return sorted(chosen, key=lambda word: (not word.isalpha(), len(word), word), reverse=True)[:_SEARCHED_WORDS]


def saying_the_same(one: Item | NewItem) -> Callable[[Item | NewItem], bool]:
    """Returns whether an item has the same words and signs in order, but for those that add nothing, and one fact.

    The language of the given one decides which words add nothing.
    """
    text, language = _text(one), one.language or ""
    words, signs = _statement(text, language)

    def says_the_same(other: Item | NewItem) -> bool:
        facts = {(item.subject, item.attribute) for item in (one, other)} - {(None, None)}
        times = {item.occurred_at for item in (one, other)} - {None}
        other_text = _text(other)
        shorter, longer = sorted((len(text), len(other_text)))
        if len(facts) > 1 or len(times) > 1 or longer > _LONGER * shorter:
            return False
        other_words, other_signs = _statement(other_text, language)
        if len(words) != len(other_words) or signs != other_signs:
            return False
        pairs = zip(words, other_words, strict=True)
        return all(a == b or _form(a, language) == _form(b, language) for a, b in pairs)

    return says_the_same


def _statement(text: str, language: str) -> tuple[Sequence[str], Sequence[str]]:
    """The words and the signs of a text that say something. In source code every character but white space does."""
    if _CODE.search(text):
        return (), _CODE_PIECES.findall(text)
    words = folded_words(text)
    fillers = _FILLERS.get(language, frozenset())
    return [word for word in words if word not in fillers] or words, _SIGNS.findall(text)


@lru_cache(4096)  # an item is compared with several, and most begin to differ at the same word
def _form(word: str, language: str) -> str:
    """The stem of a word. What is planned and what is done are not the same: book, booking, booked."""
    if not word.isalpha():
        return word
    ending = word[-3:] if word.endswith("ing") else word[-2:] if word.endswith("ed") else ""
    stemmed = stem(word, language)
    return stemmed if language != "en" or stemmed.endswith(ending) else f"{stemmed}-{ending}"


def _cosine(one: Vector | None, other: Vector | None) -> float | None:
    return None if one is None or other is None else float(np.dot(one, other))


def shared_words(one: Item, other: Item) -> float:
    """Share of the words of both texts that both have."""
    first, second = (frozenset(folded_words(_text(item))) for item in (one, other))
    return len(first & second) / (len(first | second) or 1)


def _text(item: Item | NewItem) -> str:
    return f"{item.title}\n{item.text}" if item.title else item.text


class Grouping:
    """Groups near-duplicates while the items of a namespace are read in the order of their ids."""

    def __init__(self) -> None:
        self._first: dict[bytes, int] = {}
        """The first item with a text: copies of it are found without a search."""
        self._oldest: dict[int, int] = {}
        """Item to the oldest one of its group."""
        self._others: dict[int, list[Similar]] = {}
        """The later items of each group, by its oldest item."""

    def add(self, snapshot: Snapshot, item: Item, filters: Filters) -> None:
        first = self._first.setdefault(_digest(item), item.id)
        if first != item.id:
            self._join(self._oldest.get(first, first), Similar(item.id, 1.0, None))
            return
        for similar in similar_items(snapshot, item, filters):
            if similar.id < item.id and similar.id not in self._oldest:
                self._join(similar.id, replace(similar, id=item.id))
                return

    def _join(self, oldest: int, similar: Similar) -> None:
        self._oldest[similar.id] = oldest
        self._others.setdefault(oldest, []).append(similar)

    def groups(self, snapshot: Snapshot, limit: int) -> list[DuplicateGroup]:
        """The first groups, without items that are gone since they were read."""
        groups: list[DuplicateGroup] = []
        for oldest, others in sorted(self._others.items())[:limit]:
            items = snapshot.rows.get([oldest, *(similar.id for similar in others)])
            kept = tuple((items[similar.id], similar) for similar in others if similar.id in items)
            if oldest in items and kept:
                groups.append(DuplicateGroup(items[oldest], kept))
        return groups


def _digest(item: Item) -> bytes:
    """Equal for items with the same text about the same fact and event."""
    parts = (item.title, item.text, item.subject, item.attribute, item.occurred_at)
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()

"""Near-duplicates: items that say the same as another one, by their rare words and by their vectors.

One of the two has every word of the other, and few besides; their vectors are near. Vectors alone call two notes equal
that differ in a name, a number or a day, and so do words of which most are shared. Nothing is merged here: callers are
told, and `Memory.merge` does what they confirm.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from fourfold.model import Filters, Item
from fourfold.storage.protocols import Snapshot
from fourfold.text.analysis import analyse
from fourfold.text.bm25 import idf
from fourfold.text.fold import folded_words
from fourfold.text.negation import has_negation

if TYPE_CHECKING:
    from fourfold.model import Vector

COSINE: Final = 0.94
"""Least cosine of the vectors of near-duplicates. docs/quality-queries.md has the figures for these thresholds."""
SHARED_WORDS: Final = 0.7
"""Least share of the words of both that both have."""
SHARED_WORDS_ALONE: Final = 0.85
"""The same where one of the items has no vector yet."""
SIMILAR_ITEMS: Final = 10
"""Near-duplicates of one item that are named."""
LONGEST_CHARACTERS: Final = 20_000
_NEAREST: Final = SIMILAR_ITEMS + 1
"""Items that are compared: the item itself is one of them."""
_LETTER: Final = re.compile(r"(?<=\w )[A-Z]\b(?!')")
_ASKING: Final = frozenset(
    (
        *("who", "whom", "whose", "what", "when", "where", "why", "which", "how"),
        *("wer", "wen", "wem", "wessen", "was", "wann", "wo", "woher", "wohin", "warum", "wieso", "weshalb", "wie"),
    )
)
"""Two texts that ask say the same only if they have the same of these words, which keyword search ignores."""
_CONTRASTS: Final = frozenset(
    (
        *("before", "after", "since", "until", "on", "off", "up", "down", "over", "under", "above", "below", "out"),
        *("can", "could", "may", "might", "must", "should", "would", "will", "shall"),
        *("all", "some", "any", "few", "most", "many", "more", "less", "only", "both"),
        *("i", "you", "he", "she", "we", "they", "my", "your", "his", "her", "our", "their", "me", "him", "us", "them"),
        *("vor", "nach", "seit", "bis", "auf", "ab", "aus", "an", "ueber", "unter", "oben", "unten"),
        *("kann", "koennte", "darf", "muss", "soll", "sollte", "will", "wuerde", "wird", "moechte"),
        *("alle", "einige", "wenige", "viele", "mehr", "weniger", "nur", "beide"),
        *(
            "ich",
            "du",
            "er",
            "wir",
            "ihr",
            "mein",
            "meine",
            "dein",
            "deine",
            "sein",
            "seine",
            "ihre",
            "unser",
            "unsere",
        ),
    )
)
"""Words that keyword search ignores, although they decide what a text says: before and after, must and may."""
_LEAST_DOCUMENTS: Final = 1000
"""Words are weighed as if the namespace had at least this many items: in a small one every word is common."""


@dataclass(frozen=True, slots=True)
class Similar:
    """A near-duplicate of an item."""

    id: int
    words: float
    """Share of the words of both that both have, the rare ones weighing most; 0 if each has words of its own."""
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
    found = snapshot.rows.get([id for id in _candidates(snapshot, item, vector, filters) if id != item.id])
    vectors = {} if vector is None else snapshot.stored_vectors(list(found))
    similar = [
        Similar(other.id, shared_words(snapshot, item, other), _cosine(vector, vectors.get(other.id)))
        for other in found.values()
        if not differ(item, other)
    ]
    near = [each for each in similar if _is_near(each)]
    return sorted(near, key=lambda each: (-(each.cosine or 0.0) - each.words, each.id))


def _candidates(snapshot: Snapshot, item: Item, vector: Vector | None, filters: Filters) -> Sequence[int]:
    """Near-duplicates are among the nearest by vector; without one, among the best by words."""
    if vector is None:
        return [hit.id for hit in snapshot.words.match(_text(item), _NEAREST, filters).hits]
    found = snapshot.vectors.begin_nearest(vector, _NEAREST, filters)()
    return [hit.id for hit in found.hits if hit.score >= COSINE]


def differ(one: Item, other: Item) -> bool:
    """Whether two items cannot say the same.

    They state other facts or events, one of them negates, they ask otherwise, they name plan A and plan B, or each has
    a word such as before or after that the other one lacks.
    """
    facts = {(item.subject, item.attribute) for item in (one, other)} - {(None, None)}
    times = {item.occurred_at for item in (one, other)} - {None}
    signs = {(has_negation(_text(item)), frozenset(_LETTER.findall(_text(item)))) for item in (one, other)}
    if len(facts) > 1 or len(times) > 1 or len(signs) > 1:
        return True
    first, second = (frozenset(folded_words(_text(item))) for item in (one, other))
    if "?" in _text(one) + _text(other) and (first ^ second) & _ASKING:
        return True
    return bool((first - second) & _CONTRASTS) and bool((second - first) & _CONTRASTS)


def _is_near(similar: Similar) -> bool:
    if similar.cosine is None:
        return similar.words >= SHARED_WORDS_ALONE
    return similar.cosine >= COSINE and similar.words >= SHARED_WORDS


def _cosine(one: Vector | None, other: Vector | None) -> float | None:
    return None if one is None or other is None else float(np.dot(one, other))


def shared_words(snapshot: Snapshot, one: Item, other: Item) -> float:
    """Share of the words of both texts that both have, each weighed by how few items of the namespace have it.

    0 if each text has a word that the other one lacks: those are different things, times or numbers.
    """
    query = snapshot.keyword_query(f"{_text(one)}\n{_text(other)}")
    documents = max(query.documents, _LEAST_DOCUMENTS)
    weights = {term: idf(round(word.share * query.documents), documents) for word in query.words for term in word.terms}
    first, second = (weights.keys() & analyse(_text(item), one.language) for item in (one, other))
    if first - second and second - first:
        return 0.0
    total = sum(weights[term] for term in first | second)
    return sum(weights[term] for term in first & second) / total if total else 0.0


def _text(item: Item) -> str:
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
        found: list[DuplicateGroup] = []
        for oldest, others in sorted(self._others.items())[:limit]:
            items = snapshot.rows.get([oldest, *(similar.id for similar in others)])
            kept = tuple((items[similar.id], similar) for similar in others if similar.id in items)
            if oldest in items and kept:
                found.append(DuplicateGroup(items[oldest], kept))
        return found


def _digest(item: Item) -> bytes:
    """Equal for items with the same text about the same fact and event."""
    parts = (item.title, item.text, item.subject, item.attribute, item.occurred_at)
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()

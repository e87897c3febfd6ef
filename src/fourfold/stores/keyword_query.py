"""A query text against the words of a store: what a keyword search looks for, and what each word is worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fourfold.limits import QUERY_TERMS
from fourfold.search.bm25 import idf
from fourfold.text.analysis import query_words
from fourfold.text.compounds import Lexicon, with_relatives
from fourfold.text.language import guess

_SOME = 0.01

INNER_PART_ITEMS = 10_000
"""German items of a store in which compounds are also found by an inner part: it means scanning their words."""

Variant = tuple[str, float]
"""A term and its weight."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the query with those of its variants that the store holds."""

    terms: tuple[str, ...]
    values: tuple[float, ...]
    """For each term its idf times its weight: what it earns where it stands once in a text of average length."""
    idf: float
    """What the word counts in the coverage of a query, found or not."""
    share: float
    """The share of the store's items that have one of the terms."""


@dataclass(frozen=True, slots=True)
class KeywordQuery:
    words: tuple[Word, ...]
    unknown: float
    """The idf of the words that the store does not hold."""
    documents: int
    notes: tuple[str, ...] = ()

    @property
    def terms(self) -> list[str]:
        return [term for word in self.words for term in word.terms]

    @property
    def weight(self) -> float:
        """The idf of all words: what full coverage amounts to."""
        return sum(word.idf for word in self.words) + self.unknown

    @property
    def unknown_share(self) -> float:
        return self.unknown / self.weight if self.unknown else 0.0


def keyword_query(
    text: str,
    languages: Mapping[str, int],
    lexicon: Lexicon | None,
    frequencies: Callable[[Sequence[str]], Sequence[int]],
    documents: int,
) -> KeywordQuery:
    """`languages`: with their numbers of items. `lexicon`: the terms of German items. `frequencies`: items by term."""
    words = query_words(text, tuple(languages))
    german = lexicon if _is_german(text, languages, documents) else None
    inner = languages.get("de", 0) <= INNER_PART_ITEMS
    related = [with_relatives(word, german, inner=inner) for word in words] if german is not None else words
    terms = list(dict.fromkeys(term for word in related for term, _ in word.variants))
    df = dict(zip(terms, frequencies(terms), strict=True))
    built = [
        _word(dict(word.variants), full.variants, df, documents) for word, full in zip(words, related, strict=True)
    ]
    known = [word for word in built if word.terms]
    kept = sorted(range(len(known)), key=lambda place: -known[place].idf)[:QUERY_TERMS]
    notes = (f"keyword search used the {QUERY_TERMS} rarest of {len(known)} words",) if len(kept) < len(known) else ()
    unknown = sum(word.idf for word in built if not word.terms)
    return KeywordQuery(tuple(known[place] for place in sorted(kept)), unknown, documents, notes)


def _is_german(text: str, languages: Mapping[str, int], documents: int) -> bool:
    """Whether compounds are worth a look: in a store with some German, or for a German query in any other."""
    count = languages.get("de", 0)
    return count > 0 and (count >= _SOME * documents or guess(text, tuple(languages)) == "de")


def _word(own: Mapping[str, float], variants: Sequence[Variant], df: Mapping[str, int], documents: int) -> Word:
    """`own`: the variants that are the word itself. A related term earns no more than the word where both are known."""
    found = [(term, weight) for term, weight in variants if df[term]]
    rarest = min((df[term] for term, _ in found if term in own), default=0)
    limit = idf(rarest, documents)
    return Word(
        terms=tuple(term for term, _ in found),
        values=tuple(
            weight * min(idf(df[term], documents), limit if term not in own else math.inf) for term, weight in found
        ),
        idf=limit,
        share=min(1.0, sum(df[term] for term, _ in found) / max(documents, 1)),
    )

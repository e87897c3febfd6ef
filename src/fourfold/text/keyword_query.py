"""Keyword queries: the terms that a query text searches for in a store, with their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fourfold.limits import QUERY_TERMS
from fourfold.text.analysis import QueryWord, distinct_words, prose_share, query_tokens
from fourfold.text.bm25 import idf, idfs
from fourfold.text.compounds import CORRECTED_WEIGHT, Correction, Frequencies, Lexicon, corrections, with_relatives
from fourfold.text.language import certain_language, detect

_GERMAN_SHARE = 0.01
"""Share of German items from which every query is expanded by German compounds."""
_SPELT_SHARE = 0.01
"""Share of the items that a language needs for misspelt words to be looked up in it, besides the commonest one."""
INNER_PART_ITEMS = 10_000
"""Maximum number of German items up to which compounds are found by an inner part, which scans all terms."""
_COMPARED = (
    *("en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "sv"),
    *("da", "nb", "cs", "ro", "uk", "tr", "hu", "fi", "el", "ca"),
)
"""Languages of the built-in encoder, whose vectors can be compared though their words differ."""
_KNOWN_WORDS = 5_000
"""Maximum number of words that are remembered."""
Variant = tuple[str, float]
"""A term and its weight."""


class Word(NamedTuple):
    """A word of the query with those of its variants that occur in the store."""

    terms: tuple[str, ...]
    values: tuple[float, ...]
    """Idf times weight of each term: its score if it occurs once in a text of average length."""
    idf: float
    """Weight of the word in the coverage of a query."""
    share: float
    """Share of the store's items that contain one of the terms."""
    surface: str = ""
    """The folded word, as the user typed it."""


KnownWords = dict[tuple[QueryWord, bool], Word]
"""Words as a store has them, and whether with German compounds."""


@dataclass(frozen=True)
class KeywordQuery:
    """The words of a query that occur in a store, and what is known about the others."""

    words: tuple[Word, ...]
    unknown: float
    """Sum of the idf of words that occur in no item."""
    documents: int
    notes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """The words that occur in no item, as the user typed them."""
    corrections: tuple[Correction, ...] = ()
    """Words that occur in no item, and were replaced by similar ones that do."""
    code: float = 0.0
    """Share of the items that are code, times the share of the query's words that are not."""
    foreign: float = 0.0
    """Share of the items that are in another language than the query, but have vectors that can be compared with it."""

    @property
    def terms(self) -> list[str]:
        return [term for word in self.words for term in word.terms]

    @cached_property
    def weight(self) -> float:
        """Sum of the idf of all words, which is full coverage."""
        return sum([word.idf for word in self.words]) + self.unknown

    @cached_property
    def unknown_share(self) -> float:
        return self.unknown / self.weight if self.unknown else 0.0


def keyword_query(
    text: str,
    languages: Mapping[str, int],
    lexicon: Lexicon | None,
    frequencies: Frequencies,
    documents: int,
    code: float = 0.0,
    known: KnownWords | None = None,
) -> KeywordQuery:
    """Analyse a query against a store.

    `languages` maps each language to its number of items, `lexicon` holds the terms of German items, `frequencies`
    returns the number of items for each term, and `code` is the share of the items that are code. `known` remembers
    words for further queries, as long as nothing of the above changes.
    """
    spoken = tuple(languages)
    tokens = query_tokens(text, spoken)
    language = detect(text, spoken)
    words = distinct_words(tokens, language)
    german = lexicon if _has_compounds(language, languages, documents) else None
    store = _Store(german, languages.get("de", 0) <= INNER_PART_ITEMS, frequencies, documents)
    built = _looked_up(words, store, KnownWords() if known is None else known)
    unknown = [word for word, term in zip(words, built, strict=True) if not term.terms]
    shares = code * prose_share(tokens) if code else 0.0, _foreign_share(text, language, languages, documents)
    if not unknown:
        kept, notes = _rarest(built)
        return KeywordQuery(tuple(kept), 0.0, documents, notes, (), (), *shares)
    corrected = corrections(unknown, _spelt(languages, documents), frequencies)
    built = [
        _corrected(word, corrected[word.surface], documents) if not term.terms and word.surface in corrected else term
        for word, term in zip(words, built, strict=True)
    ]
    absent = [word for word in built if not word.terms]
    kept, notes = _rarest([word for word in built if word.terms])
    return KeywordQuery(
        tuple(kept),
        sum([word.idf for word in absent]),
        documents,
        (*notes, *map(_note, corrected.values())),
        tuple([word.surface for word in absent]),
        tuple(corrected.values()),
        *shares,
    )


class _Store(NamedTuple):
    """What words are looked up in."""

    german: Lexicon | None
    """None: without compounds."""
    inner: bool
    frequencies: Frequencies
    documents: int

    def built(self, words: Sequence[QueryWord]) -> list[Word]:
        german = self.german
        related = [with_relatives(word, german, inner=self.inner) for word in words] if german is not None else words
        terms = list(dict.fromkeys([term for word in related for term, _ in word.variants]))
        counts = self.frequencies(terms)
        df = dict(zip(terms, zip(counts, idfs(counts, self.documents), strict=True), strict=True))
        return [_word(word, full.variants, df, self.documents) for word, full in zip(words, related, strict=True)]


def _looked_up(words: Sequence[QueryWord], store: _Store, known: KnownWords) -> list[Word]:
    """Words as the store has them; only those that are not known yet are looked up."""
    expands = store.german is not None
    built = [known.get((word, expands), _UNSEEN) for word in words]
    if _UNSEEN not in built:
        return built
    unseen = [word for word, wanted in zip(words, built, strict=True) if wanted is _UNSEEN]
    fresh = dict(zip(unseen, store.built(unseen), strict=True))
    if len(known) + len(fresh) > _KNOWN_WORDS:
        known.clear()
    known.update({(word, expands): wanted for word, wanted in fresh.items()})
    return [fresh[word] if wanted is _UNSEEN else wanted for word, wanted in zip(words, built, strict=True)]


_UNSEEN = Word((), (), 0.0, 0.0)


def _rarest(words: Sequence[Word]) -> tuple[Sequence[Word], tuple[str, ...]]:
    """The words that are searched for, and a note if these are not all."""
    if len(words) <= QUERY_TERMS:
        return words, ()
    rarest = sorted(range(len(words)), key=lambda index: -words[index].idf)[:QUERY_TERMS]
    return [words[index] for index in sorted(rarest)], (
        f"keyword search used the {QUERY_TERMS} rarest of {len(words)} words",
    )


def _spelt(languages: Mapping[str, int], documents: int) -> list[str]:
    """Languages in which misspelt words are looked up: each has hundreds of spellings, which have to be stemmed."""
    return [
        name for place, (name, count) in enumerate(languages.items()) if not place or count >= _SPELT_SHARE * documents
    ]


def _corrected(word: QueryWord, correction: Correction, documents: int) -> Word:
    """Build a word from the spellings that replace it, each below a word that occurs as it was typed."""
    weight = CORRECTED_WEIGHT * max(weight for _, weight in word.variants)
    idfs = [idf(count, documents) for count in correction.items]
    return Word(
        terms=correction.terms,
        values=tuple(weight * each for each in idfs),
        idf=CORRECTED_WEIGHT * max(idfs),
        share=min(1.0, sum(correction.items) / max(documents, 1)),
        surface=word.surface,
    )


def _note(correction: Correction) -> str:
    return f"no item contains {correction.surface!r}; keyword search used {', '.join(map(repr, correction.spellings))}"


def _has_compounds(language: str, languages: Mapping[str, int], documents: int) -> bool:
    """Whether to expand by compounds: in a store with some German items, or for a German query."""
    count = languages.get("de", 0)
    return count > 0 and (count >= _GERMAN_SHARE * documents or language == "de")


def _foreign_share(text: str, language: str, languages: Mapping[str, int], documents: int) -> float:
    """0 if the language of the query is uncertain: names and numbers are the same in every language."""
    if language not in _COMPARED or not documents:
        return 0.0
    others = sum([count for other, count in languages.items() if other != language and other in _COMPARED])
    return min(1.0, others / documents) if others and certain_language(text) == language else 0.0


def _word(word: QueryWord, variants: Sequence[Variant], df: Mapping[str, tuple[int, float]], documents: int) -> Word:
    """Build a word; a related term scores at most as high as the word itself if that occurs in the store.

    `df`: the number of items with each term, and its idf.
    """
    indexed = [(term, weight, *df[term]) for term, weight in variants if df[term][0]]
    mine = {term for term, _ in word.variants}
    limit = max([value for term, _, _, value in indexed if term in mine], default=-1.0)
    limit = idf(0, documents) if limit < 0 else limit
    return Word(
        terms=tuple([term for term, *_ in indexed]),
        values=tuple([weight * (value if term in mine else min(value, limit)) for term, weight, _, value in indexed]),
        idf=limit,
        share=min(1.0, sum([count for _, _, count, _ in indexed]) / max(documents, 1)),
        surface=word.surface,
    )

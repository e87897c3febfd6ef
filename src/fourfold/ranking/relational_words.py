"""The words of the settings that make a query relational, as the terms that match them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from fourfold.text.fold import folded_words
from fourfold.text.stems import stem, verb_forms
from fourfold.text.stopwords import stop_words

_SEPARABLE: Final = (
    *("ab", "an", "auf", "aus", "bei", "ein", "fest", "fort", "her", "hin", "los", "mit", "nach", "nieder", "vor"),
    *("weg", "zu", "zurueck", "zusammen"),
)
_SHORTEST_VERB_LETTERS: Final = 4
_CONTRACTED: Final = {"zum": "zu", "zur": "zu", "im": "in", "ins": "in", "am": "an", "beim": "bei", "vom": "von"}
_CACHED_WORDS: Final = 4096


class RelationalWord(NamedTuple):
    """A configured word or phrase with the terms that match it."""

    spelled: str
    language: str
    parts: tuple[frozenset[str], ...]
    """The terms of each word; a query matches if it has one of each set, in any order."""
    separated: tuple[frozenset[str], str] | None
    """The terms of a German verb without its prefix, and the prefix, which must follow it."""


class Beginnings(dict[str, bool]):
    """By word of a query: whether it may be the first that matches a configured word; fills itself on access."""

    def __init__(self, words: Iterable[RelationalWord]) -> None:
        super().__init__()
        self._terms: dict[str, set[str]] = {"de": set(), "en": set()}
        for word in words:
            self._terms[word.language] |= word.parts[0] | (word.separated[0] if word.separated else frozenset())

    def __missing__(self, word: str) -> bool:
        begins = any(not terms.isdisjoint(terms_of(word, language)) for language, terms in self._terms.items())
        if len(self) >= _CACHED_WORDS:
            self.clear()
        self[word] = begins
        return begins


@lru_cache(maxsize=16)
def relational_words(de: tuple[str, ...], en: tuple[str, ...]) -> tuple[tuple[RelationalWord, ...], Beginnings]:
    """The configured words, and the words of a query that may begin one of them."""
    named = [(keyword, "de") for keyword in de] + [(keyword, "en") for keyword in en]
    every = [_made(keyword, language) for keyword, language in named]
    made = tuple(keyword for keyword in every if keyword.parts)
    return made, Beginnings(made)


def _made(spelled: str, language: str) -> RelationalWord:
    found = folded_words(spelled)
    parts = tuple(frozenset(_forms(word, language)) for word in found)
    return RelationalWord(
        spelled, language, parts, _separated(found[0]) if language == "de" and len(found) == 1 else None
    )


@lru_cache(_CACHED_WORDS)
def terms_of(word: str, language: str) -> tuple[str, str]:
    """The exact form and the stem of a word of the query; of a contraction, those of the preposition."""
    word = _CONTRACTED.get(word, word)
    return exact(word), stem(word, language)


def _forms(word: str, language: str) -> Iterator[str]:
    """Terms that match a configured word. A stop word such as `has` matches exactly: `have` occurs in any question."""
    if word in stop_words(language):
        yield exact(word)
        return
    yield stem(word, language)
    if language == "de":
        yield from _verb_forms(word)


def _verb_forms(word: str) -> Iterator[str]:
    """Terms of the verb that a word or an adjective in -ig may belong to; gehört belongs to gehören, not to hören."""
    infinitive = f"{word.removesuffix('ig')}en" if word.endswith("ig") else ""
    forms = {*verb_forms(word), *verb_forms(infinitive), stem(infinitive, "de")} if infinitive else verb_forms(word)
    return (form for form in forms if word[0] in (form[0], form.removeprefix("ge")[:1]))


def _separated(word: str) -> tuple[frozenset[str], str] | None:
    for prefix in _SEPARABLE:
        rest = word.removeprefix(prefix)
        if rest != word and len(rest) >= _SHORTEST_VERB_LETTERS:
            return frozenset([stem(rest, "de"), *_verb_forms(rest)]), prefix
    return None


def exact(word: str) -> str:
    return f"={word}"

"""The words of the settings that make a query relational, as the terms that match them."""

from __future__ import annotations

from collections.abc import Iterator
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


class RelationalWord(NamedTuple):
    """A configured word or phrase with the terms that match it."""

    spelled: str
    language: str
    parts: tuple[frozenset[str], ...]
    """The terms of each word; a query matches if it has one of each set, in any order."""
    separated: tuple[frozenset[str], str] | None
    """The terms of a German verb without its prefix, and the prefix, which must follow it."""


@lru_cache(maxsize=16)
def relational_words(
    de: tuple[str, ...], en: tuple[str, ...]
) -> tuple[tuple[RelationalWord, ...], dict[str, frozenset[str]]]:
    """The configured words, and by language the terms one of which every query has that matches one of them."""
    named = [(keyword, "de") for keyword in de] + [(keyword, "en") for keyword in en]
    every = [_made(keyword, language) for keyword, language in named]
    made = tuple(keyword for keyword in every if keyword.parts)
    starts: dict[str, set[str]] = {"de": set(), "en": set()}
    for keyword in made:
        starts[keyword.language] |= keyword.parts[0] | (keyword.separated[0] if keyword.separated else frozenset())
    return made, {language: frozenset(terms) for language, terms in starts.items()}


def _made(spelled: str, language: str) -> RelationalWord:
    found = folded_words(spelled)
    parts = tuple(frozenset(_forms(word, language)) for word in found)
    return RelationalWord(
        spelled, language, parts, _separated(found[0]) if language == "de" and len(found) == 1 else None
    )


@lru_cache(maxsize=4096)
def terms_of(word: str, language: str) -> tuple[str, str]:
    """The exact form and the stem of a word of the query."""
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

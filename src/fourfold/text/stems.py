"""Stems by Snowball, which is loaded with the first word that needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any, cast

from fourfold.text.fold import expand_umlauts, strip_marks

_ALGORITHMS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "nb": "norwegian", "ne": "nepali",
    "nl": "dutch", "nn": "norwegian", "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip

_LOCK = Lock()
"""A Snowball stemmer works in a buffer of its own: one call at a time."""


def stem(word: str, language: str) -> str:
    """The stem of a caseless word, without diacritics; a language that Snowball does not know has no stems."""
    with _LOCK:
        return _stemmer(language)(word)


def stems(words: Sequence[str], language: str) -> Sequence[str]:
    """The stems of many words in small ASCII letters."""
    if language not in _ALGORITHMS:
        return words
    with _LOCK:
        return _snowball(language).stemWords(words)


@cache
def _snowball(language: str) -> Any:
    return cast("Any", import_module("Stemmer")).Stemmer(_ALGORITHMS[language], 0)


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    if language not in _ALGORITHMS:
        return strip_marks
    algorithm: Callable[[str], str] = _snowball(language).stemWord
    # English spells naïve as naive, German Café as Cafe; in other languages the accents steer the stemmer.
    if language == "de":
        return lambda word: algorithm(strip_marks(expand_umlauts(word)))
    if language == "en":
        return lambda word: algorithm(strip_marks(word))
    return lambda word: strip_marks(algorithm(word))

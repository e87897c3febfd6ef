"""Normalisation: `fold` for comparison, `clean` for storage; splitting into words; lists of words."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from pathlib import Path

from fourfold.errors import InvalidItem

MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
    "\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a03\u0a3c-\u0a51\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57"
    "\u0b82\u0bbe-\u0bcd\u0c00-\u0c04\u0c3c-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d"
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u17b4-\u17d3\u3099\u309a"
)
"""Combining marks of living scripts. `\\w` does not match them, so it would split words."""
INVISIBLE = "\u00ad\u200c\u200d\u2060\ufe0f"
"""Soft hyphen, joiners and similar characters, which are not part of a word's spelling."""
_WORD = re.compile(rf"[\w{MARKS}{INVISIBLE}]+")
_ASCII_WORD = re.compile(r"\w+", re.ASCII)

_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ё": "е"}
)
"""Letters that Unicode does not decompose (and ё, which is mostly written as е in Russian)."""
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_HIDDEN = re.compile(f"[{INVISIBLE}]")
_LATIN_OR_GREEK_MARKS = re.compile("(?<=[A-Za-z\u00c0-\u03ff])[\u0300-\u036f]+")
_LIST = re.compile(r"^([a-z_]+):([^:#]+)$", re.MULTILINE)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@cache
def word_lists(file: str = "words.txt") -> dict[str, str]:
    """The lists of words in a file beside this one, by their names."""
    return dict(_LIST.findall(Path(__file__).with_name(file).read_text("utf-8")))


def fold(text: str) -> str:
    """Return the form in which names, tags and nodes compare: NFKC, caseless, umlauts as ae, no other diacritics."""
    if text.isascii():
        return text.lower()
    return strip_marks(expand_umlauts(caseless(text)))


def caseless(text: str) -> str:
    """NFKC without case and without invisible characters; diacritics stay."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", visible(text).casefold())


def visible(text: str) -> str:
    """NFKC without invisible characters; case and diacritics stay."""
    return text if text.isascii() else _HIDDEN.sub("", unicodedata.normalize("NFKC", text))


def expand_umlauts(text: str) -> str:
    """Replace ä, ö, ü in lower-case text by ae, oe, ue."""
    return text if text.isascii() else text.translate(_UMLAUTS)


def strip_marks(text: str) -> str:
    """Replace é by e and ł by l. Other scripts keep their marks, which are part of letters (й, が, ी)."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFD", text.translate(_LETTERS))
    return unicodedata.normalize("NFC", _LATIN_OR_GREEK_MARKS.sub("", decomposed))


def clean(text: str) -> str:
    """Return the text in NFC; raise InvalidItem for characters that no store can hold."""
    if text.isascii() and "\x00" not in text:
        return text
    if match := _UNSTORABLE.search(text):
        name = "a NUL character" if match[0] == "\x00" else "half of a surrogate pair"
        message = f"the text contains {name} (U+{ord(match[0]):04X}) at position {match.start()}"
        raise InvalidItem(message, "Remove it, or decode the source with errors='replace', and store the text again")
    return unicodedata.normalize("NFC", text)


def words(text: str) -> list[str]:
    """Return the words of a text unchanged, in order: runs of letters, digits, marks and underscores."""
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


@lru_cache(256)
def folded_words(text: str) -> tuple[str, ...]:
    """Return the words of a text in the form in which names compare; cached, as a search needs them several times."""
    return tuple(_ASCII_WORD.findall(text.lower()) if text.isascii() else [fold(word) for word in _WORD.findall(text)])

"""BERT's tokenizer from its vocabulary, in Python: the library `tokenizers` would bring 35 MB for it.

Normalises as BERT does (control characters removed, CJK characters apart, accents stripped, lower case), splits at
white space and punctuation, and cuts each word into the longest pieces of the vocabulary.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from fourfold.errors import EmbedderUnavailable

SPECIAL = ("[UNK]", "[SEP]", "[CLS]")
LONGEST_WORD = 100
"""A word of more characters is unknown."""
_KNOWN_WORDS = 50_000
"""Words whose pieces are cached."""
_CJK = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class WordPiece:
    """Turns texts into the ids of a model. Safe to use from several threads at once."""

    def __init__(self, vocabulary: bytes, max_tokens: int, *, lowercase: bool = True, german: bool = False) -> None:
        """`vocabulary`: the content of a `vocab.txt`. A `[SEP]` inside a text is text like any other.

        `german`: writes umlauts with two letters, because removing their dots would join words ("schon", "schön").
        """
        self._ids = ids_of(vocabulary)
        self._unknown, self._end, self._begin = (self._ids[word] for word in SPECIAL)
        self._room = max_tokens - 2
        self._lowercase = lowercase
        self._german = german
        self._longest = max(map(len, self._ids))
        self._known: dict[str, tuple[int, ...]] = {}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, as far as it fits."""
        return [[self._begin, *self._pieces_of(text)[: self._room], self._end] for text in texts]

    def truncates(self, text: str) -> bool:
        return len(self._pieces_of(text)) > self._room

    def _pieces_of(self, text: str) -> list[int]:
        """Stops one piece after the last that fits."""
        ids: list[int] = []
        text = fold(text) if self._german else text
        for word in normalised(text, lowercase=self._lowercase).split():
            cached = self._known.get(word)
            ids += self._cut(word) if cached is None else cached
            if len(ids) > self._room:
                break
        return ids

    def _cut(self, word: str) -> tuple[int, ...]:
        pieces = self._longest_pieces(word) if len(word) <= LONGEST_WORD else None
        if len(self._known) >= _KNOWN_WORDS:
            self._known.clear()
        self._known[word] = cut = (self._unknown,) if pieces is None else tuple(pieces)
        return cut

    def _longest_pieces(self, word: str) -> list[int] | None:
        """None if a part of the word begins with no piece."""
        pieces: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = self._ids.get(prefix + word[start:end])
                if piece is not None:
                    pieces.append(piece)
                    start = end
                    break
            else:
                return None
        return pieces


_FOLDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "ẞ": "SS"})


def fold(text: str) -> str:
    """Writes umlauts with two letters."""
    return unicodedata.normalize("NFC", text).translate(_FOLDED)


def normalised(text: str, *, lowercase: bool = True) -> str:
    """The words of the text, with spaces between them."""
    cleaned = text.translate(_CLEANED)
    if not lowercase:
        return cleaned.translate(_SPLIT)
    if cleaned.isascii():
        return cleaned.translate(_SPLIT).lower()
    bare = unicodedata.normalize("NFD", cleaned).translate(_STRIPPED).replace("Σ", "σ").lower()
    return bare.translate(_SPLIT)


class _Table(dict[int, str | int]):
    """The replacement of a character, computed once for each."""

    def __init__(self, rule: Callable[[int], str | int]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, code: int) -> str | int:
        made = self[code] = self._rule(code)
        return made


def _clean(code: int) -> str | int:
    if chr(code) in "\t\n\r":
        return " "
    if code == 0xFFFD or unicodedata.category(chr(code)) in ("Cc", "Cf", "Co"):
        return ""
    if chr(code).isspace():
        return " "
    return f" {chr(code)} " if any(low <= code <= high for low, high in _CJK) else code


def _strip(code: int) -> str | int:
    return "" if unicodedata.category(chr(code)) == "Mn" else code


def _split(code: int) -> str | int:
    is_mark = code < 128 and chr(code).isprintable() and not chr(code).isalnum() and code != 0x20
    return f" {chr(code)} " if is_mark or unicodedata.category(chr(code)).startswith("P") else code


_CLEANED, _STRIPPED, _SPLIT = _Table(_clean), _Table(_strip), _Table(_split)


def ids_of(vocabulary: bytes) -> dict[str, int]:
    """One word per line; its id is the line number. (Unicode line separators are words of this vocabulary.)"""
    words = vocabulary.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids = dict(zip(words, range(len(words)), strict=True))
    missing = [word for word in SPECIAL if word not in ids]
    if missing:
        message = f"the vocabulary has no {', '.join(missing)}, so it is not one of a WordPiece model"
        raise EmbedderUnavailable(message, "Put the model's own tokenizer.json into the same folder")
    return ids

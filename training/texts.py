"""The texts that the encoder learns from: English ones, and pairs of an English text and its translation."""

from __future__ import annotations

import lzma
import random
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = (
    "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "sv", "da", "nb", "cs", "ro", "uk", "tr", "hu", "fi", "el", "ca",
)  # fmt: skip
PREFIXES = ("query: ", "passage: ")
FOLDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "ẞ": "SS"})
COPYLEFT = frozenset({"ding", "mo", "ddtp"})
"""Sources of `pairs-*` whose licences are copyleft or differ by package."""
SHARE_ALIKE = frozenset({"mkqa", "xsid"})


@dataclass(frozen=True, slots=True)
class Pair:
    """An English text and the same in another language."""

    language: str
    source: str
    english: str
    other: str


def fold(text: str) -> str:
    """Write umlauts with two letters, because the tokenizer would remove their dots ("schon", "schön")."""
    return unicodedata.normalize("NFC", text).translate(FOLDED)


def lines(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def pairs(folder: Path, *, permissive: bool = False) -> dict[str, list[Pair]]:
    """Read the pairs of each language, without repetitions."""
    found: dict[str, list[Pair]] = {}
    for language in LANGUAGES:
        seen: set[tuple[str, str]] = set()
        rows: list[Pair] = []
        for path in sorted(folder.glob(f"pairs-*/{language}.tsv.xz")):
            for line in lines(path):
                source, english, other = line.split("\t")
                text = english.lower(), other.lower()
                if text not in seen and not (permissive and source in COPYLEFT | SHARE_ALIKE):
                    seen.add(text)
                    rows.append(Pair(language, source, english, other))
        found[language] = rows
    return found


def words(folder: Path, language: str = "de") -> Iterator[Pair]:
    """Read single words and compounds of a dictionary."""
    for line in lines(folder / f"{'german' if language == 'de' else language}-words.tsv.xz"):
        source, english, other = line.split("\t")
        yield Pair(language, source, english, other)


def english(folder: Path, passages: int, seed: int) -> list[str]:
    """Read English texts without translation, and at most `passages` long ones of each file, in random order."""
    whole = list(dict.fromkeys(line for path in sorted(folder.glob("english/*.xz")) for line in lines(path) if line))
    draw = random.Random(seed)
    for path in sorted(folder.glob("passages/*.xz")):
        rows = [line for line in lines(path) if line]
        whole += draw.sample(rows, min(len(rows), passages))
    return whole

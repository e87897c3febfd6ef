"""The texts that the encoder learns from: English ones, and pairs of an English text and its translation."""

from __future__ import annotations

import lzma
import random
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = (
    "de",
    "fr",
    "es",
    "it",
    "pt",
    "nl",
    "pl",
    "ru",
    "sv",
    "da",
    "nb",
    "cs",
    "ro",
    "uk",
    "tr",
    "hu",
    "fi",
    "el",
    "ca",
)
PREFIXES = ("query: ", "passage: ")
FOLDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "ẞ": "SS"})
COPYLEFT = frozenset({"ding", "mo", "ddtp"})
"""Sources of `pairs-*` whose licences are copyleft or differ by package."""
SHARE_ALIKE = frozenset({"mkqa", "xsid"})
PARAGRAPH_SENTENCES = (2, 3, 4, 6, 8)
LEAST_WORDS = 5
"""Of a sentence that becomes part of a paragraph."""


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


def prefix_of(english: str) -> str:
    """Half of the texts are learnt as questions, half as passages; a text and its translations as the same."""
    return PREFIXES[zlib.crc32(english.encode()) & 1]


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
                known = english.lower(), other.lower()
                if known not in seen and not (permissive and source in COPYLEFT | SHARE_ALIKE):
                    seen.add(known)
                    rows.append(Pair(language, source, english, other))
        found[language] = rows
    return found


def words(folder: Path, language: str = "de") -> Iterator[Pair]:
    """Read single words and compounds of a dictionary."""
    for line in lines(folder / f"{'german' if language == 'de' else language}-words.tsv.xz"):
        source, english, other = line.split("\t")
        yield Pair(language, source, english, other)


def english(folder: Path) -> list[str]:
    return list(dict.fromkeys(line for path in sorted(folder.glob("english/*.xz")) for line in lines(path) if line))


def paragraphs(rows: list[Pair], seed: int) -> list[Pair]:
    """Join neighbouring sentences of one source, so that the encoder also reads longer texts of every language."""
    draw = random.Random(seed)
    sources: defaultdict[str, list[Pair]] = defaultdict(list)
    for row in rows:
        if len(row.other.split()) >= LEAST_WORDS:
            sources[row.source].append(row)
    joined: list[Pair] = []
    for source, sentences in sources.items():
        start = 0
        while start < len(sentences):
            part = sentences[start : start + draw.choice(PARAGRAPH_SENTENCES)]
            start += len(part)
            if len(part) > 1:
                joined.append(
                    Pair(part[0].language, source, ". ".join(p.english for p in part), ". ".join(p.other for p in part))
                )
    return joined

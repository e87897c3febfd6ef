"""Training examples: an English text, whose vector the teacher gives, and a German text that must get the same."""

from __future__ import annotations

import lzma
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

LABELS = ("applications", "games", "libreoffice-interface")
WORD = re.compile("[A-Za-z]+")


class Pair(NamedTuple):
    source: str
    licence: str
    english: str
    german: str


def read(path: Path, *, weak_only: bool) -> list[Pair]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        pairs = [Pair(*line.rstrip("\n").split("\t")) for line in file]
    return [pair for pair in pairs if pair.licence == "weak"] if weak_only else pairs


def examples(pairs: list[Pair], glosses: list[str], draw: random.Random) -> list[tuple[str, str]]:
    """All pairs; neighbouring sentences joined to paragraphs; dictionary entries joined to lists; English definitions
    with their words replaced by German ones. Pairs of ten words and more count twice, since they teach most."""
    single = [(pair.english, pair.german) for pair in pairs]
    long = [(pair.english, pair.german) for pair in pairs if len(pair.german.split()) >= 10]
    return [*single, *long, *_paragraphs(pairs, draw), *_lists(pairs, draw), *_word_by_word(pairs, glosses, draw)]


def _paragraphs(pairs: list[Pair], draw: random.Random) -> Iterable[tuple[str, str]]:
    by_source: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.source != "ding" and (pair.source not in LABELS or len(pair.german.split()) >= 6):
            by_source[pair.source].append(pair)
    for _ in range(2):
        for neighbours in by_source.values():
            start = draw.randrange(4)
            while start < len(neighbours):
                group = neighbours[start : start + draw.choice((2, 3, 4, 6, 8))]
                start += len(group)
                yield ". ".join(pair.english for pair in group), ". ".join(pair.german for pair in group)


def _lists(pairs: list[Pair], draw: random.Random) -> Iterable[tuple[str, str]]:
    entries = [pair for pair in pairs if pair.source == "ding"]
    draw.shuffle(entries)
    start = 0
    while start < min(len(entries), 400_000):
        group = entries[start : start + draw.choice((2, 3, 4, 6))]
        start += len(group)
        between = draw.choice((", ", " ", "; "))
        yield between.join(pair.english for pair in group), between.join(pair.german for pair in group)


def _word_by_word(pairs: list[Pair], glosses: list[str], draw: random.Random) -> Iterable[tuple[str, str]]:
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        if WORD.fullmatch(pair.english) and len(pair.german.split()) <= 2 and pair.german[0].isalpha():
            counted[pair.english.lower()][pair.german] += 1
    words = {word: [german for german, _ in found.most_common(3)] for word, found in counted.items()} | FUNCTION_WORDS

    def replaced(text: str, share: float) -> str:
        def german(match: re.Match[str]) -> str:
            known = words.get(match[0].lower())
            return draw.choice(known) if known and draw.random() < share else match[0]

        return WORD.sub(german, text)

    for text in glosses:
        yield text, replaced(text, draw.choice((0.7, 0.95, 1.0)))
    for start in range(0, len(glosses), 5):
        text = " ".join(glosses[start : start + draw.choice((3, 5))])
        yield text, replaced(text, 0.95)


FUNCTION_WORDS = {
    english: german.split()
    for english, german in {
        "a": "ein eine einen", "all": "alle", "an": "ein eine einer", "and": "und", "are": "sind", "as": "als wie",
        "at": "bei an", "be": "sein werden", "been": "gewesen worden", "but": "aber", "by": "von durch", "can": "kann",
        "for": "für", "from": "von aus", "had": "hatte", "has": "hat", "have": "haben", "he": "er", "her": "ihr ihre",
        "his": "sein seine", "i": "ich", "in": "in im", "into": "in", "is": "ist", "it": "es", "its": "sein ihre",
        "more": "mehr", "my": "mein meine", "no": "kein keine", "not": "nicht", "of": "von der des", "on": "auf an",
        "one": "ein eine", "or": "oder", "she": "sie", "than": "als", "that": "dass das die der",
        "the": "der die das den dem des", "their": "ihre ihren",
        "there": "da es", "they": "sie", "this": "dies diese dieser", "to": "zu", "very": "sehr",
        "was": "war wurde", "we": "wir", "were": "waren wurden", "what": "was", "when": "wenn als",
        "which": "welche die das",
        "who": "wer der die", "will": "wird", "with": "mit", "would": "würde", "you": "Sie du",
    }.items()
}  # fmt: skip

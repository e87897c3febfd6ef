"""Word pieces for German, added to MiniLM's own."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np
from tokenizers import BertWordPieceTokenizer, Tokenizer, models, pre_tokenizers, trainers

WINDOW_TOKENS = 256
FOLDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "ẞ": "SS"})
ASCII_WORD = re.compile("[a-z]+")


def fold(text: str) -> str:
    """Write umlauts with two letters, because the tokenizer would remove their dots ("schon", "schön")."""
    return unicodedata.normalize("NFC", text).translate(FOLDED)


def tokenizer(pieces: list[str]) -> BertWordPieceTokenizer:
    made = BertWordPieceTokenizer(
        {piece: number for number, piece in enumerate(pieces)}, lowercase=True, strip_accents=True
    )
    made.enable_truncation(WINDOW_TOKENS)
    return made


def encode(pieces: BertWordPieceTokenizer, texts: list[str]) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    for start in range(0, len(texts), 50_000):
        found += [np.array(each.ids, np.int32) for each in pieces.encode_batch(texts[start : start + 50_000])]
    return found


def german_pieces(pairs: Iterable[tuple[str, str]], known: list[str], wanted: int) -> list[str]:
    """Return new pieces, the most useful first, learnt from words that are more frequent in German than in English."""
    german: Counter[str] = Counter()
    english: Counter[str] = Counter()
    for original, translation in pairs:
        english.update(ASCII_WORD.findall(original.lower()))
        german.update(ASCII_WORD.findall(fold(translation).lower()))
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordPieceTrainer(
        vocab_size=wanted + 9_000, min_frequency=3, special_tokens=["[UNK]"], show_progress=False
    )
    texts = (
        " ".join([word] * min(60, math.ceil(count**0.7)))
        for word, count in sorted(german.items())
        if len(word) < 30 and english[word] <= 3 * count
    )
    learner.train_from_iterator(texts, trainer)
    present = set(known)
    learnt = sorted(learner.get_vocab().items(), key=lambda entry: entry[1])
    return [piece for piece, _ in learnt if piece not in present and piece != "[UNK]" and piece.isascii()][:wanted]


def starting_vectors(
    new: list[str], known: list[str], vectors: np.ndarray, pairs: Iterable[tuple[str, str]]
) -> np.ndarray:
    """Begin a new word with the mean vector of its translations, and other pieces with that of their known parts."""
    translations: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for original, translation in pairs:
        word = fold(translation).lower()
        if " " not in word and len(original.split()) <= 2:
            translations[word][original.lower()] += 1
    number = {piece: place for place, piece in enumerate(known)}
    split = tokenizer(known)
    started = np.empty((len(new), vectors.shape[1]), np.float32)
    for place, piece in enumerate(new):
        if piece in translations:
            best = [text for text, _ in translations[piece].most_common(3)]
            ids = [each for text in best for each in split.encode(text, add_special_tokens=False).ids]
        else:
            ids = _parts(piece, number)
        started[place] = vectors[ids].mean(axis=0) if ids else vectors.mean(axis=0)
    return started


def _parts(piece: str, number: dict[str, int]) -> list[int]:
    """Cut a piece into known pieces, the longest first."""
    inner, rest = piece.startswith("##"), piece.removeprefix("##")
    found: list[int] = []
    while rest:
        for end in range(len(rest), 0, -1):
            candidate = ("##" if inner else "") + rest[:end]
            if candidate in number:
                found.append(number[candidate])
                rest, inner = rest[end:], True
                break
        else:
            return found
    return found

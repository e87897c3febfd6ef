"""The vocabulary of the encoder: BERT's word pieces, and new ones for each language by quota, with start vectors."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from itertools import chain

import numpy as np
from data import WINDOW_TOKENS, Bodies
from texts import Pair, fold
from tokenizers import BertWordPieceTokenizer, Tokenizer, models, pre_tokenizers, trainers

WORD = re.compile(r"\w+")
QUOTAS = {
    "de": 16_000,
    "ru": 6_000,
    "fr": 4_000,
    "es": 4_000,
    "it": 3_500,
    "pt": 3_500,
    "nl": 3_500,
    "pl": 4_000,
    "uk": 3_500,
    "hu": 3_500,
    "fi": 3_500,
    "tr": 3_000,
    "cs": 3_000,
    "el": 3_000,
    "ro": 2_200,
    "sv": 2_200,
    "da": 1_600,
    "nb": 1_000,
    "ca": 1_500,
}
"""New pieces for each language; together 72,500."""
TRANSLATION_ROUNDS = 5
TRANSLATIONS = 6
"""English pieces whose vectors make up the start vector of a new piece."""
LONGEST_ALIGNED = 32
FEWEST_CELLS = 0.02


def plain(text: str) -> str:
    """Write a text as the tokenizer sees it."""
    return "".join(c for c in unicodedata.normalize("NFD", fold(text).lower()) if unicodedata.category(c) != "Mn")


def tokenizer(pieces: list[str]) -> BertWordPieceTokenizer:
    return BertWordPieceTokenizer({piece: n for n, piece in enumerate(pieces)}, lowercase=True, strip_accents=True)


def bodies(pieces: BertWordPieceTokenizer, texts: list[str]) -> Bodies:
    """The pieces of each text, as many as fit into a window."""
    ids: list[np.ndarray] = []
    lengths: list[int] = []
    for start in range(0, len(texts), 50_000):
        made = pieces.encode_batch(texts[start : start + 50_000], add_special_tokens=False)
        rows = [each.ids[:WINDOW_TOKENS] for each in made]
        lengths += map(len, rows)
        ids.append(np.fromiter(chain.from_iterable(rows), np.int32))
    return Bodies(np.concatenate(ids), np.array(lengths, np.int64))


def new_pieces(pairs: dict[str, list[Pair]], known: list[str], share: float) -> list[str]:
    """Learn pieces for each language, from words that are more frequent in it than in English."""
    english: Counter[str] = Counter()
    counts: dict[str, Counter[str]] = {}
    for language, rows in pairs.items():
        counts[language] = Counter()
        for row in rows:
            english.update(WORD.findall(row.english.lower()))
            counts[language].update(WORD.findall(plain(row.other)))
    present, added = set(known), []
    for language in sorted(pairs, key=lambda each: -QUOTAS[each]):
        quota = round(QUOTAS[language] * share)
        total = sum(english.values()) / max(1, sum(counts[language].values()))
        learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        learner.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.WordPieceTrainer(
            vocab_size=quota * 2 + 1000, min_frequency=3, special_tokens=["[UNK]"], show_progress=False
        )
        texts = (
            " ".join([word] * min(60, math.ceil(count**0.7)))
            for word, count in sorted(counts[language].items())
            if len(word) < 30 and not word.isdigit() and english[word] <= 3 * count * total
        )
        learner.train_from_iterator(texts, trainer)
        learnt = sorted(learner.get_vocab().items(), key=lambda entry: entry[1])
        fresh = [piece for piece, _ in learnt if piece not in present and piece != "[UNK]"][:quota]
        present.update(fresh)
        added += fresh
    return added


def translations(
    others: list[np.ndarray], englishes: list[np.ndarray], vocabulary: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimate which English piece a piece translates to (IBM model 1): pieces, English pieces, probabilities.

    Both lists are rows of ids without the marks of beginning and end. Only rows of moderate length count.
    """
    chosen = [
        (o, e)
        for o, e in zip(others, englishes, strict=True)
        if 0 < len(o) <= LONGEST_ALIGNED and 0 < len(e) <= LONGEST_ALIGNED
    ]
    keys = np.concatenate([(o[:, None].astype(np.int64) * vocabulary + e[None, :]).ravel() for o, e in chosen])
    # A cell belongs to the English word that is explained: each explains itself by one of the other side's pieces.
    sizes = np.array([(len(o), len(e)) for o, e in chosen])
    starts = np.concatenate([[0], np.cumsum(sizes[:, 1])])[:-1]
    column = np.concatenate([np.tile(np.arange(n), m) + s for (m, n), s in zip(sizes, starts, strict=True)])
    cells, inverse = np.unique(keys, return_inverse=True)
    other = cells // vocabulary
    probability = np.ones(len(cells), np.float64)
    for _ in range(TRANSLATION_ROUNDS):
        weight = probability[inverse]
        weight /= np.bincount(column, weight)[column]
        count = np.bincount(inverse, weight, len(cells))
        probability = count / np.bincount(other, count)[other]
    kept = probability > FEWEST_CELLS
    return other[kept].astype(np.int32), (cells % vocabulary)[kept].astype(np.int32), (probability * 1)[kept]

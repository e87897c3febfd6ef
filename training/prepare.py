"""Prepares everything that needs no GPU: vocabulary, start vectors, texts as ids.

    python training/prepare.py SOURCES BERT-VOCAB.txt OUT [--share 1.0] [--passages 120000] [--permissive]

SOURCES holds `pairs-*/LANGUAGE.tsv.xz`, `english/*.xz`, `passages/*.xz` and `german-words.tsv.xz`. OUT gets
`vocab.txt`, `translations.npz` (which pieces of BERT's vocabulary translate a new piece) and `texts.npz`, which
`data.py` reads.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path

import data
import numpy as np
import texts
from data import PIECES
from tokenizers import BertWordPieceTokenizer
from vocabulary import bodies, new_pieces, tokenizer, translations

ALIGNED_PAIRS = 100_000
SEED = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("vocabulary", type=Path, help="BERT's")
    parser.add_argument("target", type=Path)
    parser.add_argument("--share", type=float, default=1.0, help="of the quotas of new pieces")
    parser.add_argument("--passages", type=int, default=120_000, help="English passages of each file")
    parser.add_argument("--permissive", action="store_true", help="leave out copyleft sources")
    parser.add_argument("--reuse", action="store_true", help="vocabulary and translations of an earlier call")
    options = parser.parse_args()
    options.target.mkdir(parents=True, exist_ok=True)
    began = time.time()

    def log(*words: object) -> None:
        print(f"[{time.time() - began:6.1f}]", *words, flush=True)

    pairs = texts.pairs(options.sources, permissive=options.permissive)
    log("pairs", {language: len(rows) for language, rows in pairs.items()})
    base = options.vocabulary.read_text("utf-8").removesuffix("\n").split("\n")
    vocabulary = options.target / "vocab.txt"
    if options.reuse:
        pieces = vocabulary.read_text("utf-8").removesuffix("\n").split("\n")
    else:
        pieces = base + new_pieces(pairs, base, options.share)
        vocabulary.write_text("\n".join(pieces) + "\n", "utf-8")
    log("pieces", len(pieces))
    split, old = tokenizer(pieces), tokenizer(base[:PIECES])

    english: dict[str, int] = {}
    others: list[str] = []
    columns: list[tuple[int, int, int]] = []
    sources: dict[str, int] = {}
    for number, rows in enumerate(pairs.values()):
        for row in rows:
            meaning = english.setdefault(row.english, len(english))
            columns.append((meaning, number + 1, sources.setdefault(row.source, len(sources))))
            others.append(texts.fold(row.other))
    for text in texts.english(options.sources, options.passages, SEED):
        english.setdefault(text, len(english))
    log("English texts", len(english), "translations", len(others))
    other = bodies(split, others)
    log("tokens of translations", len(other.ids))
    meaning, language, source = (np.array(column, np.int32) for column in zip(*columns, strict=True))
    whole = list(english)
    student = bodies(split, [texts.fold(text) for text in whole])
    log("English tokens", len(student.ids))
    data.write(
        options.target / "texts.npz",
        {"english": student, "other": other},
        {"meaning": meaning, "language": language.astype(np.int8), "source": source.astype(np.int8)},
    )
    if not options.reuse:
        del student, other, others, whole, english
        table = translation_table(split, old, pairs, list(texts.words(options.sources)), log)
        np.savez(options.target / "translations.npz", **table)
    log("done")


def translation_table(
    split: BertWordPieceTokenizer,
    old: BertWordPieceTokenizer,
    pairs: dict[str, list[texts.Pair]],
    words: list[texts.Pair],
    log: Callable[..., None],
) -> dict[str, np.ndarray]:
    """Which English pieces translate a piece, with a weight for each."""
    parts: list[tuple[np.ndarray, ...]] = []
    draw = random.Random(SEED)
    for language, every in pairs.items():
        rows = draw.sample(every, min(len(every), ALIGNED_PAIRS))
        if language == "de":
            rows += draw.sample(words, ALIGNED_PAIRS)
        other = bodies(split, [texts.fold(row.other) for row in rows])
        english = bodies(old, [row.english for row in rows])
        piece, translation, probability = translations(other.rows(), english.rows(), PIECES)
        count = sum(len(row.other.split()) for row in rows)
        log(language, "pieces a word", round(len(other.ids) / count, 2), "translations", len(piece))
        parts.append((piece, translation, (probability * np.bincount(other.ids)[piece]).astype(np.float32)))
    return {
        name: np.concatenate(column)
        for name, column in zip(("piece", "translation", "weight"), zip(*parts, strict=True), strict=True)
    }


if __name__ == "__main__":
    main()

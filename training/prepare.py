"""Prepares everything that needs no GPU: vocabulary, start vectors, texts as ids.

    python training/prepare.py SOURCES VOCAB.txt START OUT [--share 1.0] [--limit 80000] [--english 150000]
        [--permissive]

START is the encoder that the student starts from, and VOCAB.txt its vocabulary, which begins with BERT's. SOURCES
holds `pairs-*/LANGUAGE.tsv.xz`, `english/*.xz` and `german-words.tsv.xz`. OUT gets `vocab.txt`, `start.npy` (vectors
of all pieces), and `texts.npz`: the English texts for the teachers (`teacher`), the same and all translations for the
student (`student`), and which English text each one means (`target`).
"""

from __future__ import annotations

import argparse
import random
import time
import zlib
from pathlib import Path

import numpy as np
import texts
from teachers import PIECES, WORDS, read_weights
from vocabulary import encode, new_pieces, tokenizer, translations

ALIGNED_PAIRS = 120_000
PARAGRAPH_SHARE = 6
"""Sentences for one paragraph, if their number is limited."""
SEED = 1


def drawn_first(row: texts.Pair) -> float:
    """A number by which the same English sentences are drawn for every language, longer ones a little more often."""
    return zlib.crc32(row.english.lower().encode()) / (1 + 0.02 * len(row.english.split()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("vocabulary", type=Path, help="of the encoder to start from")
    parser.add_argument("start", type=Path, help="encoder to start from")
    parser.add_argument("target", type=Path)
    parser.add_argument("--share", type=float, default=1.0, help="of the quotas of new pieces")
    parser.add_argument("--limit", type=int, default=10**9, help="pairs for each language")
    parser.add_argument("--english", type=int, default=10**9, help="English texts without translation")
    parser.add_argument("--permissive", action="store_true", help="leave out copyleft sources")
    options = parser.parse_args()
    options.target.mkdir(parents=True, exist_ok=True)
    began = time.time()

    def log(*words: object) -> None:
        print(f"[{time.time() - began:6.1f}]", *words, flush=True)

    pairs = texts.pairs(options.sources, permissive=options.permissive)
    log("pairs", {language: len(rows) for language, rows in pairs.items()})
    base = options.vocabulary.read_text("utf-8").removesuffix("\n").split("\n")
    pieces = base + new_pieces(pairs, base, options.share)
    (options.target / "vocab.txt").write_text("\n".join(pieces) + "\n", "utf-8")
    log("pieces", len(pieces))

    split, old = tokenizer(pieces), tokenizer(base[:PIECES])
    vectors = read_weights(options.start)[WORDS]
    sums, weights = np.zeros((len(pieces), vectors.shape[1])), np.zeros(len(pieces))
    draw = random.Random(SEED)
    for language, rows in pairs.items():
        rows = draw.sample(rows, min(len(rows), ALIGNED_PAIRS))
        if language == "de":
            rows += draw.sample(list(texts.words(options.sources)), ALIGNED_PAIRS)
        others = [np.append(ids[1:-1], 0) for ids in encode(split, [texts.fold(row.other) for row in rows])]
        englishes = [ids[1:-1] for ids in encode(old, [row.english for row in rows])]
        other, english, probability = translations(others, englishes, PIECES)
        words = sum(len(row.other.split()) for row in rows)
        log(
            language,
            "pieces a word",
            round(sum(map(len, others)) / words - len(rows) / words, 2),
            "translations",
            len(other),
        )
        seen = np.bincount(np.concatenate(others), minlength=len(pieces))
        np.add.at(sums, other, (probability * seen[other])[:, None] * vectors[english])
        np.add.at(weights, other, probability * seen[other])
    start = np.zeros((len(pieces), vectors.shape[1]), np.float32)
    start[: len(base)] = vectors
    found = weights > 0
    found[: len(base)] = False
    start[found] = sums[found] / weights[found, None]
    start[len(base) :][~found[len(base) :]] = vectors.mean(axis=0)
    # Means of several vectors are shorter than one; the layers expect the usual length.
    usual = np.median(np.linalg.norm(vectors[1000:20000] - vectors.mean(axis=0), axis=1))
    away = start[len(base) :] - vectors.mean(axis=0)
    length = np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-6)
    start[len(base) :] = vectors.mean(axis=0) + away * np.minimum(usual / length, 2.5)
    np.save(options.target / "start.npy", start.astype(np.float16))
    log("started", int(found.sum()), "of", len(pieces) - len(base), "by translations")

    english: dict[str, int] = {}
    student: list[str] = []
    target: list[int] = []
    tongue: list[int] = []

    def learn(text: str, meaning: str, language: int) -> None:
        student.append(texts.prefix_of(meaning) + texts.fold(text))
        target.append(english.setdefault(meaning, len(english)))
        tongue.append(language)

    for number, rows in enumerate(pairs.values()):
        joined = texts.paragraphs(rows, SEED)
        draw.shuffle(joined)
        # A sentence that several languages share needs one vector of the teachers only: the same are drawn everywhere.
        rows = sorted(rows, key=drawn_first)[: options.limit]
        for row in [*rows, *joined[: options.limit // PARAGRAPH_SHARE]]:
            learn(row.other, row.english, number + 1)
    plain = texts.english(options.sources)
    for text in draw.sample(plain, min(len(plain), options.english)):
        english.setdefault(text, len(english))
    for text, place in english.items():
        student.append(texts.prefix_of(text) + texts.fold(text))
        target.append(place)
        tongue.append(0)
    log("English texts", len(english), "all texts", len(student))
    flat: dict[str, np.ndarray] = {}
    whole = list(english)
    for name, tool, rows in (
        ("student", split, student),
        ("teacher", old, [texts.prefix_of(text) + text for text in whole]),
    ):
        ids = encode(tool, rows)
        flat[name] = np.concatenate(ids)
        flat[f"{name}_ends"] = np.cumsum([len(each) for each in ids])
        log(name, "tokens", len(flat[name]))
    np.savez(
        options.target / "texts.npz", target=np.array(target, np.int32), language=np.array(tongue, np.int8), **flat
    )
    log("done")


if __name__ == "__main__":
    main()

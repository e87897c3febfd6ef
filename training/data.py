"""The texts as ids: what `prepare.py` writes, and the texts of equal length that teachers and student read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

WINDOW_TOKENS = 256
BEGIN, END = 101, 102
STOP, *_ = STOPS = (1012, 1029, 999)
"""The pieces of ".", "?" and "!"."""
PIECES = 30_522
"""Pieces of BERT's vocabulary, which the teachers read; ours begins with them."""
UNSPELT = ("[UNK]", "[MASK]", "[CLS]", "[SEP]", "[PAD]")
PREFIXES = np.array([[23032, 1024], [6019, 1024]], np.int32)
"""The pieces of "query:" and "passage:"."""
HEAD = 3
QUESTION_MARK, LONGEST_QUESTION, LONGEST_KEYWORDS = 1029, 40, 12
QUERY_SHARES = {"question": 0.8, "short": 0.5, "sentence": 0.3, "long": 0.1}
"""How often a text is read with "query:" instead of "passage:", by its form."""
PARAGRAPH_SENTENCES = (2, 3, 4, 6, 8)
LEAST_TOKENS = 6
"""Of a sentence that becomes part of a paragraph."""


@dataclass(frozen=True)
class Bodies:
    """The ids of many texts, one after the other, without the marks of beginning and end."""

    ids: np.ndarray
    lengths: np.ndarray

    def rows(self) -> list[np.ndarray]:
        return np.split(self.ids, np.cumsum(self.lengths)[:-1])


def write(path: Path, bodies: dict[str, Bodies], columns: dict[str, np.ndarray]) -> None:
    """Ids have more than 16 bits: the low ones and the 17th are kept apart, which compresses well."""
    arrays = dict(columns)
    for name, texts in bodies.items():
        arrays[f"{name}_low"] = (texts.ids & 0xFFFF).astype(np.uint16)
        arrays[f"{name}_high"] = np.packbits(texts.ids >> 16)
        arrays[f"{name}_lengths"] = texts.lengths.astype(np.uint16)
    np.savez(path, **arrays)


@dataclass(frozen=True)
class Texts:
    """Every text as the encoder reads it, from [CLS] to [SEP], and what it means."""

    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    meaning: np.ndarray
    """The place of the text among the English ones."""
    language: np.ndarray


def read(folder: Path, seed: int, *, teachers: bool = False) -> Texts:
    """Sentences, and paragraphs of neighbouring sentences of one source and language.

    For the student all texts; for the teachers the English ones only, in pieces of BERT's vocabulary.
    """
    arrays = dict(np.load(folder / "texts.npz"))
    bodies: dict[str, Bodies] = {}
    for name in ("english", "other"):
        low = arrays[f"{name}_low"].astype(np.int32)
        high = np.unpackbits(arrays[f"{name}_high"], count=len(low)).astype(np.int32)
        bodies[name] = Bodies(low | high << 16, arrays[f"{name}_lengths"].astype(np.int64))
    draw = np.random.default_rng(seed)
    count, meaning = len(bodies["english"].lengths), arrays["meaning"].astype(np.int64)
    sentences, paragraph = _paragraphs(bodies["other"].lengths, arrays, draw)
    joined = int(paragraph.max()) + 1
    head = (draw.random(count + joined) >= _asked(bodies["english"], joined)).astype(np.int64)
    alone = np.arange(count)
    english = np.concatenate([alone, meaning[sentences]]), np.concatenate([alone, count + paragraph])
    every, nothing = np.arange(count + joined), np.zeros(count + joined, np.int8)
    if teachers:
        pieces = (folder / "vocab.txt").read_text("utf-8").removesuffix("\n").split("\n")
        return Texts(*_assembled(respelt(bodies["english"], pieces, PIECES), *english, head), every, nothing)
    foreign = (
        np.concatenate([np.arange(len(meaning)), sentences]),
        np.concatenate([np.arange(len(meaning)), len(meaning) + paragraph]),
    )
    first = np.searchsorted(paragraph, np.arange(joined))
    means = np.concatenate([meaning, count + np.arange(joined)])
    tongue = np.concatenate([arrays["language"], arrays["language"][sentences[first]]])
    own = _assembled(bodies["english"], *english, head)
    other = _assembled(bodies["other"], *foreign, head[means])
    return Texts(
        np.concatenate([own[0], other[0]]),
        np.concatenate([own[1], len(own[0]) + other[1]]),
        np.concatenate([own[2], other[2]]),
        np.concatenate([every, means]),
        np.concatenate([nothing, tongue]),
    )


def respelt(bodies: Bodies, pieces: list[str], known: int) -> Bodies:
    """The same words in the first `known` pieces of the vocabulary; only words with other pieces change."""
    begins = np.array([not piece.startswith("##") for piece in pieces])[bodies.ids]
    begins[np.cumsum(bodies.lengths) - bodies.lengths] = True
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(bodies.ids))
    changed = np.flatnonzero(np.maximum.reduceat(bodies.ids, starts) >= known)
    table = {piece: number for number, piece in enumerate(pieces[:known])}
    memory: dict[bytes, list[int]] = {}
    parts: list[np.ndarray] = []
    sizes = ends - starts
    done = 0
    for word in changed:
        ids = bodies.ids[starts[word] : ends[word]]
        spelt = memory.get(ids.tobytes())
        if spelt is None:
            spelt = memory[ids.tobytes()] = _greedy([pieces[each] for each in ids], table)
        parts += [bodies.ids[done : starts[word]], np.array(spelt, np.int32)]
        sizes[word], done = len(spelt), ends[word]
    text = np.repeat(np.arange(len(bodies.lengths)), bodies.lengths)[starts]
    return Bodies(
        np.concatenate([*parts, bodies.ids[done:]]), np.bincount(text, sizes, len(bodies.lengths)).astype(np.int64)
    )


def _asked(english: Bodies, paragraphs: int) -> np.ndarray:
    """How often each text is read as a query: questions mostly, long texts and paragraphs rarely."""
    last = english.ids[np.maximum(np.cumsum(english.lengths) - 1, 0)]
    shares = np.select(
        [english.lengths > LONGEST_QUESTION, last == QUESTION_MARK, english.lengths <= LONGEST_KEYWORDS],
        [QUERY_SHARES["long"], QUERY_SHARES["question"], QUERY_SHARES["short"]],
        QUERY_SHARES["sentence"],
    )
    return np.concatenate([shares, np.full(paragraphs, QUERY_SHARES["long"])])


def _greedy(word: list[str], table: dict[str, int]) -> list[int]:
    """The pieces of one word by longest match, as WordPiece does it."""
    if word[0] in UNSPELT:
        return [table[word[0]]]
    letters = word[0].removeprefix("##") + "".join(piece.removeprefix("##") for piece in word[1:])
    ids: list[int] = []
    start = 0
    while start < len(letters):
        for end in range(len(letters), start, -1):
            number = table.get(("##" if start else "") + letters[start:end])
            if number is not None:
                ids.append(number)
                start = end
                break
        else:
            return [table["[UNK]"]]
    return ids


def _paragraphs(
    lengths: np.ndarray, arrays: dict[str, np.ndarray], draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The sentences that become paragraphs, in order, and the paragraph of each."""
    long = np.flatnonzero(lengths >= LEAST_TOKENS)
    kind = arrays["language"][long].astype(np.int64) * 256 + arrays["source"][long]
    long = long[np.argsort(kind, kind="stable")]
    kind = np.sort(kind)
    sizes = draw.choice(PARAGRAPH_SENTENCES, len(long))
    group = np.repeat(np.arange(len(sizes)), sizes)[: len(long)]
    changed = (np.diff(group) != 0) | (np.diff(kind) != 0)
    group = np.concatenate([[0], np.cumsum(changed)])
    several = np.bincount(group)[group] > 1
    return long[several], np.unique(group[several], return_inverse=True)[1]


def _assembled(
    bodies: Bodies, segments: np.ndarray, text: np.ndarray, head: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, starts and lengths of texts made of segments; `text` is sorted."""
    starts = np.cumsum(bodies.lengths) - bodies.lengths
    # Behind each segment comes the end of the text, or a full stop unless the segment has one.
    last = np.append(np.diff(text) != 0, True)
    stopped = np.isin(bodies.ids[np.maximum(starts + bodies.lengths - 1, 0)], STOPS)[segments]
    room = bodies.lengths[segments] + (last | ~stopped)
    lengths = np.bincount(text, room).astype(np.int64) + HEAD
    ends = np.cumsum(lengths)
    begins = ends - lengths
    ids = np.full(ends[-1], STOP, np.int32)
    before = np.cumsum(room) - room
    first = np.searchsorted(text, np.arange(len(lengths)))
    place = begins[text] + HEAD + before - before[first[text]]
    size = bodies.lengths[segments]
    inner = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    ids[np.repeat(place, size) + inner] = bodies.ids[np.repeat(starts[segments], size) + inner]
    ids[begins], ids[ends - 1] = BEGIN, END
    ids[begins + 1], ids[begins + 2] = PREFIXES[head].T
    column = np.arange(len(ids)) - np.repeat(begins, lengths)
    kept = (column < WINDOW_TOKENS - 1) | (column == np.repeat(lengths, lengths) - 1)
    lengths = np.minimum(lengths, WINDOW_TOKENS)
    return ids[kept], np.cumsum(lengths) - lengths, lengths

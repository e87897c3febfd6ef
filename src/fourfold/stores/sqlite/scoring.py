"""BM25 over documents kept as arrays of term hashes: exact scores for any rows, whoever proposed them.

tantivy only proposes. Scores come from here, from the live rows' own statistics, in double precision, so they do not
depend on the order of writes, on deletions that an index still carries, or on an engine's rounding of lengths.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fourfold.search import bm25
from fourfold.stores.keyword_query import KeywordQuery
from fourfold.stores.sqlite.rows import NONE, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.stores.sqlite.rows import Floats, Ints

    Terms = NDArray[np.uint32]


def term_hash(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True)
class Documents(Rows):
    """Rows with their terms in order."""

    ends: Ints
    """Row r's terms are terms[ends[r - 1]:ends[r]]."""
    terms: Terms

    @staticmethod
    def empty() -> Documents:
        return Documents(NONE, np.empty(0, np.bool_), NONE, np.empty(0, np.uint32))

    @cached_property
    def lengths(self) -> Ints:
        return np.diff(self.ends, prepend=0)

    @cached_property
    def total(self) -> int:
        """Terms in live rows."""
        return int(self.lengths[self.live].sum())

    def gather(self, rows: Ints) -> tuple[Terms, Ints]:
        """The terms of these rows in one array, and for each term the position in `rows` that it belongs to."""
        lengths = self.lengths[rows]
        owner = np.repeat(np.arange(len(rows)), lengths)
        before = np.cumsum(lengths) - lengths
        places = np.arange(len(owner)) + (self.ends[rows] - lengths - before)[owner]
        return self.terms[places], owner


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of some rows, and the share of the query's idf that each row's words carry."""

    scores: Floats
    coverage: Floats


def score(documents: Documents, rows: Ints, query: KeywordQuery, average_length: float) -> Scored:
    if not len(rows):
        return Scored(np.empty(0), np.empty(0))
    terms, owner = documents.gather(rows)
    norm = bm25.K1 * (1 - bm25.B + bm25.B * documents.lengths[rows] / (average_length or 1.0))
    total, covered = np.zeros(len(rows)), np.zeros(len(rows))
    for word in query.words:
        best = np.zeros(len(rows))
        for term, worth in zip(word.terms, word.values, strict=True):
            tf = np.bincount(owner[terms == term_hash(term)], minlength=len(rows))
            np.maximum(best, worth * (tf * (bm25.K1 + 1) / (tf + norm)), out=best)
        total += best
        covered += np.where(best > 0, word.idf, 0.0)
    return Scored(total, covered / (query.weight or 1.0))


def frequencies(documents: Documents, rows: Ints, hashes: Sequence[int]) -> list[int]:
    """In how many of these rows each term stands."""
    if not len(rows):
        return [0] * len(hashes)
    terms, owner = documents.gather(rows)
    return [len(np.unique(owner[terms == hashed])) for hashed in hashes]


def holders(documents: Documents, rows: Ints) -> dict[int, int]:
    """Term hash to the number of these rows that have it."""
    terms, owner = documents.gather(rows)
    pairs = np.unique(owner.astype(np.uint64) << np.uint64(32) | terms)
    hashes, counts = np.unique(pairs & np.uint64(0xFFFFFFFF), return_counts=True)
    return dict(zip(hashes.tolist(), counts.tolist(), strict=True))


def append(documents: Documents, ids: Sequence[int], texts: Sequence[Sequence[int]]) -> Documents:
    """Rows added at the end."""
    lengths = np.array([len(text) for text in texts], np.int64)
    start = documents.ends[-1] if len(documents) else 0
    flat = np.fromiter((term for text in texts for term in text), np.uint32, count=int(lengths.sum()))
    return Documents(
        np.concatenate([documents.ids, np.array(ids, np.int64)]),
        np.concatenate([documents.dead, np.zeros(len(ids), np.bool_)]),
        np.concatenate([documents.ends, start + np.cumsum(lengths)]),
        np.concatenate([documents.terms, flat]),
    )

"""BM25 over documents kept as arrays of term hashes: exact scores for any rows, whoever proposed them.

tantivy only proposes. Scores come from here, from the live rows' own statistics, in double precision, so they do not
depend on the order of writes, on deletions that an index still carries, or on an engine's rounding of lengths.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from fourfold import native
from fourfold.search import bm25
from fourfold.stores.keyword_query import KeywordQuery
from fourfold.stores.sqlite.files import Damaged
from fourfold.stores.sqlite.rows import NONE, Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.stores.sqlite.rows import Floats, Ints

    Terms = NDArray[np.uint32]

_REMEMBERED_HASHES = 200_000


def term_hash(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


class _Hashes(dict[str, int]):
    """Of the terms met so far."""

    def __missing__(self, term: str) -> int:
        hashed = term_hash(term)
        if len(self) >= _REMEMBERED_HASHES:
            self.clear()
        self[term] = hashed
        return hashed


_HASHES = _Hashes()


def term_hashes(terms: Iterable[str]) -> list[int]:
    """Of many terms, most of which were there before."""
    return list(map(_HASHES.__getitem__, terms))


@dataclass(frozen=True)
class Documents(Rows):
    """Rows with their terms in order."""

    ends: Ints
    """Row r's terms are terms[ends[r - 1]:ends[r]]."""
    terms: Terms
    sums: Terms | None = None
    """What the terms of each row must add up to, where they are mapped and may change after they were verified."""

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

    def gather(self, rows: Ints) -> Gathered:
        """The terms of these rows in one array. Damaged if they are not what was written."""
        lengths = self.lengths[rows]
        bounds = np.cumsum(lengths)
        if rows is self.live and len(rows) == len(self):  # the same rows in another order are not the same
            return self._sound(Gathered(self.terms, bounds), rows)
        places = np.repeat(self.ends[rows] - bounds, lengths)
        places += np.arange(len(places))
        return self._sound(Gathered(self.terms.take(places), bounds), rows)

    def _sound(self, found: Gathered, rows: Ints) -> Gathered:
        if self.sums is not None and not np.array_equal(native.term_sums(found.terms, found.bounds), self.sums[rows]):
            raise Damaged("terms are not what was written")
        return found


@dataclass(frozen=True, slots=True)
class Gathered:
    terms: Terms
    bounds: Ints
    """Where each row's terms end."""

    def rows_with(self, hashed: int) -> Ints:
        """For each place of a term, which of the gathered rows it is in."""
        return np.searchsorted(self.bounds, np.flatnonzero(self.terms == hashed), side="right")


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of some rows, and the share of the query's idf that each row's words carry."""

    scores: Floats
    coverage: Floats


@dataclass(frozen=True, slots=True)
class Sought:
    """A query as the kernel takes it: the hashes of all variants of its words, and what each is worth."""

    query: KeywordQuery
    columns: tuple[Terms, Floats, NDArray[np.int32], NDArray[np.int32], Floats]
    weight: float


def sought(query: KeywordQuery) -> Sought:
    hashes = term_hashes(query.terms)
    first: dict[int, int] = {}
    same = [first.setdefault(hashed, place) for place, hashed in enumerate(hashes)]
    columns = (
        np.array(hashes, np.uint32),
        np.array([value for word in query.words for value in word.values]),
        np.array(same, np.int32),
        np.array(list(accumulate((len(word.terms) for word in query.words), initial=0)), np.int32),
        np.array([word.idf for word in query.words]),
    )
    return Sought(query, columns, query.weight or 1.0)


def score(documents: Documents, rows: Ints, wanted: Sought, average_length: float) -> Scored:
    """Of the variants of a word, the one that is worth most in a row counts there."""
    if not len(rows) or not wanted.query.words:
        return Scored(np.zeros(len(rows)), np.zeros(len(rows)))
    try:
        constants = (bm25.K1, bm25.B, float(bm25.BASE_LENGTH))
        texts = (documents.terms, documents.ends, documents.sums)
        return Scored(*native.bm25(texts, rows, wanted.columns, wanted.weight, average_length, constants))
    except native.OutOfRange as error:
        raise Damaged("terms are not what was written") from error


def frequencies(documents: Documents, rows: Ints, hashes: Sequence[int]) -> list[int]:
    """In how many of these rows each term stands."""
    if not len(rows):
        return [0] * len(hashes)
    found = documents.gather(rows)
    return [len(np.unique(found.rows_with(hashed))) for hashed in hashes]


def holders(documents: Documents, rows: Ints) -> dict[int, int]:
    """Term hash to the number of these rows that have it."""
    found = documents.gather(rows)
    owner = np.repeat(np.arange(len(rows), dtype=np.uint64), documents.lengths[rows])
    pairs = np.unique(owner << np.uint64(32) | found.terms)
    hashes, counts = np.unique(pairs & np.uint64(0xFFFFFFFF), return_counts=True)
    return dict(zip(hashes.tolist(), counts.tolist(), strict=True))


def append(documents: Documents, ids: Sequence[int], texts: Sequence[Terms]) -> Documents:
    """Rows added at the end."""
    lengths = np.array([len(text) for text in texts], np.int64)
    start = documents.ends[-1] if len(documents) else 0
    return Documents(
        np.concatenate([documents.ids, np.array(ids, np.int64)]),
        np.concatenate([documents.dead, np.zeros(len(ids), np.bool_)]),
        np.concatenate([documents.ends, start + np.cumsum(lengths)]),
        np.concatenate([documents.terms, *texts]),
    )

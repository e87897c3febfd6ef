"""Rows of an index, and the exact BM25 of those that hold texts as arrays of term hashes.

Each row belongs to an item; a row never changes, but it can die. Texts are scored in double precision, with the
statistics of the live rows, so scores do not depend on the order of writes, or on deleted rows that an index still has.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from fourfold.index.segment_files import Damaged
from fourfold.native import bindings
from fourfold.native.bindings import Postings, RowsPart, Scorer, Scores, rows_part, with_postings
from fourfold.retrieval import Hits, Numbers, Ranking
from fourfold.text import bm25
from fourfold.text.keyword_query import KeywordQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Terms = NDArray[np.uint32]
    Matrix = NDArray[np.float32]

NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class Rows:
    ids: Ints
    """The item of each row. An item that changed has several rows, of which at most the last is alive."""
    dead: Flags
    _KEPT: ClassVar = ("_order", "_sorted", "columns", "lengths")
    """Cached properties that do not change when a row dies."""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def alive(self) -> Flags:
        return ~self.dead

    @cached_property
    def live(self) -> Ints:
        return np.flatnonzero(self.alive)

    @cached_property
    def all_live(self) -> bool:
        return len(self.live) == len(self)

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.ids, kind="stable")

    @cached_property
    def _sorted(self) -> Ints:
        return self.ids[self._order]

    @cached_property
    def _places(self) -> bindings.RowColumns:
        return bindings.RowColumns(self._sorted, self._order, self.dead)

    @cached_property
    def columns(self) -> bindings.TextColumns | bindings.VectorColumns:
        """What the rows hold."""
        raise NotImplementedError

    @cached_property
    def part(self) -> RowsPart:
        """What the kernel finds and scores items by, if each has one row."""
        return rows_part(self._places, self.ids, self.columns) if len(self) else RowsPart()

    def find(self, ids: Ints) -> Ints:
        """The live rows of these items; some may have none."""
        return bindings.find(self._places, ids) if len(self.ids) else NONE

    def permitted(self, allowed: Ints | None) -> Ints:
        """The live rows of the allowed items; all live rows if None."""
        return self.live if allowed is None else self.find(allowed)

    def mask(self, allowed: Ints | None) -> Flags:
        """The live rows of the allowed items, as flags."""
        if allowed is None:
            return self.alive
        mask = np.zeros(len(self.ids), np.bool_)
        mask[self.find(allowed)] = True
        return mask

    def without(self, rows: Ints) -> Self:
        """The same rows with these marked as dead."""
        if not len(rows):
            return self
        dead = self.dead.copy()
        dead[rows] = True
        copy = replace(self, dead=dead)
        copy.__dict__.update({name: self.__dict__[name] for name in self._KEPT if name in self.__dict__})
        return copy


SAMPLE = 512


def in_sample(ids: Ints, count: int) -> Flags:
    """Flags the items that are in the sample of `count` items, which has between half of SAMPLE and SAMPLE members.

    Chosen by id alone, so that all stores and processes choose the same ones.
    """
    level = max(0, int(np.ceil(np.log2(max(count, 1) / SAMPLE))))
    mixed = (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    return mixed & np.uint64((1 << level) - 1) == 0


# ---------------------------------------------------------------- texts

_CACHED_HASHES = 200_000


def term_hash(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def term_hashes(terms: Iterable[str]) -> list[int]:
    return [*map(_HASHES.__getitem__, terms)]


class _Hashes(dict[str, int]):
    """Cache of term hashes."""

    def __missing__(self, term: str) -> int:
        hashed = term_hash(term)
        if len(self) >= _CACHED_HASHES:
            self.clear()
        self[term] = hashed
        return hashed


_HASHES = _Hashes()


@dataclass(frozen=True)
class Documents(Rows):
    """Rows with their terms in order."""

    ends: Ints
    """Row r's terms are terms[ends[r - 1]:ends[r]]."""
    terms: Terms
    postings: Postings | None = None
    """The same terms by hash, if the rows are published."""

    @staticmethod
    def empty() -> Documents:
        return Documents(NONE, np.empty(0, np.bool_), NONE, np.empty(0, np.uint32))

    @cached_property
    def columns(self) -> bindings.TextColumns:
        return bindings.TextColumns(self.terms, self.ends)

    @cached_property
    def part(self) -> RowsPart:
        part = super().part
        return part if self.postings is None else with_postings(part, self.postings, self.lengths)

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        return np.diff(self.ends, prepend=0).astype(np.int32)

    @cached_property
    def total(self) -> int:
        """Terms in live rows."""
        return int(self.lengths[self.live].sum())

    def gather(self, rows: Ints) -> Gathered:
        """The terms of these rows in one array."""
        lengths = self.lengths[rows]
        bounds = np.cumsum(lengths, dtype=np.int64)
        if rows is self.live and len(rows) == len(self):  # identity, not equality: the order of the rows matters
            return Gathered(self.terms, bounds)
        places = np.repeat(self.ends[rows] - bounds, lengths)
        places += np.arange(len(places))
        return Gathered(self.terms.take(places), bounds)


@dataclass(frozen=True, slots=True)
class Gathered:
    terms: Terms
    bounds: Ints
    """Where the terms of each row end."""

    def rows_with(self, hashed: int) -> Ints:
        """The position, among the gathered rows, of the row of each occurrence of a term."""
        return np.searchsorted(self.bounds, np.flatnonzero(self.terms == hashed), side="right")


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of some items, and the share of the query's idf that the words of each have."""

    ids: Ints
    scores: Floats
    coverage: Floats

    def ranking(self, query: KeywordQuery, order: Ints | None = None) -> Ranking:
        """All items, or those at these places."""
        places = slice(None) if order is None else order
        ids = self.ids[places]
        return Ranking(
            Hits(ids, self.scores[places]),
            notes=query.notes,
            evidence=Numbers((Hits(ids, self.coverage[places]),)),
            unknown=query.unknown_share,
            items=query.documents,
            code=query.code,
            foreign=query.foreign,
        )


class PreparedQuery(NamedTuple):
    """A query in the form that the kernel takes: the hashes of all variants of its words, and their values."""

    query: KeywordQuery
    columns: bindings.QueryColumns


def prepare(query: KeywordQuery) -> PreparedQuery:
    hashes: list[int] = []
    same: list[int] = []
    values: list[float] = []
    ends = [0]
    first: dict[int, int] = {}
    for word in query.words:
        for hashed in term_hashes(word.terms):
            same.append(first.setdefault(hashed, len(hashes)))
            hashes.append(hashed)
        values += word.values
        ends.append(len(hashes))
    columns = bindings.QueryColumns(hashes, values, same, ends, [word.idf for word in query.words])
    return PreparedQuery(query, columns)


BM25 = (bm25.K1, bm25.B, float(bm25.BASE_LENGTH))


def score(parts: Iterable[tuple[Documents, Ints]], prepared: PreparedQuery, average_length: float) -> Scored:
    """BM25 of some rows of each part. Of the variants of a word, the one with the highest value in a row counts."""
    scored = (prepared.columns, prepared.query.weight or 1.0, average_length, BM25)
    try:
        scores_of_parts = [
            (texts.ids[rows], *bindings.bm25(texts.columns, rows, *scored)) for texts, rows in parts if len(rows)
        ]
    except bindings.OutOfRange as error:
        raise Damaged("a row ends behind the last term") from error
    if len(scores_of_parts) == 1:
        return Scored(*scores_of_parts[0])
    ids, scores, coverage = zip(_NO_SCORES, *scores_of_parts, strict=True)
    return Scored(np.concatenate(ids), np.concatenate(scores), np.concatenate(coverage))


# ---------------------------------------------------------------- what a query scores rows by


class VectorScorer:
    """Scores rows by cosines with a vector."""

    def __init__(self, query: Matrix, parts: tuple[RowsPart, RowsPart], *, alone: bool) -> None:
        """`alone`: whether the query and each item have one vector only."""
        self.query = query
        self.alone = alone
        self.kernel = Scorer.by_vector(parts, query)

    def ranking(self, scores: Scores) -> Ranking:
        return Ranking(Hits(scores.ids, scores.scores))


class WordScorer:
    """Scores rows by BM25 of words."""

    alone: ClassVar[bool] = True

    def __init__(self, query: PreparedQuery, parts: tuple[RowsPart, RowsPart], average_length: float) -> None:
        self.query = query
        self.kernel = Scorer.by_words(parts, query.columns, query.query.weight or 1.0, average_length, BM25)

    def ranking(self, scores: Scores) -> Ranking:
        return Scored(*scores).ranking(self.query.query)


Scorers: TypeAlias = Mapping[str, VectorScorer | WordScorer]
"""By retriever."""


_NO_SCORES = (NONE, np.empty(0), np.empty(0))


def frequencies(documents: Documents, rows: Ints, hashes: Sequence[int]) -> list[int]:
    """Number of these rows that contain each term. The time hardly depends on the number of terms."""
    if not len(rows):
        return [0] * len(hashes)
    gathered = documents.gather(rows)
    wanted, places = np.unique(np.array(hashes, np.uint32), return_inverse=True)
    if not len(wanted):
        return []
    nearest = np.minimum(np.searchsorted(wanted, gathered.terms), len(wanted) - 1)
    matches = np.flatnonzero(wanted[nearest] == gathered.terms)
    owners = np.searchsorted(gathered.bounds, matches, side="right")
    pairs = np.unique(nearest[matches] * len(rows) + owners)
    return np.bincount(pairs // len(rows), minlength=len(wanted))[places].tolist()


def row_counts(documents: Documents, rows: Ints) -> dict[int, int]:
    """By term hash, the number of these rows that contain the term."""
    gathered = documents.gather(rows)
    owner = np.repeat(np.arange(len(rows), dtype=np.uint64), documents.lengths[rows])
    pairs = np.unique(owner << np.uint64(32) | gathered.terms)
    hashes, counts = np.unique(pairs & np.uint64(0xFFFFFFFF), return_counts=True)
    return dict(zip(hashes.tolist(), counts.tolist(), strict=True))


def append(documents: Documents, ids: Sequence[int], lengths: Sequence[int], terms: Sequence[Terms]) -> Documents:
    """The documents with rows added at the end. `terms`: all terms of the rows, in any number of arrays."""
    start = documents.ends[-1] if len(documents) else 0
    return Documents(
        np.concatenate([documents.ids, np.array(ids, np.int64)]),
        np.concatenate([documents.dead, np.zeros(len(ids), np.bool_)]),
        np.concatenate([documents.ends, start + np.cumsum(lengths, dtype=np.int64)]),
        np.concatenate([documents.terms, *terms]),
    )

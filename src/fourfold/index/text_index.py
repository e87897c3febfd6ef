"""Keyword search of one namespace: a published segment, and the changes since as a tail in memory.

Rows of the segment are found by their postings; the whole tail is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import islice, pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fourfold.index import rows, segment_files
from fourfold.index.locks import ReadLock
from fourfold.index.log_tail import DEFAULT, Change, IndexTuning, Source, SourceSnapshot, TailedIndex, TextRow
from fourfold.index.rows import (
    NONE,
    Documents,
    PreparedQuery,
    WordScorer,
    row_counts,
    term_hash,
    term_hashes,
)
from fourfold.index.segment_files import Column, Damaged, Manifest, Part
from fourfold.native import bindings
from fourfold.native.bindings import Block, OutOfRange, Postings, invert
from fourfold.retrieval import Ranking
from fourfold.scheduling import paced
from fourfold.text.analysis import ANALYSER_VERSION, code_share
from fourfold.text.batch import analyse_together, split_letters
from fourfold.text.compounds import Lexicon, SortedLexicon
from fourfold.text.keyword_query import KnownWords, keyword_query

if TYPE_CHECKING:
    from fourfold.index.rows import Flags, Ints, Terms


# ---------------------------------------------------------------- postings
#
# Files of postings: for each term the published rows that contain it, and how often.
#
# Each file has the postings of adjacent rows. Publications write a new one, and merge the last ones into it where that
# is cheap, so that a search reads few files. A file is a series of blocks, each for a range of term hashes, so that
# making them takes little memory; the numbers of a block are stored before its columns.

_NAME: Final = "postings"
_BLOCK_TERMS: Final = 1 << 22
"""Occurrences of terms that are sorted at a time."""
_HASHES: Final = 1 << 32
_LARGER: Final = 2
"""A file is merged with the next one unless it has more than this many times the rows."""
_ALIGNMENT: Final = 8
_HEADER: Final = 4
"""Numbers before the columns: first row, end row, terms, postings."""


class Span(NamedTuple):
    """The rows of a file, which is named by them."""

    first_row: int
    end_row: int

    @property
    def name(self) -> str:
        return f"{_NAME}-{self.first_row}-{self.end_row}"


def posting_spans(manifest: Manifest | None) -> list[Span]:
    """The files of a publication, ordered by their rows. Raises Damaged if they do not have every row once."""
    names = [name.split("-") for name in (manifest.parts if manifest is not None else ()) if name.startswith(_NAME)]
    spans = sorted(Span(int(first), int(end)) for _, first, end in names)
    bounds = [0, *(span.end_row for span in spans)]
    if [span.first_row for span in spans] != bounds[:-1] or bounds[-1] != (0 if manifest is None else manifest.rows):
        raise Damaged("postings of some rows are missing")
    return spans


def continued_spans(spans: list[Span], end_row: int) -> tuple[list[Span], Span]:
    """The files to keep when rows up to `end_row` are added, and the one to write."""
    kept = list(spans)
    first = kept[-1].end_row if kept else 0
    while kept and kept[-1].end_row - kept[-1].first_row <= _LARGER * (end_row - first):
        first = kept.pop().first_row
    return kept, Span(first, end_row)


def write_postings(folder: Path, span: Span, terms: Terms, ends: Ints) -> Part:
    """Writes the postings of some rows from the terms of all rows."""
    with closing(Column(folder / span.name, Part())) as file:
        for block in _made(span, terms, ends):
            file.append(np.array([*span, len(block.hashes), len(block.rows)], np.int64))
            for column in (block.hashes, block.ends, block.rows, block.counts):
                file.append(column)
            file.append(np.zeros(-_size(len(block.hashes), len(block.rows)) % _ALIGNMENT, np.uint8))
        file.sync()
        return file.part


def _made(span: Span, terms: Terms, ends: Ints) -> Iterator[Block]:
    count = int(ends[span.end_row - 1]) - (int(ends[span.first_row - 1]) if span.first_row else 0)
    pieces = max(1, -(-count // _BLOCK_TERMS))
    bounds = [_HASHES * piece // pieces for piece in range(pieces + 1)]
    for lowest, end in pairwise(bounds):
        yield invert(terms, ends, *span, lowest, end - 1)


def postings_agree(postings: Postings, terms: Terms, ends: Ints) -> bool:
    """Whether the postings are those of these terms."""
    spans = dict.fromkeys(Span(block.first_row, block.end_row) for block in postings.blocks)
    expected = (block for span in spans for block in _made(span, terms, ends))
    return all(
        block is not None and true is not None and all(map(np.array_equal, block, true))
        for block, true in zip_longest(postings.blocks, expected)
    )


def _size(terms: int, postings: int) -> int:
    return 8 * terms + 5 * postings


def read_postings(folder: Path, files: Iterable[Span], manifest: Manifest) -> Postings:
    """Maps the postings. Raises Damaged if a file does not have the form of one."""
    return Postings([block for span in files for block in _blocks(folder, span, manifest.parts[span.name].size)])


def _blocks(folder: Path, span: Span, size: int) -> Iterator[Block]:
    content = np.asarray(np.memmap(folder / span.name, np.uint8, "r", shape=(size,))) if size else np.empty(0, np.uint8)
    at = 0
    while at < size:
        if at + 8 * _HEADER > size:
            raise Damaged(f"{span.name} ends within a block")
        *rows, terms, postings = content[at : at + 8 * _HEADER].view(np.int64).tolist()
        at += 8 * _HEADER
        if tuple(rows) != span or min(terms, postings) < 0 or _size(terms, postings) > size - at:
            raise Damaged(f"{span.name} has a block of other rows, or ends within one")
        columns: list[Terms] = []
        for length in (terms, terms, postings):
            columns.append(content[at : at + 4 * length].view(np.uint32))
            at += 4 * length
        hashes, ends, rows_of_terms = columns
        yield Block(*span, hashes, ends, rows_of_terms, content[at : at + postings])
        at += postings + -_size(terms, postings) % _ALIGNMENT


# ---------------------------------------------------------------- published segment
#
# The published part of a keyword index: columns of term hashes, their postings, and German words.


@dataclass(frozen=True)
class TextSegment:
    """Immutable. A newer publication is a new object."""

    documents: Documents
    seq: int
    manifest: Manifest | None = None
    german: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of live German rows that contain each term."""
    is_german: Flags = field(default_factory=lambda: np.empty(0, np.bool_))
    """Flags the German rows."""
    dead_counts: dict[int, int] = field(default_factory=dict[int, int])
    """By term hash, the number of dead rows, which the postings still have."""
    lock: ReadLock | None = None
    damage: str = ""
    """Why the published files cannot be used; the segment is then empty."""

    @staticmethod
    def empty(damage: str = "") -> TextSegment:
        return TextSegment(Documents.empty(), 0, damage=damage)

    @staticmethod
    def load(folder: Path, store: str) -> TextSegment:
        """Opens and verifies the published files. Without usable ones the segment is empty."""
        try:
            return segment_files.load(folder, store, ANALYSER_VERSION, _opened) or TextSegment.empty()
        except Damaged as error:
            return TextSegment.empty(str(error))

    # ------------------------------------------------------------ German words

    @cached_property
    def lexicon(self) -> SortedLexicon:
        return SortedLexicon(self.german)

    def german_losses(self, rows: Ints) -> dict[str, int]:
        """By term, the number of these rows that are German and contain it."""
        lost = row_counts(self.documents, rows[self.is_german[rows]]) if len(rows) else {}
        return {term: lost[hashed] for hashed in lost for term in self._german_by_hash.get(hashed, ())}

    @cached_property
    def _german_by_hash(self) -> dict[int, list[str]]:
        terms: dict[int, list[str]] = {}
        for term in self.german:
            terms.setdefault(term_hash(term), []).append(term)
        return terms

    # ------------------------------------------------------------ postings

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """Number of live rows that contain each term."""
        hashes = term_hashes(terms)
        if (published := self.documents.postings) is None:
            return [0] * len(hashes)
        try:
            counts = published.frequencies(hashes)
        except bindings.OutOfRange as error:
            raise Damaged("postings are damaged") from error
        if not self.dead_counts:
            return counts
        return [count - self.dead_counts.get(hashed, 0) for hashed, count in zip(hashes, counts, strict=True)]

    def containing(self, groups: Sequence[Collection[str]]) -> Ints:
        """The rows that contain at least one term of every group, ascending."""
        if (published := self.documents.postings) is None or not groups:
            return NONE
        rows = [np.concatenate([NONE, *map(published.rows_with, term_hashes(group))]) for group in groups]
        return reduce(np.intersect1d, rows[1:], np.unique(rows[0]))


_IN_MEMORY = ("ids", "dead", "ends", "spoken", "german")
"""Files that are read into memory; terms and postings are mapped."""


def _opened(folder: Path, manifest: Manifest) -> TextSegment:
    lock = ReadLock(folder)
    segment_files.require(manifest, *_IN_MEMORY, "terms")
    content = {
        name: segment_files.read(folder / name, manifest.parts[name], whole=name == "german") for name in _IN_MEMORY
    }
    files = posting_spans(manifest)
    for name in ("terms", *(span.name for span in files)):
        segment_files.verify(folder / name, manifest.parts[name], whole=name != "terms")
    documents = replace(_documents(folder, manifest, content), postings=read_postings(folder, files, manifest))
    dead_counts = row_counts(documents, np.flatnonzero(documents.dead))
    is_german = np.frombuffer(content["spoken"], np.bool_)
    german = _german(content["german"].decode())
    return TextSegment(documents, manifest.seq, manifest, german, is_german, dead_counts, lock)


def _documents(folder: Path, manifest: Manifest, content: Mapping[str, bytes]) -> Documents:
    ids, ends = (np.frombuffer(content[name], np.int64) for name in ("ids", "ends"))
    dead = np.frombuffer(content["dead"], np.bool_)
    if not len(ids) == len(ends) == len(dead) == manifest.rows:
        raise Damaged("the columns have different lengths")
    count = manifest.parts["terms"].size // np.dtype(np.uint32).itemsize
    if len(ends) and (ends[-1] > count or (np.diff(ends, prepend=0) < 0).any()):
        raise Damaged("a row ends behind the last term")
    return Documents(ids, dead, ends, mapped_terms(folder, count))


def mapped_terms(folder: Path, count: int) -> Terms:
    return np.asarray(np.memmap(folder / "terms", np.uint32, "r", shape=(count,))) if count else np.empty(0, np.uint32)


def _german(content: str) -> dict[str, int]:
    return {term: int(count) for term, count in (line.split(" ") for line in content.splitlines())}


# ---------------------------------------------------------------- the terms by which items are indexed

_BATCH_ITEMS = 100


class ItemTerms(NamedTuple):
    id: int
    language: str
    hashes: Terms
    """Hashes of the terms, in order."""
    letters: str
    """The terms of a German item, with a space after each."""

    @property
    def german_terms(self) -> list[str]:
        return self.letters.split()


class TermColumns(NamedTuple):
    """The terms of several items in one language."""

    ids: list[int]
    language: str
    hashes: Terms
    ends: Ints
    """Where the hashes of each item end."""
    letters: list[str]
    """The terms of each German item, with a space after each; empty for others, of which only the hashes are used."""

    @property
    def lengths(self) -> list[int]:
        return np.diff(self.ends, prepend=0).tolist()

    def german_terms(self) -> dict[int, tuple[str, ...]]:
        """The terms of the German items."""
        return {id: tuple(own.split()) for id, own in zip(self.ids, self.letters, strict=True) if self.language == "de"}


def item_terms(texts: Sequence[TextRow]) -> Iterator[ItemTerms]:
    """Analyses texts, in their order."""
    by_item: dict[int, ItemTerms] = {}
    for columns in term_columns(texts):
        bounds = zip(columns.ids, pairwise([0, *columns.ends.tolist()]), columns.letters, strict=True)
        by_item.update({id: ItemTerms(id, columns.language, columns.hashes[a:b], own) for id, (a, b), own in bounds})
    return (by_item[id] for id, *_ in texts)


def term_columns(texts: Sequence[TextRow]) -> Iterator[TermColumns]:
    """Analyses texts, grouped by language and in their order within each; bulk work yields after every 100."""
    for language in dict.fromkeys(language for *_, language in texts):
        own = [row for row in texts if row[3] == language]
        for start in paced(range(0, len(own), _BATCH_ITEMS)):
            ids = iter(own[start : start + _BATCH_ITEMS])
            for analysed in analyse_together([row[1:3] for row in own[start : start + _BATCH_ITEMS]], language):
                some = [id for id, *_ in islice(ids, len(analysed.hash_ends))]
                letters = split_letters(analysed) if language == "de" else [""] * len(some)
                yield TermColumns(some, language, analysed.hashes, analysed.hash_ends, letters)


# ---------------------------------------------------------------- German words, in which compounds are looked up


class LayeredLexicon:
    """The words of the published rows, without those that only dead rows had, and the words of the tail.

    Equals one sorted lexicon of all live rows, without sorting the published words at every change.
    """

    def __init__(self, published: SortedLexicon, extinct: frozenset[str], tail: SortedLexicon) -> None:
        self._published: Final = published
        self._extinct: Final = extinct
        self._tail: Final = tail

    def __contains__(self, term: object, /) -> bool:
        return term in self._tail or (term in self._published and term not in self._extinct)

    def starting(self, prefix: str, limit: int) -> Sequence[str]:
        terms = self._published.starting(prefix, limit + len(self._extinct)), self._tail.starting(prefix, limit)
        return self._first(*terms, limit, str)

    def ending(self, suffix: str, limit: int) -> Sequence[str]:
        terms = self._published.ending(suffix, limit + len(self._extinct)), self._tail.ending(suffix, limit)
        return self._first(*terms, limit, _reversed)

    def containing(self, part: str, limit: int) -> Sequence[str]:
        terms = self._published.containing(part, limit + len(self._extinct)), self._tail.containing(part, limit)
        return self._first(*terms, limit, str)

    def _first(
        self, published: Sequence[str], tail: Sequence[str], limit: int, order: Callable[[str], str]
    ) -> Sequence[str]:
        return sorted({*published} - self._extinct | {*tail}, key=order)[:limit]


def _reversed(term: str) -> str:
    return term[::-1]


_CACHED_QUERIES = 64


@dataclass(frozen=True)
class TextState:
    """The texts of a namespace as of change `seq`."""

    segment: TextSegment
    published: Documents
    """The segment's rows; those that died since are marked as dead."""
    died: Ints
    """The rows of the segment that died since."""
    tail: Documents
    seq: int
    tuning: IndexTuning = DEFAULT
    german: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    """The terms of the German items in the tail."""
    prepared: dict[str, PreparedQuery] = field(default_factory=dict[str, PreparedQuery])
    """Cache of queries by their text."""
    words: KnownWords = field(default_factory=KnownWords)
    """Cache of the words of queries."""

    @cached_property
    def documents(self) -> int:
        return len(self.published.live) + len(self.tail.live)

    @cached_property
    def average_length(self) -> float:
        return (self.published.total + self.tail.total) / max(self.documents, 1)

    @cached_property
    def lexicon(self) -> Lexicon:
        """The words of the live German items, in which compounds are looked up."""
        segment = self.segment
        losses = segment.german_losses(self.died)
        extinct = {term for term, lost in losses.items() if lost >= segment.german[term]}
        tail = SortedLexicon(term for terms in self.german.values() for term in terms)
        return LayeredLexicon(segment.lexicon, frozenset(extinct), tail)

    @cached_property
    def code_share(self) -> float:
        """Share of the items that are source code."""
        return code_share(self.frequencies, self.documents)

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """Number of live rows that contain each term."""
        segment = self.segment.frequencies(terms)
        if not len(self.died) and not len(self.tail.live):
            return segment
        hashes = term_hashes(terms)
        died = rows.frequencies(self.published, self.died, hashes)
        tail = rows.frequencies(self.tail, self.tail.live, hashes)
        return [max(0, b - d) + t for b, d, t in zip(segment, died, tail, strict=True)]

    def query(self, text: str, languages: Mapping[str, int]) -> PreparedQuery:
        """The text as a keyword query; cached, because search and score use the same one."""
        prepared = self.prepared.get(text)
        if prepared is None:
            store = (languages, self.lexicon, self.frequencies, self.documents, self.code_share)
            query = keyword_query(text, *store, self.words)
            prepared = rows.prepare(query)
            if len(self.prepared) >= _CACHED_QUERIES:
                self.prepared.clear()
            self.prepared[text] = prepared
        return prepared


class TextIndex(TailedIndex[TextState]):
    CHANGES = Change.TEXT
    KIND = "text"

    def __init__(self, folder: Path, store: str, source: Source, tuning: IndexTuning) -> None:
        super().__init__(source, tuning)
        self._folder = folder
        self._store = store

    def published(self) -> TextState:
        return self._state_of(TextSegment.load(self._folder, self._store))

    def _empty(self, damage: str = "") -> TextState:
        return self._state_of(TextSegment.empty(damage))

    def _state_of(self, segment: TextSegment) -> TextState:
        return TextState(segment, segment.documents, NONE, Documents.empty(), segment.seq, self.tuning)

    def _updated(self, source: SourceSnapshot, state: TextState, changed: Sequence[int], last: int) -> TextState:
        if not changed:
            return replace(state, seq=last)
        ids, stale = np.array(changed, np.int64), set(changed)
        died = state.published.find(ids)
        fresh = list(term_columns(list(source.texts(changed))))
        tail = state.tail.without(state.tail.find(ids))
        german = {item: terms for item, terms in state.german.items() if item not in stale}
        for columns in fresh:
            german |= columns.german_terms()
        return TextState(
            state.segment,
            state.published.without(died),
            np.concatenate([state.died, died]),
            rows.append(
                tail,
                [id for columns in fresh for id in columns.ids],
                [length for columns in fresh for length in columns.lengths],
                [columns.hashes for columns in fresh],
            ),
            last,
            self.tuning,
            german,
        )


# ---------------------------------------------------------------- searching a state


def search(state: TextState, prepared: PreparedQuery, limit: int, allowed: Ints | None) -> tuple[Ranking, WordScorer]:
    """The best `limit` of the allowed items (all, if None), of the published rows and of the tail; and their scorer."""
    texts, tail = state.published, state.tail.permitted(allowed)
    is_scan = allowed is not None and len(allowed) <= state.tuning.scan_rows
    scanned = texts.permitted(allowed) if is_scan else NONE
    passing = None if is_scan or (allowed is None and texts.all_live) else texts.mask(allowed)
    scorer = WordScorer(prepared, (texts.part, state.tail.part), state.average_length)
    if not prepared.query.words:
        return Ranking(notes=prepared.query.notes), scorer
    try:
        kernel = scorer.kernel
        scores = kernel.best(scanned, tail, limit) if is_scan else kernel.best_words(passing, tail, limit)
    except OutOfRange as error:
        raise Damaged("postings are damaged, or a row ends behind the last term") from error
    return scorer.ranking(scores), scorer


def score(state: TextState, prepared: PreparedQuery, ids: Sequence[int]) -> Ranking:
    """BM25 and coverage of these items; zeros where no word matches."""
    wanted = np.array(ids, np.int64)
    parts = [(each, each.find(wanted)) for each in (state.published, state.tail)]
    return rows.score(parts, prepared, state.average_length).ranking(prepared.query)


def containing(state: TextState, groups: Sequence[Collection[str]]) -> list[int]:
    """Items that contain at least one term of every group."""
    return sorted({*_published_with(state, groups).tolist(), *_tail_with(state, groups).tolist()})


def having(state: TextState, groups: Sequence[Collection[str]], limit: int, allowed: Ints | None) -> list[int]:
    """The same for at most `limit` items, the latest first."""
    if not groups:
        return []
    ids = np.concatenate([_published_with(state, groups), _tail_with(state, groups)])[::-1]
    return (ids if allowed is None else ids[np.isin(ids, allowed)])[:limit].tolist()


def _published_with(state: TextState, groups: Sequence[Collection[str]]) -> Ints:
    matching = state.segment.containing(groups)
    return state.published.ids[matching[~state.published.dead[matching]]]


def _tail_with(state: TextState, groups: Sequence[Collection[str]]) -> Ints:
    tail = state.tail.gather(state.tail.live)
    matches = (np.concatenate([tail.rows_with(term_hash(term)) for term in group]) for group in groups)
    matching = reduce(np.intersect1d, matches, np.arange(len(state.tail.live)))
    return state.tail.ids[state.tail.live[matching]]

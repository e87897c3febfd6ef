"""Keyword search of one namespace: a published segment, and the changes since as a tail in memory.

Rows of the segment are found by their postings; the whole tail is scored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fourfold.index import rows
from fourfold.index.log_tail import TailedIndex
from fourfold.index.rows import (
    NONE,
    Documents,
    PreparedQuery,
    WordScorer,
    term_hash,
    term_hashes,
)
from fourfold.index.segment_files import Damaged
from fourfold.index.source import Change, Source, SourceSnapshot
from fourfold.index.text_segment import LayeredLexicon, TextSegment, term_columns
from fourfold.index.tuning import DEFAULT, IndexTuning
from fourfold.native.bindings import OutOfRange
from fourfold.retrieval import Ranking
from fourfold.text.analysis import code_share
from fourfold.text.compounds import Lexicon, SortedLexicon
from fourfold.text.keyword_query import KnownWords, keyword_query

if TYPE_CHECKING:
    from fourfold.index.rows import Ints

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
        known = self.prepared.get(text)
        if known is None:
            store = (languages, self.lexicon, self.frequencies, self.documents, self.code_share)
            query = keyword_query(text, *store, self.words)
            known = rows.prepare(query)
            if len(self.prepared) >= _CACHED_QUERIES:
                self.prepared.clear()
            self.prepared[text] = known
        return known

    def scorer(self, query: PreparedQuery) -> WordScorer:
        return WordScorer(query, (self.published.part, self.tail.part), self.average_length)


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


def search(state: TextState, scorer: WordScorer, limit: int, allowed: Ints | None) -> Ranking:
    """The best `limit` of the allowed items (all, if None), of the published rows and of the tail."""
    query = scorer.query.query
    if not query.words:
        return Ranking(notes=query.notes)
    texts, tail = state.published, state.tail.permitted(allowed)
    try:
        if allowed is not None and len(allowed) <= state.tuning.scan_rows:
            scores = scorer.kernel.best(texts.permitted(allowed), tail, limit)
        else:
            passing = None if allowed is None and texts.all_live else texts.mask(allowed)
            scores = scorer.kernel.best_words(passing, tail, limit)
    except OutOfRange as error:
        raise Damaged("postings are damaged, or a row ends behind the last term") from error
    return scorer.ranking(scores)


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
    found = np.concatenate([_published_with(state, groups), _tail_with(state, groups)])[::-1]
    return (found if allowed is None else found[np.isin(found, allowed)])[:limit].tolist()


def _published_with(state: TextState, groups: Sequence[Collection[str]]) -> Ints:
    found = state.segment.containing(groups)
    return state.published.ids[found[~state.published.dead[found]]]


def _tail_with(state: TextState, groups: Sequence[Collection[str]]) -> Ints:
    tail = state.tail.gather(state.tail.live)
    matches = (np.concatenate([tail.rows_with(term_hash(term)) for term in group]) for group in groups)
    found = reduce(np.intersect1d, matches, np.arange(len(state.tail.live)))
    return state.tail.ids[state.tail.live[found]]

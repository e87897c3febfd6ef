"""Keyword search of one namespace: a published index, and the changes since as a tail in memory.

tantivy proposes rows of the published part; the tail is scored whole. Both get their exact BM25 from `scoring`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import numpy as np

from fourfold import native
from fourfold.model import Hits, Ranking
from fourfold.stores.keyword_query import keyword_query
from fourfold.stores.sqlite import scoring
from fourfold.stores.sqlite.analysed import analysed
from fourfold.stores.sqlite.following import Follower
from fourfold.stores.sqlite.items import Change
from fourfold.stores.sqlite.lexicon import LayeredLexicon
from fourfold.stores.sqlite.rows import NONE
from fourfold.stores.sqlite.scoring import Documents, Sought, sought, term_hash
from fourfold.stores.sqlite.text_base import TextBase
from fourfold.text.compounds import Lexicon, SortedLexicon

if TYPE_CHECKING:
    from fourfold.stores.sqlite.rows import Flags, Floats, Ints

_SCAN_ROWS = 5000
"""So few rows pass a filter: score them all instead of asking tantivy."""
_SAME = 1e-6
"""A relative difference that may be rounding in single precision."""
_NEARLY = 0.95
"""What tantivy's rounding of lengths leaves of a score, at least."""


@dataclass(frozen=True)
class TextState:
    """What the store's texts were at change `seq`."""

    base: TextBase
    published: Documents
    """The base's rows, without those that died since."""
    died: Ints
    """Those."""
    tail: Documents
    seq: int
    german: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    """German items in the tail with their terms."""
    prepared: dict[str, Sought] = field(default_factory=dict[str, "Sought"])

    @cached_property
    def documents(self) -> int:
        return len(self.published.live) + len(self.tail.live)

    @cached_property
    def average_length(self) -> float:
        return (self.published.total + self.tail.total) / max(self.documents, 1)

    @cached_property
    def lexicon(self) -> Lexicon:
        """The words of the live German items, in which compounds are looked up."""
        extinct = {term for term, rows in self.base.german_losses(self.died).items() if rows >= self.base.german[term]}
        tail = SortedLexicon(term for terms in self.german.values() for term in terms)
        return LayeredLexicon(self.base.lexicon, frozenset(extinct), tail)

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """In how many live rows each term stands."""
        hashes = [term_hash(term) for term in terms]
        base = self.base.frequencies(terms)
        died = scoring.frequencies(self.published, self.died, hashes)
        tail = scoring.frequencies(self.tail, self.tail.live, hashes)
        return [max(0, b - d) + t for b, d, t in zip(base, died, tail, strict=True)]

    def query(self, text: str, languages: Mapping[str, int]) -> Sought:
        """The text as a keyword query; remembered, since search and score ask for the same one."""
        known = self.prepared.get(text)
        if known is None:
            known = sought(keyword_query(text, languages, self.lexicon, self.frequencies, self.documents))
            if len(self.prepared) >= 64:
                self.prepared.clear()
            self.prepared[text] = known
        return known


class TextIndex(Follower[TextState]):
    WHAT = Change.TEXT
    KIND = "text"

    def __init__(self, folder: Path, ns: int, store: str) -> None:
        super().__init__(ns)
        self._folder = folder
        self._store = store

    def published(self) -> TextState:
        return _untouched(TextBase.load(self._folder, self._store))

    def _nothing(self, damage: str = "") -> TextState:
        return _untouched(TextBase.nothing(damage))

    def _with(self, db: apsw.Connection, state: TextState, changed: Sequence[int], last: int) -> TextState:
        if not changed:
            return replace(state, seq=last)
        ids, gone = np.array(changed, np.int64), set(changed)
        died = state.published.find(ids)
        fresh = list(analysed(db, changed))
        tail = scoring.append(
            state.tail.without(state.tail.find(ids)), [row.id for row in fresh], [row.hashes for row in fresh]
        )
        german = {item: terms for item, terms in state.german.items() if item not in gone}
        german |= {row.id: tuple(row.terms) for row in fresh if row.language == "de"}
        return TextState(
            state.base,
            state.published.without(died),
            np.concatenate([state.died, died]),
            tail,
            last,
            german,
        )


def _untouched(base: TextBase) -> TextState:
    return TextState(base, base.documents, NONE, Documents.empty(), base.seq)


# ---------------------------------------------------------------- searching a state


def search(state: TextState, wanted: Sought, limit: int, allowed: Ints | None) -> Ranking:
    """The best `limit` of the allowed items (all, if None)."""
    query = wanted.query
    if not query.words:
        return Ranking(notes=query.notes)
    parts = [_published(state, wanted, limit, allowed)]
    if len(state.tail):
        parts.append(_scored(state, state.tail, state.tail.permitted(allowed), wanted))
    ids, scores, coverage = _together(parts)
    best = native.order(ids, scores)[:limit]
    best = best[scores[best] > 0]
    hits = Hits(ids[best], scores[best])
    return Ranking(
        hits=hits,
        notes=query.notes,
        evidence=Hits(hits.ids, coverage[best]).by_id(),
        unknown=query.unknown_share,
        items=query.documents,
    )


def score(state: TextState, wanted: Sought, ids: Sequence[int]) -> Ranking:
    """BM25 and coverage of these items, whoever found them; zeros where no word matches."""
    wanted_ids = np.array(ids, np.int64)
    parts = [_scored(state, each, each.find(wanted_ids), wanted) for each in (state.published, state.tail) if len(each)]
    found, scores, coverage = _together(parts)
    query, evidence = wanted.query, Hits(found, coverage).by_id()
    return Ranking(Hits(found, scores), evidence=evidence, unknown=query.unknown_share, items=query.documents)


def containing(state: TextState, groups: Sequence[Collection[str]]) -> list[int]:
    """Items that hold at least one term of every group."""
    rows = state.base.containing(groups)
    published = state.published.ids[rows[~state.published.dead[rows]]]
    tail = state.tail.gather(state.tail.live)
    holders = (np.concatenate([tail.rows_with(term_hash(term)) for term in group]) for group in groups)
    rows = reduce(np.intersect1d, holders, np.arange(len(state.tail.live)))
    return sorted({*published.tolist(), *state.tail.ids[state.tail.live[rows]].tolist()})


def _together(parts: Sequence[tuple[Ints, Floats, Floats]]) -> tuple[Ints, Floats, Floats]:
    if len(parts) == 1:
        return parts[0]
    ids, scores, coverage = zip(_NOTHING, *parts, strict=True)
    return np.concatenate(ids), np.concatenate(scores), np.concatenate(coverage)


_NOTHING = (NONE, np.empty(0), np.empty(0))


def _scored(state: TextState, documents: Documents, rows: Ints, wanted: Sought) -> tuple[Ints, Floats, Floats]:
    scored = scoring.score(documents, rows, wanted, state.average_length)
    return documents.ids[rows], scored.scores, scored.coverage


def _published(state: TextState, wanted: Sought, limit: int, allowed: Ints | None) -> tuple[Ints, Floats, Floats]:
    """The published rows that may be among the best, scored: as many as it takes, whatever is dead or filtered out."""
    documents = state.published
    if allowed is not None and len(allowed) <= _SCAN_ROWS:
        return _scored(state, documents, documents.permitted(allowed), wanted)
    passing = documents.mask(allowed)
    count = limit + limit // 4
    while True:
        rows, near = state.base.propose(wanted.query, count)
        kept = passing[rows]
        found = _scored(state, documents, rows[kept], wanted)
        if len(rows) < count or _are_enough(found[1], near, kept, limit):
            return found
        count *= 4


def _are_enough(scores: Floats, near: Floats, kept: Flags, limit: int) -> bool:
    """Whether no row that tantivy ranks below these can be among the best `limit`.

    It adds up the variants of a word, so that what has several of them hides the best row of one; and it has rows of
    equal score in any order. Neither is common: of 1,500 real questions to 4 collections, 5 needed a second look.
    """
    if len(scores) < limit or len(near) >= _SCAN_ROWS:
        return len(scores) >= limit
    last = -np.partition(-scores, limit - 1)[limit - 1]
    return bool(last >= near[-1] * _NEARLY and near[kept][limit - 1] > near[-1] * (1 + _SAME))

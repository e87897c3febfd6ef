"""Keyword search: the server proposes rows, and their exact BM25 is computed here from the statistics that are stored.

The postings of a large namespace propose. In a small one, and among texts that are newer than the postings, a GIN index
proposes: all rows of the rarest words first, then those of the next, until no other row can be among the best, or
enough were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.index import rows as scoring
from fourfold.index.rows import NONE, Documents, Scored, term_hash
from fourfold.model import Filters
from fourfold.native import bindings
from fourfold.retrieval import Ranking
from fourfold.storage.postgres import postings
from fourfold.storage.postgres.index_search import MOST_CANDIDATES
from fourfold.storage.postgres.lexicon import AskedLexicon
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Answer, Packed, Statement, array, packed, together
from fourfold.storage.sql.dialect import Condition, possible, sendable
from fourfold.text import bm25
from fourfold.text.analysis import MARKERS, code_share
from fourfold.text.keyword_query import KeywordQuery, Word, keyword_query

if TYPE_CHECKING:
    from fourfold.index.rows import Floats
    from fourfold.storage.postgres.snapshot import PostgresSnapshot


MOST_ROWS = 12_000
"""Rows read for one query: if only common words are left, some of their rows are not seen."""
EARLY_ITEMS = 200_000
"""In a namespace of at most this many items, postings are read before their number is known."""
_ANYTHING: Condition = ("", ())


class KeywordSearch:
    def __init__(self, at: PostgresSnapshot) -> None:
        self._at = at

    def match(self, text: str, limit: int, filters: Filters) -> Ranking:
        unfiltered = filters.condition is None
        indexed = self._at.candidates.exists
        query, proposals = self._query(text, limit if unfiltered and not indexed else None)
        if not query.words:
            return Ranking(notes=query.notes)
        condition, narrow = (_ANYTHING, None) if unfiltered else self._at.narrowed(filters)
        if narrow is not None:
            found = Packed.read(self._at.db.rows(*of_items(self._at.ns, narrow))[0])
            scored = score(self._at.ns, query, found)
        elif indexed and (engine := self._of_index(query, limit, filters, condition)) is not None:
            scored = engine
        elif self._at.ns.parts:
            scored = _best_posted(self._at, query, limit, condition, proposals)
        else:
            scored = self._of_rarest(query, limit, condition)
        order = bindings.order(scored.ids, scored.scores)[:limit]
        found = scored.ranking(query, order[scored.scores[order] > 0])
        note = self._at.candidates.note
        return found if note is None else replace(found, notes=(*found.notes, note))

    def having(self, words: Sequence[str], limit: int, filters: Filters) -> list[int]:
        return [hit.id for hit in self.match(" ".join(words), limit, filters).hits]

    def scores(self, text: str, ids: Sequence[int]) -> Ranking:
        """BM25 and coverage of these items; zeros where no word matches."""
        query, _ = self._query(text, None)
        found = Packed.read(self._at.db.rows(*of_items(self._at.ns, ids))[0])
        return score(self._at.ns, query, found).ranking(query)

    def query(self, text: str) -> KeywordQuery:
        return self._query(text, None)[0]

    def _query(self, text: str, limit: int | None) -> tuple[KeywordQuery, Sequence[Sequence[Answer]] | None]:
        """The query, cached until a text changes.

        Proposals for its terms are asked for together with the statistics, if a limit is given. They are None if that
        was not worth it, or if these are not all of its terms.
        """
        ns, queries = self._at.ns, self._at.caches.queries
        query = queries.known(ns.id, ns.text_changes, text)
        if query is not None:
            return query, None
        preparing = Preparation(ns, text, self._at.caches.code_shares.known(ns.id, ns.text_changes, ""))
        questions, terms = preparing.questions(), frozenset(preparing.terms)
        is_early = limit is not None and terms and ns.parts and ns.items <= EARLY_ITEMS
        early = _proposing(self._at, terms, _ANYTHING) if is_early else []
        answers = together(self._at.db, [*questions, *early])
        preparing.learn(answers[: len(questions)])
        while not preparing.is_complete:
            preparing.learn(together(self._at.db, preparing.questions()))
        self._at.caches.code_shares.add(ns.id, ns.text_changes, "", preparing.code)
        query = queries.add(ns.id, ns.text_changes, text, preparing.query)
        return query, answers[len(questions) :] if early and terms.issuperset(query.terms) else None

    def _of_index(self, query: KeywordQuery, limit: int, filters: Filters, condition: Condition) -> Scored | None:
        """Rows that a distributed index proposes, and newer ones; None if PostgreSQL has to propose."""
        candidates, count = self._at.candidates, min(2 * limit + 50, MOST_CANDIDATES)
        while (proposed := candidates.match(query, count, filters)) is not None:
            ids = [*proposed, *(candidates.tail or ())]
            statement = of_terms(self._at.ns, ids, query.terms, condition)
            scored = score(self._at.ns, query, Packed.read(self._at.db.rows(*statement)[0]))
            kept = np.count_nonzero(np.isin(scored.ids, proposed))  # newer rows do not show how many the filter removed
            if kept >= limit or len(proposed) < count:
                return scored
            if count >= MOST_CANDIDATES:
                return None  # few items pass the filter: its condition finds them sooner
            count = min(count * 4, MOST_CANDIDATES)
        return None

    def _of_rarest(self, query: KeywordQuery, limit: int, condition: Condition) -> Scored:
        """Rows of the rarest words, then of the next, until no other row can be among the best."""
        at, scored = self._at, NOTHING
        for words, left in stages(query, at.ns.items, at.tuning.first_stage_uses):
            statement = proposal(at.ns, words, condition, MOST_ROWS - len(scored.ids))
            found = Packed.read(at.db.rows(*statement)[0])
            scored = joined(scored, score(at.ns, query, found))
            if kth(scored.scores, limit) > left or len(scored.ids) >= MOST_ROWS:
                break
        return scored


# ---------------------------------------------------------------- the query


class Preparation:
    """A text that becomes a keyword query: it asks for the statistics that it lacks until it is complete."""

    def __init__(self, ns: Namespace, text: str, code: float | None = None) -> None:
        """`code`: the share of the items that are code; None if it has to be asked for."""
        self._ns = ns
        self._markers = MARKERS if code is None else ()
        self.code = code or 0.0
        self._text = text
        self._lexicon = AskedLexicon()
        self._known: dict[str, int] = {}
        self._missing: list[str] = []
        self.query = self._tried()

    def _tried(self) -> KeywordQuery:
        self._missing = []
        ns = self._ns
        return keyword_query(self._text, ns.languages, self._lexicon, self._frequencies, ns.items, self.code)

    def _frequencies(self, terms: Sequence[str]) -> list[int]:
        """Spellings of words whose own frequencies are missing are not asked for: they may be known words."""
        if not self._missing:
            self._missing = [term for term in terms if term not in self._known]
        return [self._known.get(term, 0) for term in terms]

    @property
    def terms(self) -> list[str]:
        """As far as they are known."""
        return [*self._known, *self._missing]

    @property
    def is_complete(self) -> bool:
        return self._lexicon.is_complete and not self._missing

    def questions(self) -> list[Statement]:
        sql = "SELECT term, items::bigint, NULL::bytea FROM terms WHERE ns = ? AND term = ANY(?)"
        asked = dict.fromkeys([*self._missing, *self._markers])
        return [(sql, self._ns.id, sendable(asked)), *self._lexicon.questions(self._ns.id)]

    def learn(self, answers: Sequence[Sequence[Answer]]) -> None:
        self._known.update(dict.fromkeys(self._missing, 0))
        self._known.update((term, items) for term, items, _ in answers[0])
        if self._markers:
            self.code = code_share(lambda terms: [self._known.get(term, 0) for term in terms], self._ns.items)
            self._markers = ()
        self._lexicon.learn(answers[1:])
        self.query = self._tried()


# ---------------------------------------------------------------- a small namespace


def stages(query: KeywordQuery, items: int, first_uses: int) -> list[tuple[list[Word], float]]:
    """The words by rarity, in stages that grow; with each, the most that a row without any word so far can score."""
    order = sorted(query.words, key=lambda word: (word.share, -word.idf))
    worth = [max(word.values) * (bm25.K1 + 1) for word in order]
    found: list[tuple[list[Word], float]] = []
    start, uses, bound = 0, 0.0, first_uses
    for end, word in enumerate(order, 1):
        uses += word.share * items
        if uses >= bound or end == len(order):
            found.append((order[start:end], sum(worth[end:])))
            start, uses, bound = end, 0.0, bound * 4
    return found


# ---------------------------------------------------------------- rows with their terms


def _rows_of(
    ns: Namespace, chosen: str, bound: Sequence[Any], condition: Condition, most: int | None = None
) -> Statement:
    """The items with their hashes that are `chosen` and pass the filters; at most so many, if that is given."""
    sql, bindings = condition
    source = "texts JOIN items ON items.id = item" if sql else "texts"
    limit, last = ("", ()) if most is None else (" LIMIT ?", (most,))
    statement = f"SELECT item, hashes FROM {source} WHERE texts.ns = ? AND {chosen}{sql}{limit}"  # noqa: S608  (our own clauses)
    return packed((statement, ns.id, *bound, *bindings, *last), "hashes")


def of_items(ns: Namespace, ids: Iterable[int], condition: Condition = _ANYTHING) -> Statement:
    return _rows_of(ns, "item = ANY(?::bigint[])", (array(possible(ids)),), condition)


def proposal(ns: Namespace, words: Sequence[Word], condition: Condition, most: int) -> Statement:
    """Finds the rows of words by the index on their keys."""
    keys = _keys(ns, {term_hash(term) for word in words for term in word.terms})
    return _rows_of(ns, "keys && ?::bigint[]", (keys,), condition, most)


def of_terms(ns: Namespace, ids: Iterable[int], terms: Iterable[str], condition: Condition) -> Statement:
    """Those of some rows that pass the filters and have one of the terms, which is not looked up in the index."""
    bound = array(ids), _keys(ns, map(term_hash, terms))
    return _rows_of(ns, "item = ANY(?::bigint[]) AND (keys && ?::bigint[]) IS TRUE", bound, condition)


def _keys(ns: Namespace, hashes: Iterable[int]) -> str:
    return array(sorted(ns.id << 32 | hashed for hashed in hashes))


# ---------------------------------------------------------------- a large namespace


NOTHING = Scored(NONE, np.empty(0), np.empty(0))

_NEWER_ROWS = 12_000
"""Newer rows read for one query: many more than there are while a process publishes."""


def _best_posted(
    at: PostgresSnapshot,
    query: KeywordQuery,
    limit: int,
    condition: Condition,
    answers: Sequence[Sequence[Answer]] | None = None,
) -> Scored:
    """The best rows of the parts and of newer texts. `answers`: those to `_proposing`."""
    words = postings.rarest(query, at.ns.items, at.tuning.postings_uses)
    terms = [term for word in words for term in word.terms]
    answers = answers or together(at.db, _proposing(at, terms, condition))
    uses, *tail = (Packed.read(answer[0]) for answer in answers)
    proposed = postings.proposals(at.caches.shelf.learn(at.ns, at.parts, uses), words, at.ns.average_length)
    fresh = score(at.ns, query, tail[0]) if tail else NOTHING
    count = limit + limit // 8 + 8 if len(words) == len(query.words) else 4 * limit
    while True:
        ids, least = proposed.best(count)
        found = Packed.read(at.db.rows(*of_items(at.ns, ids, condition))[0])
        scored = joined(fresh, score(at.ns, query, found))
        if kth(scored.scores, limit) >= least:
            return scored
        count *= 4


def _proposing(at: PostgresSnapshot, terms: Iterable[str], condition: Condition) -> list[Statement]:
    """What the parts contain of these terms, and newer texts that have one of them."""
    hashes = sorted({term_hash(term) for term in terms})
    uses = postings.uses(at.ns, hashes, at.parts)
    if postings.end(at.ns) == at.ns.text_changes:
        return [uses]
    return [
        uses,
        _rows_of(
            at.ns,
            "change > ? AND keys && ?::bigint[]",
            (postings.end(at.ns), _keys(at.ns, hashes)),
            condition,
            _NEWER_ROWS,
        ),
    ]


# ---------------------------------------------------------------- scores


def score(ns: Namespace, query: KeywordQuery, found: Packed) -> Scored:
    """`found`: items with their hashes."""
    ids, terms = found.first, np.frombuffer(found.content, np.uint32)
    documents = Documents(ids, np.zeros(len(ids), np.bool_), np.cumsum(found.lengths // 4), terms)
    return scoring.score([(documents, documents.live)], scoring.prepare(query), ns.average_length)


def joined(scored: Scored, others: Scored) -> Scored:
    """Both, each item once."""
    new = ~np.isin(others.ids, scored.ids)
    return Scored(
        np.concatenate([scored.ids, others.ids[new]]),
        np.concatenate([scored.scores, others.scores[new]]),
        np.concatenate([scored.coverage, others.coverage[new]]),
    )


def kth(scores: Floats, limit: int) -> float:
    """The score that a row needs to be among the best."""
    return float(-np.partition(-scores, limit - 1)[limit - 1]) if len(scores) >= limit else -np.inf

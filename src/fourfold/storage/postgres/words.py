"""Keyword search: the server proposes rows, and their exact BM25 is computed here from the statistics that are stored.

pg_textsearch proposes the best rows of a namespace if it has its texts. On a plain server, the postings of a large
namespace propose. In a small one, and among texts that are newer than the postings, a GIN index proposes: all rows of
the rarest words first, then those of the next, until no other row can be among the best, or enough were read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from psycopg import errors

from fourfold import native
from fourfold.index.rows import Scored, term_hash
from fourfold.model import Filters
from fourfold.retrieval import Ranking
from fourfold.storage.postgres import posted_search, texts
from fourfold.storage.postgres.filters import Condition
from fourfold.storage.postgres.index_search import MOST_CANDIDATES
from fourfold.storage.postgres.lexicon import AskedLexicon
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.posted_search import NOTHING, joined, kth, of_items, score
from fourfold.storage.postgres.sql import Answer, Packed, Statement, array, packed, rows, sendable, together
from fourfold.storage.postgres.texts import TEXTSEARCH_READY, words_table
from fourfold.text import bm25
from fourfold.text.code import MARKERS, code_share
from fourfold.text.keyword_query import KeywordQuery, Word, keyword_query

if TYPE_CHECKING:
    from fourfold.storage.postgres.snapshot import PostgresSnapshot

MOST_ROWS = 12_000
"""Rows read for one query: if only common words are left, some of their rows are not seen."""
EARLY_ITEMS = 200_000
"""In a namespace of at most this many items, postings are read before their number is known."""
_NEARLY = 0.95
"""What rounding in the index and the sum over variants of a word may leave of a score."""
_ANYTHING: Condition = ("", ())


class KeywordSearch:
    def __init__(self, at: PostgresSnapshot) -> None:
        self._at = at

    def match(self, text: str, limit: int, filters: Filters) -> Ranking:
        try:
            return self._match(text, limit, filters)
        except errors.UndefinedTable:  # a table of pg_textsearch was replaced twice since the snapshot was opened
            self._at.reopen()
            return self._match(text, limit, filters)

    def having(self, words: Sequence[str], limit: int, filters: Filters) -> list[int]:
        return [hit.id for hit in self.match(" ".join(words), limit, filters).hits]

    def _match(self, text: str, limit: int, filters: Filters) -> Ranking:
        unfiltered = filters.condition is None
        indexed = self._at.candidates.exists
        query, proposals = self._query(text, limit if unfiltered and not indexed else None)
        if not query.words:
            return Ranking(notes=query.notes)
        condition, narrow = (_ANYTHING, None) if unfiltered else self._at.narrowed(filters)
        if narrow is not None:
            found = Packed.read(rows(self._at.db, *of_items(self._at.ns, narrow))[0])
            scored = score(self._at.ns, query, found)
        elif indexed and (engine := self._of_index(query, limit, filters, condition)) is not None:
            scored = engine
        elif self._at.ns.words == TEXTSEARCH_READY:
            scored = self._of_best(query, limit, condition, proposals)
        elif self._at.ns.parts:
            scored = posted_search.best(self._at, query, limit, condition, proposals)
        else:
            scored = self._of_rarest(query, limit, condition)
        order = native.order(scored.ids, scored.scores)[:limit]
        found = scored.ranking(query, order[scored.scores[order] > 0])
        note = self._at.candidates.note
        return found if note is None else replace(found, notes=(*found.notes, note))

    def scores(self, text: str, ids: Sequence[int]) -> Ranking:
        """BM25 and coverage of these items; zeros where no word matches."""
        query, _ = self._query(text, None)
        found = Packed.read(rows(self._at.db, *of_items(self._at.ns, ids))[0])
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
        early = self._early(terms, limit) if limit is not None and terms else []
        answers = together(self._at.db, [*questions, *early])
        preparing.learn(answers[: len(questions)])
        while not preparing.is_complete:
            preparing.learn(together(self._at.db, preparing.questions()))
        self._at.caches.code_shares.add(ns.id, ns.text_changes, "", preparing.code)
        query = queries.add(ns.id, ns.text_changes, text, preparing.query)
        return query, answers[len(questions) :] if early and terms.issuperset(query.terms) else None

    def _early(self, terms: Collection[str], limit: int) -> list[Statement]:
        """None if the weights of terms must be known first."""
        ns = self._at.ns
        if ns.words == TEXTSEARCH_READY:
            return proposing(ns, terms, _ANYTHING, _first(limit))
        if ns.parts and ns.items <= EARLY_ITEMS:
            return posted_search.proposing(self._at, terms, _ANYTHING)
        return []

    def _of_index(self, query: KeywordQuery, limit: int, filters: Filters, condition: Condition) -> Scored | None:
        """Rows that a distributed index proposes, and newer ones; None if PostgreSQL has to propose."""
        candidates, count = self._at.candidates, min(2 * limit + 50, MOST_CANDIDATES)
        while (proposed := candidates.match(query, count, filters)) is not None:
            ids = [*proposed, *(candidates.tail or ())]
            statement = of_terms(self._at.ns, ids, query.terms, condition)
            scored = score(self._at.ns, query, Packed.read(rows(self._at.db, *statement)[0]))
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
            found = Packed.read(rows(at.db, *statement)[0])
            scored = joined(scored, score(at.ns, query, found))
            if kth(scored.scores, limit) > left or len(scored.ids) >= MOST_ROWS:
                break
        return scored

    def _of_best(
        self, query: KeywordQuery, limit: int, condition: Condition, answers: Sequence[Sequence[Answer]] | None
    ) -> Scored:
        """The best rows of pg_textsearch, as many as it takes to fill the limit after filtering, and newer ones."""
        count = _first(limit)
        while True:
            answers = answers or together(self._at.db, proposing(self._at.ns, query.terms, condition, count))
            found, *tail = (Packed.read(answer[0]) for answer in answers)
            scored = reduce(joined, [score(self._at.ns, query, each) for each in (found, *tail)])
            needed = kth(scored.scores, limit)
            enough = needed >= float(found.note) * _NEARLY if found.note else True
            if found.proposed < count or enough or (count >= MOST_ROWS and needed > -np.inf):
                return scored
            count, answers = count * 4, None


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
        sql = "SELECT term, items::bigint, 0::bigint, NULL::bytea FROM terms WHERE ns = %s AND term = ANY(%s)"
        asked = dict.fromkeys([*self._missing, *self._markers])
        return [(sql, self._ns.id, sendable(asked)), *self._lexicon.questions(self._ns.id)]

    def learn(self, answers: Sequence[Sequence[Answer]]) -> None:
        self._known.update(dict.fromkeys(self._missing, 0))
        self._known.update((term, items) for term, items, _, _ in answers[0])
        if self._markers:
            self.code = code_share(lambda terms: [self._known.get(term, 0) for term in terms], self._ns.items)
            self._markers = ()
        self._lexicon.learn(answers[1:])
        self.query = self._tried()


# ---------------------------------------------------------------- a plain server


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


def proposal(ns: Namespace, words: Sequence[Word], condition: Condition, most: int) -> Statement:
    """Finds the rows of words by the index on their keys."""
    sql, bindings = condition
    source = "texts JOIN items ON items.id = item" if sql else "texts"
    keys = sorted({ns.id << 32 | term_hash(term) for word in words for term in word.terms})
    statement = f"SELECT item, hashes FROM {source} WHERE keys && %s::bigint[] AND texts.ns = %s{sql} LIMIT %s"  # noqa: S608  (our own clauses)
    return packed((statement, array(keys), ns.id, *bindings, most), "hashes")


def of_terms(ns: Namespace, ids: Iterable[int], terms: Iterable[str], condition: Condition) -> Statement:
    """Those of some rows that pass the filters and have one of the terms, which is not looked up in the index."""
    sql, bindings = condition
    source = "texts JOIN items ON items.id = item" if sql else "texts"
    keys = array(sorted(ns.id << 32 | term_hash(term) for term in terms))
    statement = (
        f"SELECT item, hashes FROM {source} WHERE texts.ns = %s AND item = ANY(%s::bigint[]) "  # noqa: S608  (our own clauses)
        f"AND (keys && %s::bigint[]) IS TRUE{sql}"
    )
    return packed((statement, ns.id, array(ids), keys, *bindings), "hashes")


# ---------------------------------------------------------------- a server with pg_textsearch


def _first(limit: int) -> int:
    return limit + limit // 2


def proposing(ns: Namespace, terms: Collection[str], condition: Condition, count: int) -> list[Statement]:
    """The best rows, and newer ones that have one of the terms."""
    if ns.worded == ns.text_changes:
        return [best(ns, terms, condition, count)]
    fresh = posted_search.newer(ns, ns.worded, sorted(map(term_hash, terms)), condition)
    return [best(ns, terms, condition, count), fresh]


def best(ns: Namespace, terms: Iterable[str], condition: Condition, count: int) -> Statement:
    """Proposals of pg_textsearch that pass the filters; the note is the least score.

    `bm25_get_current_score()` is the score of the row that the index has just found. The expression of ORDER BY would
    compute it again from the text, which takes longer than everything else. The limit is inside the SQL: the plan
    depends on it.
    """
    table, (sql, bindings) = words_table(ns.id, ns.worded), condition
    passes = f"EXISTS (SELECT 1 FROM items WHERE items.id = best.item{sql})" if sql else "true"  # noqa: S608  (our own clauses)
    statement = (
        f"SELECT best.item, hashes, score, {passes} AS passes FROM "  # noqa: S608  (our own clauses)
        f"(SELECT item, bm25_get_current_score() AS score FROM {table} "
        f"ORDER BY words <@> to_bm25query(%s, '{table}_bm25') LIMIT {count}) AS best "
        "JOIN texts ON texts.item = best.item"
    )
    asked = texts.words(texts.hashes(terms))
    kept = "passes" if sql else "true"
    return packed((statement, *bindings, asked), "hashes", kept=kept, note="(-max(score))::text")

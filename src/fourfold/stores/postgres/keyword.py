"""Keyword search: rows are proposed, and their exact BM25 is computed here from the statistics that are kept.

Where pg_textsearch has the texts of a namespace, it proposes the best. On a plain server, those of a large namespace
come from its postings. In a small one, and among what is newer than the postings, a GIN index proposes: all rows of the
rarest words first, then those of the next, until no other row can be among the best, or enough were read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fourfold.model import Ranking
from fourfold.search import bm25
from fourfold.stores.keyword_query import KeywordQuery, Word, keyword_query
from fourfold.stores.postgres import posted_search, texts
from fourfold.stores.postgres.cache import Cache
from fourfold.stores.postgres.filters import Condition
from fourfold.stores.postgres.lexicon import AskedLexicon
from fourfold.stores.postgres.packed import Packed, packed
from fourfold.stores.postgres.postings import Shelf
from fourfold.stores.postgres.scores import NOTHING, Scored, joined, kth, of_items, score
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Answer, Db, Statement, array, rows, sendable, together
from fourfold.stores.postgres.texts import words_table
from fourfold.stores.postgres.upkeep import READY
from fourfold.stores.sqlite.scoring import term_hash

STAGE = 1_000
"""The rows of so many uses of words are read at first, then four times as many, and so on."""
MOST = 12_000
"""Rows read for one query, whatever it asks for: where only common words are left, some of their rows are not seen."""
_NEARLY = 0.95
"""What rounding in the index and the sum over variants of a word may leave of a score."""
EARLY = 200_000
"""In a namespace of at most so many items, postings are asked for before it is known how many they are."""


# ---------------------------------------------------------------- the query


class Preparation:
    """A text on its way to become a keyword query: it says what it has to know, and is told, until it is `complete`."""

    def __init__(self, ns: Namespace, text: str, languages: Mapping[str, int]) -> None:
        self._ns = ns
        self._text = text
        self._languages = languages
        self._lexicon = AskedLexicon()
        self._known: dict[str, int] = {}
        self._missing: list[str] = []
        self.query = self._tried()

    def _tried(self) -> KeywordQuery:
        return keyword_query(self._text, self._languages, self._lexicon, self._frequencies, self._ns.items)

    def _frequencies(self, terms: Sequence[str]) -> list[int]:
        self._missing = [term for term in terms if term not in self._known]
        return [self._known.get(term, 0) for term in terms]

    @property
    def terms(self) -> list[str]:
        """What it looks for, as far as it knows."""
        return [*self._known, *self._missing]

    @property
    def is_complete(self) -> bool:
        return self._lexicon.is_complete and not self._missing

    def questions(self) -> list[Statement]:
        sql = "SELECT term, items::bigint, 0::bigint, NULL::bytea FROM terms WHERE ns = %s AND term = ANY(%s)"
        return [(sql, self._ns.id, sendable(self._missing)), *self._lexicon.questions(self._ns.id)]

    def learn(self, answers: Sequence[Sequence[Answer]]) -> None:
        self._known.update(dict.fromkeys(self._missing, 0))
        self._known.update((term, items) for term, items, _, _ in answers[0])
        self._lexicon.learn(answers[1:])
        self.query = self._tried()


# ---------------------------------------------------------------- searching


class Early(NamedTuple):
    """What was asked together with the statistics of a query: proposals for its terms, in case these are all."""

    terms: frozenset[str]
    answers: Sequence[Sequence[Answer]]

    def suffices(self, query: KeywordQuery) -> bool:
        return self.terms.issuperset(query.terms)


class Beginning:
    """The first question of a search: whatever it has to know of its terms, and what these propose."""

    def __init__(
        self, text: str, limit: int, languages: Cache[dict[str, int]], queries: Cache[KeywordQuery], shelf: Shelf
    ) -> None:
        self._text = text
        self._limit = limit
        self._languages = languages
        self._queries = queries
        self._shelf = shelf
        self._preparing: Preparation | None = None
        self._questions = 0
        self._terms: frozenset[str] = frozenset()

    def asked(self, ns: Namespace, *, early: bool) -> list[Statement]:
        languages = self._languages.known(ns.id, ns.text_changes, "")
        known = self._queries.known(ns.id, ns.text_changes, self._text)
        self._preparing = Preparation(ns, self._text, languages) if known is None and languages is not None else None
        questions = self._preparing.questions() if self._preparing is not None else []
        self._questions = len(questions)
        self._terms = frozenset(known.terms if known is not None else self._preparing.terms if self._preparing else ())
        return [*questions, *(_early(ns, self._terms, self._limit, self._shelf) if early and self._terms else ())]

    def learn(self, answers: Sequence[Sequence[Answer]]) -> tuple[Preparation | None, Early | None]:
        if self._preparing is not None:
            self._preparing.learn(answers[: self._questions])
        rest = answers[self._questions :]
        return self._preparing, Early(self._terms, rest) if rest else None


def _early(ns: Namespace, terms: Collection[str], limit: int, shelf: Shelf) -> list[Statement]:
    """Nothing where it is better to know first what each term is worth."""
    if ns.words == READY:
        return proposing(ns, terms, ("", ()), _first(limit))
    return posted_search.proposing(ns, terms, ("", ()), shelf) if ns.parts and ns.items <= EARLY else []


async def match(
    db: Db,
    ns: Namespace,
    query: KeywordQuery,
    limit: int,
    condition: Condition,
    narrow: Sequence[int] | None,
    shelf: Shelf,
    begun: Early | None = None,
) -> Ranking:
    """The best `limit` of the items that satisfy the condition; `narrow` are they all, where they are few."""
    if not query.words:
        return Ranking(notes=query.notes)
    answers = begun.answers if begun is not None and begun.suffices(query) else None
    if narrow is not None:
        scored = score(ns, query, Packed.read((await rows(db, *of_items(ns, narrow)))[0]))
    elif ns.words == READY:
        scored = await _of_best(db, ns, query, limit, condition, answers)
    else:
        scored = await posted_search.best(db, ns, query, limit, condition, shelf, answers)
        scored = scored or await _of_rarest(db, ns, query, limit, condition)
    return replace(scored.best(limit), notes=query.notes, unknown=query.unknown_share, items=query.documents)


# ---------------------------------------------------------------- a plain server


async def _of_rarest(db: Db, ns: Namespace, query: KeywordQuery, limit: int, condition: Condition) -> Scored:
    """Rows of the rarest words, then of the next, until no other row can be among the best."""
    scored = NOTHING
    for words, left in parts(query, ns.items):
        found = Packed.read((await rows(db, *proposal(ns, words, condition, MOST - len(scored.ids))))[0])
        scored = joined([scored, score(ns, query, found).without(scored)])
        if kth(scored.scores, limit) > left or len(scored.ids) >= MOST:
            break
    return scored


def parts(query: KeywordQuery, items: int) -> list[tuple[list[Word], float]]:
    """The words by rarity, in parts that grow; with each, what rows without any word so far can have."""
    order = sorted(query.words, key=lambda word: (word.share, -word.idf))
    worth = [max(word.values) * (bm25.K1 + 1) for word in order]
    found: list[tuple[list[Word], float]] = []
    start, uses, bound = 0, 0.0, STAGE
    for end, word in enumerate(order, 1):
        uses += word.share * items
        if uses >= bound or end == len(order):
            found.append((order[start:end], sum(worth[end:])))
            start, uses, bound = end, 0.0, bound * 4
    return found


def proposal(ns: Namespace, words: Sequence[Word], condition: Condition, most: int) -> Statement:
    """The statement that finds the rows of words by the index on their keys."""
    sql, bindings = condition
    source = "texts JOIN items ON items.id = item" if sql else "texts"
    keys = sorted({ns.id << 32 | term_hash(term) for word in words for term in word.terms})
    statement = f"SELECT item, hashes FROM {source} WHERE keys && %s::bigint[] AND texts.ns = %s{sql} LIMIT %s"  # noqa: S608  (our own clauses)
    return packed((statement, array(keys), ns.id, *bindings, most), "hashes")


# ---------------------------------------------------------------- a server with pg_textsearch


async def _of_best(
    db: Db,
    ns: Namespace,
    query: KeywordQuery,
    limit: int,
    condition: Condition,
    answers: Sequence[Sequence[Answer]] | None,
) -> Scored:
    """The best rows of pg_textsearch, as many as it takes, whatever is filtered out, and what is newer than these."""
    count = _first(limit)
    while True:
        answers = answers or await together(db, proposing(ns, query.terms, condition, count))
        found, *tail = (Packed.read(answer[0]) for answer in answers)
        scored = joined([score(ns, query, each) for each in (found, *tail)]).once()
        needed = kth(scored.scores, limit)
        if found.proposed < count or needed >= float(found.note) * _NEARLY or (count >= MOST and needed > -np.inf):
            return scored
        count, answers = count * 4, None


def _first(limit: int) -> int:
    return limit + limit // 2


def proposing(ns: Namespace, terms: Collection[str], condition: Condition, count: int) -> list[Statement]:
    """The best, and what has one of the terms and is newer, if anything is."""
    if ns.worded == ns.text_changes:
        return [best(ns, terms, condition, count)]
    fresh = posted_search.newer(ns, ns.worded, sorted(map(term_hash, terms)), condition)
    return [best(ns, terms, condition, count), fresh]


def best(ns: Namespace, terms: Iterable[str], condition: Condition, count: int) -> Statement:
    """The statement that has pg_textsearch propose those that the filters let pass; its note is the least score.

    The score is that of the row which the index has just found; spelled as in ORDER BY, it would be made anew from the
    text, which takes longer than all the rest. The limit is no parameter, since the plan has to know it.
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

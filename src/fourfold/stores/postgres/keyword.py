"""Keyword search: rows are proposed, and their exact BM25 is computed here from the statistics that are kept.

Where pg_textsearch has the texts of a namespace, it proposes the best. On a plain server, those of a large namespace
come from its postings. In a small one, and among what is newer than the postings, a GIN index proposes: all rows of the
rarest words first, then those of the next, until no other row can be among the best, or enough were read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fourfold.model import Ranking
from fourfold.search import bm25
from fourfold.stores.keyword_query import KeywordQuery, Word, keyword_query
from fourfold.stores.postgres import posted_search, texts
from fourfold.stores.postgres.filters import Condition
from fourfold.stores.postgres.lexicon import AskedLexicon
from fourfold.stores.postgres.postings import Shelf
from fourfold.stores.postgres.scores import NOTHING, Scored, joined, kth, of_items, score
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, Statement, rows, sendable
from fourfold.stores.postgres.texts import words_table
from fourfold.stores.sqlite.scoring import term_hash

STAGE = 1_000
"""The rows of so many uses of words are read at first, then four times as many, and so on."""
MOST = 12_000
"""Rows read for one query, whatever it asks for: where only common words are left, some of their rows are not seen."""
_NEARLY = 0.95
"""What rounding in the index and the sum over variants of a word may leave of a score."""
READY = "ready"


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
    def is_complete(self) -> bool:
        return self._lexicon.is_complete and not self._missing

    def questions(self) -> list[Statement]:
        sql = "SELECT term, items FROM terms WHERE ns = %s AND term = ANY(%s)"
        return [(sql, self._ns.id, sendable(self._missing)), *self._lexicon.questions(self._ns.id)]

    def learn(self, answers: Sequence[Sequence[Any]]) -> None:
        self._known.update(dict.fromkeys(self._missing, 0))
        self._known.update(answers[0])
        self._lexicon.learn(answers[1:])
        self.query = self._tried()


# ---------------------------------------------------------------- searching


async def match(
    db: Db,
    ns: Namespace,
    query: KeywordQuery,
    limit: int,
    condition: Condition,
    narrow: Sequence[int] | None,
    shelf: Shelf,
) -> Ranking:
    """The best `limit` of the items that satisfy the condition; `narrow` are they all, where they are few."""
    if not query.words:
        return Ranking(notes=query.notes)
    if narrow is not None:
        scored = score(ns, query, await rows(db, *of_items(ns, narrow)))
    elif ns.words == READY:
        scored = await _of_best(db, ns, query, limit, condition)
    else:
        scored = await posted_search.best(db, ns, query, limit, condition, shelf)
        scored = scored or await _of_rarest(db, ns, query, limit, condition)
    return replace(scored.best(limit), notes=query.notes, unknown=query.unknown_share, items=query.documents)


# ---------------------------------------------------------------- a plain server


async def _of_rarest(db: Db, ns: Namespace, query: KeywordQuery, limit: int, condition: Condition) -> Scored:
    """Rows of the rarest words, then of the next, until no other row can be among the best."""
    found, scored, seen = list[Scored](), NOTHING, set[int]()
    for words, left in parts(query, ns.items):
        proposed = await rows(db, *proposal(ns, words, condition, MOST - len(seen)))
        fresh = [row for row in proposed if row[0] not in seen]
        seen.update(item for item, _ in fresh)
        found.append(score(ns, query, fresh))
        scored = joined(found)
        if kth(scored.scores, limit) > left or len(seen) >= MOST:
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
    statement = f"SELECT item, hashes FROM {source} WHERE keys && %s::bigint[] AND texts.ns = %s{sql} LIMIT %s"
    return statement, keys, ns.id, *bindings, most


# ---------------------------------------------------------------- a server with pg_textsearch


async def _of_best(db: Db, ns: Namespace, query: KeywordQuery, limit: int, condition: Condition) -> Scored:
    """The best rows of pg_textsearch: as many as it takes, whatever is filtered out."""
    count = limit + limit // 2
    while True:
        proposed = await rows(db, *best(ns, query, condition, count))
        scored = score(ns, query, [(item, hashed) for item, hashed, _, passes in proposed if passes])
        needed = kth(scored.scores, limit)
        if len(proposed) < count or needed >= -proposed[-1][2] * _NEARLY or (count >= MOST and needed > -np.inf):
            return scored
        count *= 4


def best(ns: Namespace, query: KeywordQuery, condition: Condition, count: int) -> Statement:
    """The statement that has pg_textsearch propose: (item, hashes, negative score, whether the filters let it pass)."""
    table, (sql, bindings) = words_table(ns.id), condition
    passes = f"EXISTS (SELECT 1 FROM items WHERE items.id = best.item{sql})" if sql else "true"
    ranked = f"words <@> to_bm25query(%s, '{table}_bm25')"
    statement = (
        f"SELECT best.item, hashes, score, {passes} FROM "
        f"(SELECT item, {ranked} AS score FROM {table} ORDER BY {ranked} LIMIT %s) AS best "
        "JOIN texts ON texts.item = best.item WHERE score < 0 ORDER BY score"
    )
    asked = texts.words(texts.hashes(term for word in query.words for term in word.terms))
    return statement, *bindings, asked, asked, count

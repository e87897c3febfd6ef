"""Keyword search in the postings of a namespace: parts propose, and the proposed rows get their exact scores.

The BM25 of rows as the server sends them is computed by the same code as in the embedded store: the digits are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.index import rows as scoring
from fourfold.index.rows import NONE, Documents, Scored, term_hash
from fourfold.storage.postgres import postings
from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Answer, Packed, Statement, array, packed, together
from fourfold.storage.sql.dialect import Condition, possible
from fourfold.text.keyword_query import KeywordQuery

if TYPE_CHECKING:
    from fourfold.index.rows import Floats
    from fourfold.storage.postgres.snapshot import PostgresSnapshot

NOTHING = Scored(NONE, np.empty(0), np.empty(0))

_NEWER_ROWS = 12_000
"""Newer rows read for one query: many more than there are while a process publishes."""


def best(
    at: PostgresSnapshot,
    query: KeywordQuery,
    limit: int,
    condition: Condition,
    answers: Sequence[Sequence[Answer]] | None = None,
) -> Scored:
    """The best rows of the parts and of newer texts. `answers`: those to `proposing`."""
    words = postings.rarest(query, at.ns.items, at.tuning.postings_uses)
    terms = [term for word in words for term in word.terms]
    answers = answers or together(at.db, proposing(at, terms, condition))
    uses, *tail = (Packed.read(answer[0]) for answer in answers)
    proposed = postings.proposals(at.caches.shelf.learn(at.ns, at.parts, uses), words, at.ns.average_length)
    fresh = score(at.ns, query, tail[0]) if tail else NOTHING
    count = limit + limit // 8 + 8 if len(words) == len(query.words) else 4 * limit
    while True:
        ids, least = proposed.best(count)
        found = Packed.read(at.db.rows(*_of_items(at.ns, ids, condition))[0])
        scored = joined(fresh, score(at.ns, query, found))
        if kth(scored.scores, limit) >= least:
            return scored
        count *= 4


def proposing(at: PostgresSnapshot, terms: Iterable[str], condition: Condition) -> list[Statement]:
    """What the parts contain of these terms, and newer texts that have one of them."""
    hashes = sorted({term_hash(term) for term in terms})
    uses = postings.uses(at.ns, hashes, at.parts)
    if postings.end(at.ns) == at.ns.text_changes:
        return [uses]
    return [uses, newer(at.ns, postings.end(at.ns), hashes, condition)]


def _of_items(ns: Namespace, ids: Sequence[int], condition: Condition) -> Statement:
    sql, bindings = condition
    source = "texts JOIN items ON items.id = item" if sql else "texts"
    statement = f"SELECT item, hashes FROM {source} WHERE texts.ns = ? AND item = ANY(?::bigint[]){sql}"  # noqa: S608  (our own clauses)
    return packed((statement, ns.id, array(ids), *bindings), "hashes")


def newer(ns: Namespace, since: int, hashes: Iterable[int], condition: Condition) -> Statement:
    """Finds the rows of terms that are newer than a change."""
    sql, bindings = condition
    source = "texts JOIN items ON items.id = item" if sql else "texts"
    statement = (
        f"SELECT item, hashes FROM {source} WHERE texts.ns = ? AND change > ? AND keys && ?::bigint[]{sql} LIMIT ?"  # noqa: S608  (our own clauses)
    )
    keys = array(ns.id << 32 | hashed for hashed in hashes)
    return packed((statement, ns.id, since, keys, *bindings, _NEWER_ROWS), "hashes")


# ---------------------------------------------------------------- scores


def of_items(ns: Namespace, ids: Sequence[int]) -> Statement:
    return _of_items(ns, possible(ids), ("", ()))


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

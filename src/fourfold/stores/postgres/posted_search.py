"""Keyword search in the postings of a namespace: parts propose, and the rows that there are get their exact scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from fourfold.stores.keyword_query import KeywordQuery
from fourfold.stores.postgres import postings
from fourfold.stores.postgres.filters import Condition
from fourfold.stores.postgres.packed import Packed, packed
from fourfold.stores.postgres.postings import Proposals, Shelf
from fourfold.stores.postgres.scores import NOTHING, Scored, joined, kth, score
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Answer, Db, Statement, array, together
from fourfold.stores.sqlite.scoring import term_hash

_ALL = 12_000
"""Newer rows read for one query: many more than there are where somebody makes parts of them."""


async def best(
    db: Db,
    ns: Namespace,
    query: KeywordQuery,
    limit: int,
    condition: Condition,
    shelf: Shelf,
    answers: Sequence[Sequence[Answer]] | None = None,
) -> Scored | None:
    """The best rows of the parts and of what is newer; None if there are no parts. `answers`: those to `proposing`.

    A part that was read in two steps may have been replaced between them: then all is asked again.
    """
    words = postings.chosen(query, ns.items)
    terms = [term for word in words for term in word.terms]
    scored: Scored | None = None
    while ns.parts and scored is None:
        answers = answers or await together(db, proposing(ns, terms, condition, shelf))
        uses, *tail = (Packed.read(answer[0]) for answer in answers)
        proposed = postings.proposals(shelf.learn(ns, uses), words, ns.average_length)
        fresh = score(ns, query, tail[0]) if tail else NOTHING
        count = limit + limit // 8 + 8 if len(words) == len(query.words) else 4 * limit
        scored = await _confirmed(db, ns, query, limit, condition, proposed, count, fresh)
        answers = None
    return scored


def proposing(ns: Namespace, terms: Iterable[str], condition: Condition, shelf: Shelf) -> list[Statement]:
    """What the parts say of these terms, and what has one of them and is newer, if anything is."""
    hashes = sorted({term_hash(term) for term in terms})
    uses = postings.uses(ns, hashes, shelf)
    if postings.end(ns) == ns.text_changes:
        return [uses]
    return [uses, newer(ns, postings.end(ns), hashes, condition)]


async def _confirmed(
    db: Db,
    ns: Namespace,
    query: KeywordQuery,
    limit: int,
    condition: Condition,
    proposed: Proposals,
    count: int,
    fresh: Scored,
) -> Scored | None:
    """Proposed rows as they are, as many as it takes, with the fresh ones; None if their parts are others by now."""
    while True:
        ids, least = proposed.best(count)
        current, found = await together(db, [postings.current(ns), _of_items(ns, ids, condition)])
        parts = json.loads(current[0][3])
        if ns.parts != parts:
            ns.parts = parts
            return None
        scored = joined([fresh, score(ns, query, Packed.read(found[0])).without(fresh)])
        if kth(scored.scores, limit) >= least:
            return scored
        count *= 4


def _of_items(ns: Namespace, ids: Sequence[int], condition: Condition) -> Statement:
    sql, bindings = condition
    source = "texts JOIN items ON items.id = item" if sql else "texts"
    statement = f"SELECT item, hashes FROM {source} WHERE texts.ns = %s AND item = ANY(%s::bigint[]){sql}"  # noqa: S608  (our own clauses)
    return packed((statement, ns.id, array(ids), *bindings), "hashes")


def newer(ns: Namespace, since: int, hashes: Iterable[int], condition: Condition) -> Statement:
    """What finds the rows of terms that are newer than a change."""
    sql, bindings = condition
    source = "texts JOIN items ON items.id = item" if sql else "texts"
    statement = (
        f"SELECT item, hashes FROM {source} WHERE texts.ns = %s AND change > %s AND keys && %s::bigint[]{sql} LIMIT %s"  # noqa: S608  (our own clauses)
    )
    keys = array(ns.id << 32 | hashed for hashed in hashes)
    return packed((statement, ns.id, since, keys, *bindings, _ALL), "hashes")

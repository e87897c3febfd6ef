"""Keyword search in the postings of a namespace: parts propose, and the rows that there are get their exact scores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from fourfold.stores.keyword_query import KeywordQuery
from fourfold.stores.postgres import postings
from fourfold.stores.postgres.filters import Condition
from fourfold.stores.postgres.postings import Proposals, Shelf
from fourfold.stores.postgres.scores import Scored, kth, score
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Db, Statement, together
from fourfold.stores.sqlite.scoring import term_hash

_ALL = 12_000
"""Newer rows read for one query: many more than there are where somebody makes parts of them."""


async def best(
    db: Db, ns: Namespace, query: KeywordQuery, limit: int, condition: Condition, shelf: Shelf
) -> Scored | None:
    """The best rows of the parts and of what is newer; None if there are no parts.

    A part that was read in two steps may have been replaced between them: then all is asked again.
    """
    words = postings.proposing(query, ns.items)
    scored: Scored | None = None
    while ns.parts and scored is None:
        asked = postings.uses(ns, words, shelf)
        answers = await together(db, [*asked, *newer(ns, query, condition)])
        found = shelf.learn(ns, chain(*answers[: len(asked)]))
        proposed = postings.proposals(found, words, ns.average_length)
        count = limit + limit // 8 + 8 if len(words) == len(query.words) else 4 * limit
        fresh = list(chain(*answers[len(asked) :]))
        scored = await _confirmed(db, ns, query, limit, condition, proposed, count, fresh)
    return scored


async def _confirmed(
    db: Db,
    ns: Namespace,
    query: KeywordQuery,
    limit: int,
    condition: Condition,
    proposed: Proposals,
    count: int,
    fresh: Sequence[tuple[int, bytes]],
) -> Scored | None:
    """Proposed rows as they are, as many as it takes, with the fresh ones; None if their parts are others by now."""
    known = {item for item, _ in fresh}
    while True:
        ids, least = proposed.best(count)
        found, current = await together(db, [_of_items(ns, ids, condition), postings.current(ns)])
        if ns.parts != current[0][0]:
            ns.parts = current[0][0]
            return None
        scored = score(ns, query, [*fresh, *(row for row in found if row[0] not in known)])
        if kth(scored.scores, limit) >= least:
            return scored
        count *= 4


def _of_items(ns: Namespace, ids: Sequence[int], condition: Condition) -> Statement:
    sql, bindings = condition
    source = "texts JOIN items ON items.id = item" if sql else "texts"
    statement = f"SELECT item, hashes FROM {source} WHERE texts.ns = %s AND item = ANY(%s::bigint[]){sql}"
    return statement, ns.id, ids, *bindings


def newer(ns: Namespace, query: KeywordQuery, condition: Condition) -> list[Statement]:
    """What finds the rows of words that are in no part yet."""
    if postings.end(ns) == ns.text_changes:
        return []
    sql, bindings = condition
    source = "texts JOIN items ON items.id = item" if sql else "texts"
    keys = sorted({ns.id << 32 | term_hash(term) for word in query.words for term in word.terms})
    statement = (
        f"SELECT item, hashes FROM {source} WHERE texts.ns = %s AND change > %s AND keys && %s::bigint[]{sql} LIMIT %s"
    )
    return [(statement, ns.id, postings.end(ns), keys, *bindings, _ALL)]

"""By tags: words of the query that are tags rank the items that carry them (S5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourfold.model import Hits, Query, Ranking
from fourfold.search.order import ranked
from fourfold.search.sharing import rarity, sharing
from fourfold.stores.base import Store, TagUse
from fourfold.text.fold import fold, words
from fourfold.text.stopwords import stop_words

_STOP_WORDS = stop_words("en") | stop_words("de")
_JOINTS = ("-", " ", "_")


class TagRetriever:
    name = "tags"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def search(self, query: Query, limit: int) -> Ranking:
        carried = await self._store.tagged(query.namespace, tag_candidates(query.text), query.filters)
        hits = by_tags(carried, limit)
        covered = coverage(query.text, carried)
        return Ranking(hits, evidence={item: covered[item] for item in hits.ids.tolist()})

    async def expand(self, query: Query, seeds: Mapping[int, float], limit: int) -> Ranking:
        """What carries the same tags as the best hits of other retrievers."""
        carried = await self._store.sharing(query.namespace, list(seeds), query.filters)
        return Ranking(sharing(seeds, carried, limit))


def tag_candidates(text: str) -> list[str]:
    """The tags that a query may name: words of it, and adjacent words joined."""
    spelled = [fold(word) for word in words(text)]
    single = (word for word in spelled if word not in _STOP_WORDS)
    joined = (
        joint.join(spelled[start : start + length])
        for length in (2, 3)
        for start in range(len(spelled) - length + 1)
        for joint in _JOINTS
    )
    return list(dict.fromkeys((*single, *joined)))


def coverage(text: str, carried: Sequence[TagUse]) -> dict[int, float]:
    """By item, the share of the query's words that its tags say."""
    asked = {fold(word) for word in words(text)}
    asked = asked - _STOP_WORDS or asked
    said: dict[int, set[str]] = {}
    for use in carried:
        said.setdefault(use.item, set()).update(map(fold, words(use.tag)))
    return {item: len(asked & tags) / len(asked) for item, tags in said.items()}


def by_tags(carried: Sequence[TagUse], limit: int) -> Hits:
    """By number and rarity of the matching tags: a tag that stands on few items says more."""
    scores: dict[int, float] = {}
    for use in carried:
        scores[use.item] = scores.get(use.item, 0.0) + rarity(use.uses)
    return ranked(scores, limit)

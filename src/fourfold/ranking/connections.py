"""Scores from connections: links in the graph, from what the query names or from the best hits, and shared tags."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from fourfold import limits
from fourfold.limits import CANDIDATES, WALK_STARTS
from fourfold.ranking.fusion import Fusion, ranked
from fourfold.retrieval import Hits, Link, LinkKind

NEARNESS: Final[Mapping[LinkKind, float]] = {
    "own": 1.0,
    "mentions": 1.0,
    "edge": 0.8,
    "mentioned-by": 0.5,
    "names": 0.1,
}
"""Share of the strength that a link of each kind passes on.

What a text mentions says more about it than the texts that mention it. Items whose text contains a name from the query
(`names`) are found by keyword search anyway.
"""
UNASKED: Final = 0.1
"""Share of an edge from a name, if the query does not ask for its relation: that of items whose text has the name."""

MENTIONING: Final = 0.8
"""Share of the items that mention what a question asks for, if it has no item of its own."""
PERHAPS: Final = 0.25
"""Strength of a node whose name occurs in the query without being spelled as a name: `find`, `high school`."""
BEST_HIT: Final = 0.35
"""Strength of the best hit by text, compared with 1 for what the query names."""
INSTEAD_OF_NAMES: Final = 4.0
"""How much more the mentions of starts count for a question that names nothing: its best hits are what it describes."""
LEAST_START: Final = 0.05
"""Hits below this strength do not start a walk."""


@lru_cache(4096)
def rarity(uses: int) -> float:
    """Weight of a tag or link as evidence, which falls with the number of items that have the tag, or of links."""
    return 1 / (1 + math.log(max(uses, 1)))


# ---------------------------------------------------------------- links


def longest_names(nodes: Mapping[str, Sequence[int]], names: Iterable[str]) -> list[str]:
    """Known names that are not part of a longer one: `new york city`, not `york`."""
    padded = [f" {name} " for name in names if name in nodes]
    return [name[1:-1] for name in padded if not any(name in other and name != other for other in padded)]


def longest_named(nodes: Mapping[str, Sequence[int]], names: Iterable[str]) -> set[int]:
    """Nodes (`known`, by name) of the longest names."""
    return {node for name in longest_names(nodes, names) for node in nodes[name]}


def named_items(strengths: Mapping[int, float], links: Iterable[Link]) -> dict[int, float]:
    """Strengths of the items that belong to the starts themselves."""
    items: dict[int, float] = {}
    for link in links:
        if link.kind == "own":
            items[link.item] = max(items.get(link.item, 0.0), strengths[link.source] * rarity(link.degree))
    return items


def related_items(strengths: Mapping[int, float], links: Iterable[Link]) -> dict[int, float]:
    """Strength with which each item is what the query names, or is joined to it by a stored relation.

    Not damped at hubs: a relation of a hub is weak evidence for a ranking, but it is stored knowledge all the same.
    """
    items: dict[int, float] = {}
    for link in links:
        if link.kind in ("own", "edge"):
            sure = strengths[link.source] * NEARNESS[link.kind] * min(1.0, link.weight)
            items[link.item] = max(items.get(link.item, 0.0), sure)
    return items


def answering_items(shares: Mapping[int, float], links: Iterable[Link], named: Collection[int]) -> dict[int, float]:
    """Shares of the items of nodes that a question asks for (`shares`), without items that it names; the best has 1.

    Of a node without items of its own, those that mention it, one of which it may name.
    """
    by_kind: dict[LinkKind, dict[int, dict[int, float]]] = {"own": {}, "names": {}}
    for link in links:
        if link.kind == "names" or (link.kind == "own" and link.item not in named):
            share = shares[link.source] * (1.0 if link.kind == "own" else MENTIONING)
            by_kind[link.kind].setdefault(link.source, {})[link.item] = share
    best_shares: dict[int, float] = {}
    for items in ({**by_kind["names"], **by_kind["own"]}).values():
        for item, share in items.items():
            best_shares[item] = max(best_shares.get(item, 0.0), share)
    best = max(best_shares.values(), default=1.0) or 1.0
    return {item: share / best for item, share in best_shares.items()}


def only_linked(links: Iterable[Link]) -> set[int]:
    """The items to which edges lead, and which neither belong to what the query names nor mention it."""
    by_kind: dict[bool, set[int]] = {True: set(), False: set()}
    for link in links:
        by_kind[link.kind == "edge"].add(link.item)
    return by_kind[True] - by_kind[False]


def unless_asked(links: Iterable[Link], answers: Collection[int]) -> list[Link]:
    """The links, with less weight for edges to items that the query does not ask for."""
    return [
        link._replace(weight=UNASKED * link.weight) if link.kind == "edge" and link.item not in answers else link
        for link in links
    ]


def names_something(named: Mapping[int, float]) -> bool:
    """Whether the query names something for sure. `named`: the items of names in it, with their strengths."""
    return max(named.values(), default=0.0) > PERHAPS


def mention_factor(named: Mapping[int, float], *, asks: bool) -> float:
    """Factor of the mentions of starts. `named`: what the query names. `asks`: whether it is a question.

    "Who directed the comedy with the singer of that song?" describes what it does not name: the best hit by text, whose
    mentions lead to the answer. A topic ("articles on sorting") is not answered one step further.
    """
    return INSTEAD_OF_NAMES if asks and not names_something(named) else 1.0


def rank_by_links(
    strengths: Mapping[int, float], links: Iterable[Link], limit: int = CANDIDATES, mentions: float = 1.0
) -> Hits:
    """Rank the items that links lead to by the sum of the strengths that reach them.

    An edge passes the strength to the power of 1.5, so that what is linked to an uncertain start hardly ever passes the
    answer. A mention, weaker evidence, passes the square. `mentions`: its `mention_factor`.
    """
    scores: dict[int, float] = {}
    for source, item, kind, weight, degree in links:
        strength = strengths[source]
        if kind != "own":
            strength *= math.sqrt(strength) if kind == "edge" else mentions * strength
        scores[item] = scores.get(item, 0.0) + strength * NEARNESS[kind] * weight * rarity(degree)
    return ranked(scores, limit)


def walk_starts(texts: Fusion, named: Mapping[int, float]) -> dict[int, float]:
    """Items from which a walk starts, with strengths in 0..1: those the query names, and the best hits by text.

    A hit by text starts at BEST_HIT or less: its strength falls with the square of its score.
    """
    ids, scores = texts.hits.ids[:WALK_STARTS].tolist(), texts.hits.scores[:WALK_STARTS].tolist()
    strengths: dict[int, float] = {}
    for item, score in zip(ids, scores, strict=True):
        if score > 0 and (strength := BEST_HIT * (score / scores[0]) ** 2) >= LEAST_START:
            strengths[item] = strength
    for item, strength in named.items():
        strengths[item] = max(strengths.get(item, 0.0), strength)
    return strengths


# ---------------------------------------------------------------- tags

Use = tuple[int, str, int]
"""An item, one of its tags, and the number of items with that tag."""
MOST_TAGS: Final = 62
"""Tags of one query that are looked at, the rarest: SQLite has one bit of an integer for each."""


def rank_by_tags(carried: Iterable[Use], limit: int = CANDIDATES) -> Hits:
    """Rank items by number and rarity of their tags: a tag on few items says more."""
    scores: dict[int, float] = {}
    for item, _, uses in carried:
        scores[item] = scores.get(item, 0.0) + rarity(uses)
    return ranked(scores, limit)


def selective_tags(uses: Mapping[str, int]) -> list[str]:
    """Tags shared by 2 to HUB items, rarest first, up to CANDIDATES uses in all."""
    chosen: list[str] = []
    total = 0
    for count, tag in sorted([(count, tag) for tag, count in uses.items() if 1 < count <= limits.HUB]):
        total += count
        if total > CANDIDATES:
            break
        chosen.append(tag)
    return chosen


def rank_by_shared_tags(strengths: Mapping[int, float], carried: Iterable[Use], limit: int = CANDIDATES) -> Hits:
    """Rank items by the tags they share with a start; each tag passes on the strength of the best other start.

    Strengths are not summed over the starts, or items with many tags would rank as high as those with the right ones.
    """
    tags: dict[str, tuple[float, list[int]]] = {}
    for item, tag, uses in carried:
        tags.setdefault(tag, (rarity(uses), []))[1].append(item)
    scores: dict[int, float] = {}
    for weight, items in tags.values():
        starts = sorted([(strengths[item], item) for item in items if item in strengths], reverse=True)
        (best, strongest), (second, _) = [*starts, _NO_START, _NO_START][:2]
        for item in items:
            scores[item] = scores.get(item, 0.0) + (second if item == strongest else best) * weight
    return ranked({item: score for item, score in scores.items() if score > 0}, limit)


_NO_START = (0.0, 0)

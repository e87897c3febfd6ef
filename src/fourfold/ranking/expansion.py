"""Expansion: what links and tags find from the best hits of vectors and words, before all lists are fused.

1. The lists of vectors and words are fused, with the weights that `auto` gives them.
2. The best hits and what the query names are starts (`connections.walk_starts`).
3. Links lead from the starts to items (`walk`), and so do tags (`shared`).
4. Vectors and words score the items that are in other lists only (`unlisted`).

A store with columns of links and tags does all of it in one call of the kernel; tests compare both ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from fourfold.frozen import value
from fourfold.retrieval import Background, Hits, Ranking

if TYPE_CHECKING:
    from fourfold.retrieval import Ints

SHARED: Final = "shared"
MOST_NAMED: Final = 200
"""Items that the query names, up to which the kernel expands: it compares all of them with each other."""


@value
class Expansion:
    texts: Mapping[str, Hits]
    """The lists of vectors and words that answered."""
    weights: Mapping[str, float]
    """The weights of the lists that have hits and count."""
    average: Background | None
    named: Mapping[int, float]
    """Items that the query names, with strengths in 0..1."""
    mentions: float
    """Factor of the mentions of starts (`connections.mention_factor`)."""
    others: Sequence[Ints]
    """Ids in the lists of other retrievers."""
    wanted: frozenset[str]
    """`walk`, `shared` or both."""
    limit: int
    """Of each list that is made."""


@value
class Expanded:
    lists: Mapping[str, Hits]
    """Those that were wanted; none if there is nothing to start from."""
    unlisted: Mapping[str, Ints]
    """For vectors and words, the ids that are in other lists only, unless they were scored."""
    scores: Mapping[str, Ranking]
    """For vectors and words, the scores of these ids."""

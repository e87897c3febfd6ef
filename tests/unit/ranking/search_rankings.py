"""Ranked lists for the property tests."""

from hypothesis import strategies as st

from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Hit

IDS = st.integers(1, 40)
SCORES = st.floats(-1, 30, allow_nan=False).map(lambda score: round(score, 3))


def _best_first(scores: dict[int, float]) -> list[Hit]:
    return sorted((Hit(id, score) for id, score in scores.items()), key=lambda hit: (-hit.score, hit.id))


hit_lists = st.dictionaries(IDS, SCORES, max_size=20).map(_best_first)
named_lists = st.dictionaries(st.sampled_from(tuple(RETRIEVERS)), hit_lists, max_size=4)
weights = st.fixed_dictionaries({name: st.floats(0, 1) for name in RETRIEVERS})


def by_rank(*ids: int) -> list[Hit]:
    """A list of hits in this order, with arbitrary scores."""
    return [Hit(id, 1 - place / 100) for place, id in enumerate(ids)]

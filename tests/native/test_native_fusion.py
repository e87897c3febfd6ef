"""Fusion in the kernel against the same arithmetic in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold import native
from fourfold.native.fusion import missing
from fourfold.ranking.auto import fuse_scaled, fused_in_python
from fourfold.ranking.retrievers import EXPANSIONS, RETRIEVERS
from fourfold.retrieval import Background, Hits

NAMES = (*RETRIEVERS, *EXPANSIONS.values())
IDS = st.lists(st.integers(0, 60), min_size=1, max_size=40, unique=True)


@st.composite
def hits(draw: st.DrawFn, name: str) -> Hits:
    ids = draw(IDS)
    least = -1.0 if name == "semantic" else draw(st.sampled_from([0.0, 0.001]))
    drawn = draw(st.lists(st.floats(least, 30.0) | st.sampled_from([0.5, 1.0]), min_size=len(ids), max_size=len(ids)))
    scores = [min(score, 1.0) if name == "semantic" else score for score in drawn]
    return Hits(np.array(ids, np.int64), np.array(sorted(scores, reverse=True), np.float64))


@st.composite
def lists(draw: st.DrawFn) -> dict[str, Hits]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    return {name: draw(hits(name)) for name in names}


@given(lists(), st.data(), st.none() | st.floats(-1.5, 1.0).map(Background))
def test_scores_and_contributions_are_those_of_python(given_lists, data, average):
    unlisted = {name: data.draw(hits(name)) for name in given_lists if name in ("semantic", "keyword")}
    weights = {name: data.draw(st.floats(0.001, 1.0)) for name in given_lists}
    found, expected = (
        fuse(given_lists, unlisted, weights, average, weights) for fuse in (fuse_scaled, fused_in_python)
    )
    assert found.ids == expected.ids
    assert found.hits.scores.tolist() == expected.hits.scores.tolist()
    assert found.weights == expected.weights
    for one, other in zip(found.parts, expected.parts, strict=True):
        assert (one.source, one.weight, one.listed) == (other.source, other.weight, other.listed)
        assert one.raw.ids.tolist() == other.raw.ids.tolist()
        assert one.raw.scores.tolist() == other.raw.scores.tolist()
        assert one.values.tolist() == other.values.tolist()
    for item in found.ids:
        assert sum(line.value for line in found.contributions(item)) == found.scores[item]


@given(st.lists(st.integers(-5, 40), max_size=80), st.lists(st.integers(-5, 40), max_size=40))
def test_missing_ids_are_named_once_in_their_order(ids, known):
    expected = list(dict.fromkeys(each for each in ids if each not in known))
    assert missing(np.array(ids, np.int64), np.array(known, np.int64)).tolist() == expected


def test_columns_of_another_type_are_refused():
    with pytest.raises(ValueError, match="contiguous"):
        missing(np.arange(4, dtype=np.int32), np.arange(4))
    with pytest.raises(ValueError, match="contiguous"):
        native.order(np.arange(8)[::2], np.ones(4))

"""Expansion in one call of the kernel gives what its steps give one after the other."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fourfold.index.link_state import LinkRows, LinkState
from fourfold.limits import CANDIDATES
from fourfold.native.rankings import missing
from fourfold.ranking.connections import INSTEAD_OF_NAMES, walk_starts
from fourfold.ranking.fusion import TEXTS, Expanded, Expansion, fuse_scaled, grid_of, mean_of
from fourfold.retrieval import Background, Hits

ITEMS, NODES, TAGS = 30, 12, 6
ITEM, NODE, TAG = (st.integers(1, count) for count in (ITEMS, NODES, TAGS))
IDS = st.lists(st.integers(1, ITEMS + 4), max_size=25, unique=True)


def pairs(first: Any, second: Any) -> Any:
    return st.lists(st.tuples(first, second), max_size=40, unique=True).map(
        lambda found: np.array(found, np.int64).reshape(-1, 2).T.copy()
    )


@st.composite
def links(draw: st.DrawFn) -> LinkState:
    owned, mentions, edges = draw(pairs(NODE, ITEM)), draw(pairs(NODE, ITEM)), draw(pairs(NODE, NODE))
    tagged = draw(pairs(TAG.map(lambda tag: tag - 1), ITEM))
    numbers = range(1, NODES + 1)
    counts = [[np.count_nonzero(column == node) for node in numbers] for column in (owned[0], mentions[0])]
    degrees = [np.count_nonzero(edges == node) for node in numbers]
    return LinkState(
        LinkRows(
            items=np.arange(1, ITEMS + 1),
            nodes=np.arange(1, NODES + 1),
            counts=np.array([*counts, degrees], np.int64),
            names=np.empty((2, 0), np.int64),
            owned=owned,
            mentions=mentions,
            edges=edges,
            weights=np.array(draw(st.lists(st.floats(0.1, 2.0), min_size=edges.shape[1], max_size=edges.shape[1]))),
            tags=[f"tag-{number}" for number in range(TAGS)],
            tag_ids=range(TAGS),
            tagged=tagged,
        )
    )


@st.composite
def hits(draw: st.DrawFn) -> Hits:
    ids = draw(IDS)
    scores = draw(st.lists(st.floats(0.0, 1.0) | st.just(0.5), min_size=len(ids), max_size=len(ids)))
    return Hits(np.array(ids, np.int64), np.array(sorted(scores, reverse=True), np.float64))


@st.composite
def expansions(draw: st.DrawFn) -> Expansion:
    texts = {name: draw(hits()) for name in draw(st.lists(st.sampled_from(TEXTS), unique=True))}
    weights = {name: draw(st.floats(0.01, 1.0)) for name, found in texts.items() if len(found) and draw(st.booleans())}
    named = dict(draw(st.lists(st.tuples(ITEM, st.floats(0.1, 1.0)), max_size=6)))
    others = [np.array(ids, np.int64) for ids in draw(st.lists(IDS, max_size=2))]
    wanted = draw(st.sampled_from([{"walk"}, {"shared"}, {"walk", "shared"}]))
    average = draw(st.none() | st.floats(-0.5, 0.9).map(Background))
    mentions = draw(st.sampled_from([1.0, INSTEAD_OF_NAMES]))
    return Expansion(
        texts, weights, mean_of(average), grid_of(weights), named, mentions, others, frozenset(wanted), CANDIDATES
    )


def step_by_step(state: LinkState, asked: Expansion, allowed: Any) -> Expanded:
    fused = fuse_scaled(asked.texts, {}, asked.weights, Background(asked.average), asked.weights)
    starts = walk_starts(fused, asked.named)
    steps = {"walk": partial(state.walk, mentions=asked.mentions), "shared": state.shared}
    found = {name: steps[name](starts, allowed, CANDIDATES) for name in sorted(asked.wanted)[::-1]} if starts else {}
    every = [hits.ids for hits in asked.texts.values()] + [*asked.others] + [hits.ids for hits in found.values()]
    listed = np.concatenate([np.empty(0, np.int64), *every])
    return Expanded(found, {name: missing(listed, hits.ids) for name, hits in asked.texts.items()}, {})


@given(links(), expansions(), st.none() | st.sets(ITEM).map(lambda ids: np.array(sorted(ids), np.int64)))
@settings(deadline=None)
def test_expansion_in_the_kernel_gives_what_its_steps_give(state: LinkState, asked: Expansion, allowed: Any) -> None:
    found, expected = state.expand(asked, allowed, {}), step_by_step(state, asked, allowed)
    assert {name: list(hits) for name, hits in found.lists.items()} == {
        name: list(hits) for name, hits in expected.lists.items()
    }
    for name, ids in expected.unlisted.items():
        assert sorted(found.unlisted[name].tolist()) == sorted(ids.tolist())

"""What a search asks of the embedded store, each inside one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import compress
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from fourfold.embed.vectors import check_dimension
from fourfold.limits import CANDIDATES
from fourfold.model import Filters, Item, Query, Ranking
from fourfold.search.sharing import telling
from fourfold.search.walk import Link, longest
from fourfold.stores.base import TagUse
from fourfold.stores.sqlite import chunks, graph_search, items, tags, text_index, vector_index
from fourfold.stores.sqlite.indexes import Indexes
from fourfold.stores.sqlite.moment import Moment

if TYPE_CHECKING:
    from fourfold.model import Vector


_HELPERS = 4


class OfItem(Protocol):
    @property
    def item(self) -> int: ...


I = TypeVar("I", bound=OfItem)  # noqa: E741


class Retrieval:
    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes
        self._helpers = ThreadPoolExecutor(_HELPERS, "fourfold-near")
        self._languages: dict[int, tuple[int, Mapping[str, int]]] = {}
        """By namespace: as of which change."""
        self._tags = tags.SeenTags()

    def close(self) -> None:
        self._helpers.shutdown()

    def begin(self, at: Moment, query: Query) -> None:
        """Begins to look for what is nearest to the query's vector; `nearest` then waits for it."""
        if query.vector is None or at.space is None:
            return
        check_dimension(len(query.vector), at.space.dimension)
        with self._indexes.vectors(at, at.space) as state:
            allowed = self._indexes.allowed(at, query.filters)
            at.ahead = self._helpers.submit(vector_index.search, state, query.vector, CANDIDATES, allowed)

    def nearest(self, at: Moment, vector: Vector, limit: int, filters: Filters) -> Ranking:
        if at.space is None:
            return Ranking(pending=at.size.pending)
        check_dimension(len(vector), at.space.dimension)
        with self._indexes.vectors(at, at.space) as state:
            begun, at.ahead = at.ahead, None
            if begun is not None and limit <= CANDIDATES:
                found = begun.result()
            else:
                found = vector_index.search(state, vector, limit, self._indexes.allowed(at, filters))
        return Ranking(found.hits[:limit], found.background, at.size.pending)

    def similarities(self, at: Moment, vector: Vector, ids: Sequence[int]) -> Ranking:
        if at.space is None:
            return Ranking()
        check_dimension(len(vector), at.space.dimension)
        with self._indexes.vectors(at, at.space) as state:
            return vector_index.score(state, vector, ids)

    def match(self, at: Moment, text: str, limit: int, filters: Filters) -> Ranking:
        with self._indexes.texts(at) as state:
            query = state.query(text, self._languages_of(at))
            return text_index.search(state, query, limit, self._indexes.allowed(at, filters))

    def match_scores(self, at: Moment, text: str, ids: Sequence[int]) -> Ranking:
        with self._indexes.texts(at) as state:
            return text_index.score(state, state.query(text, self._languages_of(at)), ids)

    def _languages_of(self, at: Moment) -> Mapping[str, int]:
        known = self._languages.get(at.ns)
        if known is None or known[0] != at.last:
            known = self._languages[at.ns] = (at.last, at.languages)
        return known[1]

    def node_links(self, at: Moment, names: Sequence[str], filters: Filters) -> list[Link]:
        known = graph_search.known_names(at.db, at.ns, names)
        nodes = {node for name in longest(list(known)) for node in known[name]}
        return self._passing(at, filters, graph_search.node_links(at.db, sorted(nodes)) if nodes else [])

    def item_links(self, at: Moment, ids: Sequence[int], filters: Filters) -> list[Link]:
        return self._passing(at, filters, graph_search.item_links(at.db, at.ns, ids))

    def tagged(self, at: Moment, candidates: Sequence[str], filters: Filters) -> list[TagUse]:
        likely = self._tags.among(at.db, at.ns, at.last, candidates)
        return self._passing(at, filters, tags.tagged(at.db, at.ns, likely))

    def sharing(self, at: Moment, ids: Sequence[int], filters: Filters) -> list[TagUse]:
        shared = telling(tags.carried(at.db, at.ns, ids))
        return self._passing(at, filters, tags.tagged(at.db, at.ns, shared))

    def named_chunks(self, at: Moment, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
        return chunks.named(at.db, at.ns, names, filters) if at.has_files else []

    def get(self, at: Moment, ids: Sequence[int]) -> dict[int, Item]:
        return items.get(at.db, at.namespace, at.ns, ids)

    def _passing(self, at: Moment, filters: Filters, found: list[I]) -> list[I]:
        """Those whose item passes."""
        if not found:
            return found
        allowed = self._indexes.allowed(at, filters)
        if allowed is None:
            return found
        ids = np.array([each.item for each in found], np.int64)
        places = np.minimum(np.searchsorted(allowed, ids), max(len(allowed) - 1, 0))
        passes = allowed[places] == ids if len(allowed) else np.zeros(len(ids), np.bool_)
        return list(compress(found, passes))

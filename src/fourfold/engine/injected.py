"""Rankings of injected retrievers: checked, and with ids of items in place of keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from fourfold.errors import InvalidRanking
from fourfold.retrieval import Hit, Hits, Ranking

FindKeys: TypeAlias = Callable[[str, Sequence[str]], Mapping[str, int]]
"""The ids of those of these keys that a namespace has."""


def with_item_ids(given: object, retriever: str, namespace: str, find_keys: FindKeys | None) -> Ranking:
    """The ranking with ids of items; hits of unknown keys are dropped, and a note counts them."""
    if not isinstance(given, Ranking):
        raise _invalid(retriever, f"returned a {type(given).__name__}", "Return a Ranking")
    if isinstance(given.hits, Hits):  # made by the engine
        return given
    hits = [_hit(retriever, each) for each in cast("Sequence[object]", given.hits)]
    keys = [hit[0] for hit in hits if isinstance(hit[0], str)]
    if not keys:
        return replace(given, hits=_each_once(cast("Sequence[tuple[int, float]]", hits)))
    if find_keys is None:
        raise _invalid(
            retriever, f"returned the id {keys[0]!r}", "Return ids of items, or give HybridSearch `find_keys`"
        )
    ids = find_keys(namespace, keys)
    known = [(ids[item] if isinstance(item, str) else item, score) for item, score in hits if _is_known(item, ids)]
    dropped = len(hits) - len(known)
    note = (f"{retriever}: {dropped} of {len(hits)} keys belong to no item",) if dropped else ()
    return replace(
        given,
        hits=_each_once(known),
        evidence=_by_id(given.evidence, ids),
        related=_by_id(given.related, ids),
        notes=(*given.notes, *note),
    )


def _hit(retriever: str, given: object) -> tuple[int | str, float]:
    match given:
        case (int() | str() as item, int() | float() as score) if not isinstance(item, bool) and math.isfinite(score):
            return item, float(score)
        case _:
            raise _invalid(retriever, f"returned the hit {given!r}", "A hit is Hit(id or key of an item, finite score)")


def _is_known(item: int | str, ids: Mapping[str, int]) -> bool:
    return not isinstance(item, str) or item in ids


def _each_once(hits: Sequence[tuple[int, float]]) -> tuple[Hit, ...]:
    """The first hit of each item: a retriever lists its best first."""
    best: dict[int, float] = {}
    for item, score in hits:
        best.setdefault(item, score)
    return tuple(Hit(item, score) for item, score in best.items())


def _by_id(told: Mapping[Any, float], ids: Mapping[str, int]) -> dict[int, float]:
    return {ids.get(item, 0) if isinstance(item, str) else item: share for item, share in told.items()}


def _invalid(retriever: str, what: str, remedy: str) -> InvalidRanking:
    return InvalidRanking(f"the retriever {retriever!r} {what}", remedy)

"""Why an item is where it is, or was not found, a line for each planned retriever (B2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fourfold.limits import CANDIDATES
from fourfold.model import Item, Plan
from fourfold.search.diversity import shared_text
from fourfold.search.fusion import columns
from fourfold.search.order import ranks
from fourfold.search.pipeline import Found

_SCORE = {"semantic": "cosine", "keyword": "BM25"}
_NOTHING = {
    "semantic": "the item has no vector yet",
    "keyword": "the item contains none of the query's words",
    "graph": "nothing that the query names is connected with the item",
    "tags": "the item carries no tag that the query names",
}


def reasons(item: int, plan: Plan, found: Found, scores: Mapping[str, float], passes_filters: bool) -> tuple[str, ...]:
    """`scores`: what retrievers say of the item, listed or not."""
    lines = [] if passes_filters else ["the filters leave it out"]
    failed = {failure.retriever: failure.reason for failure in found.degraded}
    for name in plan.retrievers:
        lines.append(f"{name}: {failed.get(name) or _placed(name, item, found, scores.get(name))}")
    return tuple(lines)


def _placed(name: str, item: int, found: Found, score: float | None) -> str:
    hits = columns(found.rankings[name].hits)
    what = _SCORE.get(name, "score")
    for rank, hit in zip(ranks(hits.scores).tolist(), hits, strict=True):
        if hit.id == item:
            return f"rank {rank} of {len(hits)}, {what} {hit.score:.4g}"
    if score is None or (score == 0 and name != "semantic"):
        return _NOTHING[name]
    last = f"the best {CANDIDATES} end at {hits[-1].score:.4g}" if hits else "it listed nothing"
    return f"not listed with {what} {score:.4g}: {last}"


def folded(item: Item, better: Iterable[Item]) -> tuple[str, ...]:
    """One line if a better item of another file has the same text: a search shows that one, and this as its copy."""
    text = shared_text(item)
    same = (one for one in better if text is not None and one.path != item.path and shared_text(one) == text)
    return tuple(f"folded: item {one.id} ({one.location}) has the same text and comes first" for one in same)[:1]

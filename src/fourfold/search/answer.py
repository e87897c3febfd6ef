"""From what a search found to what its caller gets: rows, snippets, confidence, explanations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from fourfold import limits
from fourfold.model import Contribution, Degraded, Filters, Hits, Item, Json, Plan, Ranking, Result, SearchResponse
from fourfold.search.auto import TEXTS
from fourfold.search.confidence import Evidence, response_confidence, result_confidence
from fourfold.search.diversity import at_most_per_source, each_text_once, with_copies
from fourfold.search.explain import explain
from fourfold.search.fusion import columns, others
from fourfold.search.order import with_recency
from fourfold.search.pipeline import Found
from fourfold.search.recency import recency_factor

if TYPE_CHECKING:
    from fourfold.model import Ints

Fetch = Callable[[Sequence[int]], Awaitable[Mapping[int, Item]]]


@dataclass(frozen=True, slots=True)
class Wish:
    """How the caller wants the answer."""

    per_source: int | None = None
    min_confidence: float = 0.0
    explain: bool = False
    at_least: int = 1
    """So many results are read, even if top_k is smaller."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """The final ranking, with the items that had to be read for it and their recency factors."""

    hits: Hits
    items: dict[int, Item]
    factors: Mapping[int, float]


async def ordered(found: Found, plan: Plan, fetch: Fetch, now: datetime) -> Ordered:
    """Fusion's order, or what recency makes of it."""
    fusion = found.fusion
    if plan.recency is None:
        return Ordered(fusion.hits, {}, {})
    items = dict(await fetch(fusion.ids))
    factors = {item.id: recency_factor(plan.recency, item.updated_at, now, item.tags) for item in items.values()}
    return Ordered(with_recency(fusion.hits, factors), items, factors)


async def results(found: Found, plan: Plan, order: Ordered, fetch: Fetch, wish: Wish, text: str) -> list[Result]:
    """The top_k that the wish lets through, read in as few steps as that takes.

    Of chunks of files with the same text the best is a result; it lists the others that are among the FOLD_DEPTH best
    hits. What is dropped and listed does not depend on top_k: results for k are a prefix of those for k + n (B4).
    """
    candidates: list[Result] = []
    chosen: list[Result] = []
    wanted = max(plan.top_k, wish.at_least)
    start, step = 0, wanted
    while len(chosen) < wanted and start < len(order.hits):
        part = order.hits[start : start + step]
        await _read(order, part, fetch)
        fresh = _results(found, order, wish, text, part)
        candidates += [result for result in fresh if result.confidence >= wish.min_confidence]
        chosen = list(at_most_per_source(each_text_once(candidates), lambda result: result.item.path, wish.per_source))
        start, step = start + step, step * 4
    chosen = chosen[:wanted]
    if any(result.item.path is not None for result in chosen):
        best = order.hits[: limits.FOLD_DEPTH]
        await _read(order, best, fetch)
        chosen = with_copies(chosen, [order.items[item] for item in best.ids.tolist() if item in order.items])
    return chosen


async def _read(order: Ordered, hits: Hits, fetch: Fetch) -> None:
    missing = [item for item in hits.ids.tolist() if item not in order.items]
    order.items.update(await fetch(missing) if missing else {})


def _results(found: Found, order: Ordered, wish: Wish, text: str, part: Hits) -> Iterator[Result]:
    told = zip(part, found.fusion.lines(part.ids), found.raw("semantic", part.ids), strict=True)
    for (item, score), lines, cosine in told:
        if item not in order.items:
            continue
        factor = order.factors.get(item, 1.0)
        yield Result(
            item=order.items[item],
            score=score,
            confidence=round(result_confidence(_evidence(found, item, cosine)), 6),
            query=text,
            contributions=lines,
            recency=factor,
            explanation=explain(lines, score, factor) if wish.explain else None,
            graph_distance=_graph_distance(found, item, lines),
        )


def _graph_distance(found: Found, item: int, lines: Sequence[Contribution]) -> int | None:
    """The graph retriever lists what the query names, its evidence, and what lies one step from that."""
    if not any(line.source == "graph" and line.rank is not None for line in lines):
        return None
    return 0 if item in found.rankings["graph"].evidence else 1


def _evidence(found: Found, item: int, cosine: float | None) -> Evidence:
    """What every retriever knows of the item; one that keyword search did not find has none of the words."""
    tags, graph = (found.rankings.get(name, _SILENT) for name in ("tags", "graph"))
    return Evidence(
        cosine=cosine,
        coverage=found.coverage.get(item, 0.0) if "keyword" in found.rankings else None,
        tags=tags.evidence.get(item, 0.0),
        relation=graph.related.get(item, 0.0),
    )


_SILENT: Final = Ranking()


def response(
    text: str, plan: Plan, filters: Filters, found: Found, chosen: Sequence[Result], total_ms: float
) -> SearchResponse:
    listed = {name: columns(ranking.hits).ids for name, ranking in found.rankings.items()}
    return SearchResponse(
        query=text,
        plan=plan,
        applied_weights=found.fusion.weights,
        filters=filters,
        confidence=response_confidence(result.confidence for result in chosen),
        counts={name: len(ids) for name, ids in listed.items()},
        overlap=_overlap(listed["semantic"], listed["keyword"]) if {*TEXTS} <= listed.keys() else 0,
        degraded=(*found.degraded, *_lacking(found)),
        notes=found.notes,
        timings_ms={name: round(spent, 3) for name, spent in {**found.timings_ms, "total": total_ms}.items()},
        results=tuple(chosen),
    )


def _overlap(one: Ints, other: Ints) -> int:
    return len(other) - len(others(one, [other]))


def log_fields(response: SearchResponse) -> dict[str, Json]:
    """What a log may say of a search (S2.4): numbers and names, nothing that was asked or stored."""
    return {
        "preset": response.plan.preset,
        "fusion": response.plan.fusion,
        "results": len(response.results),
        "degraded": [failure.retriever for failure in response.degraded],
        **{f"{name}_count": count for name, count in response.counts.items()},
        **{f"{name}_ms": spent for name, spent in response.timings_ms.items()},
    }


def _lacking(found: Found) -> list[Degraded]:
    """Retrievers that answered, but could not see everything (B3)."""
    return [
        Degraded(name, _waiting(ranking.pending), ranking.pending)
        for name, ranking in found.rankings.items()
        if ranking.pending
    ]


def _waiting(count: int) -> str:
    return "1 item waits for its vector" if count == 1 else f"{count} items wait for their vectors"

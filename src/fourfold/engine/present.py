"""From what a search found to what its caller gets: rows, snippets, confidence, explanations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar, cast, overload

from fourfold import limits
from fourfold.engine.confidence import Judge
from fourfold.engine.pipeline import Outcome, hits_of
from fourfold.engine.scope import CURRENT, View, happened
from fourfold.errors import InvalidQuery
from fourfold.frozen import value
from fourfold.limits import VERSIONS, WINDOWS
from fourfold.model import Filters, Item, Json
from fourfold.ranking.factors import TimeMode, explained, recency_factor, source_weight, window_factor
from fourfold.ranking.fusion import NO_HITS, Fusion, with_factors
from fourfold.ranking.plan import PRESETS
from fourfold.retrieval import (
    Candidates,
    Contribution,
    Degraded,
    Hits,
    Part,
    Plan,
    Query,
    Ranking,
    Result,
    SearchResponse,
    TimeWindow,
)
from fourfold.storage.protocols import Snapshot
from fourfold.storage.sql.rows import fact_key

if TYPE_CHECKING:
    from fourfold.retrieval import Ints
    from fourfold.storage.sql.reading import ItemReader

Fetch = Callable[[Sequence[int]], Mapping[int, Item]]
T = TypeVar("T")


@value
class ResultOptions:
    """How the caller wants the results."""

    per_source: int | None = None
    """Maximum number of results from one file; None: that of the preset."""
    min_confidence: float = 0.0
    explain: bool = False
    at_least: int = 1
    """Results to read even if top_k is smaller."""
    candidates: bool = False
    time: TimeMode = "off"
    view: View = CURRENT


@value
class Ordered:
    """The final ranking, with the items that had to be read for it and the factors of their scores."""

    hits: Hits
    items: dict[int, Item]
    factors: Mapping[int, float]
    """Factors of recency by item."""
    windows: Mapping[int, float] = field(default_factory=dict[int, float])
    """Factors of the time window by item."""
    sources: Mapping[int, float] = field(default_factory=dict[int, float])
    """Weights of their sources."""


def ordered(outcome: Outcome, plan: Plan, fetch: Fetch, now: datetime, window: TimeWindow | None = None) -> Ordered:
    """Fusion's order, or what recency, a time window and weights of sources make of it."""
    fusion = outcome.fusion
    boosted = window if window is not None and window.applied == "boost" else None
    if plan.recency is None and boosted is None and plan.source_weights is None:
        return Ordered(fusion.hits, {}, {})
    items = dict(fetch(fusion.ids))
    hits, factors, windows, sources = fusion.hits, dict[int, float](), dict[int, float](), dict[int, float]()
    if plan.recency is not None:
        factors = {item.id: recency_factor(plan.recency, item.updated_at, now, item.tags) for item in items.values()}
        hits = with_factors(hits, factors)
    if boosted is not None:
        windows = {item.id: window_factor(boosted, happened(item), plan.fusion) for item in items.values()}
        hits = with_factors(hits, windows)
    if plan.source_weights is not None:
        sources = {item.id: source_weight(plan.source_weights, item.source) for item in items.values()}
        hits = with_factors(hits, sources)
    return Ordered(hits, items, factors, windows, sources)


def results(
    outcome: Outcome, plan: Plan, order: Ordered, fetch: Fetch, options: ResultOptions, judge: Judge, text: str
) -> list[Result]:
    """The top_k that the options lets through, read in as few steps as that takes.

    Of chunks of files with the same text the best is a result; it lists the others that are among the FOLD_DEPTH best
    hits. What is dropped and listed does not depend on top_k: results for k are a prefix of those for k + n.
    """
    candidates: list[Result] = []
    chosen: list[Result] = []
    wanted = max(plan.top_k, options.at_least)
    per_source = options.per_source or PRESETS[plan.preset].per_source
    ids, scores = order.hits.ids, order.hits.scores
    start, step, of_files = 0, wanted, False
    while len(chosen) < wanted and start < len(ids):
        part = Hits(ids[start : start + step], scores[start : start + step])
        _read(order, part.ids, fetch)
        fresh = _results(outcome, order, options, judge, text, part)
        candidates += [result for result in fresh if result.confidence >= options.min_confidence]
        of_files = any(map(_path, candidates))
        chosen = list(at_most_per_source(each_text_once(candidates), _path, per_source)) if of_files else candidates
        start, step = start + step, step * 4
    chosen = chosen[:wanted]
    if of_files:
        best = ids[: limits.FOLD_DEPTH]
        _read(order, best, fetch)
        chosen = with_copies(chosen, [order.items[item] for item in best.tolist() if item in order.items])
    return chosen


_path: Final = attrgetter("item.path")


def candidates(outcome: Outcome, order: Ordered, fetch: Fetch, age: Callable[[Item], float]) -> Candidates:
    """Everything that was fused, with the items of all lists. `age`: the recency factor of an item at strength 1."""
    ids = {hit.id for ranking in outcome.rankings.values() for hit in ranking.hits} | set(order.hits.ids.tolist())
    ids |= {item for chunks in outcome.files.values() for item in chunks}
    missing = sorted(ids - order.items.keys())
    order.items.update(fetch(missing) if missing else {})
    parts = {part.source: part for part in outcome.fusion.parts}
    scaled = {
        name: dict(zip(part.raw.ids.tolist(), (part.values / part.weight).tolist(), strict=True))
        for name, part in parts.items()
    }
    weights = {name: part.weight for name, part in parts.items()}
    ages = {item.id: age(item) for item in order.items.values()}
    return Candidates(
        lists=outcome.rankings,
        unlisted=outcome.scores,
        weights=weights,
        scaled=scaled,
        recency=order.factors,
        windows=order.windows,
        ages=ages,
        files=outcome.files,
        items=order.items,
        order=list(order.hits),
    )


def _read(order: Ordered, ids: Ints, fetch: Fetch) -> None:
    missing = [item for item in ids.tolist() if item not in order.items]
    order.items.update(fetch(missing) if missing else {})


def _results(
    outcome: Outcome, order: Ordered, options: ResultOptions, judge: Judge, text: str, part: Hits
) -> list[Result]:
    graph = outcome.rankings.get("graph", _SILENT)
    connected = outcome.fusion.listed("graph") if len(hits_of(graph).ids) else frozenset[int]()
    lines = Lines(outcome.fusion, part.ids)
    factored = bool(order.factors or order.windows or order.sources)
    made: list[Result] = []
    rows = zip(part.ids.tolist(), part.scores.tolist(), judge.confidences(part.ids), strict=True)
    for place, (item, score, confidence) in enumerate(rows):
        if (stored := order.items.get(item)) is None:
            continue
        distance = None if item not in connected else 0 if item in graph.evidence else 1
        contributions = LazyContributions(lines, place)
        result = Result(stored, score, confidence, text, contributions, graph_distance=distance)
        if factored:
            age, window, source = (each.get(item, 1.0) for each in (order.factors, order.windows, order.sources))
            result = replace(result, recency=age, window=window, outside_window=window != 1, source_weight=source)
        made.append(explained(result) if options.explain else result)
    return made


_SILENT: Final = Ranking(NO_HITS)


# ---------------------------------------------------------------- variety: a limit per file, and each text once


def at_most_per_source(results: Iterable[T], path: Callable[[T], str | None], per_source: int | None) -> Iterator[T]:
    """Yield results in order, at most `per_source` (None: no limit) per path; results without a path all stay."""
    taken: Counter[str] = Counter()
    for result in results:
        source = path(result)
        if per_source is None or source is None or taken[source] < per_source:
            yield result
        if source is not None:
            taken[source] += 1


def each_text_once(results: Iterable[Result]) -> Iterator[Result]:
    """Yield results in order, skipping file chunks whose text an earlier result from another file has."""
    seen: dict[str, str] = {}
    for result in results:
        path = result.item.path
        text = None if path is None else shared_text(result.item)
        if text is None or path is None or seen.setdefault(text, path) == path:
            yield result


def with_copies(results: Iterable[Result], best: Iterable[Item]) -> list[Result]:
    """Add to each result the locations of its text in other files among the `best` items."""
    places: dict[str, dict[str, str]] = {}
    for item in best:
        text = shared_text(item)
        if text is not None and item.path is not None:
            places.setdefault(text, {}).setdefault(item.path, item.location or item.path)
    return [_with_copies(result, places.get(shared_text(result.item) or "", {})) for result in results]


def _with_copies(result: Result, places: Mapping[str, str]) -> Result:
    others = tuple(location for path, location in places.items() if path != result.item.path)
    return replace(result, also_in=others) if others else result


def shared_text(item: Item) -> str | None:
    """Text by which chunks of different files are copies of each other; None for other items and empty chunks."""
    return item.text.strip() or None if item.path is not None and item.key is None else None


def check_per_source(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidQuery(f"per_source is {value!r}", "Give a whole number from 1 upwards")
    return value


# ---------------------------------------------------------------- the response


def response(
    text: str, plan: Plan, filters: Filters, outcome: Outcome, chosen: Sequence[Result], items: int, total_ms: float
) -> SearchResponse:
    """`items`: of the namespace."""
    return SearchResponse(
        query=text,
        plan=plan,
        applied_weights=outcome.fusion.weights,
        filters=filters,
        confidence=response_confidence(chosen),
        counts={name: len(hits_of(ranking).ids) for name, ranking in outcome.rankings.items()},
        overlap=outcome.overlap,
        degraded=(*outcome.degraded, *_lacking(outcome, items)),
        notes=outcome.notes,
        timings_ms={
            name: round(spent * 1000) / 1000 for name, spent in (*outcome.timings_ms.items(), ("total", total_ms))
        },
        results=tuple(chosen),
    )


def log_fields(response: SearchResponse) -> dict[str, Json]:
    """The log fields of a search: numbers and names, no stored text and no query."""
    return {
        "preset": response.plan.preset,
        "fusion": response.plan.fusion,
        "results": len(response.results),
        "degraded": [failure.retriever for failure in response.degraded],
        **{f"{name}_count": count for name, count in response.counts.items()},
        **{f"{name}_ms": spent for name, spent in response.timings_ms.items()},
    }


def _lacking(outcome: Outcome, items: int) -> list[Degraded]:
    """Retrievers that answered without seeing every item."""
    return [
        Degraded(name, _waiting(ranking.pending, items), ranking.pending)
        for name, ranking in outcome.rankings.items()
        if ranking.pending
    ]


def _waiting(count: int, items: int) -> str:
    return f"{count} of {items} items {'waits for its vector' if count == 1 else 'wait for their vectors'}"


def response_confidence(results: Sequence[Result]) -> float:
    """That of the first result."""
    return results[0].confidence if results else 0.0


# ---------------------------------------------------------------- contributions, made on first access


@dataclass(eq=False)
class Lines:
    """The contributions to some items of a fusion."""

    fusion: Fusion
    ids: Ints

    @cached_property
    def of_all(self) -> Sequence[tuple[Contribution, ...]]:
        return self.fusion.lines(self.ids)


@dataclass(eq=False, repr=False, slots=True)
class LazyContributions(Sequence[Contribution]):
    """The contributions to one result, made when they are first read: most callers read none."""

    lines: Lines
    place: int

    def _lines(self) -> tuple[Contribution, ...]:
        return self.lines.of_all[self.place]

    @overload
    def __getitem__(self, index: int) -> Contribution: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Contribution, ...]: ...
    def __getitem__(self, index: int | slice) -> Contribution | tuple[Contribution, ...]:
        return self._lines()[index]

    def __len__(self) -> int:
        return len(self._lines())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._lines() == tuple(cast("Sequence[object]", other))

    def __hash__(self) -> int:
        return hash(self._lines())

    def __repr__(self) -> str:
        return repr(self._lines())

    def __reduce__(self) -> tuple[type, tuple[tuple[Contribution, ...]]]:
        return tuple, (self._lines(),)


# ---------------------------------------------------------------- the nearest part of a long item


def with_parts(snapshot: Snapshot, query: Query, results: list[Result]) -> list[Result]:
    """Names the part of each result that has several vectors, also in its explanation."""
    if query.vector is None or not results or not snapshot.size.windows:
        return results
    parts = snapshot.nearest_parts(query.vector, [result.id for result in results])
    return [_with_part(result, parts[result.id]) if result.id in parts else result for result in results]


def _with_part(result: Result, part: Part) -> Result:
    with_part = replace(result, part=part)
    return with_part if result.explanation is None else explained(with_part)


def as_believed(rows: ItemReader, results: list[Result], moment: datetime) -> tuple[list[Result], list[str]]:
    """The results as they were at a time, and a note if items were changed since: only present texts are searched.

    An item whose text of that time is not kept any more is left out.
    """
    changed = rows.versions_at(moment)
    if not changed:
        return results, []
    versions = rows.versions([changed[result.id] for result in results if result.id in changed])
    then = [replace(result, item=versions.get(changed.get(result.id, 0), result.item)) for result in results]
    kept = [result for result in then if (result.item.valid_from or result.item.created_at) <= moment]
    notes = [f"items changed since {moment:%Y-%m-%d %H:%M} UTC, found by their present texts only: {len(changed)}"]
    if lost := len(then) - len(kept):
        notes.append(f"items left out, of which the last {VERSIONS} versions are all later: {lost}")
    return kept, notes


def unread_notes(results: Sequence[Result]) -> list[str]:
    """A line for each result whose text is longer than its vectors read."""
    return [
        f"item {result.id}: its {result.part.count} vectors (at most {WINDOWS}) read the first "
        f"{len(result.item.text or result.item.title) - result.part.unread:,} characters of its text; "
        f"only keyword search reads the last {result.part.unread:,}"
        for result in results
        if result.part is not None and result.part.unread
    ]


# ---------------------------------------------------------------- superseded items, where nothing current answers

JUDGED: Final = 10
"""Number of best results that judge an answer, whatever top_k is: results for k are a prefix of those for k + n."""
ANSWERS: Final = 0.3
"""The confidence from which a result counts as an answer."""


def with_past(current: SearchResponse, everything: Sequence[Result]) -> SearchResponse:
    """Puts those of `everything` that are superseded and answer first, each after the present value of its fact."""
    past = [each for each in everything if each.item.superseded_at is not None and each.confidence >= ANSWERS]
    if not past:
        return current
    facts = {_fact(each.item) for each in past} - {None}
    present = {_fact(each.item): each for each in reversed(current.results[:JUDGED]) if _fact(each.item) in facts}
    first = [each for old in past for each in (present.get(_fact(old.item)), old) if each is not None]
    results = {each.id: each for each in (*first, *current.results)}
    return replace(current, results=tuple(results.values()), notes=(*current.notes, PAST_NOTE))


PAST_NOTE: Final = "no current item answers; results with `superseded_at` were replaced then"


def _fact(item: Item) -> str | None:
    return fact_key(item.subject, item.attribute) if item.subject and item.attribute else None


def cut(response: SearchResponse, size: int) -> SearchResponse:
    results = response.results[:size]
    return replace(response, results=results, confidence=response_confidence(results))


# ---------------------------------------------------------------- the answers of several namespaces as one

Number = TypeVar("Number", int, float)


def merged(answers: Sequence[SearchResponse]) -> SearchResponse:
    """The best of all. Scores are relative to a namespace, so each namespace is weighted by its confidence.

    That is judged by its best JUDGED results.
    """
    sure = [max([result.confidence for result in answer.results[:JUDGED]], default=0.0) for answer in answers]
    surest = max(sure, default=0.0)
    results = [
        _scaled(result, confidence / surest if surest else 1.0)
        for answer, confidence in zip(answers, sure, strict=True)
        for result in answer.results
    ]
    results.sort(key=lambda result: (-result.score, result.item.namespace, result.id))
    first = answers[0]
    chosen = results[: first.plan.top_k]
    return replace(
        first,
        confidence=response_confidence(chosen),
        counts=_summed([answer.counts for answer in answers]),
        overlap=sum(answer.overlap for answer in answers),
        degraded=tuple(failure for answer in answers for failure in answer.degraded),
        notes=tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
        timings_ms=_summed([answer.timings_ms for answer in answers]),
        time_window=_merged_window(answers),
        results=tuple(chosen),
    )


def _merged_window(answers: Sequence[SearchResponse]) -> TimeWindow | None:
    """Empty if nothing lies in it in any namespace."""
    windows = [answer.time_window for answer in answers if answer.time_window is not None]
    return next((window for window in windows if not window.empty), windows[0] if windows else None)


def _scaled(result: Result, factor: float) -> Result:
    """Multiplies every line of the score by the same factor, so that they still add up."""
    lines = tuple(
        replace(line, weight=line.weight * factor, value=line.value * factor) for line in result.contributions
    )
    score = math.prod(result.factors.values(), start=sum(line.value for line in lines))
    scaled = replace(result, contributions=lines, score=score)
    return scaled if result.explanation is None else explained(scaled)


def _summed(tables: Sequence[Mapping[str, Number]]) -> dict[str, Number]:
    total: dict[str, Number] = {}
    for table in tables:
        for name, number in table.items():
            total[name] = total[name] + number if name in total else number
    return total

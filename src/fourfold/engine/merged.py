"""The answers of several namespaces as one; each was searched with its own statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fourfold.engine.present import response_confidence
from fourfold.ranking.explain import explained
from fourfold.retrieval import Degraded, Result, SearchResponse, TimeWindow

JUDGED = 10

Number = TypeVar("Number", int, float)


def merged(answers: Sequence[SearchResponse]) -> SearchResponse:
    """The best of all. Scores are relative to a namespace, so each namespace is weighted by its confidence.

    That is judged by its best JUDGED results, whatever top_k is: results for k are a prefix of those for k + n.
    """
    sure = [response_confidence(answer.results[:JUDGED]) for answer in answers]
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
        degraded=_all_degraded(answers),
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


def _all_degraded(answers: Sequence[SearchResponse]) -> tuple[Degraded, ...]:
    return tuple(failure for answer in answers for failure in answer.degraded)

"""Answers of several namespaces as one (B15): each was searched apart, with its own statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fourfold.model import Degraded, Result, SearchResponse
from fourfold.search.confidence import response_confidence
from fourfold.search.explain import explain

JUDGED = 10

Number = TypeVar("Number", int, float)


def merged(answers: Sequence[SearchResponse]) -> SearchResponse:
    """The best of all. A score says how an item stands in its namespace, so each namespace counts by its confidence.

    That is judged by its best JUDGED results, whatever top_k is: results for k are a prefix of those for k + n (B4).
    """
    sure = [response_confidence(result.confidence for result in answer.results[:JUDGED]) for answer in answers]
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
        confidence=response_confidence(result.confidence for result in chosen),
        counts=_summed([answer.counts for answer in answers]),
        overlap=sum(answer.overlap for answer in answers),
        degraded=_all_degraded(answers),
        notes=tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
        timings_ms=_summed([answer.timings_ms for answer in answers]),
        results=tuple(chosen),
    )


def _scaled(result: Result, factor: float) -> Result:
    """Every line of the score by the same factor: they still make the score."""
    lines = tuple(
        replace(line, weight=line.weight * factor, value=line.value * factor) for line in result.contributions
    )
    score = sum(line.value for line in lines) * result.recency
    explanation = explain(lines, score, result.recency) if result.explanation is not None else None
    return replace(result, contributions=lines, score=score, explanation=explanation)


def _summed(tables: Sequence[Mapping[str, Number]]) -> dict[str, Number]:
    total: dict[str, Number] = {}
    for table in tables:
        for name, number in table.items():
            total[name] = total[name] + number if name in total else number
    return total


def _all_degraded(answers: Sequence[SearchResponse]) -> tuple[Degraded, ...]:
    return tuple(failure for answer in answers for failure in answer.degraded)

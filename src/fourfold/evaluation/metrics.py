"""Metrics of every question, in the engine's order: nDCG with linear gains, recall, hit rate, reciprocal rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log2
from typing import Final

from fourfold.evaluation.bench import Answer
from fourfold.evaluation.collection import Judgements

Scores = Mapping[str, float]
"""By metric."""

MAIN: Final = "ndcg@10"
METRICS: Final = (
    *(MAIN, "recall@10", "recall@100"),
    *("hit@1", "hit@5", "hit@10", "mrr"),
    *("all_relevant@5", "all_relevant@10"),
)


def measured(judgements: Judgements, answers: Iterable[Answer]) -> dict[str, Scores]:
    """Every metric of every question that has a relevant item."""
    found = {answer.question.id: answer.keys for answer in answers}
    return {question: scores(judgements[question], keys) for question, keys in found.items() if question in judgements}


def scores(relevant: Mapping[str, int], ranked: Sequence[str]) -> Scores:
    """Every metric of one ranking. `relevant`: the grades of the relevant items, above 0."""
    grades = [relevant.get(key, 0) for key in dict.fromkeys(ranked)]
    ideal = sorted(relevant.values(), reverse=True)
    places = [place for place, grade in enumerate(grades, 1) if grade]
    in_1, in_5, in_10, in_100 = (sum(place <= most for place in places) for most in (1, 5, 10, 100))
    return {
        MAIN: _gain(grades[:10]) / _gain(ideal[:10]),
        "recall@10": in_10 / len(relevant),
        "recall@100": in_100 / len(relevant),
        "hit@1": float(in_1 > 0),
        "hit@5": float(in_5 > 0),
        "hit@10": float(in_10 > 0),
        "mrr": 1 / places[0] if places else 0.0,
        "all_relevant@5": float(in_5 == len(relevant)),
        "all_relevant@10": float(in_10 == len(relevant)),
    }


def _gain(grades: Iterable[int]) -> float:
    """Discounted cumulative gain."""
    return sum(grade / log2(place + 1) for place, grade in enumerate(grades, 1))


def means(rows: Iterable[Scores]) -> dict[str, float]:
    listed = list(rows)
    return {name: sum(row[name] for row in listed) / len(listed) for name in METRICS} if listed else {}


def separation(answers: Iterable[Answer]) -> float | None:
    """How well `confidence` separates answerable from unanswerable questions (AUC); None without both kinds."""
    listed = list(answers)
    answerable = [answer.confidence for answer in listed if not answer.question.unanswerable]
    unanswerable = [answer.confidence for answer in listed if answer.question.unanswerable]
    if not answerable or not unanswerable:
        return None
    ordered = sum((yes > no) + (yes == no) / 2 for yes in answerable for no in unanswerable)
    return ordered / (len(answerable) * len(unanswerable))

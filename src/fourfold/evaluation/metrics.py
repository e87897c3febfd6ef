"""Metrics of every question, in the engine's order: nDCG with linear gains, recall, hit rate, reciprocal rank; and the
comparison of two runs over the same questions by a paired bootstrap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log2
from statistics import fmean
from typing import Final

from fourfold.errors import InvalidQuery
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
SAMPLES: Final = 10_000
SEED: Final = 20240607
SHARE: Final = 0.95


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


# ---------------------------------------------------------------- comparisons


@dataclass(frozen=True, slots=True)
class Comparison:
    """The mean of (new - old) over questions, and the interval that holds 95 % of the resampled means."""

    old: float
    new: float
    difference: float
    low: float
    high: float

    @property
    def loss(self) -> bool:
        return self.high < 0

    @property
    def gain(self) -> bool:
        return self.low > 0

    def form(self) -> dict[str, float]:
        return asdict(self)

    def __str__(self) -> str:
        """+0.012 (-0.001 to +0.025)"""
        return f"{self.difference:+.3f} ({self.low:+.3f} to {self.high:+.3f})"


def compared(old: Mapping[str, float], new: Mapping[str, float]) -> Comparison:
    """Compares scores by question; both runs must have the same questions."""
    if old.keys() != new.keys():
        odd = sorted(old.keys() ^ new.keys())
        raise InvalidQuery(
            f"the runs differ in {len(odd)} questions, such as {odd[0]!r}", "Compare runs over the same collection"
        )
    names = sorted(new)
    differences = [new[name] - old[name] for name in names]
    low, high = interval(differences)
    return Comparison(fmean(old.values()), fmean(new.values()), fmean(differences), low, high)


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """The middle 95 % of the means of samples with replacement (percentiles; the generator has a fixed start)."""
    import numpy as np

    if not differences:
        raise InvalidQuery("there is nothing to compare", "Runs need at least one question")
    values = np.asarray(differences, np.float64)
    random = np.random.default_rng(SEED)
    at_once = max(1, 5_000_000 // len(values))
    means = [
        values[random.integers(0, len(values), (min(at_once, SAMPLES - start), len(values)))].mean(axis=1)
        for start in range(0, SAMPLES, at_once)
    ]
    outside = (1 - SHARE) / 2
    low, high = np.quantile(np.concatenate(means), (outside, 1 - outside))
    return float(low), float(high)

"""Metrics of every question, in the engine's order: nDCG with linear gains, recall, hit rate, reciprocal rank.

Two runs over the same questions are compared by a paired bootstrap. A run is a variant of searching measured over a
collection: its summary, a file of its questions, and a table of all variants beside the best single retriever.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Final

from fourfold import owner_only
from fourfold.errors import InvalidItem, InvalidQuery, NewerSchema, StoreUnavailable
from fourfold.evaluation.bench import Answer, LiveBench, Progress, Variant, degraded_notes, percentile
from fourfold.evaluation.collection import Judgements
from fourfold.model import Json
from fourfold.ranking.plan import PRESETS
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.storage.exchange import Lines

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
    ranked = {answer.question.id: answer.keys for answer in answers}
    return {question: scores(judgements[question], keys) for question, keys in ranked.items() if question in judgements}


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
        remedy = "Compare runs over the same collection"
        raise InvalidQuery(f"the runs differ in {len(odd)} questions, such as {odd[0]!r}", remedy)
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


# ---------------------------------------------------------------- runs

HEADER: Final[Mapping[str, Json]] = {"type": "fourfold-eval", "format": 1}
_SHOWN: Final = 10
"""Results of a question that the file keeps."""


@dataclass(frozen=True, slots=True)
class Run:
    dataset: str
    variant: Variant
    model: str | None
    answers: Sequence[Answer]
    scores: Mapping[str, Scores]
    """Metrics by question, without the known failures."""
    known_failures: Mapping[str, Scores]
    """Metrics of the known failures, by question."""

    def column(self, metric: str = MAIN) -> dict[str, float]:
        return {question: row[metric] for question, row in self.scores.items()}

    def mean(self, metric: str = MAIN) -> float:
        return means(self.scores.values())[metric]


def measure(bench: LiveBench, variant: Variant, *, fresh: bool = False, progress: Progress | None = None) -> Run:
    answers = bench.run(variant, fresh=fresh, progress=progress)
    scores = measured(bench.collection.judgements, answers)
    failing = {answer.question.id for answer in answers if answer.question.known_failure}
    sound = {question: row for question, row in scores.items() if question not in failing}
    failures = {question: row for question, row in scores.items() if question in failing}
    if failures and not sound:
        raise InvalidQuery("every answerable question is marked as a known failure", "Leave those unmarked that count")
    return Run(bench.collection.name, variant, bench.model, answers, sound, failures)


# ---------------------------------------------------------------- in short


def summary(run: Run) -> dict[str, Json]:
    """What `fourfold eval --json` prints."""
    times = [answer.milliseconds for answer in run.answers]
    confidence = separation(run.answers)
    weights = {name: fmean(answer.weights.get(name, 0.0) for answer in run.answers) for name in RETRIEVERS}
    return {
        "dataset": run.dataset,
        "queries": len(run.scores),
        **_rounded(means(run.scores.values())),
        "latency_ms": {"p50": round(percentile(times, 0.5), 2), "p95": round(percentile(times, 0.95), 2)},
        "by_category": _by_category(run),
        "plan": {**_plan(run), "mean_weights": _rounded(weights)},
        **({} if confidence is None else {"confidence_auc": round(confidence, 4)}),
        **({"known_failures": _known_failures(run)} if run.known_failures else {}),
        "degraded": degraded_notes(run.answers),
    }


def _known_failures(run: Run) -> dict[str, Json]:
    """Metrics of the known failures, and those of them that are answered now."""
    rows = run.known_failures
    texts = {answer.question.id: answer.question.text for answer in run.answers}
    solved = [texts[question] for question, row in rows.items() if row["hit@10"] > 0]
    return {"queries": len(rows), **_rounded(means(rows.values())), "answered": solved}


def _by_category(run: Run) -> dict[str, Json]:
    groups: dict[str, list[Scores]] = {}
    for answer in run.answers:
        if answer.question.category is not None and answer.question.id in run.scores:
            groups.setdefault(answer.question.category, []).append(run.scores[answer.question.id])
    return {name: {"queries": len(rows), **_rounded(means(rows))} for name, rows in groups.items()}


def _plan(run: Run) -> dict[str, Json]:
    """The requested plan; `weights` is null if they are chosen for each question."""
    plan = run.answers[0].plan
    requested = {"preset": plan.preset, "retrievers": list(plan.retrievers), "fusion": plan.fusion, "k": plan.k}
    sources = {} if plan.source_weights is None else {"source_weights": dict(plan.source_weights)}
    return {**requested, "weights": run.variant.arguments.get("weights"), **sources, "embedder": run.model}


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


# ---------------------------------------------------------------- question by question


def save(run: Run, file: Path) -> None:
    """Writes a header and a line for every question, atomically."""
    rows = [{**HEADER, "dataset": run.dataset, "plan": _plan(run)}]
    scored = {**run.scores, **run.known_failures}
    rows += [_row(answer, scored.get(answer.question.id)) for answer in run.answers]
    try:
        with owner_only.replacing(file) as stream:
            stream.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    except OSError as error:
        raise StoreUnavailable(f"{file} cannot be written ({error.strerror})", "Choose another file") from error


def _row(answer: Answer, scores: Scores | None) -> dict[str, Json]:
    return {
        "query": answer.question.id,
        "category": answer.question.category,
        **({"known_failure": True} if answer.question.known_failure else {}),
        **(scores or {}),
        "confidence": round(answer.confidence, 4),
        "ms": round(answer.milliseconds, 2),
        "ranked": list(answer.keys[:_SHOWN]),
    }


def load_scores(file: Path) -> dict[str, Scores]:
    """The scores of a saved run, by question."""
    lines = Lines(file)
    by_question: dict[str, Scores] = {}
    with lines.located():
        for number, row in lines:
            if number == 1:
                _check_header(row, file)
            elif MAIN in row and row.get("known_failure") is not True:
                by_question[str(row.get("query"))] = _scores(row)
    if not by_question:
        raise InvalidItem(f"{file} does not contain a run", "Make one with fourfold eval DIR --save FILE")
    return by_question


def _check_header(row: Mapping[str, Json], file: Path) -> None:
    if row.get("type") != HEADER["type"]:
        raise InvalidItem(f"{file.name} is not a saved run", "Make one with fourfold eval DIR --save FILE")
    if row.get("format") != HEADER["format"]:
        raise NewerSchema(f"{file.name} has the format {row.get('format')}", "Upgrade Fourfold")


def _scores(row: Mapping[str, Json]) -> Scores:
    """The metrics that the version which saved the run knew."""
    names = [name for name in METRICS if name in row]
    wrong = [name for name in names if isinstance(row[name], bool) or not isinstance(row[name], int | float)]
    if wrong:
        raise InvalidItem(f"{wrong[0]} is {row[wrong[0]]!r}, not a number", "Save the run again")
    return {name: float(row[name]) for name in names}


def against(run: Run, baseline: Mapping[str, Scores]) -> dict[str, Comparison]:
    """Comparison of this run with an earlier one, for each metric of the baseline."""
    return {
        name: compared({question: row[name] for question, row in baseline.items()}, run.column(name))
        for name in METRICS
        if all(name in row for row in baseline.values())
    }


# ---------------------------------------------------------------- every variant

_HALVES: Final = {"semantic": 0.5, "keyword": 0.5, "graph": 0.0}

VARIANTS: Final[tuple[Variant, ...]] = (
    *(Variant(name, {"preset": "auto", "only": (name,)}) for name in RETRIEVERS),
    Variant("rrf .5/.5", {"preset": "auto", "fusion": "rrf", "weights": _HALVES}),
    Variant("weighted .5/.5", {"preset": "auto", "fusion": "weighted", "weights": _HALVES}),
    *(Variant(name, {"preset": name}) for name in PRESETS if name != "auto"),
    Variant("auto without graph", {"preset": "auto", "only": ("semantic", "keyword", "tags")}),
    Variant("auto", {"preset": "auto"}),
)


def every_variant(
    bench: LiveBench, variants: Iterable[Variant] = VARIANTS, progress: Progress | None = None
) -> list[Run]:
    """Measures each variant. Without an embedder, variants that use vectors alone are left out."""
    chosen = [
        variant for variant in variants if bench.model is not None or variant.arguments.get("only") != ("semantic",)
    ]
    runs: list[Run] = []
    for number, variant in enumerate(chosen, 1):
        runs.append(measure(bench, variant))
        if progress is not None:
            progress(number, len(chosen))
    return runs


def best_single(runs: Sequence[Run]) -> Run | None:
    """The best of the retrievers alone, by name."""
    alone = [run for run in runs if run.variant.name in RETRIEVERS]
    return max(alone, key=lambda run: run.mean()) if alone else None


def beside_best(runs: Sequence[Run]) -> Mapping[str, Comparison]:
    best = best_single(runs)
    return {} if best is None else {run.variant.name: compared(best.column(), run.column()) for run in runs}


def table_json(runs: Sequence[Run]) -> dict[str, Json]:
    best, beside = best_single(runs), beside_best(runs)
    return {
        "dataset": runs[0].dataset,
        "queries": len(runs[0].scores),
        "best_single": None if best is None else best.variant.name,
        "variants": {run.variant.name: _form(run, beside.get(run.variant.name)) for run in runs},
    }


def _form(run: Run, comparison: Comparison | None) -> dict[str, Json]:
    values = {name: round(run.mean(name), 4) for name in METRICS}
    return values if comparison is None else {**values, "beside_best_single": comparison.form()}


def table_markdown(runs: Sequence[Run]) -> str:
    beside = beside_best(runs)
    head = "| | nDCG@10 | Recall@10 | Hit@10 | MRR | nDCG@10 minus the best single |\n|---|--:|--:|--:|--:|--:|\n"
    return head + "".join(_line(run, beside.get(run.variant.name)) for run in runs)


def _line(run: Run, comparison: Comparison | None) -> str:
    values = " | ".join(f"{run.mean(name):.3f}" for name in ("ndcg@10", "recall@10", "hit@10", "mrr"))
    return f"| {run.variant.name} | {values} | {'' if comparison is None else comparison} |\n"

"""Searches for the best alpha or weights: chosen on one half of the questions, judged on the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fourfold.errors import InvalidQuery, InvalidSetting
from fourfold.evaluation.bench import Bench, Progress, Variant, percentile
from fourfold.evaluation.collection import Collection
from fourfold.evaluation.compare import Comparison, compared
from fourfold.evaluation.runs import Run, measure
from fourfold.evaluation.table import difference
from fourfold.model import Json
from fourfold.ranking.presets import PRESETS

T = TypeVar("T", float, str)

ALPHAS: Final = (0.3, 0.5, 0.6, 0.7, 0.8, 1.0)
"""The grid of alphas."""
STEPS: Final = tuple(step / 10 for step in range(11))
PARTS: Final = (0.0, 0.1, 0.2, 0.3, 0.4)
GRIDS: Final = {1: 1, 2: 10, 3: 5, 4: 4}
"""Number of steps into which a grid divides 1, by number of retrievers (11, 21 and 35 points)."""
METRICS: Final = ("ndcg@10", "hit@10", "mrr")
DEFAULT: Final = Variant("auto", {"preset": "auto"})


@dataclass(frozen=True, slots=True)
class Point:
    value: float | str
    """A number, or the weights as a text: `semantic=0.6,keyword=0.4`, as `--weights` takes it."""
    run: Run


@dataclass(frozen=True, slots=True)
class Sweep:
    """One setting, tried at several values."""

    name: str
    points: Sequence[Point]
    default: Run
    """The reference: `auto`, or a preset with its own weights."""

    @property
    def chosen(self) -> Point:
        """The best on the training half; the first among equals."""
        return max(self.points, key=lambda point: held(point.run, out=False)["ndcg@10"])

    @property
    def verdict(self) -> Comparison:
        """The chosen value compared with the default, on the held-out half."""
        return compared(_half(self.default, out=True), _half(self.chosen.run, out=True))


def sweep(bench: Bench, progress: Progress | None = None) -> list[Sweep]:
    """Alpha of the preset `memories`, and weights over true scores.

    First vectors against keywords; then, with the chosen weights, a part for the graph and for tags if there are any.
    """
    _check(bench)
    others = [name for name, there in _others(bench.collection).items() if there]
    total = len(ALPHAS) + len(STEPS) + len(PARTS) * len(others)
    trial = _Trial(bench, measure(bench, DEFAULT), total, progress)
    alpha = trial.of("alpha", ALPHAS, _alpha)
    pair = trial.of("weight of semantic", STEPS, _weight)
    semantic = float(pair.chosen.value)
    return [alpha, pair, *[trial.of(f"weight of {name}", PARTS, _part(name, semantic)) for name in others]]


def sweep_preset(bench: Bench, preset: str, fusion: str | None, progress: Progress | None = None) -> list[Sweep]:
    """The weights of a preset with one fusion, compared with its own; alpha for `memories` by ranks."""
    _check(bench)
    asked: dict[str, Any] = {"preset": preset, **({} if fusion is None else {"fusion": fusion})}
    default = measure(bench, Variant(preset, asked))
    plan = default.answers[0].plan
    if preset == "memories" and plan.fusion != "auto":
        trial = _Trial(bench, default, len(ALPHAS), progress)
        return [trial.of("alpha", ALPHAS, lambda alpha: Variant("alpha", {**asked, "alpha": alpha}))]
    weights = {_told(point): point for point in grid(PRESETS[preset].retrievers)}
    trial = _Trial(bench, default, len(weights), progress)
    name = f"weights of {preset}, {plan.fusion}"
    return [trial.of(name, [*weights], lambda told: Variant(told, {**asked, "weights": weights[told]}))]


def grid(names: Sequence[str]) -> Iterator[dict[str, float]]:
    """All weights in equal steps that sum to 1, those with more of the first retrievers first."""
    steps = GRIDS[min(len(names), max(GRIDS))]
    for shares in _divisions(steps, len(names)):
        yield {name: share / steps for name, share in zip(names, shares, strict=True)}


def _divisions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in _divisions(total - first, parts - 1):
            yield (first, *rest)


def _told(weights: Mapping[str, float]) -> str:
    return ",".join(f"{name}={weight:g}" for name, weight in weights.items() if weight)


class _Trial:
    """Measures one setting after the other and reports their common progress."""

    def __init__(self, bench: Bench, default: Run, total: int, progress: Progress | None) -> None:
        self._bench, self._default, self._total, self._progress = bench, default, total, progress
        self._done = 0

    def of(self, name: str, values: Sequence[T], variant: Callable[[T], Variant]) -> Sweep:
        points: list[Point] = []
        for value in values:
            points.append(Point(value, measure(self._bench, variant(value))))
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._total)
        return Sweep(name, points, self._default)


def _others(collection: Collection) -> dict[str, bool]:
    return {
        "graph": bool(collection.links or collection.edges),
        "tags": any(item.tags for item in collection.items),
    }


def _alpha(value: float) -> Variant:
    return Variant(f"alpha {value:g}", {"preset": "memories", "alpha": value})


def _weight(semantic: float) -> Variant:
    return _weighted({"semantic": semantic, "keyword": round(1 - semantic, 1)})


def _part(name: str, semantic: float) -> Callable[[float], Variant]:
    """A part for this retriever; vectors and keywords keep their ratio."""
    return lambda part: _weighted(
        {"semantic": semantic * (1 - part), "keyword": (1 - semantic) * (1 - part), name: part}
    )


def _weighted(weights: dict[str, float]) -> Variant:
    return Variant("weights", {"preset": "auto", "fusion": "auto", "weights": weights})


# ---------------------------------------------------------------- halves


def held_out(question: str) -> bool:
    """Selects half of the questions by their id alone: the same ones in every run."""
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).digest()[0] % 2 == 1


def _half(run: Run, *, out: bool, metric: str = "ndcg@10") -> dict[str, float]:
    return {question: value for question, value in run.column(metric).items() if held_out(question) is out}


def held(run: Run, *, out: bool) -> dict[str, float]:
    """The means of one half."""
    halves = {metric: _half(run, out=out, metric=metric) for metric in METRICS}
    return {metric: sum(half.values()) / len(half) for metric, half in halves.items()}


def _check(bench: Bench) -> None:
    if bench.model is None:
        raise InvalidSetting("a sweep needs vectors, and no embedder is set", "Set one: FOURFOLD_EMBEDDER=minilm")
    sides = {held_out(question) for question in bench.collection.judgements}
    if len(sides) < 2:
        raise InvalidQuery(
            f"{len(bench.collection.judgements)} questions do not make two halves", "Add questions, ten at the least"
        )


# ---------------------------------------------------------------- shown


def sweep_json(sweeps: Sequence[Sweep]) -> dict[str, Json]:
    default = sweeps[0].default
    return {
        "dataset": default.dataset,
        "queries": {"train": len(_half(default, out=False)), "held_out": len(_half(default, out=True))},
        default.variant.name: _measured(default),
        "sweeps": {one.name: _form(one) for one in sweeps},
    }


def _form(one: Sweep) -> dict[str, Json]:
    return {
        "points": [{"value": point.value, **_measured(point.run)} for point in one.points],
        "chosen": one.chosen.value,
        f"held_out_beside_{one.default.variant.name}": one.verdict.form(),
    }


def _measured(run: Run) -> dict[str, Json]:
    halves = {
        name: {metric: round(value, 4) for metric, value in held(run, out=out).items()}
        for name, out in (("train", False), ("held_out", True))
    }
    return {**halves, "p95_ms": round(_p95(run), 2)}


def _p95(run: Run) -> float:
    """The time of the searches; vectors of questions come from the cache."""
    return percentile([answer.milliseconds for answer in run.answers], 0.95)


def sweep_markdown(sweeps: Sequence[Sweep]) -> str:
    return "\n".join(_table(one) for one in sweeps)


def _table(one: Sweep) -> str:
    head = f"| {one.name} | nDCG@10 train | held out | Hit@10 train | held out | MRR train | held out | p95 |\n"
    default = f"`{one.default.variant.name}`"
    rows = [_row(_named(point, one), point.run) for point in one.points]
    lines = [head, "|---|" + "--:|" * 7 + "\n", *rows, _row(default, one.default)]
    best = f"Best on the training half: {_shown(one.chosen)}."
    return "".join(lines) + f"\n{best} Held out, compared with {default}: nDCG@10 {difference(one.verdict)}.\n"


def _named(point: Point, one: Sweep) -> str:
    return f"**{_shown(point)}**" if point is one.chosen else _shown(point)


def _shown(point: Point) -> str:
    return point.value if isinstance(point.value, str) else f"{point.value:g}"


def _row(name: str, run: Run) -> str:
    train, out = held(run, out=False), held(run, out=True)
    cells = " | ".join(f"{train[metric]:.3f} | {out[metric]:.3f}" for metric in METRICS)
    return f"| {name} | {cells} | {_p95(run):.1f} ms |\n"

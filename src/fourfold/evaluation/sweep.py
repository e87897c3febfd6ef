"""Which alpha, or which weights, would be best? Chosen on one half of the questions, judged on the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fourfold.errors import InvalidQuery, InvalidSetting
from fourfold.evaluation.bench import Bench, Progress, Way
from fourfold.evaluation.collection import Collection
from fourfold.evaluation.compare import Comparison, compared
from fourfold.evaluation.runs import Run, measure
from fourfold.evaluation.table import difference
from fourfold.model import Json

ALPHAS: Final = (0.3, 0.5, 0.6, 0.7, 0.8, 1.0)
STEPS: Final = tuple(step / 10 for step in range(11))
PARTS: Final = (0.0, 0.1, 0.2, 0.3, 0.4)
METRICS: Final = ("ndcg@10", "hit@10", "mrr")
DEFAULT: Final = Way("auto", {"preset": "auto"})


@dataclass(frozen=True, slots=True)
class Point:
    value: float
    run: Run


@dataclass(frozen=True, slots=True)
class Sweep:
    """One setting, tried at several values."""

    name: str
    points: Sequence[Point]
    default: Run
    """`auto`, which is told nothing."""

    @property
    def chosen(self) -> Point:
        """The best on the training half; of equal ones the first."""
        return max(self.points, key=lambda point: held(point.run, out=False)["ndcg@10"])

    @property
    def verdict(self) -> Comparison:
        """The chosen value beside `auto`, on the half that did not choose it."""
        return compared(_half(self.default, out=True), _half(self.chosen.run, out=True))


async def sweep(bench: Bench, progress: Progress | None = None) -> list[Sweep]:
    """Alpha of the preset `memories` (S5.7), and weights over true scores.

    Vectors beside keywords first; then, with what was chosen, a part for the graph and for tags where there are any.
    """
    _check(bench)
    trial = _Trial(bench, await measure(bench, DEFAULT), progress)
    alpha = await trial.of("alpha", ALPHAS, _alpha)
    pair = await trial.of("weight of semantic", STEPS, _weight)
    others = [await trial.of(f"weight of {name}", PARTS, _part(name, pair.chosen.value)) for name in trial.others]
    return [alpha, pair, *others]


class _Trial:
    """One setting after the other, counted for whoever waits."""

    def __init__(self, bench: Bench, default: Run, progress: Progress | None) -> None:
        self._bench, self._default, self._progress = bench, default, progress
        self.others = [name for name, there in _others(bench.collection).items() if there]
        self._total = len(ALPHAS) + len(STEPS) + len(PARTS) * len(self.others)
        self._done = 0

    async def of(self, name: str, values: Sequence[float], way: Callable[[float], Way]) -> Sweep:
        points: list[Point] = []
        for value in values:
            points.append(Point(value, await measure(self._bench, way(value))))
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._total)
        return Sweep(name, points, self._default)


def _others(collection: Collection) -> dict[str, bool]:
    return {
        "graph": bool(collection.links or collection.edges),
        "tags": any(item.tags for item in collection.items),
    }


def _alpha(value: float) -> Way:
    return Way(f"alpha {value:g}", {"preset": "memories", "alpha": value})


def _weight(semantic: float) -> Way:
    return _weighted({"semantic": semantic, "keyword": round(1 - semantic, 1)})


def _part(name: str, semantic: float) -> Callable[[float], Way]:
    """A part for this retriever; vectors and keywords share the rest as they did."""
    return lambda part: _weighted(
        {"semantic": semantic * (1 - part), "keyword": (1 - semantic) * (1 - part), name: part}
    )


def _weighted(weights: dict[str, float]) -> Way:
    return Way("weights", {"preset": "auto", "fusion": "auto", "weights": weights})


# ---------------------------------------------------------------- halves


def held_out(question: str) -> bool:
    """Half of the questions, by their id alone: the same ones in every run."""
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).digest()[0] % 2 == 1


def _half(run: Run, *, out: bool, metric: str = "ndcg@10") -> dict[str, float]:
    return {question: value for question, value in run.column(metric).items() if held_out(question) is out}


def held(run: Run, *, out: bool) -> dict[str, float]:
    """The means of one half."""
    halves = {metric: _half(run, out=out, metric=metric) for metric in METRICS}
    return {metric: sum(half.values()) / len(half) for metric, half in halves.items()}


def _check(bench: Bench) -> None:
    if bench.model is None:
        raise InvalidSetting("a sweep weighs vectors, and there is no embedder", "Set one: FOURFOLD_EMBEDDER=minilm")
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
        "auto": _halves(default),
        "sweeps": {one.name: _form(one) for one in sweeps},
    }


def _form(one: Sweep) -> dict[str, Json]:
    return {
        "points": [{"value": point.value, **_halves(point.run)} for point in one.points],
        "chosen": one.chosen.value,
        "held_out_beside_auto": one.verdict.form(),
    }


def _halves(run: Run) -> dict[str, Json]:
    return {
        name: {metric: round(value, 4) for metric, value in held(run, out=out).items()}
        for name, out in (("train", False), ("held_out", True))
    }


def sweep_markdown(sweeps: Sequence[Sweep]) -> str:
    return "\n".join(_table(one) for one in sweeps)


def _table(one: Sweep) -> str:
    head = f"| {one.name} | nDCG@10 train | held out | Hit@10 train | held out | MRR train | held out |\n"
    rows = [_row(_named(point, one), point.run) for point in one.points]
    lines = [head, "|---|" + "--:|" * 6 + "\n", *rows, _row("`auto`", one.default)]
    best = f"Best on the training half: {one.chosen.value:g}."
    return "".join(lines) + f"\n{best} Held out, beside `auto`: nDCG@10 {difference(one.verdict)}.\n"


def _named(point: Point, one: Sweep) -> str:
    return f"**{point.value:g}**" if point is one.chosen else f"{point.value:g}"


def _row(name: str, run: Run) -> str:
    train, out = held(run, out=False), held(run, out=True)
    cells = " | ".join(f"{train[metric]:.3f} | {out[metric]:.3f}" for metric in METRICS)
    return f"| {name} | {cells} |\n"

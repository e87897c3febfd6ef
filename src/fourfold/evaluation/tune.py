"""Would other weights be better on judged questions? Grids of alpha and weights, and the constants of `auto`.

Values are chosen on one half of the questions and judged on the other, because a value always looks good on the
questions that selected it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fourfold.errors import InvalidQuery, InvalidSetting, MissingExtra, StoreUnavailable
from fourfold.evaluation.bench import Bench, Progress, Variant, percentile
from fourfold.evaluation.collection import Collection
from fourfold.evaluation.metrics import MAIN, Comparison, Run, compared, measure, scores
from fourfold.model import Json
from fourfold.ranking.fusion import TEXTS, tuned_shares
from fourfold.ranking.plan import PRESETS, TUNED_PRESET
from fourfold.retrieval import Tuning

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fourfold.retrieval import Candidates

    Floats = NDArray[np.float64]

T = TypeVar("T", float, str)

ALPHAS: Final = (0.3, 0.5, 0.6, 0.7, 0.8, 1.0)
"""The grid of alphas."""
STEPS: Final = tuple(step / 10 for step in range(11))
PARTS: Final = (0.0, 0.1, 0.2, 0.3, 0.4)
DIVISIONS: Final = {1: 1, 2: 10, 3: 5, 4: 4}
"""Number of steps into which a grid divides 1, by number of retrievers (11, 21 and 35 points)."""
METRICS: Final = (MAIN, "hit@10", "mrr")
BALANCES: Final = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
FACTORS: Final = (0.0, 0.5, 1.0, 2.0)
FEWEST_QUESTIONS: Final = 20
"""With fewer judged questions, the constants of `auto` are not fitted."""
DEPTH: Final = 10
IMAGES: Final = (".png", ".svg", ".pdf")
_INCHES: Final = 4.5


# ---------------------------------------------------------------- halves


def held_out(question: str) -> bool:
    """Selects half of the questions by their id alone: the same ones in every run."""
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).digest()[0] % 2 == 1


def _half(run: Run, *, out: bool, metric: str = MAIN) -> dict[str, float]:
    return {question: value for question, value in run.column(metric).items() if held_out(question) is out}


def _means(run: Run, *, out: bool) -> dict[str, float]:
    """The means of one half."""
    return {metric: fmean(_half(run, out=out, metric=metric).values()) for metric in METRICS}


def can_fit(collection: Collection) -> bool:
    """Whether there are enough judged questions in both halves to fit the constants of `auto`."""
    return _smaller_half(collection) >= FEWEST_QUESTIONS // 2


def _smaller_half(collection: Collection) -> int:
    held = sum(map(held_out, collection.judgements))
    return min(held, len(collection.judgements) - held)


def check_questions(bench: Bench, *, fit: bool = False) -> None:
    """Refuses a bench without vectors, or with too few judged questions."""
    if bench.model is None:
        raise InvalidSetting("tuning needs vectors, and no embedder is set", "Set one: FOURFOLD_EMBEDDER=builtin")
    if _smaller_half(bench.collection) < 1 or (fit and not can_fit(bench.collection)):
        judged = len(bench.collection.judgements)
        remedy = f"Judge at least {FEWEST_QUESTIONS}; a hundred show a gain of a few hundredths"
        raise InvalidQuery(f"{judged} judged questions are too few to tune and to check", remedy)


# ---------------------------------------------------------------- grids


@dataclass(frozen=True, slots=True)
class Point:
    value: float | str
    """A number, or the weights as a text: `semantic=0.6,keyword=0.4`, as `--weights` takes it."""
    run: Run

    def __str__(self) -> str:
        return self.value if isinstance(self.value, str) else f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class Grid:
    """One setting, tried at several values."""

    name: str
    points: Sequence[Point]
    default: Run
    """The reference: `auto`, or a preset with its own weights."""

    @property
    def chosen(self) -> Point:
        """The best on the training half; the first among equals."""
        return max(self.points, key=lambda point: _means(point.run, out=False)[MAIN])

    @property
    def verdict(self) -> Comparison:
        """The chosen value compared with the default, on the held-out half."""
        return compared(_half(self.default, out=True), _half(self.chosen.run, out=True))


class _Trial:
    """Measures one setting after the other and reports their common progress."""

    def __init__(self, bench: Bench, default: Variant, progress: Progress | None) -> None:
        bench.run(default)  # the first searches read indexes and links into memory, and are not timed
        self._bench, self.default, self._progress = bench, measure(bench, default), progress
        self._done, self.total = 0, 0

    def of(self, name: str, values: Sequence[T], variant: Callable[[T], Variant]) -> Grid:
        points: list[Point] = []
        for value in values:
            points.append(Point(value, measure(self._bench, variant(value))))
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self.total)
        return Grid(name, points, self.default)


def documented_grids(bench: Bench, progress: Progress | None = None) -> list[Grid]:
    """Alpha of the preset `memories`, and weights over true scores.

    First vectors against keywords; then, with the chosen weights, a part for the graph and for tags if there are any.
    """
    check_questions(bench)
    collection, others = bench.collection, list[str]()
    if collection.links or collection.edges:
        others.append("graph")
    if any(item.tags for item in collection.items):
        others.append("tags")
    trial = _Trial(bench, Variant("auto", {"preset": "auto"}), progress)
    trial.total = len(ALPHAS) + len(STEPS) + len(PARTS) * len(others)
    alpha = trial.of("alpha", ALPHAS, lambda value: Variant("alpha", {"preset": "memories", "alpha": value}))
    pair = trial.of(
        "weight of semantic", STEPS, lambda value: _weighted({"semantic": value, "keyword": round(1 - value, 1)})
    )
    semantic = float(pair.chosen.value)
    return [alpha, pair, *(trial.of(f"weight of {name}", PARTS, _part(name, semantic)) for name in others)]


def _part(name: str, semantic: float) -> Callable[[float], Variant]:
    """A part for this retriever; vectors and keywords keep their ratio."""
    return lambda part: _weighted(
        {"semantic": semantic * (1 - part), "keyword": (1 - semantic) * (1 - part), name: part}
    )


def _weighted(weights: dict[str, float]) -> Variant:
    return Variant("weights", {"preset": "auto", "fusion": "auto", "weights": {"graph": 0.0, **weights}})


def preset_grid(bench: Bench, preset: str, fusion: str | None, progress: Progress | None = None) -> Grid:
    """The weights of a preset with one fusion, compared with its own; alpha for `memories` by ranks."""
    check_questions(bench)
    arguments: dict[str, Any] = {"preset": preset, **({} if fusion is None else {"fusion": fusion})}
    trial = _Trial(bench, Variant(preset, arguments), progress)
    plan = trial.default.answers[0].plan
    if preset == "memories" and plan.fusion != "auto":
        trial.total = len(ALPHAS)
        return trial.of("alpha", ALPHAS, lambda alpha: Variant("alpha", {**arguments, "alpha": alpha}))
    points = weightings(PRESETS[preset].retrievers)
    weights = {",".join(f"{each}={weight:g}" for each, weight in point.items() if weight): point for point in points}
    trial.total = len(weights)
    name = f"weights of {preset}, {plan.fusion}"
    return trial.of(name, [*weights], lambda told: Variant(told, {**arguments, "weights": weights[told]}))


def weightings(names: Sequence[str]) -> Iterator[dict[str, float]]:
    """All weights in equal steps that sum to 1, those with more of the first retrievers first."""
    steps = DIVISIONS[min(len(names), max(DIVISIONS))]
    for shares in _divisions(steps, len(names)):
        yield {name: share / steps for name, share in zip(names, shares, strict=True)}


def _divisions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in _divisions(total - first, parts - 1):
            yield (first, *rest)


def grids_json(grids: Sequence[Grid]) -> dict[str, Json]:
    default = grids[0].default
    return {
        "dataset": default.dataset,
        "queries": {"train": len(_half(default, out=False)), "held_out": len(_half(default, out=True))},
        default.variant.name: _measured(default),
        "grids": {
            grid.name: {
                "points": [{"value": point.value, **_measured(point.run)} for point in grid.points],
                "chosen": grid.chosen.value,
                f"held_out_beside_{default.variant.name}": grid.verdict.form(),
            }
            for grid in grids
        },
    }


def _measured(run: Run) -> dict[str, Json]:
    halves = {
        name: {metric: round(value, 4) for metric, value in _means(run, out=out).items()}
        for name, out in (("train", False), ("held_out", True))
    }
    return {**halves, "p95_ms": round(_p95(run), 2)}


def _p95(run: Run) -> float:
    """The time of the searches; vectors of questions come from the cache."""
    return percentile([answer.milliseconds for answer in run.answers], 0.95)


def grid_markdown(grid: Grid) -> str:
    default, chosen = f"`{grid.default.variant.name}`", grid.chosen
    rows = [(f"**{point}**" if point is chosen else str(point), point.run) for point in grid.points]
    lines = [
        f"| {grid.name} | nDCG@10 train | held out | Hit@10 train | held out | MRR train | held out | p95 |",
        "|---|" + "--:|" * 7,
    ]
    for name, run in (*rows, (default, grid.default)):
        train, out = _means(run, out=False), _means(run, out=True)
        cells = " | ".join(f"{train[metric]:.3f} | {out[metric]:.3f}" for metric in METRICS)
        lines.append(f"| {name} | {cells} | {_p95(run):.1f} ms |")
    best = f"Best on the training half: {chosen}. Held out, compared with {default}: nDCG@10 {grid.verdict}."
    return "\n".join([*lines, "", best])


def check_plot(file: Path) -> None:
    """Checks, before anything is measured, whether the image can be written."""
    if file.suffix.lower() not in IMAGES:
        raise InvalidQuery(f"unsupported image format {file.suffix!r}", f"Use {', '.join(IMAGES)}")
    if not file.absolute().parent.is_dir():
        raise InvalidQuery(f"no folder {file.parent}", "Create it, or choose another")
    _figures()


def plot(grids: Sequence[Grid], file: Path) -> None:
    """Draws nDCG@10 of both halves over the value, and the default as a horizontal line."""
    figure = _figures().Figure(figsize=(_INCHES * len(grids), _INCHES * 0.8), layout="constrained")
    for axes, grid in zip(figure.subplots(1, len(grids), squeeze=False)[0], grids, strict=True):
        for out, name, colour in ((False, "train", "tab:blue"), (True, "held out", "tab:orange")):
            values = [_means(point.run, out=out)[MAIN] for point in grid.points]
            axes.plot([point.value for point in grid.points], values, "o-", color=colour, label=name)
            label = f"{grid.default.variant.name}, {name}"
            axes.axhline(_means(grid.default, out=out)[MAIN], color=colour, linestyle=":", label=label)
        axes.set_xlabel(grid.name)
        axes.set_ylabel("nDCG@10")
        axes.legend(fontsize="small")
        if isinstance(grid.points[0].value, str):
            axes.tick_params(axis="x", labelrotation=90, labelsize="x-small")
    figure.suptitle(grids[0].default.dataset)
    try:
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise StoreUnavailable(f"{file} cannot be written ({error.strerror})", "Choose another file") from error


def _figures() -> Any:
    try:
        return import_module("matplotlib.figure")
    except ImportError as error:
        raise MissingExtra(f"a plot needs matplotlib ({error})", "pip install 'fourfold[eval]'") from error


# ---------------------------------------------------------------- constants of `auto`
#
# Every question is searched once. The lists of its candidates do not depend on the weights, so all settings are fused
# from them; only the starts of the graph's walk stay those of `auto`.


@dataclass(frozen=True, slots=True)
class Case:
    """One question: the score of each candidate in each list, from 0 to 1, and the shares of the lists."""

    question: str
    keys: Sequence[str]
    """The candidates in the order of `auto`, also for equal scores."""
    lists: Mapping[str, Floats]
    shares: Mapping[str, float]
    relevant: Mapping[str, int]

    def value(self, tuning: Tuning) -> float:
        """nDCG@10 with this tuning."""
        import numpy as np

        shares = tuned_shares(self.shares, tuning)
        totals = sum((shares[name] * scaled for name, scaled in self.lists.items()), np.zeros(len(self.keys)))
        best: list[int] = np.argsort(-totals, kind="stable")[:DEPTH].tolist()
        return scores(self.relevant, [self.keys[place] for place in best])[MAIN]


@dataclass(frozen=True, slots=True)
class Fitted:
    """The setting that is best on the training half, judged on the half that was held out."""

    tuning: Tuning
    trained: Comparison
    judged: Comparison
    questions: int
    """The number of held-out questions."""

    @property
    def helps(self) -> bool:
        """Whether the gain is significant: the 95 % interval lies above 0."""
        return self.judged.gain


def fit_auto(bench: Bench, progress: Progress | None = None) -> Fitted:
    """Finds the best setting. It may be that of `auto`, which then gains nothing."""
    check_questions(bench, fit=True)
    cases = list(_cases(bench, progress))
    train = [case for case in cases if not held_out(case.question)]
    rest = [case for case in cases if held_out(case.question)]
    present = {name for case in cases for name in case.lists}
    graph = FACTORS if present & {"graph", "walk"} else (1.0,)
    tags = FACTORS if present & {"tags", "shared"} else (1.0,)

    def worth(tuning: Tuning) -> tuple[float, float]:
        """The closest to `auto` of equally good settings is chosen."""
        distance = abs(tuning.balance) + abs(tuning.graph - 1) + abs(tuning.tags - 1)
        return fmean(case.value(tuning) for case in train), -distance

    best = max((Tuning(*numbers) for numbers in product(BALANCES, graph, tags)), key=worth)
    return Fitted(best, _beside_auto(train, best), _beside_auto(rest, best), len(rest))


def _cases(bench: Bench, progress: Progress | None) -> Iterator[Case]:
    judgements = bench.collection.judgements
    judged = [question for question in bench.collection.questions if question.id in judgements]
    for number, question in enumerate(judged, 1):
        response = bench.search(question, preset=TUNED_PRESET, rerank="off", candidates=True)
        if response.candidates is not None:
            yield _case(question.id, response.candidates, judgements[question.id])
        if progress is not None:
            progress(number, len(judged))


def _case(question: str, candidates: Candidates, relevant: Mapping[str, int]) -> Case:
    import numpy as np

    ids = [hit.id for hit in candidates.order]
    acting = {name: scaled for name, scaled in candidates.scaled.items() if name in candidates.lists}
    lists: dict[str, Any] = {name: np.array([scaled.get(item, 0.0) for item in ids]) for name, scaled in acting.items()}
    texts = sum(candidates.weights[name] for name in TEXTS if name in acting)
    shares = {name: candidates.weights[name] / texts if texts else candidates.weights[name] for name in acting}
    keys = [str(candidates.items[item].key) if item in candidates.items else "" for item in ids]
    return Case(question, keys, lists, shares, relevant)


def _beside_auto(cases: Sequence[Case], tuning: Tuning) -> Comparison:
    plain = {case.question: case.value(Tuning()) for case in cases}
    return compared(plain, {case.question: case.value(tuning) for case in cases})

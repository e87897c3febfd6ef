"""Every retriever, every preset and `auto` side by side, and how far each is from the best single retriever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fourfold.evaluation.bench import Bench, Progress, Way
from fourfold.evaluation.compare import Comparison, compared
from fourfold.evaluation.live import LiveBench
from fourfold.evaluation.runs import Run, measure
from fourfold.model import RETRIEVERS, Json
from fourfold.search.presets import PRESETS

_HALVES: Final = {"semantic": 0.5, "keyword": 0.5}

WAYS: Final[tuple[Way, ...]] = (
    *(Way(name, {"preset": "auto", "only": (name,)}) for name in RETRIEVERS),
    Way("rrf .5/.5", {"preset": "auto", "fusion": "rrf", "weights": _HALVES}),
    Way("weighted .5/.5", {"preset": "auto", "fusion": "weighted", "weights": _HALVES}),
    *(Way(name, {"preset": name}) for name in PRESETS if name != "auto"),
    Way("auto without graph", {"preset": "auto", "only": ("semantic", "keyword", "tags")}),
    Way("auto", {"preset": "auto"}),
)


async def every_way(
    bench: Bench | LiveBench, ways: Iterable[Way] = WAYS, progress: Progress | None = None
) -> list[Run]:
    """Without an embedder, what needs nothing but vectors is left out."""
    chosen = [way for way in ways if bench.model is not None or way.arguments.get("only") != ("semantic",)]
    runs: list[Run] = []
    for number, way in enumerate(chosen, 1):
        runs.append(await measure(bench, way))
        if progress is not None:
            progress(number, len(chosen))
    return runs


def best_single(runs: Sequence[Run]) -> Run | None:
    """The best of the four retrievers, by label."""
    alone = [run for run in runs if run.way.name in RETRIEVERS]
    return max(alone, key=lambda run: run.mean()) if alone else None


def beside_best(runs: Sequence[Run]) -> Mapping[str, Comparison]:
    best = best_single(runs)
    return {} if best is None else {run.way.name: compared(best.column(), run.column()) for run in runs}


def table_json(runs: Sequence[Run]) -> dict[str, Json]:
    best, beside = best_single(runs), beside_best(runs)
    return {
        "dataset": runs[0].dataset,
        "queries": len(runs[0].scores),
        "best_single": None if best is None else best.way.name,
        "ways": {run.way.name: _form(run, beside.get(run.way.name)) for run in runs},
    }


def _form(run: Run, comparison: Comparison | None) -> dict[str, Json]:
    names = ("ndcg@10", "recall@10", "recall@100", "hit@10", "mrr", "all_relevant@10")
    values = {name: round(run.mean(name), 4) for name in names}
    return values if comparison is None else {**values, "beside_best_single": comparison.form()}


def table_markdown(runs: Sequence[Run]) -> str:
    beside = beside_best(runs)
    head = "| | nDCG@10 | Recall@10 | Hit@10 | MRR | nDCG@10 beside the best single |\n|---|--:|--:|--:|--:|--:|\n"
    return head + "".join(_line(run, beside.get(run.way.name)) for run in runs)


def _line(run: Run, comparison: Comparison | None) -> str:
    values = " | ".join(f"{run.mean(name):.3f}" for name in ("ndcg@10", "recall@10", "hit@10", "mrr"))
    return f"| {run.way.name} | {values} | {'' if comparison is None else difference(comparison)} |\n"


def difference(comparison: Comparison) -> str:
    """+0.012 (-0.001 to +0.025)"""
    return f"{comparison.difference:+.3f} ({comparison.low:+.3f} to {comparison.high:+.3f})"

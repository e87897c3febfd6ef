"""Compares every retriever, every preset and `auto` with the best single retriever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fourfold.evaluation.bench import Bench, Progress, Variant
from fourfold.evaluation.compare import Comparison, compared
from fourfold.evaluation.live import LiveBench
from fourfold.evaluation.metrics import METRICS
from fourfold.evaluation.runs import Run, measure
from fourfold.model import Json
from fourfold.ranking.presets import PRESETS
from fourfold.ranking.retrievers import RETRIEVERS

_HALVES: Final = {"semantic": 0.5, "keyword": 0.5}

VARIANTS: Final[tuple[Variant, ...]] = (
    *(Variant(name, {"preset": "auto", "only": (name,)}) for name in RETRIEVERS),
    Variant("rrf .5/.5", {"preset": "auto", "fusion": "rrf", "weights": _HALVES}),
    Variant("weighted .5/.5", {"preset": "auto", "fusion": "weighted", "weights": _HALVES}),
    *(Variant(name, {"preset": name}) for name in PRESETS if name != "auto"),
    Variant("auto without graph", {"preset": "auto", "only": ("semantic", "keyword", "tags")}),
    Variant("auto", {"preset": "auto"}),
)


def every_variant(
    bench: Bench | LiveBench, variants: Iterable[Variant] = VARIANTS, progress: Progress | None = None
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
    return f"| {run.variant.name} | {values} | {'' if comparison is None else difference(comparison)} |\n"


def difference(comparison: Comparison) -> str:
    """+0.012 (-0.001 to +0.025)"""
    return f"{comparison.difference:+.3f} ({comparison.low:+.3f} to {comparison.high:+.3f})"

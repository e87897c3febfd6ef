"""eval, sweep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fourfold.cli.options import JsonFlag, PlanFlags, grouped
from fourfold.cli.output import say, say_json, say_rows, warn
from fourfold.cli.session import load_config, wait_for
from fourfold.cli.values import read_names
from fourfold.errors import InvalidQuery, RequestError

if TYPE_CHECKING:
    from fourfold.evaluation.bench import Bench
    from fourfold.evaluation.compare import Comparison
    from fourfold.evaluation.runs import Run
    from fourfold.model import Json

T = TypeVar("T")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder with corpus.jsonl, queries.jsonl, qrels.tsv.")]
Plain = Annotated[bool, typer.Option("--plain", help="Titles and texts only: no tags, links and edges.")]
Cache = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where vectors are kept; default: the user's cache.")
]


@grouped
def evaluate(
    ctx: typer.Context,
    folder: Folder,
    how: PlanFlags,
    only: Annotated[str | None, typer.Option(metavar="R[,R]", help="Of semantic, keyword, graph, tags.")] = None,
    plain: Plain = False,
    table: Annotated[
        bool, typer.Option("--table", help="Every retriever, every preset and auto side by side.")
    ] = False,
    baseline: Annotated[Path | None, typer.Option(metavar="FILE", help="Compare with this saved run.")] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every question's result, as JSONL.")] = None,
    cache: Cache = None,
    as_json: JsonFlag = False,
) -> None:
    asked = {**how.arguments(), "only": None if only is None else read_names(only)}
    if table:
        _refuse_beside_table({**asked, "baseline": baseline, "save": save})
        _show_table(ctx, folder, plain=plain, cache=cache, as_json=as_json)
    else:
        _evaluate(ctx, folder, asked, plain=plain, baseline=baseline, save=save, cache=cache, as_json=as_json)


def _evaluate(
    ctx: typer.Context,
    folder: Path,
    asked: Mapping[str, Any],
    *,
    plain: bool,
    baseline: Path | None,
    save: Path | None,
    cache: Path | None,
    as_json: bool,
) -> None:
    from fourfold.evaluation import runs
    from fourfold.evaluation.bench import Way

    before = None if baseline is None else runs.load_scores(baseline)
    way = Way("eval", {name: value for name, value in asked.items() if value is not None})

    async def work(bench: Bench) -> Run:
        from fourfold.cli.render import progress_bar

        with progress_bar("questions") as progress:
            return await runs.measure(bench, way, fresh=True, progress=progress)

    run = _on_bench(ctx, folder, work, plain=plain, cache=cache)
    if save is not None:
        runs.save(run, save)
    comparison = None if before is None else runs.against(run, before)
    _show(runs.summary(run), comparison, as_json=as_json)
    if comparison is not None and comparison["ndcg@10"].loss:
        warn("nDCG@10 is below the baseline by more than chance")
        raise typer.Exit(RequestError.exit_code)


@grouped
def sweep(
    ctx: typer.Context,
    folder: Folder,
    plain: Plain = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    cache: Cache = None,
    as_json: JsonFlag = False,
) -> None:
    from fourfold.evaluation import plot as plots
    from fourfold.evaluation import sweep as sweeps

    if plot is not None:
        plots.check_plot(plot)

    async def work(bench: Bench) -> list[sweeps.Sweep]:
        from fourfold.cli.render import progress_bar

        with progress_bar("settings") as progress:
            return await sweeps.sweep(bench, progress)

    found = _on_bench(ctx, folder, work, plain=plain, cache=cache)
    if plot is not None:
        plots.plot(found, plot)
    if as_json:
        say_json({"status": "success", **sweeps.sweep_json(found)})
    else:
        say(sweeps.sweep_markdown(found).rstrip("\n"))


def _show_table(ctx: typer.Context, folder: Path, *, plain: bool, cache: Path | None, as_json: bool) -> None:
    from fourfold.evaluation import table

    async def work(bench: Bench) -> list[Run]:
        from fourfold.cli.render import progress_bar

        with progress_bar("ways") as progress:
            return await table.every_way(bench, progress=progress)

    runs = _on_bench(ctx, folder, work, plain=plain, cache=cache)
    if as_json:
        say_json({"status": "success", **table.table_json(runs)})
    else:
        say(table.table_markdown(runs).rstrip("\n"))


def _refuse_beside_table(asked: Mapping[str, Any]) -> None:
    given = [name for name, value in asked.items() if value is not None]
    if given:
        raise InvalidQuery(f"--{given[0]} has no meaning beside --table", "Leave one of them out")


def _on_bench(
    ctx: typer.Context, folder: Path, work: Callable[[Bench], Awaitable[T]], *, plain: bool, cache: Path | None
) -> T:
    """What `work` makes of the collection, in a store of its own with the user's other settings."""
    from fourfold.evaluation.bench import open_bench
    from fourfold.evaluation.collection import read_collection
    from fourfold.evaluation.metrics import check_extra

    check_extra()
    settings = load_config(ctx).settings
    collection = read_collection(folder, plain=plain)
    if collection.empty:
        warn(f"note: {collection.empty} documents have no text and are left out")

    async def worked() -> T:
        from fourfold.cli.render import progress_bar

        async with open_bench(collection, settings, cache) as bench:
            with progress_bar("vectors") as progress:
                await bench.fill(progress)
            return await work(bench)

    return wait_for(worked())


# ---------------------------------------------------------------- shown


def _show(summary: Mapping[str, Json], comparison: Mapping[str, Comparison] | None, *, as_json: bool) -> None:
    if as_json:
        beside = {} if comparison is None else {name: each.form() for name, each in comparison.items()}
        say_json({"status": "success", **summary, **({"comparison": beside} if beside else {})})
        return
    from fourfold.evaluation.metrics import METRICS
    from fourfold.evaluation.table import difference

    def row(name: str, scores: Mapping[str, Json]) -> list[object]:
        return [name, scores["queries"], *(f"{scores[metric]:.3f}" for metric in METRICS)]

    rows = [row(name, scores) for name, scores in summary["by_category"].items()]
    say_rows(("", "queries", *METRICS), [*rows, row(summary["dataset"], summary)], header=True)
    times = summary["latency_ms"]
    say(f"latency p50 {times['p50']:.1f} ms, p95 {times['p95']:.1f} ms")
    if "confidence_auc" in summary:
        say(f"confidence tells answerable from unanswerable: AUC {summary['confidence_auc']:.3f}")
    for note in summary["degraded"]:
        warn(f"degraded: {note}")
    for metric, each in (comparison or {}).items():
        say(f"{metric} {each.old:.3f} -> {each.new:.3f}: {difference(each)}")

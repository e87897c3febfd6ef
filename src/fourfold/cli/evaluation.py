"""eval, sweep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from fourfold.cli.options import JsonFlag, PlanFlags, grouped
from fourfold.cli.output import say, say_json, say_rows, warn
from fourfold.cli.session import load_config, run, wait_for
from fourfold.cli.values import read_names
from fourfold.errors import InvalidQuery, RequestError

if TYPE_CHECKING:
    from fourfold.evaluation.bench import Bench
    from fourfold.evaluation.compare import Comparison
    from fourfold.evaluation.live import LiveBench
    from fourfold.evaluation.runs import Run
    from fourfold.memory import Memory
    from fourfold.model import Json

T = TypeVar("T")
Ask: TypeAlias = "Callable[[Callable[[Any], Awaitable[T]]], T]"

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder with corpus.jsonl, queries.jsonl, qrels.tsv.")]
Source = Annotated[
    Path | None,
    typer.Argument(metavar="[DIR]", help="A folder like that; with --store-items an export, or nothing: your store."),
]
StoreItems = Annotated[
    Path | None,
    typer.Option(metavar="FILE.tsv", help="Ask your store: question, ids or key:K, category, 'known failure'."),
]
Plain = Annotated[bool, typer.Option("--plain", help="Titles and texts only: no tags, links and edges.")]
Cache = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where vectors are kept; default: the user's cache.")
]


@grouped
def evaluate(
    ctx: typer.Context,
    how: PlanFlags,
    folder: Source = None,
    store_items: StoreItems = None,
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
    ask = _asker(ctx, folder, store_items, plain=plain, cache=cache)
    if table:
        _refuse_beside_table({**asked, "baseline": baseline, "save": save})
        _show_table(ask, as_json=as_json)
    else:
        _evaluate(ask, asked, baseline=baseline, save=save, as_json=as_json)


def _asker(
    ctx: typer.Context, folder: Path | None, store_items: Path | None, *, plain: bool, cache: Path | None
) -> Ask[Any]:
    """Where the questions are asked: in a collection's own store, in the user's, or in an export of it."""
    if store_items is None:
        if folder is None:
            raise InvalidQuery("there is nothing to ask", "Name a folder of a collection, or --store-items FILE.tsv")
        return partial(_on_bench, ctx, folder, plain=plain, cache=cache)
    if plain or (folder is not None and folder.is_dir()):
        what = "--plain" if plain else f"the folder {folder}"
        raise InvalidQuery(f"{what} has no meaning beside --store-items", "Leave one of them out")
    return partial(_on_store, ctx, store_items, export=folder)


def _evaluate(
    ask: Ask[Run], asked: Mapping[str, Any], *, baseline: Path | None, save: Path | None, as_json: bool
) -> None:
    from fourfold.evaluation import runs
    from fourfold.evaluation.bench import Way

    before = None if baseline is None else runs.load_scores(baseline)
    way = Way("eval", {name: value for name, value in asked.items() if value is not None})

    async def work(bench: Bench | LiveBench) -> Run:
        from fourfold.cli.render import progress_bar

        with progress_bar("questions") as progress:
            return await runs.measure(bench, way, fresh=True, progress=progress)

    run = ask(work)
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
    preset: Annotated[str | None, typer.Option(metavar="P", help="The weights of this preset only.")] = None,
    fusion: Annotated[str | None, typer.Option(metavar="F", help="By this fusion: auto, rrf or weighted.")] = None,
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
            if preset is None and fusion is None:
                return await sweeps.sweep(bench, progress)
            return await sweeps.sweep_preset(bench, preset or "auto", fusion, progress)

    found = _on_bench(ctx, folder, work, plain=plain, cache=cache)
    if plot is not None:
        plots.plot(found, plot)
    if as_json:
        say_json({"status": "success", **sweeps.sweep_json(found)})
    else:
        say(sweeps.sweep_markdown(found).rstrip("\n"))


def _show_table(ask: Ask[list[Run]], *, as_json: bool) -> None:
    from fourfold.evaluation import table

    async def work(bench: Bench | LiveBench) -> list[Run]:
        from fourfold.cli.render import progress_bar

        with progress_bar("ways") as progress:
            return await table.every_way(bench, progress=progress)

    runs = ask(work)
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


def _on_store(
    ctx: typer.Context, questions: Path, work: Callable[[LiveBench], Awaitable[T]], *, export: Path | None
) -> T:
    """What `work` makes of the user's own store, to which nothing is written, or of an export."""
    from fourfold.evaluation.live import opened_export, read_live
    from fourfold.evaluation.metrics import check_extra

    check_extra()

    async def asked(memory: Memory, name: str) -> T:
        return await work(await read_live(memory, questions, name))

    if export is None:
        return run(ctx, lambda memory: asked(memory, questions.stem))

    async def worked() -> T:
        async with opened_export(export, load_config(ctx).settings) as memory:
            return await asked(memory, export.stem)

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
    if "known_failures" in summary:
        known = summary["known_failures"]
        answered = "; ".join(known["answered"]) or "none"
        say(f"known failures: {known['queries']}, hit@10 {known['hit@10']:.3f}; answered by now: {answered}")
    if "confidence_auc" in summary:
        say(f"confidence tells answerable from unanswerable: AUC {summary['confidence_auc']:.3f}")
    for note in summary["degraded"]:
        warn(f"degraded: {note}")
    for metric, each in (comparison or {}).items():
        say(f"{metric} {each.old:.3f} -> {each.new:.3f}: {difference(each)}")

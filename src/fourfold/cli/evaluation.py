"""eval, tune, presets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import click

from fourfold.cli.commands import argument, load_config, open_memory, option
from fourfold.cli.options import JsonFlag, RankingFlags
from fourfold.cli.output import progress_bar, say, say_json, say_rows, warn
from fourfold.errors import InvalidQuery, NotFound, RequestError
from fourfold.model import Json
from fourfold.ranking.plan import checked_tuning, explained
from fourfold.retrieval import Tuning

if TYPE_CHECKING:
    from fourfold.config import TunedPreset
    from fourfold.evaluation.bench import Bench, LiveBench
    from fourfold.evaluation.metrics import Comparison, Run
    from fourfold.evaluation.tune import Fitted, Grid

T = TypeVar("T")
Ask: TypeAlias = "Callable[[Callable[[Any], T]], T]"

Folder = Annotated[Path, argument(metavar="DIR", help="A folder with corpus.jsonl, queries.jsonl, qrels.tsv.")]
Source = Annotated[
    Path | None,
    argument(
        metavar="[DIR]",
        help="A folder with corpus.jsonl, queries.jsonl, qrels.tsv;"
        " with --store-items an export, or nothing: your store.",
    ),
]
StoreItems = Annotated[
    Path | None,
    option(metavar="FILE.tsv", help="Ask your store: question, ids or key:K, category, 'known failure'."),
]
Plain = Annotated[bool, option("--plain", help="Titles and texts only: no tags, links and edges.")]
Cache = Annotated[Path | None, option(metavar="FOLDER", help="Where vectors are kept; default: the user's cache.")]


def evaluate(
    how: RankingFlags,
    folder: Source = None,
    store_items: StoreItems = None,
    plain: Plain = False,
    table: Annotated[bool, option("--table", help="Every retriever, every preset and auto side by side.")] = False,
    baseline: Annotated[Path | None, option(metavar="FILE", help="Compare with this saved run.")] = None,
    save: Annotated[Path | None, option(metavar="FILE", help="Write every question's result, as JSONL.")] = None,
    cache: Cache = None,
    as_json: JsonFlag = False,
) -> None:
    ask = _asker(folder, store_items, plain=plain, cache=cache)
    if table:
        options = {**how, "baseline": baseline, "save": save}
        names = [name for name, value in options.items() if value is not None]
        if names:
            raise InvalidQuery(f"--{names[0]} cannot be combined with --table", "Leave one of them out")
        _show_table(ask, as_json=as_json)
    else:
        _evaluate(ask, how, baseline=baseline, save=save, as_json=as_json)


def _asker(folder: Path | None, store_items: Path | None, *, plain: bool, cache: Path | None) -> Ask[Any]:
    """The store in which the questions are asked: that of a collection, the user's, or an export of it."""
    if store_items is None:
        if folder is None:
            raise InvalidQuery("no questions are given", "Name a folder of a collection, or --store-items FILE.tsv")
        return partial(on_bench, folder, plain=plain, cache=cache)
    if plain or (folder is not None and folder.is_dir()):
        what = "--plain" if plain else f"the folder {folder}"
        raise InvalidQuery(f"{what} cannot be combined with --store-items", "Leave one of them out")
    return partial(_on_store, store_items, export=folder)


def _evaluate(
    ask: Ask[Run], options: Mapping[str, Any], *, baseline: Path | None, save: Path | None, as_json: bool
) -> None:
    from fourfold.evaluation import metrics as runs
    from fourfold.evaluation.bench import Variant

    before = None if baseline is None else runs.load_scores(baseline)
    variant = Variant("eval", {name: value for name, value in options.items() if value is not None})

    def work(bench: LiveBench) -> Run:
        with progress_bar("questions") as progress:
            return runs.measure(bench, variant, fresh=True, progress=progress)

    run = ask(work)
    if save is not None:
        runs.save(run, save)
    comparison = None if before is None else runs.against(run, before)
    _show_scores(runs.summary(run), comparison, as_json=as_json)
    if comparison is not None and comparison["ndcg@10"].loss:
        warn("nDCG@10 is below the baseline by more than chance")
        raise click.exceptions.Exit(RequestError.exit_code)


def _show_table(ask: Ask[list[Run]], *, as_json: bool) -> None:
    from fourfold.evaluation import metrics as runs

    def work(bench: LiveBench) -> list[Run]:
        with progress_bar("variants") as progress:
            return runs.every_variant(bench, progress=progress)

    measured = ask(work)
    if as_json:
        say_json({"status": "success", **runs.table_json(measured)})
    else:
        say(runs.table_markdown(measured).rstrip("\n"))


def on_bench(folder: Path, work: Callable[[Bench], T], *, plain: bool, cache: Path | None) -> T:
    """The result of `work` on the collection, in a temporary store with the user's other settings."""
    from fourfold.evaluation.bench import open_bench
    from fourfold.evaluation.collection import read_collection

    settings = load_config().settings
    collection = read_collection(folder, plain=plain)
    if collection.empty:
        warn(f"note: {collection.empty} documents have no text and are left out")

    with open_bench(collection, settings, cache) as bench:
        with progress_bar("vectors") as progress:
            bench.fill(progress)
        return work(bench)


def _on_store(questions: Path, work: Callable[[LiveBench], T], *, export: Path | None) -> T:
    """The result of `work` on the user's store, to which nothing is written, or on an export."""
    from fourfold.evaluation.bench import LiveBench, opened_export
    from fourfold.evaluation.collection import read_questions

    opened = open_memory() if export is None else opened_export(export, load_config().settings)
    with opened as memory:
        collection = read_questions(memory, questions, (export or questions).stem)
        return work(LiveBench(memory, collection, memory.status()["embedder"]))


# ---------------------------------------------------------------- shown


def _show_scores(summary: Mapping[str, Json], comparison: Mapping[str, Comparison] | None, *, as_json: bool) -> None:
    if as_json:
        beside = {} if comparison is None else {name: each.form() for name, each in comparison.items()}
        say_json({"status": "success", **summary, **({"comparison": beside} if beside else {})})
        return
    from fourfold.evaluation.metrics import METRICS

    def row(name: str, scores: Mapping[str, Json]) -> list[object]:
        return [name, scores["queries"], *(f"{scores[metric]:.3f}" for metric in METRICS)]

    rows = [row(name, scores) for name, scores in summary["by_category"].items()]
    headings = [metric.replace("all_relevant", "all") for metric in METRICS]
    say_rows(("", "queries", *headings), [*rows, row(summary["dataset"], summary)], header=True)
    times = summary["latency_ms"]
    say(f"latency p50 {times['p50']:.1f} ms, p95 {times['p95']:.1f} ms")
    if "known_failures" in summary:
        failures = summary["known_failures"]
        answered = "; ".join(failures["answered"]) or "none"
        say(f"known failures: {failures['queries']}, hit@10 {failures['hit@10']:.3f}; answered by now: {answered}")
    if "confidence_auc" in summary:
        say(f"confidence separates answerable from unanswerable questions: AUC {summary['confidence_auc']:.3f}")
    for note in summary["degraded"]:
        warn(f"degraded: {note}")
    for metric, each in (comparison or {}).items():
        say(f"{metric} {each.old:.3f} -> {each.new:.3f}: {each}")


# ---------------------------------------------------------------- tune


def tune(
    folder: Folder,
    save: Annotated[
        str | None, option(metavar="NAME", help="Keep the constants of auto as a preset, if they help.")
    ] = None,
    preset: Annotated[str | None, option(metavar="P", help="The weights of this preset only.")] = None,
    fusion: Annotated[str | None, option(metavar="F", help="By this fusion: auto, rrf or weighted.")] = None,
    plain: Plain = False,
    plot: Annotated[Path | None, option(metavar="FILE", help="Draw the tables: .png, .svg or .pdf.")] = None,
    cache: Cache = None,
    as_json: JsonFlag = False,
) -> None:
    from fourfold.evaluation import tune as tuning

    only_grid = preset is not None or fusion is not None
    if save is not None:  # refused before anything is measured
        checked_tuning(Tuning(name=save))
        if only_grid:
            raise InvalidQuery("--save keeps constants of auto", "Leave --preset and --fusion out")
    if plot is not None:
        tuning.check_plot(plot)

    def work(bench: Bench) -> tuple[list[Grid], Fitted | None, Bench]:
        if save is not None:
            tuning.check_questions(bench, fit=True)
        with progress_bar("settings") as progress:
            if only_grid:
                return [tuning.preset_grid(bench, preset or "auto", fusion, progress)], None, bench
            grids = tuning.documented_grids(bench, progress)
        if not tuning.can_fit(bench.collection):
            return grids, None, bench
        with progress_bar("questions") as progress:
            return grids, tuning.fit_auto(bench, progress), bench

    grids, fitted, bench = on_bench(folder, work, plain=plain, cache=cache)
    if plot is not None:
        tuning.plot(grids, plot)
    kept = save if fitted is not None and fitted.helps else None
    if fitted is not None and kept is not None:
        _keep(_file(), fitted, kept, bench)
    if as_json:
        form = None if fitted is None else _fitted_form(fitted, kept)
        say_json({"status": "success", **tuning.grids_json(grids), "fitted": form})
    else:
        _show_tuning(grids, fitted, kept, only_grid=only_grid)
    if kept != save:
        warn("the constants do not help by more than chance; nothing was kept")
        raise click.exceptions.Exit(RequestError.exit_code)


def _show_tuning(grids: Sequence[Grid], fitted: Fitted | None, kept: str | None, *, only_grid: bool) -> None:
    from fourfold.evaluation.tune import FEWEST_QUESTIONS, grid_markdown

    say("\n\n".join(map(grid_markdown, grids)))
    if fitted is not None:
        trained, judged = fitted.trained, fitted.judged
        say("\nConstants of `auto`, fitted to the training half:")
        for line in explained(fitted.tuning):
            say(f"- {line}")
        say(f"\nnDCG@10 on the training half: {trained.old:.3f} -> {trained.new:.3f}: {trained}")
        say(f"on {fitted.questions} held-out questions: {judged.old:.3f} -> {judged.new:.3f}: {judged}")
        if kept is not None:
            say(
                f"kept: search with --preset {kept}, or set preset: {kept}; fourfold presets --remove {kept} removes it"
            )
        elif fitted.helps:
            say("keep it with --save NAME")
    elif not only_grid:
        say(f"\nThe constants of `auto` are fitted to at least {FEWEST_QUESTIONS} judged questions.")


def presets(
    remove: Annotated[str | None, option(metavar="NAME", help="Remove a tuned preset.")] = None,
    as_json: JsonFlag = False,
) -> None:
    from fourfold.config import read_presets, write_presets

    file = _file()
    saved = read_presets(file)
    if remove is not None:
        if remove not in saved:
            raise NotFound(f"unknown tuned preset {remove!r}", "`fourfold presets` lists them")
        write_presets(file, {name: preset for name, preset in saved.items() if name != remove})
        say(f"removed {remove}; searches that name it are refused")
    elif as_json:
        forms = {name: {**asdict(each), "explained": explained(each.tuning)} for name, each in saved.items()}
        say_json({"status": "success", "presets": forms})
    elif not saved:
        say("no tuned presets: make one with fourfold tune DIR --save NAME")
    else:
        say_rows(
            ("preset", "judged on", "questions", "gain of nDCG@10", "differs from auto"), map(_row, saved.values())
        )


def _file() -> Path:
    from fourfold.config import presets_file

    return presets_file(load_config().settings.presets_file)


def _keep(file: Path, fitted: Fitted, name: str, bench: Bench) -> None:
    from fourfold.config import TunedPreset, read_presets, write_presets

    judged = (fitted.questions, fitted.judged.difference, fitted.judged.low, fitted.judged.high)
    today = datetime.now(UTC).date().isoformat()
    preset = TunedPreset(replace(fitted.tuning, name=name), bench.collection.name, *judged, bench.model, today)
    write_presets(file, {**read_presets(file), name: preset})


# ---------------------------------------------------------------- shown


def _fitted_form(fitted: Fitted, kept: str | None) -> dict[str, Json]:
    return {
        "constants": {name: value for name, value in asdict(fitted.tuning).items() if name != "name"},
        "explained": explained(fitted.tuning),
        "trained": fitted.trained.form(),
        "held_out": {"queries": fitted.questions, **fitted.judged.form()},
        "helps": fitted.helps,
        "preset": kept,
    }


def _row(preset: TunedPreset) -> list[object]:
    gain = f"{preset.gain:+.3f} ({preset.low:+.3f} to {preset.high:+.3f})"
    return [preset.tuning.name, preset.collection, preset.questions, gain, "; ".join(explained(preset.tuning))]

"""tune, presets."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from fourfold.cli.commands import option
from fourfold.cli.evaluation import Cache, Folder, Plain, on_bench
from fourfold.cli.options import JsonFlag
from fourfold.cli.output import say, say_json, say_rows, warn
from fourfold.cli.session import load_config
from fourfold.errors import InvalidQuery, NotFound, RequestError
from fourfold.ranking.presets import checked_tuning, explained
from fourfold.retrieval import Tuning

if TYPE_CHECKING:
    from fourfold.config.presets_file import TunedPreset
    from fourfold.evaluation.bench import Bench
    from fourfold.evaluation.tune import Fitted, Grid
    from fourfold.model import Json


def tune(
    ctx: click.Context,
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
        from fourfold.cli.render import progress_bar

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

    grids, fitted, bench = on_bench(ctx, folder, work, plain=plain, cache=cache)
    if plot is not None:
        tuning.plot(grids, plot)
    kept = save if fitted is not None and fitted.helps else None
    if fitted is not None and kept is not None:
        _keep(_file(ctx), fitted, kept, bench)
    if as_json:
        form = None if fitted is None else _fitted_form(fitted, kept)
        say_json({"status": "success", **tuning.grids_json(grids), "fitted": form})
    else:
        say("\n\n".join(map(tuning.grid_markdown, grids)))
        if fitted is not None:
            _show(fitted, kept)
        elif not only_grid:
            say(f"\nThe constants of `auto` are fitted to at least {tuning.FEWEST_QUESTIONS} judged questions.")
    if kept != save:
        warn("the constants do not help by more than chance; nothing was kept")
        raise click.exceptions.Exit(RequestError.exit_code)


def presets(
    ctx: click.Context,
    remove: Annotated[str | None, option(metavar="NAME", help="Remove a tuned preset.")] = None,
    as_json: JsonFlag = False,
) -> None:
    from fourfold.config.presets_file import read_presets, write_presets

    file = _file(ctx)
    known = read_presets(file)
    if remove is not None:
        if remove not in known:
            raise NotFound(f"unknown tuned preset {remove!r}", "`fourfold presets` lists them")
        write_presets(file, {name: preset for name, preset in known.items() if name != remove})
        say(f"removed {remove}; searches that name it are refused")
    elif as_json:
        say_json({"status": "success", "presets": {name: _form(preset) for name, preset in known.items()}})
    elif not known:
        say("no tuned presets: make one with fourfold tune DIR --save NAME")
    else:
        say_rows(
            ("preset", "judged on", "questions", "gain of nDCG@10", "differs from auto"), map(_row, known.values())
        )


def _file(ctx: click.Context) -> Path:
    from fourfold.config import presets_file

    return presets_file(load_config(ctx).settings.presets_file)


def _keep(file: Path, fitted: Fitted, name: str, bench: Bench) -> None:
    from fourfold.config.presets_file import TunedPreset, read_presets, write_presets

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


def _show(fitted: Fitted, kept: str | None) -> None:
    trained, judged = fitted.trained, fitted.judged
    say("\nConstants of `auto`, fitted to the training half:")
    for line in explained(fitted.tuning):
        say(f"- {line}")
    say(f"\nnDCG@10 on the training half: {trained.old:.3f} -> {trained.new:.3f}: {trained}")
    say(f"on {fitted.questions} held-out questions: {judged.old:.3f} -> {judged.new:.3f}: {judged}")
    if kept is not None:
        say(f"kept: search with --preset {kept}, or set preset: {kept}; fourfold presets --remove {kept} removes it")
    elif fitted.helps:
        say("keep it with --save NAME")


def _form(preset: TunedPreset) -> dict[str, Json]:
    return {**asdict(preset), "explained": explained(preset.tuning)}


def _row(preset: TunedPreset) -> list[object]:
    gain = f"{preset.gain:+.3f} ({preset.low:+.3f} to {preset.high:+.3f})"
    return [preset.tuning.name, preset.collection, preset.questions, gain, "; ".join(explained(preset.tuning))]

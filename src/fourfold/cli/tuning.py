"""tune, presets."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fourfold.cli.evaluation import Cache, Folder, Per, Plain, on_bench
from fourfold.cli.options import JsonFlag
from fourfold.cli.output import say, say_json, say_rows, warn
from fourfold.cli.session import load_config
from fourfold.errors import NotFound, RequestError

if TYPE_CHECKING:
    from fourfold.config.presets_file import TunedPreset
    from fourfold.evaluation.bench import Bench
    from fourfold.evaluation.tune import Tuned
    from fourfold.model import Json

Name = Annotated[str | None, typer.Option("--save", metavar="NAME", help="Keep it as a preset, if it helps.")]


def tune(
    ctx: typer.Context,
    folder: Folder,
    save: Name = None,
    plain: Plain = False,
    per: Per = "session",
    cache: Cache = None,
    as_json: JsonFlag = False,
) -> None:
    from dataclasses import replace

    from fourfold.ranking.tuning import checked_tuning
    from fourfold.retrieval import Tuning

    if save is not None:
        checked_tuning(Tuning(name=save))  # before anything is measured

    def work(bench: Bench) -> tuple[Tuned, str, str | None]:
        from fourfold.cli.render import progress_bar
        from fourfold.evaluation import tune as tuning

        with progress_bar("questions") as progress:
            return tuning.tune(bench, progress), bench.collection.name, bench.model

    found, collection, model = on_bench(ctx, folder, work, per=per, plain=plain, cache=cache)
    kept = save if found.helps else None
    if kept is not None:
        from fourfold.config.presets_file import TunedPreset

        judged = (found.questions, found.judged.difference, found.judged.low, found.judged.high)
        today = datetime.now(UTC).date().isoformat()
        _keep(_file(ctx), TunedPreset(replace(found.tuning, name=kept), collection, *judged, model, today))
    _show(found, kept, as_json=as_json)
    if not found.helps:
        raise typer.Exit(RequestError.exit_code)


def presets(
    ctx: typer.Context,
    remove: Annotated[str | None, typer.Option(metavar="NAME", help="Remove a tuned preset.")] = None,
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


def _file(ctx: typer.Context) -> Path:
    from fourfold.config import presets_file

    return presets_file(load_config(ctx).settings.presets_file)


def _keep(file: Path, preset: TunedPreset) -> None:
    from fourfold.config.presets_file import read_presets, write_presets

    write_presets(file, {**read_presets(file), preset.tuning.name: preset})


# ---------------------------------------------------------------- shown


def _show(found: Tuned, kept: str | None, *, as_json: bool) -> None:
    from fourfold.evaluation.table import difference
    from fourfold.ranking.tuning import explained

    lines = explained(found.tuning)
    if as_json:
        constants = {name: value for name, value in asdict(found.tuning).items() if name != "name"}
        say_json(
            {
                "status": "success",
                "constants": constants,
                "explained": lines,
                "trained": found.trained.form(),
                "held_out": {"queries": found.questions, **found.judged.form()},
                "helps": found.helps,
                "preset": kept,
            }
        )
        return
    for line in lines:
        say(line)
    say(
        f"nDCG@10 on the training half: {found.trained.old:.3f} -> {found.trained.new:.3f}: {difference(found.trained)}"
    )
    judged = found.judged
    say(f"on {found.questions} held-out questions: {judged.old:.3f} -> {judged.new:.3f}: {difference(judged)}")
    if not found.helps:
        warn("this does not help by more than chance; nothing was kept")
    elif kept is None:
        say("keep it with --save NAME")
    else:
        say(f"kept: search with --preset {kept}, or set preset: {kept}; fourfold presets --remove {kept} removes it")


def _form(preset: TunedPreset) -> dict[str, Json]:
    from fourfold.ranking.tuning import explained

    return {**asdict(preset), "explained": explained(preset.tuning)}


def _row(preset: TunedPreset) -> list[object]:
    from fourfold.ranking.tuning import explained

    gain = f"{preset.gain:+.3f} ({preset.low:+.3f} to {preset.high:+.3f})"
    return [preset.tuning.name, preset.collection, preset.questions, gain, "; ".join(explained(preset.tuning))]

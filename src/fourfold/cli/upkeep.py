"""tags, namespaces, status, config, check, repair, reembed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, cast

import typer

from fourfold.cli.options import JsonFlag
from fourfold.cli.output import one_line, say, say_json, say_rows
from fourfold.cli.session import load_config, run
from fourfold.errors import DamagedStore

if TYPE_CHECKING:
    from fourfold.memory import Memory
    from fourfold.model import Json


def tags(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    _say_counts("tags", "tag", run(ctx, lambda memory: memory.tags()), as_json=as_json)


def namespaces(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    _say_counts("namespaces", "namespace", run(ctx, lambda memory: memory.namespaces()), as_json=as_json)


def status(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    facts = run(ctx, lambda memory: memory.status())
    if as_json:
        say_json({"status": "success", **facts})
    else:
        say_rows(("what", "value"), _flat(facts))


def config(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    shown = load_config(ctx).shown()
    if as_json:
        say_json({"status": "success", "settings": {name: given._asdict() for name, given in shown.items()}})
    else:
        say_rows(
            ("setting", "value", "from"), ((name, _value(given.value), given.origin) for name, given in shown.items())
        )


def check(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    problems, pending = run(ctx, _checked)
    if as_json:
        form = {"status": "damaged" if problems else "success", "problems": problems, "pending_vectors": pending}
        say_json(form)
    else:
        for problem in problems or ("no problems found",):
            say(one_line(problem))
        for namespace, count in pending.items():
            waits = "1 item waits for its vector" if count == 1 else f"{count} items wait for their vectors"
            say(one_line(f"{namespace}: {waits}; `fourfold --namespace {namespace} embed` makes them"))
    if problems:
        raise typer.Exit(DamagedStore.exit_code)


async def _checked(memory: Memory) -> tuple[list[str], dict[str, int]]:
    """What is wrong, and how many vectors are pending by namespace, which is not damage; {} without an embedder."""
    problems, facts = await memory.check(), await memory.status()
    counts = {name: known["pending_vectors"] for name, known in facts["namespaces"].items()}
    return problems, {name: count for name, count in counts.items() if count and facts["embedder"] is not None}


def repair(
    ctx: typer.Context,
    purge: Annotated[bool, typer.Option("--purge", help="Also remove forgotten text from every file.")] = False,
) -> None:
    for action in run(ctx, lambda memory: memory.repair(purge=purge)) or ("nothing to repair",):
        say(one_line(action))


def reembed(ctx: typer.Context) -> None:
    async def work(memory: Memory) -> int:
        from fourfold.cli.render import progress_bar

        with progress_bar("vectors") as progress:
            return await memory.reembed(progress=progress)

    say(f"made {run(ctx, work)} vectors")


def _say_counts(name: str, column: str, counts: list[tuple[str, int]], *, as_json: bool) -> None:
    if as_json:
        say_json({"status": "success", name: dict(counts)})
    else:
        say_rows((column, "items"), counts)


def _flat(facts: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, Json]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _value(value)


def _value(value: Json) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case None:
            return "-"
        case list() | tuple():
            return ", ".join(str(part) for part in cast("list[Json]", value))
        case _:
            return str(value)

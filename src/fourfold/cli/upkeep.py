"""tags, namespaces, status, config, check, repair, scan-secrets, reembed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, cast

import click

from fourfold.cli.commands import load_config, open_memory, option
from fourfold.cli.options import JsonFlag
from fourfold.cli.output import one_line, say, say_json, say_rows
from fourfold.errors import DamagedStore
from fourfold.model import Json


def tags(as_json: JsonFlag = False) -> None:
    with open_memory() as memory:
        counts = memory.tags()
    _say_counts("tags", "tag", counts, as_json=as_json)


def namespaces(as_json: JsonFlag = False) -> None:
    with open_memory() as memory:
        counts = memory.namespaces()
    _say_counts("namespaces", "namespace", counts, as_json=as_json)


def status(as_json: JsonFlag = False) -> None:
    with open_memory() as memory:
        facts = memory.status()
    if as_json:
        say_json({"status": "success", **facts})
    else:
        say_rows(("what", "value"), _flat(facts))


def config(as_json: JsonFlag = False) -> None:
    shown = load_config().shown()
    if as_json:
        say_json({"status": "success", "settings": {name: given._asdict() for name, given in shown.items()}})
    else:
        say_rows(
            ("setting", "value", "from"), ((name, _value(given.value), given.origin) for name, given in shown.items())
        )


def check(as_json: JsonFlag = False) -> None:
    with open_memory() as memory:
        problems, facts = memory.check(), memory.status()
    counts = {name: known["pending_vectors"] for name, known in facts["namespaces"].items()}
    pending = {name: count for name, count in counts.items() if count and facts["embedder"] is not None}
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
        raise click.exceptions.Exit(DamagedStore.exit_code)


def repair(
    purge: Annotated[bool, option("--purge", help="Also remove forgotten text from every file.")] = False,
) -> None:
    with open_memory() as memory:
        actions = memory.repair(purge=purge)
    for action in actions or ("nothing to repair",):
        say(one_line(action))


def scan_secrets(
    mask: Annotated[bool, option("--mask", help="Mask them, and remove them from every file.")] = False,
) -> None:
    from fourfold.cli.hooks import capture
    from fourfold.serve.http import judgements

    with open_memory() as memory:
        lines = judgements.scan(memory.settings, mask=mask) + capture.scan(mask=mask) + memory.scan_secrets(mask=mask)
    for line in lines or ("no secrets found",):
        say(one_line(line))


def reembed() -> None:
    from fourfold.cli.render import progress_bar

    with open_memory() as memory, progress_bar("vectors") as progress:
        made = memory.reembed(progress=progress)
    say(f"made {made} vectors")


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

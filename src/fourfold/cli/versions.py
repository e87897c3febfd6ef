"""history, undo, dedup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import click

from fourfold.cli.commands import argument, option
from fourfold.cli.options import ItemId, JsonFlag
from fourfold.cli.output import heading, local_time, one_line, say, say_json, say_rows
from fourfold.cli.session import open_memory
from fourfold.cli.values import read_id
from fourfold.errors import RequestError

if TYPE_CHECKING:
    from fourfold.engine.duplicates import DuplicateGroup, Similar
    from fourfold.model import Item


def history(ctx: click.Context, item: ItemId, as_json: JsonFlag = False) -> None:
    from fourfold.wire import encode

    with open_memory(ctx) as memory:
        found = memory.history(read_id(item))
    if as_json:
        say_json({"status": "success", "count": len(found), "items": [encode(each) for each in found]})
    else:
        say_rows(("id", "from", "until", "item"), (_row(each) for each in found))


def _row(item: Item) -> tuple[object, ...]:
    until = "" if item.superseded_at is None else local_time(item.superseded_at)
    shown = f"{heading(item)}: {one_line(item.text)}" if item.title else one_line(item.text)
    return item.id, local_time(item.valid_from or item.created_at), until, shown


def undo(
    ctx: click.Context,
    item: ItemId,
    to: Annotated[int | None, option(metavar="ID", help="That version or value, not the last one.")] = None,
) -> None:
    with open_memory(ctx) as memory:
        restored = memory.undo(read_id(item), to=to, wait=True)
    say(str(restored.id))


def dedup(
    ctx: click.Context,
    items: Annotated[
        list[str] | None,
        argument(metavar="[KEEP ID...]", help="The item to keep, then those to merge into it. Without: list."),
    ] = None,
    limit: Annotated[int, option(metavar="N", help="How many groups to list.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    if items:
        _merge(ctx, items)
        return
    with open_memory(ctx) as memory:
        groups = memory.duplicates(limit=limit)
    if as_json:
        from fourfold.wire import duplicates_json

        say_json({"status": "success", "count": len(groups), "groups": [duplicates_json(group) for group in groups]})
    else:
        say_rows(("id", "words", "cosine", "item"), (row for group in groups for row in _rows(group)))


def _merge(ctx: click.Context, items: list[str]) -> None:
    kept, *others = [read_id(item) for item in items]
    if not others:
        raise RequestError("dedup with one id", "Name the item to keep, then those to merge into it")
    with open_memory(ctx) as memory:
        merged = memory.merge(kept, others)
    say(f"{merged.id}: merged {len(others)} into it; fourfold undo {merged.id} takes that back")


def _rows(group: DuplicateGroup) -> Iterator[tuple[object, ...]]:
    yield group.oldest.id, "", "", _shown(group.oldest)
    for item, similar in group.others:
        yield item.id, f"{similar.words:.2f}", _cosine(similar), f"= {_shown(item)}"


def _cosine(similar: Similar) -> str:
    return "" if similar.cosine is None else f"{similar.cosine:.2f}"


def _shown(item: Item) -> str:
    return f"{heading(item)}: {one_line(item.text)}" if item.title else one_line(item.text)

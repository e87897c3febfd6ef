"""history, undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fourfold.cli.options import ItemId, JsonFlag
from fourfold.cli.output import heading, local_time, one_line, say, say_json, say_rows
from fourfold.cli.session import open_memory
from fourfold.cli.values import read_id

if TYPE_CHECKING:
    from fourfold.model import Item


def history(ctx: typer.Context, item: ItemId, as_json: JsonFlag = False) -> None:
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
    ctx: typer.Context,
    item: ItemId,
    to: Annotated[int | None, typer.Option(metavar="ID", help="That version or value, not the last one.")] = None,
) -> None:
    with open_memory(ctx) as memory:
        restored = memory.undo(read_id(item), to=to, wait=True)
    say(str(restored.id))

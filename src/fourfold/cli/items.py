"""add, update, list, get, forget; history, undo, dedup."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import click

from fourfold.cli.commands import argument, open_memory, option
from fourfold.cli.options import (
    DetailFlags,
    FilterFlags,
    ItemId,
    JsonFlag,
    MetaOption,
    VectorOption,
    read_end,
    read_id,
    read_metadata,
    read_stdin,
    read_time,
    read_vector,
    read_where,
)
from fourfold.cli.output import clean, heading, local_time, one_line, say, say_json, say_list, say_rows, warn
from fourfold.cli.raw import raw_in_full
from fourfold.cli.vectors import WaitFlag, finish_vectors
from fourfold.errors import InvalidItem, RequestError
from fourfold.fields import OPTIONAL
from fourfold.model import Filters, Item, ItemPatch, NewItem, RawRecord
from fourfold.text.secrets import masks_in
from fourfold.wire import encode

if TYPE_CHECKING:
    from fourfold.engine.duplicates import DuplicateGroup, Similar
    from fourfold.memory import Memory

TagOption = Annotated[list[str] | None, option("--tag", metavar="T", help="A tag; repeat for more.")]


def add(
    text: Annotated[str, argument(metavar="TEXT|-", help="The text; - reads it from stdin.")],
    details: DetailFlags,
    key: Annotated[str | None, option(metavar="K", help="Your own id: storing it again replaces.")] = None,
    title: Annotated[str, option(metavar="T")] = "",
    tag: TagOption = None,
    kind: Annotated[str | None, option(metavar="K", help="Such as note or decision.")] = None,
    lang: Annotated[str | None, option(metavar="L", help="Such as de; detected if left out.")] = None,
    source: Annotated[list[int] | None, option(metavar="RAW_ID", help="A raw record that it is made of.")] = None,
    meta: MetaOption = None,
    at: Annotated[str | None, option(metavar="TIME", help="When it was created.")] = None,
    ttl: Annotated[str | None, option(metavar="N", help="How long it is found: 30m, 12h, 7d or 2w.")] = None,
    vector: VectorOption = None,
    wait: WaitFlag = None,
) -> None:
    item = NewItem(
        text=read_stdin() if text == "-" else text,
        title=title,
        key=key,
        tags=tuple(tag or ()),
        kind=kind,
        metadata=read_metadata(meta or ()),
        language=lang,
        created_at=None if at is None else read_time(at),
        source_ids=tuple(source or ()),
        vector=None if vector is None else read_vector(vector),
        **_with_expiry(details.values(), ttl),
    )

    with open_memory(create=True) as memory:
        before = memory.count()
        added = memory.add(item, wait=wait is not False)
        if memory.count() == before and added.supersedes is None:
            _say_what_was_kept(added, item)
        _finish(memory, wait)
    _warn_of_similar(added)
    _warn_of_masks(added)
    say(str(added.id))


def _warn_of_similar(stored: Item) -> None:
    if stored.similar:
        first, named = stored.similar[0], ", ".join(map(str, stored.similar))
        merge = f"if so, fourfold dedup {first} {stored.id} merges it into item {first}"
        warn(f"item {stored.id} says nearly the same as {named}; {merge}")


def _warn_of_masks(stored: Item) -> None:
    if kinds := dict.fromkeys([*masks_in(stored.title), *masks_in(stored.text)]):
        warn(f"masked: {', '.join(kinds)}; FOURFOLD_SECRETS=allow stores secrets as they are")


def _with_expiry(details: dict[str, Any], ttl: str | None) -> dict[str, Any]:
    """Adds the end that `--ttl` means, and refuses one that is past."""
    from fourfold.engine.maintenance import in_future

    if ttl is not None:
        if "expires_at" in details:
            raise InvalidItem("--expires and --ttl", "Give one of them")
        details["expires_at"] = read_end(ttl)
    in_future(details.get("expires_at"))
    return details


def _say_what_was_kept(stored: Item, given: NewItem) -> None:
    """Warns about options that were ignored because the text or key was stored before."""
    ignored = [
        option
        for option, wanted, kept in (
            ("--title", given.title.strip() or None, stored.title),
            ("--kind", given.kind, stored.kind),
            ("--lang", given.language, stored.language),
            ("--at", given.created_at, stored.created_at),
            *(("--meta", value, stored.metadata.get(key)) for key, value in given.metadata.items()),
        )
        if wanted is not None and wanted != kept
    ]
    if given.key is None:
        kept = "its title, kind, metadata and time are kept, tags and sources are added"
        left = f"; ignored: {', '.join(dict.fromkeys(ignored))}" if ignored else ""
        warn(f"item {stored.id} has this text already: {kept}{left}")
    elif ignored:
        warn(f"item {stored.id} has this key already and is replaced; ignored: {', '.join(dict.fromkeys(ignored))}")


def _finish(memory: Memory, wait: bool | None) -> None:
    """Warns about failures and leaves pending vectors of other items to a worker; the item has its own vector."""
    for what, why in memory.troubles().items():
        warn(f"stored, but {what}: {why}")
    finish_vectors(memory, wait or False)


def update(
    item: ItemId,
    text: Annotated[str | None, option(metavar="T", help="The new text.")] = None,
    title: Annotated[str | None, option(metavar="T", help="The new title.")] = None,
    tag: TagOption = None,
    untag: Annotated[list[str] | None, option(metavar="T", help="A tag to take away.")] = None,
    meta: Annotated[list[str] | None, option(metavar="K=V", help="Metadata; K=null removes K.")] = None,
    wait: WaitFlag = None,
) -> None:
    patch = ItemPatch(
        text=text,
        title=title,
        add_tags=tuple(tag or ()),
        remove_tags=tuple(untag or ()),
        metadata=read_metadata(meta) if meta else None,
    )
    if patch == ItemPatch():
        raise InvalidItem("nothing to change", "Give --text, --title, --tag, --untag or --meta")

    with open_memory() as memory:
        updated = memory.update(read_id(item), patch, wait=wait is not False)
        _finish(memory, wait)
    _warn_of_similar(updated)
    _warn_of_masks(updated)
    say(str(updated.id))


def list_items(
    where: FilterFlags,
    limit: Annotated[int, option(metavar="N", help="How many, newest first.")] = 50,
    offset: Annotated[int, option(metavar="N", help="How many to leave out before.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    filters = where.filters()
    with open_memory() as memory:
        items = memory.list(filters, limit=limit, offset=offset)
        unknown = [] if items else memory.unknown_names(filters)
    for line in unknown:
        warn(line)
    say_list("items", items, ("id", "created", "item", "tags"), _row, as_json=as_json)


def get(
    items: Annotated[list[str], argument(metavar="ID...", help="Ids, or key:K.")],
    around: Annotated[int, option(metavar="N", help="Also show this many chunks of its file on each side.")] = 0,
    sources: Annotated[bool, option("--sources", help="With the raw records that it is drawn from.")] = False,
    as_json: JsonFlag = False,
) -> None:
    ids = [read_id(item) for item in items]
    with open_memory() as memory:
        found, originals = _get(memory, ids, around, sources)
    if as_json:
        shown = {"sources": [encode(record) for record in originals]} if sources else {}
        say_json({"status": "success", "count": len(found), "items": [encode(item) for item in found], **shown})
    else:
        say("\n\n".join([*map(_in_full, found), *map(raw_in_full, originals)]))


def _get(memory: Memory, ids: list[int | str], around: int, sources: bool) -> tuple[list[Item], list[RawRecord]]:
    """Each item and each raw record once, also where the neighbours or sources of two are the same."""
    groups = [memory.around(item, around, around) for item in ids] if around else [memory.get(ids)]
    items = list({item.id: item for group in groups for item in group}.values())
    originals = [record for item in items for record in memory.sources(item.id)] if sources else []
    return items, list({record.id: record for record in originals}.values())


def forget(
    items: Annotated[list[str] | None, argument(metavar="[ID...]", help="Ids, or key:K.")] = None,
    tag: Annotated[list[str] | None, option(metavar="T", help="All items with this tag.")] = None,
    path: Annotated[str | None, option(metavar="GLOB", help="All items of these files.")] = None,
    where: Annotated[str | None, option(metavar="EXPR", help="All items that satisfy this filter.")] = None,
    yes: Annotated[bool, option("--yes", help="Do not ask.")] = False,
) -> None:
    if bool(items) == (tag is not None or path is not None or where is not None):
        raise RequestError("forget takes ids, or --tag, --path and --where", "Give one or the other")
    ids = [read_id(item) for item in items or ()]
    filters = Filters(tags=tuple(tag or ()), path=path, where=None if where is None else read_where(where))
    with open_memory() as memory:
        count = memory.forget(ids) if items else _forget_matching(memory, filters, yes=yes)
    say(f"forgot {_items(count)}")


def _forget_matching(memory: Memory, filters: Filters, *, yes: bool) -> int:
    count = memory.forget_matching(filters, dry_run=True)
    if count == 0:
        for line in memory.unknown_names(filters):
            warn(line)
        return 0
    if not yes:
        _confirm(count)
    return memory.forget_matching(filters)


def _confirm(count: int) -> None:
    if not sys.stdin.isatty():
        raise RequestError(f"this would forget {_items(count)}", "Repeat it with --yes")
    click.confirm(f"Forget {_items(count)}?", abort=True, err=True)


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


def _row(item: Item) -> tuple[object, ...]:
    return item.id, local_time(item.created_at), heading(item), ", ".join(item.tags)


def _in_full(item: Item) -> str:
    facts = {
        "id": item.id,
        "key": item.key,
        "namespace": item.namespace,
        "title": item.title,
        "tags": ", ".join(item.tags),
        "kind": item.kind,
        "language": item.language,
        "path": item.path,
        "chunk": item.chunk_index,
        "sources": ", ".join(map(str, item.source_ids)),
        "metadata": dict(item.metadata),
        "created": item.created_at,
        "updated": item.updated_at,
        **{name.removesuffix("_at"): getattr(item, name) for name in OPTIONAL},
    }
    facts = {name: local_time(value) if isinstance(value, datetime) else value for name, value in facts.items()}
    lines = (f"{name:<10} {one_line(str(value))}" for name, value in facts.items() if value not in (None, "", {}))
    return "\n".join([*lines, "", clean(item.text)])


# ---------------------------------------------------------------- versions and near-duplicates


def history(item: ItemId, as_json: JsonFlag = False) -> None:
    with open_memory() as memory:
        found = memory.history(read_id(item))
    say_list("items", found, ("id", "from", "until", "item"), _version_row, as_json=as_json)


def _version_row(item: Item) -> tuple[object, ...]:
    until = "" if item.superseded_at is None else local_time(item.superseded_at)
    return item.id, local_time(item.valid_from or item.created_at), until, _shown(item)


def undo(
    item: ItemId,
    to: Annotated[int | None, option(metavar="ID", help="That version or value, not the last one.")] = None,
) -> None:
    with open_memory() as memory:
        restored = memory.undo(read_id(item), to=to, wait=True)
    say(str(restored.id))


def dedup(
    items: Annotated[
        list[str] | None,
        argument(metavar="[KEEP ID...]", help="The item to keep, then those to merge into it. Without: list."),
    ] = None,
    limit: Annotated[int, option(metavar="N", help="How many groups to list.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    if items:
        _merge(items)
        return
    with open_memory() as memory:
        groups = memory.duplicates(limit=limit)
    if as_json:
        say_json({"status": "success", "count": len(groups), "groups": [encode(group) for group in groups]})
    else:
        say_rows(("id", "words", "cosine", "item"), (row for group in groups for row in _group_rows(group)))


def _merge(items: list[str]) -> None:
    kept, *others = [read_id(item) for item in items]
    if not others:
        raise RequestError("dedup with one id", "Name the item to keep, then those to merge into it")
    with open_memory() as memory:
        merged = memory.merge(kept, others)
    say(f"{merged.id}: merged {len(others)} into it; fourfold undo {merged.id} takes that back")


def _group_rows(group: DuplicateGroup) -> Iterator[tuple[object, ...]]:
    yield group.oldest.id, "", "", _shown(group.oldest)
    for item, similar in group.others:
        yield item.id, f"{similar.words:.2f}", _cosine(similar), f"= {_shown(item)}"


def _cosine(similar: Similar) -> str:
    return "" if similar.cosine is None else f"{similar.cosine:.2f}"


def _shown(item: Item) -> str:
    return f"{heading(item)}: {one_line(item.text)}" if item.title else one_line(item.text)

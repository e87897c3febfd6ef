"""Items with their versions and near-duplicates, raw records, and the graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import click

from fourfold.cli import options, output
from fourfold.cli.commands import Group, Place, argument, open_memory, option
from fourfold.cli.vectors import WaitFlag, finish_vectors
from fourfold.errors import InvalidItem, NotFound, RequestError
from fourfold.fields import OPTIONAL
from fourfold.filters import Condition
from fourfold.model import Edge, Filters, Item, ItemPatch, Json, Neighbor, NewItem, Node, Page, Proposal, RawRecord
from fourfold.text.secrets import masks_in
from fourfold.wire import encode

if TYPE_CHECKING:
    from fourfold.engine.duplicates import DuplicateGroup
    from fourfold.memory import Memory

# ---------------------------------------------------------------- items

TagOption = Annotated[list[str] | None, option("--tag", metavar="T", help="A tag; repeat for more.")]


def add(
    text: Annotated[str, argument(metavar="TEXT|-", help="The text; - reads it from stdin.", read=options.read_text)],
    details: options.DetailFlags,
    key: Annotated[str | None, option(metavar="K", help="Your own id: storing it again replaces.")] = None,
    title: Annotated[str, option(metavar="T", help="What it is called; searched like the text.")] = "",
    tag: TagOption = None,
    kind: Annotated[str | None, option(metavar="K", help="Such as note or decision.")] = None,
    lang: Annotated[str | None, option(metavar="L", help="Such as de; detected if left out.")] = None,
    source: Annotated[list[int] | None, option(metavar="RAW_ID", help="A raw record that it is made of.")] = None,
    meta: options.MetaOption = None,
    at: Annotated[datetime | None, option(metavar="TIME", help="When it was created.", read=options.read_local)] = None,
    ttl: Annotated[
        datetime | None, option(metavar="N", help="How long it is found: 30m, 12h, 7d or 2w.", read=options.read_end)
    ] = None,
    vector: options.VectorOption = None,
    wait: WaitFlag = None,
) -> None:
    from fourfold.engine.maintenance import in_future

    if ttl is not None:
        if "expires_at" in details:
            raise InvalidItem("--expires and --ttl", "Give one of them")
        details["expires_at"] = ttl
    in_future(details.get("expires_at"))
    names = {"text": text, "title": title, "key": key, "kind": kind, "language": lang, "created_at": at}
    lists = {"tags": tuple(tag or ()), "source_ids": tuple(source or ()), "metadata": meta or {}}
    item = NewItem(**names, **lists, vector=vector, **details)  # pyright: ignore[reportArgumentType]

    with open_memory(create=True) as memory:
        before = memory.count()
        added = memory.add(item, wait=wait is not False)
        if memory.count() == before and added.supersedes is None and added.superseded_at is None:
            _say_what_was_kept(added, item)
        _finish(memory, wait)
    _say_stored(added)


def _say_stored(stored: Item) -> None:
    """Prints the id, and warns of similar items and of masked secrets."""
    if stored.similar:
        first, named = stored.similar[0], ", ".join(map(str, stored.similar))
        merge = f"if so, fourfold dedup {first} {stored.id} merges it into item {first}"
        output.warn(f"item {stored.id} says nearly the same as {named}; {merge}")
    if kinds := dict.fromkeys([*masks_in(stored.title), *masks_in(stored.text)]):
        output.warn(f"masked: {', '.join(kinds)}; FOURFOLD_SECRETS=allow stores secrets as they are")
    output.say(str(stored.id))


def _say_what_was_kept(stored: Item, item: NewItem) -> None:
    """Warns about options that were ignored because the text or key was stored before."""
    ignored = [
        option
        for option, wanted, kept in (
            ("--title", item.title.strip() or None, stored.title),
            ("--kind", item.kind, stored.kind),
            ("--lang", item.language, stored.language),
            ("--at", item.created_at, stored.created_at),
            *(("--meta", value, stored.metadata.get(key)) for key, value in item.metadata.items()),
        )
        if wanted is not None and wanted != kept
    ]
    if item.key is None:
        kept = "its title, kind, metadata and time are kept, tags and sources are added"
        left = f"; ignored: {', '.join(dict.fromkeys(ignored))}" if ignored else ""
        output.warn(f"item {stored.id} has this text already: {kept}{left}")
    elif ignored:
        output.warn(
            f"item {stored.id} has this key already and is replaced; ignored: {', '.join(dict.fromkeys(ignored))}"
        )


def _finish(memory: Memory, wait: bool | None) -> None:
    """Warns about failures and leaves pending vectors of other items to a worker; the item has its own vector."""
    for what, why in memory.troubles().items():
        output.warn(f"stored, but {what}: {why}")
    finish_vectors(memory, wait or False)


def update(
    item: options.ItemId,
    text: Annotated[str | None, option(metavar="T", help="The new text.")] = None,
    title: Annotated[str | None, option(metavar="T", help="The new title.")] = None,
    tag: TagOption = None,
    untag: Annotated[list[str] | None, option(metavar="T", help="A tag to take away.")] = None,
    meta: Annotated[
        dict[str, Json] | None,
        option(metavar="K=V", multiple=True, help="Metadata; K=null removes K.", read=options.read_metadata),
    ] = None,
    wait: WaitFlag = None,
) -> None:
    patch = ItemPatch(text, title, tuple(tag or ()), tuple(untag or ()), meta)
    if patch == ItemPatch():
        raise InvalidItem("nothing to change", "Give --text, --title, --tag, --untag or --meta")
    with open_memory() as memory:
        updated = memory.update(item, patch, wait=wait is not False)
        _finish(memory, wait)
    _say_stored(updated)


def list_items(
    filters: options.FilterFlags,
    limit: Annotated[int, option(metavar="N", help="How many, newest first.")] = 50,
    offset: Annotated[int, option(metavar="N", help="How many to leave out before.")] = 0,
    as_json: options.JsonFlag = False,
) -> None:
    with open_memory() as memory:
        items = memory.list(filters, limit=limit, offset=offset)
        unknown = [] if items else memory.unknown_names(filters)
    if as_json:
        for line in unknown:
            output.warn(line)
    output.say_list("items", items, ("id", "created", "item", "tags"), _row, as_json=as_json, empty="\n".join(unknown))


ItemIds = Annotated[list[int | str], argument(metavar="ID...", help="Ids, or key:K.", read=options.read_ids)]


def get(
    ids: ItemIds,
    around: Annotated[int, option(metavar="N", help="Also show this many chunks of its file on each side.")] = 0,
    sources: Annotated[bool, option("--sources", help="With the raw records that it is drawn from.")] = False,
    as_json: options.JsonFlag = False,
) -> None:
    with open_memory() as memory:
        items, originals = _get(memory, ids, around, sources)
    if as_json:
        shown = {"sources": [encode(record) for record in originals]} if sources else {}
        output.say_json({"status": "success", "count": len(items), "items": [encode(item) for item in items], **shown})
    else:
        output.say("\n\n".join([*map(_in_full, items), *map(raw_in_full, originals)]))


def _get(memory: Memory, ids: list[int | str], around: int, sources: bool) -> tuple[list[Item], list[RawRecord]]:
    """Each item and each raw record once, also where the neighbours or sources of two are the same."""
    groups = [memory.around(item, around, around) for item in ids] if around else [memory.get(ids)]
    items = list({item.id: item for group in groups for item in group}.values())
    originals = [record for item in items for record in memory.sources(item.id)] if sources else []
    return items, list({record.id: record for record in originals}.values())


def forget(
    ids: Annotated[
        list[int | str] | None, argument(metavar="[ID...]", help="Ids, or key:K.", read=options.read_ids)
    ] = None,
    tag: Annotated[list[str] | None, option(metavar="T", help="All items with this tag.")] = None,
    path: Annotated[str | None, option(metavar="GLOB", help="All items of these files.")] = None,
    where: Annotated[
        Condition | None, option(metavar="EXPR", help="All items that satisfy this filter.", read=options.read_where)
    ] = None,
    yes: Annotated[bool, option("--yes", help="Do not ask.")] = False,
) -> None:
    if bool(ids) == (tag is not None or path is not None or where is not None):
        raise RequestError("forget takes ids, or --tag, --path and --where", "Give one or the other")
    filters = Filters(tags=tuple(tag or ()), path=path, where=where)
    with open_memory() as memory:
        count = memory.forget(ids) if ids else _forget_matching(memory, filters, yes=yes)
    output.say(f"forgot {output.counted(count, 'item')}")


def _forget_matching(memory: Memory, filters: Filters, *, yes: bool) -> int:
    count = memory.forget_matching(filters, dry_run=True)
    if count == 0:
        for line in memory.unknown_names(filters):
            output.warn(line)
        return 0
    if not yes and not sys.stdin.isatty():
        raise RequestError(f"this would forget {output.counted(count, 'item')}", "Repeat it with --yes")
    if not yes:
        click.confirm(f"Forget {output.counted(count, 'item')}?", abort=True, err=True)
    return memory.forget_matching(filters)


def _row(item: Item) -> tuple[object, ...]:
    return item.id, output.local_time(item.created_at), output.heading(item), ", ".join(item.tags)


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
    facts = {name: output.local_time(value) if isinstance(value, datetime) else value for name, value in facts.items()}
    lines = (
        f"{name:<10} {output.one_line(str(value))}" for name, value in facts.items() if value not in (None, "", {})
    )
    return "\n".join([*lines, "", output.clean(item.text)])


# ---------------------------------------------------------------- versions and near-duplicates


def history(versions: Annotated[list[Item], options.Carried("history")], as_json: options.JsonFlag = False) -> None:
    output.say_list("items", versions, ("id", "from", "until", "item"), _version_row, as_json=as_json)


def _version_row(item: Item) -> tuple[object, ...]:
    until = "" if item.superseded_at is None else output.local_time(item.superseded_at)
    return item.id, output.local_time(item.valid_from or item.created_at), until, _shown(item)


def undo(
    item: options.ItemId,
    to: Annotated[int | None, option(metavar="ID", help="That version or value, not the last one.")] = None,
) -> None:
    with open_memory() as memory:
        restored = memory.undo(item, to=to, wait=True)
    output.say(str(restored.id))


def dedup(
    ids: Annotated[
        list[int | str] | None,
        argument(
            metavar="[KEEP ID...]",
            help="The item to keep, then those to merge into it. Without: list.",
            read=options.read_ids,
        ),
    ] = None,
    limit: Annotated[int, option(metavar="N", help="How many groups to list.")] = 50,
    as_json: options.JsonFlag = False,
) -> None:
    if ids:
        _merge(*ids)
        return
    with open_memory() as memory:
        groups = memory.duplicates(limit=limit)
    if as_json:
        output.say_json({"status": "success", "count": len(groups), "groups": [encode(group) for group in groups]})
    elif not groups:
        output.warn("no items say nearly the same")
    else:
        output.say_rows(("id", "words", "cosine", "item"), (row for group in groups for row in _group_rows(group)))


def _merge(kept: int | str, *others: int | str) -> None:
    if not others:
        raise RequestError("dedup with one id", "Name the item to keep, then those to merge into it")
    with open_memory() as memory:
        merged = memory.merge(kept, others)
    output.say(f"{merged.id}: merged {len(others)} into it; fourfold undo {merged.id} takes that back")


def _group_rows(group: DuplicateGroup) -> Iterator[tuple[object, ...]]:
    yield group.oldest.id, "", "", _shown(group.oldest)
    for item, similar in group.others:
        cosine = "" if similar.cosine is None else f"{similar.cosine:.2f}"
        yield item.id, f"{similar.words:.2f}", cosine, f"= {_shown(item)}"


def _shown(item: Item) -> str:
    return f"{output.heading(item)}: {output.one_line(item.text)}" if item.title else output.one_line(item.text)


# ---------------------------------------------------------------- raw records

raw = Group("raw", help="Raw records: the originals that items are drawn from.")


@raw.adds('fourfold raw add "Ada: the key is with me" --speaker Ada')
def add_(record: Annotated[RawRecord, options.Carried("add_raw")]) -> None:
    """Keep an original, and print its id for `add --source`."""
    output.say(str(record.id))


@raw.adds("fourfold raw get 1")
def get_(records: Annotated[list[RawRecord], options.Carried("get_raw")], as_json: options.JsonFlag = False) -> None:
    """Show raw records in full."""
    if as_json:
        output.say_json({"status": "success", "count": len(records), "raw": [encode(record) for record in records]})
    else:
        output.say("\n\n".join(map(raw_in_full, records)))


@raw.adds("fourfold raw list --limit 10")
def list_(page: Annotated[Page[RawRecord], options.Carried("list_raw")], as_json: options.JsonFlag = False) -> None:
    """List raw records, newest first."""
    columns = ("id", "created", "session", "speaker", "words")
    facts: dict[str, Json] = {"total": page.total, "has_more": page.has_more}
    output.say_list("raw", page, columns, _raw_row, as_json=as_json, empty="no raw records found", **facts)


@raw.adds("fourfold raw forget 1")
def forget_(count: Annotated[int, options.Carried("forget_raw")]) -> None:
    """Delete raw records; one that an item is drawn from only with --force."""
    output.say(f"forgot {output.counted(count, 'raw record')}")


raw.places["delete"] = Place(forget_, "Another name of `forget`.", ("fourfold raw delete 1",))


def raw_in_full(record: RawRecord) -> str:
    return f"{output.raw_heading(record)}\n\n{output.clean(record.content)}"


def _raw_row(record: RawRecord) -> tuple[object, ...]:
    words = output.one_line(record.content)[:80]
    return record.id, output.local_time(record.created_at), record.session_id or "", record.speaker or "", words


# ---------------------------------------------------------------- proposals

proposals = Group(
    "proposals", help="What sessions may have left to remember; nothing of it is stored before you accept it."
)


def list_proposals(
    page: Annotated[Page[Proposal], options.Carried("proposals")], as_json: options.JsonFlag = False
) -> None:
    columns = ("id", "said", "kind", "confidence", "proposal")
    facts: dict[str, Json] = {"total": page.total, "has_more": page.has_more}
    output.say_list("proposals", page, columns, _proposal_row, as_json=as_json, empty="no proposals wait", **facts)


proposals.places["list"] = Place(
    list_proposals, "List what waits for a decision, newest first.", ("fourfold proposals list",)
)


@proposals.adds("fourfold proposals accept 2 3", 'fourfold proposals accept 2 --text "Deploys happen on Tuesdays"')
def accept(items: Annotated[list[Item], options.Carried("accept_proposals", without=("wait",))]) -> None:
    """Store proposals, and print the ids of the items."""
    for item in items:
        output.say(str(item.id))


@proposals.adds('fourfold proposals edit 2 "Deploys happen on Tuesdays"')
def edit(proposal: Annotated[Proposal, options.Carried("edit_proposal")]) -> None:
    """Change what a proposal would store."""
    output.say(f"{proposal.id}: {output.one_line(proposal.text)}")


@proposals.adds("fourfold proposals drop 2")
def drop(count: Annotated[int, options.Carried("drop_proposals")]) -> None:
    """Drop proposals: they are not stored, and not proposed again."""
    output.say(f"dropped {output.counted(count, 'proposal')}")


def _proposal_row(proposal: Proposal) -> tuple[object, ...]:
    confidence = proposal.metadata.get("confidence", "")
    return (
        proposal.id,
        output.local_time(proposal.created_at),
        proposal.kind or "",
        confidence,
        output.one_line(proposal.text),
    )


# ---------------------------------------------------------------- the graph

graph = Group("graph", help="Entities and the relations between them.")


@graph.adds("fourfold graph node Kestrel --label database --alias kes")
def node(stored: Annotated[Node, options.Carried("add_node", without=("properties",))]) -> None:
    """Store a node."""
    output.say(f"{output.one_line(stored.name)} ({output.one_line(stored.label)})")


@graph.adds('fourfold graph edge Checkout "depends on" Kestrel')
def edge(
    source: Annotated[str, argument(metavar="FROM", help="A name, or NAME#LABEL.")],
    relation: Annotated[str, argument(metavar="RELATION")],
    target: Annotated[str, argument(metavar="TO", help="A name, or NAME#LABEL.")],
    weight: Annotated[float, option(metavar="W")] = 1.0,
) -> None:
    """Store an edge; storing it again sets the weight."""
    with open_memory(create=True) as memory:
        stored = memory.add_edge(source, relation, target, weight=weight)
    output.say(output.one_line(f"{stored.source} -{stored.relation}-> {stored.target} ({stored.weight:g})"))


@graph.adds("fourfold graph show Checkout")
def show(
    name: Annotated[str, argument(metavar="NAME")],
    label: Annotated[str | None, option(metavar="L", help="Where several nodes share the name.")] = None,
    as_json: options.JsonFlag = False,
) -> None:
    """Show a node with its items, the items that mention it, and its edges by weight."""
    with open_memory() as memory:
        view = memory.node(name, label)
        items = {item.id: item for item in memory.get([*view.items, *view.mentions])}
    if as_json:
        output.say_json({"status": "success", **encode(view)})
        return
    node = view.node
    output.say(output.one_line(f"{node.name} ({node.label})"))
    if node.aliases:
        output.say(f"  also called {output.one_line(', '.join(node.aliases))}")
    for key, value in node.properties.items():
        output.say(f"  {output.one_line(f'{key}: {value}')}")
    for title, ids in (("items", view.items), ("mentioned in", view.mentions)):
        _show_section(title, [f"[{item}] {output.heading(items[item])}" for item in ids])
    _show_section("edges", [f"{edge.weight:g} {edge.source} -{edge.relation}-> {edge.target}" for edge in view.edges])


def _show_section(title: str, lines: Sequence[str]) -> None:
    if lines:
        output.say(f"{title}")
    for line in lines:
        output.say(f"  {output.one_line(line)}")


@graph.adds("fourfold graph neighbors Checkout --depth 2")
def neighbors(
    near: Annotated[Page[Neighbor], options.Carried("neighbors", without=("limit", "offset"))],
    as_json: options.JsonFlag = False,
) -> None:
    """Show what a node is connected to."""
    name = click.get_current_context().params["name"]
    if as_json:
        output.say_json({"status": "success", "node": name, "neighbors": [encode(one) for one in near]})
        return
    if not near:
        output.warn(f"{output.one_line(name)} is connected to nothing here; `fourfold graph show NAME` shows its items")
    columns = ("name", "label", "relation", "distance", "weight")
    output.say_rows(
        columns, ((one.node.name, one.node.label, one.relation, one.distance, f"{one.weight:g}") for one in near)
    )


@graph.adds("fourfold graph path Checkout Ada")
def path(edges: Annotated[list[Edge], options.Carried("path")], as_json: options.JsonFlag = False) -> None:
    """Show how one node leads to another."""
    parameters = click.get_current_context().params
    start, goal = parameters["start"], parameters["goal"]
    if as_json:
        output.say_json({"status": "success", "from": start, "to": goal, "path": [encode(edge) for edge in edges]})
        return
    if not edges:
        output.warn(f"no path from {start} to {goal}")
    for one in edges:
        output.say(output.one_line(f"{one.source} -{one.relation}-> {one.target}"))


@graph.adds("fourfold graph remove Ada", "fourfold graph remove Checkout uses Kestrel")
def remove(
    names: Annotated[list[str], argument(metavar="NAME | FROM RELATION TO")],
    label: Annotated[str | None, option(metavar="L", help="Where several nodes share the name.")] = None,
) -> None:
    """Remove a node with its edges, or one edge."""
    if len(names) not in (1, 3):
        raise RequestError("remove takes one name, or three", "Write NAME, or FROM RELATION TO")
    with open_memory() as memory:
        removed = memory.remove_node(names[0], label=label) if len(names) == 1 else memory.remove_edge(*names)
    if not removed:
        raise NotFound(f"there is no {' '.join(names)} in the graph", "`graph neighbors NAME` shows what there is")
    output.say(f"removed {output.one_line(' '.join(names))}")

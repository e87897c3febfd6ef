"""Items, raw records and the graph: list, store, read, change, delete, merge; pages and their cursors."""

# No `from __future__ import annotations`: FastAPI reads these annotations when the module is loaded.

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import Header, Path, Query
from pydantic import BaseModel
from starlette.responses import Response

from fourfold.errors import InvalidItem, InvalidQuery, NotFound
from fourfold.fields import filter_options
from fourfold.filters import Every, read_where
from fourfold.limits import LARGEST_ID, PAGE_SIZE
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Edge, Filters, Item, ItemPatch, Json, NewItem, Node, RawRecord
from fourfold.serve.access import require
from fourfold.serve.http import schemas
from fourfold.serve.http.route import HttpError, InNamespace, OnlyOnce, Routes, page_of, reply
from fourfold.serve.inputs import read_filters, read_item
from fourfold.wire import compact, duplicates_json, encode, time_json

# ---------------------------------------------------------------- cursors


def _encode(values: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode().rstrip("=")


def _decode(cursor: str) -> Any:
    try:
        return json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (ValueError, RecursionError) as error:
        raise _invalid() from error


def _invalid() -> InvalidQuery:
    return InvalidQuery("the cursor is not valid", "Send the next_cursor of an answer, unchanged, or none")


def offset_of(cursor: str | None) -> int:
    match None if cursor is None else _decode(cursor):
        case None:
            return 0
        case [int() as offset] if 0 <= offset < 2**53 and not isinstance(offset, bool):
            return offset
        case _:
            raise _invalid()


def next_offset(offset: int, count: int, *, more: bool) -> str | None:
    return _encode([offset + count]) if more else None


def after_item(item: Item) -> str:
    return _encode([time_json(item.created_at), item.id])


def from_cursor(filters: Filters, cursor: str | None) -> Filters:
    """The filters, narrowed to the items after the cursor in the order of `list`: newest first, then by id."""
    match None if cursor is None else _decode(cursor):
        case None:
            return filters
        case [str() as at, int() as last] if _is_time(at):
            earlier = {"or": [{"created_at": {"lt": at}}, {"created_at": {"eq": at}, "id": {"lt": last}}]}
        case _:
            raise _invalid()
    conditions = [read_where(given) for given in (earlier, filters.where) if given is not None]
    return replace(filters, where=Every(tuple(each for each in conditions if each is not None)))


def every_item(memory: Memory) -> Iterator[Item]:
    """Items of a namespace, newest first, a page at a time."""
    cursor: str | None = None
    while page := memory.list(from_cursor(NO_FILTERS, cursor), limit=PAGE_SIZE):
        yield from page
        cursor = after_item(page[-1])


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- items

_CHUNKS: Final = 50
"""Chunks of a file that are shown on each side of an item."""
_NODES: Final = 100
"""Nodes that are shown with an item, most connected first."""
IfMatch = Annotated[str | None, Header(description="Only if the item still has this ETag; otherwise 412.")]
Id = Annotated[str, Path(description="An id, or key:K.")]

routes: Final = Routes()


def item_id(text: str) -> int | str:
    """An id as it is written in a path: a number, or key:K."""
    return int(text) if text.isdecimal() and len(text) <= len(str(LARGEST_ID)) else text


def etag(item: Item) -> str:
    """The ETag of an item, which changes with every change of the item."""
    return f'"{sha256(compact(encode(replace(item, similar=()))).encode()).hexdigest()[:32]}"'


def new_item(given: schemas.NewItemRequest) -> NewItem:
    return read_item(given.model_dump(exclude={"wait"}), "tool")


@routes.add(
    "list",
    schemas.ItemsAnswer,
    leads_to={"list_items": {"query.cursor": "/next_cursor"}, "get": {"path.id": "/items/0/id"}},
)
def list_items(memory: InNamespace, page: Annotated[schemas.ItemsQuery, Query()]) -> Response:
    filters = query_filters(page)
    cursor = page.cursor

    def read(_: int, count: int) -> list[Item]:
        nonlocal cursor
        items = memory.list(from_cursor(filters, cursor), limit=count)
        cursor = after_item(items[-1]) if items else cursor
        return items

    shown = page_of(read, page.limit)
    total = memory.count(filters)
    notes = [] if shown.rows or filters == NO_FILTERS else memory.unknown_names(filters)
    following = after_item(shown.rows[-1]) if shown.is_cut or len(shown.rows) == page.limit else None
    return reply({"items": shown.forms, "total": total, "next_cursor": following, "notes": notes})


def query_filters(query: BaseModel) -> Filters:
    """Filters that are given as query parameters."""
    given: dict[str, Any] = {name: getattr(query, name) for name in filter_options() if getattr(query, name)}
    for name in ("metadata", "where"):
        text = given.get(name, "").strip()
        if text.startswith("{") or (text and name == "metadata"):
            try:
                given[name] = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise InvalidQuery(f"{name} is not JSON", 'Write {"floor": 4}') from error
            if not isinstance(given[name], dict):
                raise InvalidQuery(f"{name} is not an object", 'Write {"floor": 4}')
    return read_filters(given)


@routes.add(
    "add", schemas.ItemAnswer, status=201, leads_to={name: {"path.id": "/id"} for name in ("get", "update", "delete")}
)
def add(memory: InNamespace, body: schemas.AddRequest, once: OnlyOnce) -> Response:
    stored = once(memory, lambda: memory.add(new_item(body), wait=body.wait), partial(_now, memory))
    place = f"/v1/namespaces/{quote(stored.namespace, safe='')}/items/{stored.id}"
    return reply(encode(stored), 201, {"etag": etag(stored), "location": place})


def _now(memory: Memory, outcome: Sequence[int]) -> Item:
    """The item that a repeated request stored or changed, as an answer of a write."""
    (item,) = memory.get(outcome)
    return replace(item, similar=tuple(each.id for each in memory.similar(item.id)))


@routes.add("add_many", schemas.ItemListAnswer, status=201)
def add_many(memory: InNamespace, body: schemas.AddManyRequest, once: OnlyOnce) -> Response:
    items = [new_item(each) for each in body.items]
    stored = once(memory, lambda: memory.add_many(items, wait=body.wait), memory.get)
    return reply({"items": [*map(encode, stored)]}, 201)


@routes.add("get", schemas.ItemPageAnswer)
def get_many(memory: InNamespace, body: schemas.GetManyRequest) -> Response:
    ids, offset = list(dict.fromkeys(body.ids)), offset_of(body.cursor)
    shown = page_of(lambda start, count: memory.get(ids[offset:][start : start + count]), len(ids))
    following = next_offset(offset, len(shown.rows), more=shown.is_cut)
    return reply({"items": shown.forms, "next_cursor": following})


@routes.add("show", schemas.ItemView)
def get(memory: InNamespace, id: Id, query: Annotated[schemas.ItemQuery, Query()]) -> Response:
    (item,) = memory.get([item_id(id)])
    form: dict[str, Json] = encode(item)
    if "chunks" in query.include:
        form["chunks"] = [*map(encode, memory.around(item.id, _CHUNKS, _CHUNKS))]
    if "sources" in query.include:
        form["sources"] = [*map(encode, memory.sources(item.id))]
    if "vector" in query.include:
        form["vector"] = "pending" if memory.pending([item.id]) else "ready"
    if "nodes" in query.include:
        form["nodes"] = [encode(node) for node in memory.nodes(item=item.id, limit=_NODES)]
    if "similar" in query.include:
        form["similar"] = [encode(similar) for similar in memory.similar(item.id)]
    if "history" in query.include:
        form["history"] = [*map(encode, memory.history(item.id))]
    return reply(form, headers={"etag": etag(item)})


@routes.add("update", schemas.ItemAnswer)
def update(
    memory: InNamespace, id: Id, body: schemas.PatchRequest, once: OnlyOnce, if_match: IfMatch = None
) -> Response:
    patch = ItemPatch(body.text, body.title, tuple(body.add_tags), tuple(body.remove_tags), body.metadata)
    if (patch == ItemPatch()) != body.undo or (body.undo_to is not None and not body.undo):
        raise InvalidItem(
            "nothing to change, or too much", "Give text, title, add_tags, remove_tags, metadata; or undo"
        )
    wanted = item_id(id)

    def changed() -> Item:
        expected = _expected(memory, wanted, if_match)
        if body.undo:
            return memory.undo(wanted, to=body.undo_to, wait=body.wait, expected=expected)
        return memory.update(wanted, replace(patch, source="tool"), wait=body.wait, expected=expected)

    item = once(memory, changed, partial(_now, memory))
    return reply(encode(item), headers={"etag": etag(item)})


@routes.add("delete", status=204)
def delete(memory: InNamespace, id: Id, once: OnlyOnce, if_match: IfMatch = None) -> Response:
    wanted = item_id(id)
    once(memory, lambda: memory.forget([wanted], expected=_expected(memory, wanted, if_match)), sum)
    return Response(status_code=204)


def _expected(memory: Memory, wanted: int | str, given: str | None) -> Item | None:
    """The stored item, if the request names its ETag; the write compares it again. *: any state of the item."""
    if given is None:
        return None
    (item,) = memory.get([wanted])
    if given.strip() == "*":
        return None
    if etag(item) not in [each.strip() for each in given.split(",")]:
        raise HttpError(412, f"item {wanted} has changed", "Read it again and repeat the change")
    return item


@routes.add("forget", schemas.DeletedAnswer)
def delete_many(memory: InNamespace, body: schemas.DeleteRequest, once: OnlyOnce) -> Response:
    if (body.ids is None) == (body.filters is None):
        raise InvalidQuery("give ids or filters", "One of them, not both")
    if (ids := body.ids) is not None:
        count = once(memory, lambda: memory.forget(ids, dry_run=body.dry_run), sum)
    else:
        require("admin")
        filters = schemas.given_filters(body.filters)
        if filters.condition is None:
            raise InvalidQuery("the filters are empty", "Say which items to delete")
        count = once(memory, lambda: memory.forget_matching(filters, dry_run=body.dry_run), sum)
    return reply({"matched": count, "deleted": 0 if body.dry_run else count, "dry_run": body.dry_run})


# ---------------------------------------------------------------- raw records


@routes.add(
    "add_raw", schemas.RawAnswer, status=201, leads_to={name: {"path.id": "/id"} for name in ("get_raw", "delete_raw")}
)
def add_raw(memory: InNamespace, body: schemas.RawRequest, once: OnlyOnce) -> Response:
    stored = once(
        memory,
        lambda: memory.add_raw(body.content, body.speaker, body.session_id, body.metadata, source="tool"),
        lambda outcome: memory.get_raw(outcome)[0],
    )
    return reply(encode(stored), 201)


@routes.add("list_raw", schemas.RawsAnswer)
def list_raw(memory: InNamespace, query: Annotated[schemas.RawQuery, Query()]) -> Response:
    offset, total = offset_of(query.cursor), 0

    def read(start: int, count: int) -> Sequence[RawRecord]:
        nonlocal total
        named = {"session_id": query.session_id, "speaker": query.speaker}
        page = memory.list_raw(**named, limit=count, offset=offset + start)
        total = page.total
        return page

    shown = page_of(read, query.limit)
    following = next_offset(offset, len(shown.rows), more=offset + len(shown.rows) < total)
    return reply({"raw": shown.forms, "total": total, "next_cursor": following})


@routes.add("get_raw", schemas.RawAnswer)
def get_raw(memory: InNamespace, id: Id) -> Response:
    (record,) = memory.get_raw([_raw_id(id)])
    return reply(encode(record))


@routes.add("forget_raw", status=204)
def delete_raw(memory: InNamespace, id: Id, query: Annotated[schemas.ForceQuery, Query()], once: OnlyOnce) -> Response:
    once(memory, lambda: memory.forget_raw([_raw_id(id)], force=query.force), sum)
    return Response(status_code=204)


def _raw_id(id: str) -> int:
    number = item_id(id)
    if isinstance(number, str):
        raise NotFound(f"{number!r} is not a valid id of a raw record", "Give a number")
    return number


# ---------------------------------------------------------------- near-duplicates


@routes.add("duplicates", schemas.DuplicatesAnswer)
def duplicates(memory: InNamespace, query: Annotated[schemas.DuplicatesQuery, Query()]) -> Response:
    return reply({"groups": [*map(duplicates_json, memory.duplicates(limit=query.limit))]})


@routes.add("merge", schemas.ItemAnswer)
def merge(memory: InNamespace, body: schemas.MergeRequest, once: OnlyOnce) -> Response:
    item = once(memory, lambda: memory.merge(body.keep, body.ids), partial(_now, memory))
    return reply(encode(item), headers={"etag": etag(item)})


# ---------------------------------------------------------------- the graph

_EDGES: Final = 50
"""Edges of each node that a local graph shows, heaviest first."""


Name = Annotated[str, Path(description="The name of a node, or NAME#LABEL.")]


@routes.add("nodes", schemas.NodesAnswer)
def nodes(memory: InNamespace, query: Annotated[schemas.NodesQuery, Query()]) -> Response:
    offset = offset_of(query.cursor)
    item = None if query.item is None else item_id(query.item)
    shown = page_of(
        lambda start, count: memory.nodes(query.like, item=item, limit=count, offset=offset + start), query.limit
    )
    following = next_offset(offset, len(shown.rows), more=shown.is_cut or len(shown.rows) == query.limit)
    return reply({"nodes": shown.forms, "next_cursor": following})


@routes.add(
    "add_node",
    schemas.NodeAnswer,
    status=201,
    leads_to={
        **{name: {"path.name": "/name", "query.label": "/label"} for name in ("show_node", "remove_node")},
        **{name: {"query.name": "/name", "query.label": "/label"} for name in ("neighbors", "around")},
    },
)
def add_node(memory: InNamespace, body: schemas.NodeRequest, once: OnlyOnce) -> Response:
    node = once(
        memory,
        lambda: memory.add_node(body.name, body.label, body.aliases, body.properties, body.item),
        lambda _: memory.node(body.name, body.label, limit=1).node,
    )
    return reply(encode(node), 201)


@routes.add("node", schemas.NodeViewAnswer)
def show_node(memory: InNamespace, name: Name, query: Annotated[schemas.LabelQuery, Query()]) -> Response:
    return reply(encode(memory.node(name, query.label, limit=query.limit)))


@routes.add("remove_node", status=204)
def remove_node(
    memory: InNamespace, name: Name, query: Annotated[schemas.LabelQuery, Query()], once: OnlyOnce
) -> Response:
    if not once(memory, lambda: memory.remove_node(name, query.label), lambda _: True):
        raise NotFound("no such node", "GET .../graph/nodes lists them")
    return Response(status_code=204)


@routes.add(
    "add_edges",
    schemas.EdgesAnswer,
    status=201,
    leads_to={
        "path": {"query.start": "/edges/0/from", "query.goal": "/edges/0/to"},
        "remove_edge": {f"query.{name}": f"/edges/0/{name}" for name in ("from", "relation", "to")},
    },
)
def add_edges(memory: InNamespace, body: schemas.EdgesRequest, once: OnlyOnce) -> Response:
    edges = [(edge.source, edge.relation, edge.target, edge.weight) for edge in body.edges]
    once(memory, lambda: memory.add_edges(edges), lambda _: None)
    return reply({"edges": [encode(Edge(*edge)) for edge in edges]}, 201)


@routes.add("remove_edge", status=204)
def remove_edge(memory: InNamespace, query: Annotated[schemas.EdgeQuery, Query()], once: OnlyOnce) -> Response:
    if not once(memory, lambda: memory.remove_edge(query.source, query.relation, query.target), lambda _: True):
        raise NotFound("no such edge", "GET .../graph/nodes/NAME shows the edges of a node")
    return Response(status_code=204)


@routes.add("neighbors", schemas.NeighborsAnswer)
def neighbors(memory: InNamespace, query: Annotated[schemas.NeighborsQuery, Query()]) -> Response:
    offset = offset_of(query.cursor)
    page = memory.neighbors(
        query.name, query.depth, query.direction, query.relation, query.label, limit=query.limit, offset=offset
    )
    following = next_offset(offset, len(page), more=page.has_more)
    return reply({"neighbors": [*map(encode, page)], "total": page.total, "next_cursor": following})


@routes.add("local_graph", schemas.LocalGraphAnswer)
def around(memory: InNamespace, query: Annotated[schemas.AroundQuery, Query()]) -> Response:
    """The nodes nearest to one, and the edges between them."""
    start = memory.node(query.name, query.label, limit=_EDGES)
    by_id: dict[int, tuple[Node, int]] = {start.node.id: (start.node, 0)}
    total = 1
    if query.limit > 1:
        near = memory.neighbors(query.name, query.depth, label=query.label, limit=query.limit - 1, offset=0)
        total += near.total
        by_id |= {each.node.id: (each.node, each.distance) for each in near if each.node.id not in by_id}
    edges: dict[tuple[str, str, str], Edge] = {}
    for node, _ in by_id.values():
        view = memory.node(node.name, node.label, limit=_EDGES)
        edges |= {(edge.source, edge.relation, edge.target): edge for edge in view.edges}
    names = {name for node, _ in by_id.values() for name in (node.name, f"{node.name}#{node.label}")}
    shown = [encode(edge) for edge in edges.values() if {edge.source, edge.target} <= names]
    return reply(
        {
            "nodes": [{**encode(node), "distance": distance} for node, distance in by_id.values()],
            "edges": shown,
            "total": total,
        }
    )


@routes.add("path", schemas.EdgesAnswer)
def path(memory: InNamespace, query: Annotated[schemas.PathQuery, Query()]) -> Response:
    edges = memory.path(query.start, query.goal, query.max_depth)
    return reply({"edges": [*map(encode, edges)]})

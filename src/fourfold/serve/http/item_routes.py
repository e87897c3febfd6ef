"""Items and raw records: list, store, read, change, delete."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pydantic import BaseModel
from starlette.responses import Response

from fourfold.errors import InvalidItem, InvalidQuery, NotFound
from fourfold.fields import filter_options
from fourfold.limits import LARGEST_ID, PAGE_SIZE
from fourfold.model import NO_FILTERS, Filters, Item, ItemPatch, Json, NewItem, RawRecord
from fourfold.serve.arguments import moment, read_details, read_filters
from fourfold.serve.http import answers, models
from fourfold.serve.http.endpoint import KEY_HEADER, Call, Endpoint, reply
from fourfold.serve.http.forms import etag
from fourfold.serve.http.paging import after_item, from_cursor, next_offset, offset_of
from fourfold.serve.http.problems import HttpError
from fourfold.serve.http.search_routes import NS
from fourfold.serve.sessions import require
from fourfold.wire import encode

if TYPE_CHECKING:
    from fourfold.memory import Memory

_CHUNKS: Final = 50
"""Chunks of a file that are shown on each side of an item."""
_NODES: Final = 100
"""Nodes that are shown with an item, most connected first."""
IF_MATCH: Final = {"if-match": "Only if the item still has this ETag; otherwise 412."}


def item_id(text: str) -> int | str:
    """An id as it is written in a path: a number, or key:K."""
    return int(text) if text.isdecimal() and len(text) <= len(str(LARGEST_ID)) else text


def new_item(given: models.NewItemRequest) -> NewItem:
    return NewItem(
        given.text,
        title=given.title,
        key=given.key,
        tags=tuple(given.tags),
        kind=given.kind,
        metadata=given.metadata,
        language=given.language,
        created_at=moment(given.created_at),
        source_ids=tuple(given.source_ids),
        path=given.path,
        chunk_index=given.chunk_index,
        vector=given.vector,
        source="tool",
        **read_details(given.model_dump()),
    )


def list_items(call: Call) -> Response:
    page, filters = call.query, query_filters(call.query)
    found = call.memory.list(from_cursor(filters, page.cursor), limit=page.limit)
    total = call.memory.count(filters)
    notes = [] if found or filters == NO_FILTERS else call.memory.unknown_names(filters)
    following = after_item(found[-1]) if len(found) == page.limit else None
    return reply({"items": [*map(encode, found)], "total": total, "next_cursor": following, "notes": notes})


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


def add(call: Call) -> Response:
    body: models.AddRequest = call.body
    stored = call.memory.add(new_item(body), wait=body.wait)
    place = f"/v1/namespaces/{quote(stored.namespace, safe='')}/items/{stored.id}"
    form = encode(stored)
    return reply(form, 201, {"etag": etag(stored), "location": place})


def add_many(call: Call) -> Response:
    body: models.AddManyRequest = call.body
    stored = call.memory.add_many([new_item(each) for each in body.items], wait=body.wait)
    return reply({"items": [*map(encode, stored)]}, 201)


def get_many(call: Call) -> Response:
    return reply({"items": [*map(encode, call.memory.get(call.body.ids))]})


def get(call: Call) -> Response:
    query: models.ItemQuery = call.query
    (item,) = call.memory.get([item_id(call.path("id"))])
    form: dict[str, Json] = encode(item)
    if "chunks" in query.include:
        form["chunks"] = [*map(encode, call.memory.around(item.id, _CHUNKS, _CHUNKS))]
    if "sources" in query.include:
        form["sources"] = [*map(encode, call.memory.sources(item.id))]
    if "vector" in query.include:
        form["vector"] = "pending" if call.memory.pending([item.id]) else "ready"
    if "nodes" in query.include:
        form["nodes"] = [encode(node) for node in call.memory.nodes(item=item.id, limit=_NODES)]
    if "similar" in query.include:
        form["similar"] = [encode(similar) for similar in call.memory.similar(item.id)]
    if "history" in query.include:
        form["history"] = [*map(encode, call.memory.history(item.id))]
    return reply(form, headers={"etag": etag(item)})


def update(call: Call) -> Response:
    body: models.PatchRequest = call.body
    patch = ItemPatch(body.text, body.title, tuple(body.add_tags), tuple(body.remove_tags), body.metadata)
    if (patch == ItemPatch()) != body.undo or (body.undo_to is not None and not body.undo):
        raise InvalidItem(
            "nothing to change, or too much", "Give text, title, add_tags, remove_tags, metadata; or undo"
        )
    wanted = item_id(call.path("id"))
    expected = _expected(call, wanted)
    if body.undo:
        item = call.memory.undo(wanted, to=body.undo_to, wait=body.wait)
        return reply(encode(item), headers={"etag": etag(item)})
    item = call.memory.update(wanted, replace(patch, source="tool"), wait=body.wait, expected=expected)
    return reply(encode(item), headers={"etag": etag(item)})


def delete(call: Call) -> Response:
    wanted = item_id(call.path("id"))
    call.memory.forget([wanted], expected=_expected(call, wanted))
    return Response(status_code=204)


def _expected(call: Call, wanted: int | str) -> Item | None:
    """The stored item, if the request names its ETag; the write compares it again."""
    given = call.request.headers.get("if-match")
    if given is None:
        return None
    (item,) = call.memory.get([wanted])
    if given.strip() != "*" and etag(item) not in [each.strip() for each in given.split(",")]:
        raise HttpError(412, f"item {wanted} has changed", "Read it again and repeat the change")
    return item


def delete_many(call: Call) -> Response:
    body: models.DeleteRequest = call.body
    if (body.ids is None) == (body.filters is None):
        raise InvalidQuery("give ids or filters", "One of them, not both")
    if body.ids is not None:
        try:
            found = call.memory.get(body.ids)
        except NotFound:
            if call.begun_before is None or body.dry_run:
                raise
            count = len(body.ids)  # the interrupted attempt has deleted them, all or none
            return reply({"matched": count, "deleted": count, "dry_run": False})
        deleted = 0 if body.dry_run or not found else call.memory.forget(body.ids)
        return reply({"matched": len(found), "deleted": deleted, "dry_run": body.dry_run})
    require("admin")
    filters = models.given_filters(call.body.filters)
    if filters.condition is None:
        raise InvalidQuery("the filters are empty", "Say which items to delete")
    matched = call.memory.count(filters)
    deleted = 0 if body.dry_run else call.memory.forget_matching(filters)
    return reply({"matched": matched, "deleted": deleted, "dry_run": body.dry_run})


# ---------------------------------------------------------------- raw records


def add_raw(call: Call) -> Response:
    body: models.RawRequest = call.body
    key, metadata = call.request.headers.get(KEY_HEADER), body.metadata
    if key is not None:
        metadata = {**metadata, "idempotency_key": key}
        begun = call.begun_before
        known = None if begun is None else _stored_raw(call.memory, body, metadata, begun)
        if known is not None:
            return reply(encode(known), 201)
    stored = call.memory.add_raw(body.content, body.speaker, body.session_id, metadata, source="tool")
    return reply(encode(stored), 201)


def _stored_raw(
    memory: Memory, body: models.RawRequest, metadata: dict[str, Json], begun: datetime
) -> RawRecord | None:
    """The record that an interrupted attempt has stored; records are listed newest first."""
    offset = 0
    while True:
        page = memory.list_raw(session_id=body.session_id, speaker=body.speaker, limit=PAGE_SIZE, offset=offset)
        for record in page:
            if record.created_at < begun:
                return None
            if record.metadata == metadata and record.content == body.content:
                return record
        if not page.has_more:
            return None
        offset += len(page)


def list_raw(call: Call) -> Response:
    query: models.RawQuery = call.query
    offset = offset_of(query.cursor)
    page = call.memory.list_raw(session_id=query.session_id, speaker=query.speaker, limit=query.limit, offset=offset)
    following = next_offset(offset, len(page), more=page.has_more)
    return reply({"raw": [*map(encode, page)], "total": page.total, "next_cursor": following})


def get_raw(call: Call) -> Response:
    (record,) = call.memory.get_raw([_raw_id(call)])
    return reply(encode(record))


def delete_raw(call: Call) -> Response:
    call.memory.forget_raw([_raw_id(call)], force=call.query.force)
    return Response(status_code=204)


def _raw_id(call: Call) -> int:
    found = item_id(call.path("id"))
    if isinstance(found, str):
        raise NotFound(f"{found!r} is not a valid id of a raw record", "Give a number")
    return found


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        f"{NS}/items",
        list_items,
        "List items",
        answers.ItemsAnswer,
        query=models.ItemsQuery,
        leads_to={"list_items": {"query.cursor": "/next_cursor"}, "get": {"path.id": "/items/0/id"}},
    ),
    Endpoint(
        "POST",
        f"{NS}/items",
        add,
        "Store an item",
        answers.ItemAnswer,
        "write",
        models.AddRequest,
        status=201,
        leads_to={name: {"path.id": "/id"} for name in ("get", "update", "delete")},
    ),
    Endpoint(
        "POST",
        f"{NS}/items:batch",
        add_many,
        "Store items, all or none",
        answers.ItemListAnswer,
        "write",
        models.AddManyRequest,
        status=201,
    ),
    Endpoint("POST", f"{NS}/items:get", get_many, "Read items", answers.ItemListAnswer, body=models.GetManyRequest),
    Endpoint(
        "POST",
        f"{NS}/items:delete",
        delete_many,
        "Delete items by id or by filter; counts only, unless dry_run is false",
        answers.DeletedAnswer,
        "write",
        models.DeleteRequest,
    ),
    Endpoint("GET", f"{NS}/items/{{id:path}}", get, "Read an item", answers.ItemView, query=models.ItemQuery),
    Endpoint(
        "PATCH",
        f"{NS}/items/{{id:path}}",
        update,
        "Change an item",
        answers.ItemAnswer,
        "write",
        models.PatchRequest,
        headers=IF_MATCH,
    ),
    Endpoint(
        "DELETE", f"{NS}/items/{{id:path}}", delete, "Delete an item", scope="write", status=204, headers=IF_MATCH
    ),
    Endpoint("GET", f"{NS}/raw", list_raw, "List raw records", answers.RawsAnswer, query=models.RawQuery),
    Endpoint(
        "POST",
        f"{NS}/raw",
        add_raw,
        "Store a raw record",
        answers.RawAnswer,
        "write",
        models.RawRequest,
        status=201,
        leads_to={name: {"path.id": "/id"} for name in ("get_raw", "delete_raw")},
    ),
    Endpoint("GET", f"{NS}/raw/{{id}}", get_raw, "Read a raw record", answers.RawAnswer),
    Endpoint(
        "DELETE",
        f"{NS}/raw/{{id}}",
        delete_raw,
        "Delete a raw record",
        scope="write",
        query=models.ForceQuery,
        status=204,
    ),
)

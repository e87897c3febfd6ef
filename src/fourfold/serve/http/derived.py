"""Routes that derive from methods of Memory: their parameters are the members of a request, their result is the answer.

`routes` has the operations that differ from that.
"""

# No `from __future__ import annotations`: FastAPI reads these annotations when the module is loaded.

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from inspect import Parameter as Argument
from inspect import Signature, signature
from types import NoneType
from typing import Annotated, Any, Final, cast, get_args, get_origin
from urllib.parse import quote

from fastapi import Path
from pydantic import Field, create_model
from starlette.responses import Response

from fourfold.engine.proposals import proposal_of
from fourfold.errors import InvalidQuery, NotFound
from fourfold.limits import HTTP_ANSWER_BYTES, LARGEST_ID, PAGE_SIZE
from fourfold.memory import Memory
from fourfold.model import Filters, GivenFilters, Item, NewItem, Node, Proposal, RawRecord
from fourfold.model import Page as Rows
from fourfold.operations import OPERATIONS, Operation
from fourfold.ranking.options import OPTIONS
from fourfold.serve.budget import Page, after_row, offset_of
from fourfold.serve.http import route, schemas
from fourfold.serve.inputs import read_item, refuse_folders, strict_type
from fourfold.wire import EDGE, Parameter, compact, encode, json_of, kinds_of, parameters_of, result_of

# ---------------------------------------------------------------- requests

_BODY_TYPES: Final[Mapping[Any, Any]] = {
    (int, str): schemas.ItemId,
    (NewItem,): schemas.NewItemRequest,
    (EDGE,): schemas.EdgeRequest,
    kinds_of(GivenFilters): schemas.FiltersRequest,
}


def request_model(name: str, **more: Any) -> Any:
    """The model of the body or of the query parameters of an operation. `more`: members beside its parameters."""
    operation = OPERATIONS[name]
    base, fields = schemas.Request, dict[str, Any]()
    for parameter in parameters_of(name):
        if parameter.member in operation.places:
            continue
        if parameter.takes(NewItem):
            base = schemas.NewItemRequest
        elif parameter.takes(Filters) and not operation.has_body:
            fields |= schemas.filter_fields(in_query=True)
        else:
            fields[parameter.member] = _field(parameter, operation)
    if operation.paged:
        fields |= {} if operation.has_body else {"limit": (int, Field(50, ge=1, le=PAGE_SIZE))}
        fields["cursor"] = (str | None, Field(None, description="The next_cursor of the previous page."))
    model = _camel(operation.id) + ("Request" if operation.has_body else "Query")
    config = {"json_schema_extra": {"example": operation.example}} if operation.example else {}
    return create_model(model, __base__=base, __cls_kwargs__=config, **fields | more)


def _camel(name: str) -> str:
    return name.title().replace("_", "")


def _field(parameter: Parameter, operation: Operation) -> tuple[Any, Any]:
    if operation.searches and parameter.name in OPTIONS and not parameter.takes(Filters):
        return schemas.option_field(OPTIONS[parameter.name])
    least, most = parameter.bounds
    kind = strict_type(parameter.hint, _BODY_TYPES, PAGE_SIZE) if operation.has_body else _query_type(parameter)
    default = ... if parameter.default is Signature.empty else parameter.default
    return kind, Field([] if default == () else default, ge=least, le=most, description=parameter.help or None)


def _query_type(parameter: Parameter) -> Any:
    """An id is a text in a query, and read later."""
    return (str | None if NoneType in get_args(parameter.hint) else str) if parameter.is_id else parameter.hint


def arguments_of(operation: Operation, members: Any, path: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of the method that a request means."""
    refuse_folders(getattr(members, "rerank", None))
    values: dict[str, Any] = dict.fromkeys(operation.stamped, "tool")
    for parameter in parameters_of(operation.name):
        value: Any
        if parameter.takes(NewItem):
            value = new_item(members)
        elif parameter.takes(Filters):
            value = schemas.given_filters(members)
        else:
            value = path[parameter.member] if parameter.member in path else getattr(members, parameter.member)
            value = item_id(value) if parameter.is_id and isinstance(value, str) else _value(value)
        values[parameter.name] = [_number(value)] if operation.takes_one and parameter.name == "ids" else value
    return values


def _value(member: Any) -> Any:
    match member:
        case schemas.NewItemRequest():
            return new_item(member)
        case schemas.EdgeRequest():
            return member.source, member.relation, member.target, member.weight
        case list():
            return [_value(each) for each in cast("list[Any]", member)]
        case _:
            return member


def new_item(form: Any) -> NewItem:
    """The item that a request describes, perhaps among other members."""
    return read_item({name: getattr(form, name) for name in schemas.NewItemRequest.model_fields}, "tool")


def item_id(text: str) -> int | str:
    """An id as it is written in a path: a number, or key:K."""
    return int(text) if text.isdecimal() and len(text) <= len(str(LARGEST_ID)) else text


def _number(text: str) -> int:
    number = item_id(text)
    if isinstance(number, str):
        raise NotFound(f"{number!r} is not a valid id", "Give a number")
    return number


# ---------------------------------------------------------------- answers


def etag(item: Item) -> str:
    """The ETag of an item, which changes with every change of the item."""
    return f'"{sha256(compact(encode(replace(item, similar=()))).encode()).hexdigest()[:32]}"'


def stored_now(memory: Memory, outcome: Sequence[int]) -> Item:
    """The item that a repeated request stored or changed, as an answer of a write."""
    (item,) = memory.get(outcome)
    return replace(item, similar=tuple(each.id for each in memory.similar(item.id)))


def _again(operation: Operation, memory: Memory, arguments: Mapping[str, Any], outcome: Sequence[int]) -> Any:
    """The result of a request that was carried out before, from what is stored now."""
    result = result_of(operation.name)
    if result is Item:
        return stored_now(memory, outcome)
    if result == list[Item]:
        page = Page(lambda at, count: memory.get(outcome[at : at + count]), LARGEST_ID, encode, HTTP_ANSWER_BYTES)
        if page.is_cut:
            raise InvalidQuery("what this request stored has grown too large for an answer", "Use POST .../items:get")
        return page.rows
    if result is RawRecord:
        return memory.get_raw(outcome)[0]
    if result in (Proposal, list[Proposal]):
        proposals = [proposal_of(record) for record in memory.get_raw(outcome)]
        return proposals[0] if result is Proposal else proposals
    if result is int:
        return outcome[0]
    if result is Node:
        return memory.node(arguments["name"], arguments["label"], limit=1).node
    return None


def _answered(operation: Operation, value: Any, arguments: Mapping[str, Any]) -> Response:
    result = result_of(operation.name)
    if value is False:
        raise NotFound(f"no such {operation.name.removeprefix('remove_')}", "GET .../graph/nodes lists the nodes")
    if operation.verb == "DELETE":
        return Response(status_code=204)
    if operation.takes_one:
        result, (value,) = get_args(result)[0], value
    elif result is NoneType:  # what is stored is what was sent
        result, value = list[EDGE], arguments[operation.answer]
    form = json_of(result, value)
    headers = {"etag": etag(value)} if result is Item else {}
    if result is Item and operation.status == 201:
        headers["location"] = f"/v1/namespaces/{quote(value.namespace, safe='')}/items/{value.id}"
    return route.reply({operation.answer: form} if operation.answer else form, operation.status, headers)


def _page(operation: Operation, memory: Memory, arguments: Mapping[str, Any], members: Any) -> Response:
    """The rows of a list after a cursor, as many as fit into an answer."""
    method, result = getattr(memory, operation.name), result_of(operation.name)
    offset, limit, total = offset_of(members.cursor), getattr(members, "limit", PAGE_SIZE), None
    ids: list[Any] | None = None
    rows: list[Any] | None = None
    if "ids" in arguments:
        ids = list(dict.fromkeys(arguments["ids"]))
        limit = len(ids) - offset
    elif _is_whole(operation.name):
        rows = [*method(**arguments)]
        total = len(rows)

    def read(start: int, count: int) -> Sequence[Any]:
        nonlocal total
        place = slice(offset + start, offset + start + count)
        if ids is not None:
            return method(ids[place])
        if rows is not None:
            return rows[place]
        page = method(**arguments, limit=count, offset=place.start)
        total = getattr(page, "total", None)
        return page

    shown = Page(read, limit, partial(json_of, get_args(result)[0]), HTTP_ANSWER_BYTES)
    end = offset + len(shown.rows)
    is_full = ids is None and len(shown.rows) == limit
    more = shown.is_cut or is_full if total is None else end < total
    totals = {} if total is None else {"total": total}
    return route.reply({operation.answer: shown.forms, **totals, "next_cursor": after_row(end) if more else None})


@cache
def _is_whole(name: str) -> bool:
    """Whether the method returns the whole list, whose page the server takes."""
    return not {"limit", "ids"} & signature(getattr(Memory, name)).parameters.keys()


def answer_model(operation: Operation) -> Any:
    """The model of the JSON of an answer; None if there is none."""
    result = result_of(operation.name)
    if operation.verb == "DELETE":
        return None
    if not operation.answer:
        return schemas.answer_type(get_args(result)[0] if operation.takes_one else result)
    fields: dict[str, Any] = {operation.answer: schemas.answer_type(list[EDGE] if result is NoneType else result)}
    if operation.paged and (get_origin(result) is Rows or _is_whole(operation.name)):
        fields["total"] = int
    if operation.paged:
        fields["next_cursor"] = str | None
    return schemas.answer(f"{_camel(operation.id)}Answer", **fields)


# ---------------------------------------------------------------- routes

_IN_PATH: Final = {"id": "An id, or key:K.", "name": "The name of a node, or NAME#LABEL."}
_ONE_ITEM: Final = {name: {"path.id": "/id"} for name in ("get", "update", "delete")}
_LEADS_TO: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "add": _ONE_ITEM,
    "add_raw": {name: {"path.id": "/id"} for name in ("get_raw", "delete_raw")},
    "add_node": {
        **{name: {"path.name": "/name", "query.label": "/label"} for name in ("show_node", "remove_node")},
        **{name: {"query.name": "/name", "query.label": "/label"} for name in ("neighbors", "around")},
    },
    "add_edges": {
        "path": {"query.start": "/edges/0/from", "query.goal": "/edges/0/to"},
        "remove_edge": {f"query.{name}": f"/edges/0/{name}" for name in ("from", "relation", "to")},
    },
}
"""Operations on an answered object, with their parameters as pointers into the body of the answer."""


def derived_route(operation: Operation) -> route.OperationRoute:
    model = request_model(operation.name)

    def handle(memory: Memory, once: route.Once | None = None, members: Any = None, **path: str) -> Response:
        arguments = arguments_of(operation, members, path)
        if operation.paged:
            return _page(operation, memory, arguments, members)
        call = partial(getattr(memory, operation.name), **arguments)
        again = partial(_again, operation, memory, arguments)
        return _answered(operation, call() if once is None else once(memory, call, again), arguments)

    taken: dict[str, Any] = {"memory": route.InNamespace if operation.in_namespace else route.Store}
    taken |= {name: Annotated[str, Path(description=_IN_PATH.get(name))] for name in operation.places}
    if model.model_fields:
        taken["members"] = route.members_as(operation, model)
    if operation.writes:
        taken["once"] = route.OnlyOnce
    arguments = [Argument(name, Argument.KEYWORD_ONLY, annotation=kind) for name, kind in taken.items()]
    cast("Any", handle).__signature__ = Signature(arguments)
    return route.operation_route(operation, handle, answer_model(operation), _LEADS_TO.get(operation.name))


def derived_routes(by_hand: Sequence[route.OperationRoute]) -> list[route.OperationRoute]:
    """The routes of all operations that are methods of Memory and have none yet."""
    served = {each.operation.route for each in by_hand}
    return [
        derived_route(operation)
        for operation in OPERATIONS.values()
        if operation.route not in served and hasattr(Memory, operation.name)
    ]

"""RemoteMemory: the methods of Memory that a server offers, as requests; most derive from the table of operations.

A write carries a key and is repeated while the server cannot be reached; errors of the server are those of the library.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import fields
from datetime import datetime
from functools import wraps
from inspect import signature
from types import NoneType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast, get_args, get_origin
from urllib.parse import quote, urlsplit

import httpx

from fourfold import addresses, errors
from fourfold import validation as rules
from fourfold.arguments import Owner, checks_arguments, hints_of
from fourfold.config import Settings
from fourfold.embed.base import check_vector
from fourfold.filters import where_json
from fourfold.limits import PAGE_SIZE
from fourfold.memory import Memory
from fourfold.model import Edge, GivenFilters, Item, ItemPatch, Json, NewItem, Page, Vector
from fourfold.operations import JSONL, OPERATIONS, Operation
from fourfold.retrieval import SearchResponse
from fourfold.wire import decode, encode, response_of, value_of

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)
_PLACE = re.compile(r"\{(\w+)(?::path)?\}")


def _remote(method: Callable[Concatenate[Memory, P], T]) -> Callable[Concatenate[RemoteMemory, P], T]:
    """The method of Memory, with its parameters and its result, carried out by the server."""
    operation, parameters = OPERATIONS[method.__name__], signature(method)

    @wraps(method)
    def call(self: RemoteMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound = parameters.bind(self, *args, **kwargs)
        bound.apply_defaults()
        values = {name: value for name, value in bound.arguments.items() if name not in ("self", "fields")}
        return self._carry_out(operation, values, hints_of(method)["return"])  # pyright: ignore[reportPrivateUsage]

    return call


def _complete(kind: C) -> C:
    """Adds the operations that the class does not name: its lines tell type checkers what a server offers."""
    for operation in OPERATIONS.values():
        if not hasattr(kind, operation.name) and hasattr(Memory, operation.name) and operation.is_json:
            setattr(kind, operation.name, _remote(getattr(Memory, operation.name)))
    return kind


def connect(url: str, *, token: str = "", namespace: str = "default") -> RemoteMemory:
    """A memory on a server: `fourfold serve` on http://HOST:PORT."""
    return RemoteMemory(url, token=token, namespace=namespace)


@checks_arguments
@_complete
class RemoteMemory:
    """The methods of Memory over HTTP, with the same values and errors. Threads may share one.

    The server pages by cursors, so a large `offset` costs as much as reading all rows before it.
    """

    def __init__(self, url: str, *, token: str = "", namespace: str = "default") -> None:
        self.owner = Owner()
        self.namespace = rules.name(namespace, "namespace")
        self.settings = Settings(namespace=self.namespace, embedder="none")
        self._server = Server(url, token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.close()

    def within(self, namespace: str) -> Self:
        """The same server, acting on another namespace. It shares the connections of this object."""
        view = copy(self)
        view.namespace = rules.name(namespace, "namespace")
        return view

    def troubles(self) -> dict[str, str]:
        """Failures of background work; the server reports them in the notes of searches."""
        return {}

    if not TYPE_CHECKING:  # a checker reports what is missing, a program gets an error with the remedy

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or not hasattr(Memory, name):
                raise AttributeError(name)
            remedy = "Run this where the store is, with its folder or its DSN"
            raise errors.NotOffered(f"a server does not offer `{name}`", remedy)

    def add(self, item: NewItem | str, *, wait: bool = False, **fields: Any) -> Item:
        return self._add(rules.new_item(item, fields), wait=wait)

    # Operations that derive from their descriptions.
    _add = _remote(Memory.add)
    search = _remote(Memory.search)
    why = _remote(Memory.why)
    analyze = _remote(Memory.analyze)
    add_many = _remote(Memory.add_many)
    undo = _remote(Memory.undo)
    history = _remote(Memory.history)
    merge = _remote(Memory.merge)
    similar = _remote(Memory.similar)
    duplicates = _remote(Memory.duplicates)
    list = _remote(Memory.list)
    count = _remote(Memory.count)
    unknown_names = _remote(Memory.unknown_names)
    add_raw = _remote(Memory.add_raw)
    get_raw = _remote(Memory.get_raw)
    list_raw = _remote(Memory.list_raw)
    forget_raw = _remote(Memory.forget_raw)
    """Forgets the records one by one; unlike in a store, an error does not restore those before it."""
    sources = _remote(Memory.sources)
    proposals = _remote(Memory.proposals)
    propose = _remote(Memory.propose)
    accept_proposals = _remote(Memory.accept_proposals)
    edit_proposal = _remote(Memory.edit_proposal)
    drop_proposals = _remote(Memory.drop_proposals)
    add_node = _remote(Memory.add_node)
    add_edges = _remote(Memory.add_edges)
    nodes = _remote(Memory.nodes)
    node = _remote(Memory.node)
    neighbors = _remote(Memory.neighbors)
    path = _remote(Memory.path)
    remove_node = _remote(Memory.remove_node)
    remove_edge = _remote(Memory.remove_edge)
    tags = _remote(Memory.tags)
    namespaces = _remote(Memory.namespaces)
    status = _remote(Memory.status)
    stats = _remote(Memory.stats)
    _change = _remote(Memory.update)

    def update(self, item: int | str, patch: ItemPatch, *, wait: bool = False, expected: Item | None = None) -> Item:
        if patch == ItemPatch(source=patch.source):
            self._if_match(expected)
            return self.get([item])[0]
        return self._change(item, patch, wait=wait, expected=expected)

    def get(self, ids: Sequence[int | str]) -> list[Item]:
        wanted = [*dict.fromkeys(ids)]
        items = dict(zip(wanted, self._rows(OPERATIONS["get"], {"ids": wanted}, Item, len(wanted)), strict=True))
        return [items[item] for item in ids]

    def forget(self, ids: Sequence[int | str], *, expected: Item | None = None, dry_run: bool = False) -> int:
        if expected is not None:
            if len(ids) != 1:
                raise errors.NotOffered("a server compares one item at a time", "Forget the expected item alone")
            if not dry_run:
                self._send(OPERATIONS["delete"], {"id": ids[0]}, self._if_match(expected))
                return 1
        return self._delete({"ids": [*ids]}, dry_run=dry_run)

    delete = forget

    def forget_matching(self, filters: GivenFilters, *, dry_run: bool = False) -> int:
        return self._delete({"filters": {}, **arguments_form({"filters": filters}, {})}, dry_run=dry_run)

    def _delete(self, chosen: Mapping[str, Json], *, dry_run: bool) -> int:
        answer = self._send(OPERATIONS["forget"], {**chosen, "dry_run": dry_run})
        return answer["matched" if dry_run else "deleted"]

    def sync_step(self, lines: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
        """The server's part of `Memory.sync`. Over plain http it goes to this machine only."""
        self._server.require_private()
        operation = OPERATIONS["sync_step"]
        content = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
        headers, place = {"content-type": JSONL}, self._place(operation, {})
        answer = self._server.send(operation.verb, place, content, headers=headers, seconds=_SYNC_SECONDS)
        return self._server.json_lines(answer)

    def add_edge(self, source: str, relation: str, target: str, weight: float = 1.0) -> Edge:
        self.add_edges([(source, relation, target, weight)])
        return Edge(source, relation, target, weight)

    # ------------------------------------------------------------ requests

    def _carry_out(self, operation: Operation, values: dict[str, Any], result: Any) -> Any:
        """The result of a method with these arguments."""
        for name in (*operation.lacks, "candidates"):
            if values.pop(name, None) not in (None, False):
                raise errors.NotOffered(f"a server does not offer `{name}` of `{operation.name}`", "Leave it out")
        if operation.paged:
            return self._page(operation, values, result)
        if operation.takes_one:
            ids = values.pop("ids")
            form = arguments_form(values, operation.names)
            answers = [self._send(operation, {**form, "id": each}) for each in ids]
            return len(answers) if result is int else value_of(result, answers)
        headers = self._if_match(values.pop("expected", None))
        form = {**operation.fixed, **arguments_form(values, operation.names)}
        try:
            answer = self._send(operation, form, headers)
        except errors.NotFound:
            if result is bool:
                return False
            raise
        if result is SearchResponse:
            return response_of(answer, rules.checked_filters(values["filters"]))
        if result in (bool, NoneType):
            return True if result is bool else None
        return value_of(result, answer[operation.answer] if operation.answer else answer)

    def _page(self, operation: Operation, values: dict[str, Any], result: Any) -> Any:
        """The rows of a list from `offset` on, at most `limit`; None: all."""
        limit, offset = values.pop("limit", None), values.pop("offset", 0)
        if limit is None:
            offset = 0
        else:
            rules.check_page(limit, offset)
        form, kind = {**operation.fixed, **arguments_form(values, operation.names)}, get_args(result)[0]
        rows = self._rows(operation, form, kind, None if limit is None else offset + limit)
        return Page(rows[offset:], rows.total, offset) if get_origin(result) is Page else [*rows[offset:]]

    def _rows(self, operation: Operation, form: Mapping[str, Json], kind: Any, most: int | None) -> Page[Any]:
        """The first `most` rows of a list (None: all), read page by page."""
        forms: list[Json] = []
        cursor: str | None = None
        while True:
            size = PAGE_SIZE if most is None else min(PAGE_SIZE, most - len(forms))
            limited = {} if operation.verb == "POST" or operation.fixed else {"limit": size}  # they name their rows
            page = self._send(operation, {**form, **limited, **({} if cursor is None else {"cursor": cursor})})
            forms += page[operation.answer]
            cursor = page["next_cursor"]
            if cursor is None or (most is not None and len(forms) >= most):
                return Page((value_of(kind, each) for each in forms), page.get("total", len(forms)))

    def _if_match(self, expected: Item | None) -> dict[str, str]:
        """The ETag of the item, if its stored state is the one that the caller expects."""
        if expected is None:
            return {}
        answer = self._server.send("GET", self._place(OPERATIONS["show"], {"id": expected.id}))
        if decode(Item, self._server.json(answer)) != expected:
            raise errors.Conflict(f"item {expected.id} has changed", "Read it again and repeat the change")
        return {"if-match": answer.headers["etag"]}

    def _send(self, operation: Operation, form: Mapping[str, Json], headers: Mapping[str, str] | None = None) -> Any:
        """The JSON of the answer to a request with these members."""
        members = dict(form)
        path = self._place(operation, members)
        if operation.verb not in ("GET", "DELETE"):
            return self._server.json(self._server.send(operation.verb, path, members, headers=headers))
        if "filters" in members:
            members["where"] = json.dumps(members.pop("filters")["where"])
        return self._server.json(self._server.send(operation.verb, path, query=members, headers=headers))

    def _place(self, operation: Operation, members: dict[str, Json]) -> str:
        """The path with the members that it names, which are taken out."""
        if "/" in self.namespace or self.namespace in (".", ".."):
            what = f"a server cannot offer the namespace {self.namespace!r}"
            raise errors.NotOffered(what, "Use a name without a slash, or run this where the store is")
        return _PLACE.sub(
            lambda place: _quoted(self.namespace if place[1] == "namespace" else members.pop(place[1])), operation.path
        )


# ---------------------------------------------------------------- arguments as JSON


def arguments_form(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Json]:
    """The members of a request: what is not given is left out, and an item or a change of one adds its own fields."""
    form: dict[str, Json] = {}
    for parameter, value in values.items():
        name = names.get(parameter, parameter)
        if value is None or value is False or not name:
            continue
        if isinstance(value, NewItem | ItemPatch):
            form |= _fields(value)
        elif name == "filters":
            form |= _filter_form(value)
        else:
            form[name] = _json(parameter, value)
    return form


def _fields(value: NewItem | ItemPatch) -> dict[str, Json]:
    """The fields that are set, without the source, which the server stamps."""
    parts = {each.name: getattr(value, each.name) for each in fields(value) if each.name != "source"}
    set_parts = {name: part for name, part in parts.items() if part is not None and (name == "vector" or part != ())}
    return {name: _json(name, part) for name, part in set_parts.items()}


def _json(name: str, value: Any) -> Json:
    match value:
        case _ if name == "edges":
            return [encode(Edge(*edge)) for edge in value]
        case _ if name == "vector":
            return check_vector(cast("Sequence[float] | Vector", value)).tolist()
        case NewItem():
            return _fields(value)
        case datetime():
            return value.isoformat()
        case str() | bytes() | Mapping():
            return cast("Json", value)
        case Collection():
            return [_json("", each) for each in cast("Collection[Any]", value)]
        case _:
            return value


def _filter_form(filters: GivenFilters) -> dict[str, Json]:
    """Every filter as one condition, which the server reads like the library."""
    condition = rules.checked_filters(filters).condition
    return {} if condition is None else {"filters": {"where": where_json(condition)}}


# ---------------------------------------------------------------- one server

RETRY_SECONDS: Final = 10.0
"""How long a request is repeated when the server cannot be reached or is busy. Writes carry a key, so they are carried
out once."""
_ANSWER_SECONDS: Final = 60.0
_SYNC_SECONDS: Final = 600.0
"""A store is read whole before it answers."""
_ANSWER_BYTES: Final = 256 * 1024 * 1024
"""Of the largest answer, which tells of about a million things."""
_PAUSE_SECONDS: Final = 0.1
_FRAMING: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that say how an answer was sent."""
_BUSY: Final = (409, 429, 503)
_CLOSEST: Final[Mapping[int, type[errors.FourfoldError]]] = {
    401: errors.NoAccess,
    403: errors.NoAccess,
    404: errors.NotFound,
    412: errors.Conflict,
    429: errors.StoreBusy,
}


class Server:
    """One server. Threads may share it."""

    def __init__(self, url: str, token: str) -> None:
        if not _is_address(url):
            raise errors.InvalidSetting("the address of the server is not valid", "Write http://HOST:PORT")
        if not token.isascii() or not token.isprintable():
            raise errors.InvalidSetting("the token contains invalid characters", "Use letters and digits")
        self.shown = addresses.shown(url)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=_ANSWER_SECONDS)

    def close(self) -> None:
        self._http.close()

    def require_private(self) -> None:
        """Refuses to send a memory and a token where others on the way can read them."""
        if self._http.base_url.scheme != "https" and not addresses.is_loopback(self._http.base_url.host):
            remedy = "Use https, or a tunnel: ssh -L 8080:localhost:8080 HOST"
            raise errors.InvalidSetting(f"{self.shown} would get everything unencrypted", remedy)

    def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = _ANSWER_SECONDS,
    ) -> httpx.Response:
        """`seconds`: how long an answer may take."""
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        headers = {"content-type": "application/json", "idempotency-key": uuid.uuid4().hex, **(headers or {})}
        try:
            content = body if isinstance(body, str) or body is None else json.dumps(body, allow_nan=False)
            sent: dict[str, Any] = {"content": content, "params": parameters, "headers": headers}
            timeout = httpx.Timeout(seconds, connect=_ANSWER_SECONDS)
            request = self._http.build_request(method, path, timeout=timeout, **sent)
        except UnicodeError as error:
            raise errors.InvalidQuery("a name has characters that cannot be stored", "Remove them") from error
        except (TypeError, ValueError, RecursionError) as error:
            remedy = "Use plain values"
            raise errors.InvalidArgument(f"an argument cannot be sent as JSON ({error})", remedy) from error
        until = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                answer = self._read(self._http.send(request, stream=True), seconds)
            except httpx.TransportError as error:
                if time.monotonic() > until:
                    what = f"{self.shown} does not answer ({type(error).__name__})"
                    raise errors.StoreUnavailable(what, "Start it: fourfold serve") from error
                time.sleep(_PAUSE_SECONDS)
                continue
            wait = answer.headers.get("retry-after", "")
            if answer.status_code not in _BUSY or not wait.isdigit() or time.monotonic() + int(wait) > until:
                return _checked(answer)
            time.sleep(int(wait))

    def _read(self, answer: httpx.Response, seconds: float) -> httpx.Response:
        """The whole answer, if it is not too large and does not take too long."""
        until, content = time.monotonic() + seconds, bytearray()
        with closing(answer):
            for part in answer.iter_bytes():
                content += part
                if len(content) > _ANSWER_BYTES:
                    remedy = "Check the address; synchronise smaller namespaces, or copy the store"
                    what = f"the answer of {self.shown} is larger than {_ANSWER_BYTES} bytes"
                    raise errors.StoreUnavailable(what, remedy)
                if time.monotonic() > until:
                    what = f"{self.shown} has not answered completely within {seconds:g} s"
                    raise errors.TimedOut(what, "Check the address and the connection, and repeat the command")
        plain = {name: value for name, value in answer.headers.items() if name not in _FRAMING}
        return httpx.Response(answer.status_code, headers=plain, content=bytes(content))

    def json_lines(self, answer: httpx.Response) -> list[dict[str, Json]]:
        try:
            lines = [json.loads(line) for line in answer.content.splitlines()]
        except (ValueError, RecursionError) as error:
            raise self._not_json() from error
        if not all(isinstance(line, dict) for line in lines):
            raise self._not_json()
        return lines

    def _not_json(self) -> errors.StoreUnavailable:
        return errors.StoreUnavailable(f"{self.shown} does not answer in JSON", "Check the address")

    def json(self, answer: httpx.Response) -> Any:
        """The JSON of an answer; None if it has no body."""
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise self._not_json() from error


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _quoted(name: int | str) -> str:
    """The name, quoted as a part of a path."""
    try:
        return quote(str(name), safe="")
    except UnicodeError as error:
        raise errors.InvalidQuery("a name has characters that cannot be stored", "Remove them") from error


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    try:
        form: Any = answer.json()
    except ValueError:
        form = {}
    raise _error_of(answer.status_code, cast("dict[str, Any]", form) if isinstance(form, dict) else {})


def _error_of(status: int, form: Mapping[str, Any]) -> errors.FourfoldError:
    """The error that the server raised, by its name; for others, the closest one that this library has."""
    kind: Any = getattr(errors, str(form.get("type", "")).rpartition(":")[2], None)
    if not (isinstance(kind, type) and issubclass(kind, errors.FourfoldError)):
        kind = _CLOSEST.get(status, errors.InvalidQuery if status < 500 else errors.StoreUnavailable)
    return kind(str(form.get("detail", f"the server answered {status}")), str(form.get("remedy", "")))

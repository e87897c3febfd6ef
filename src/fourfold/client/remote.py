"""RemoteMemory: the methods of Memory that a server offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from fourfold import validation as rules
from fourfold.arguments import Owner, checks_arguments
from fourfold.client import forms
from fourfold.client.transport import Transport, quoted
from fourfold.config import Settings
from fourfold.engine.duplicates import DuplicateGroup, Similar
from fourfold.engine.embedding_queue import Progress
from fourfold.engine.search import Why
from fourfold.errors import Conflict, NotFound, NotOffered
from fourfold.limits import PAGE_SIZE, PATH_DEPTH
from fourfold.memory import Memory
from fourfold.model import (
    Edge,
    GivenFilters,
    Item,
    ItemPatch,
    Json,
    Neighbor,
    NewItem,
    Node,
    NodeSummary,
    NodeView,
    Page,
    RawRecord,
    Source,
)
from fourfold.retrieval import SearchResponse
from fourfold.wire import decode, duplicates_of, response_of, why_of

_PAGE: Final = PAGE_SIZE


P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")


def _like(
    method: Callable[Concatenate[Memory, P], T],
) -> Callable[[Callable[[RemoteMemory, dict[str, Any]], T]], Callable[Concatenate[RemoteMemory, P], T]]:
    """Gives a function the parameters of a method of Memory; it gets the arguments of a call by name."""

    def liked(function: Callable[[RemoteMemory, dict[str, Any]], T]) -> Callable[Concatenate[RemoteMemory, P], T]:
        bind = signature(method).bind

        @wraps(method)
        def call(self: RemoteMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
            given = dict(bind(self, *args, **kwargs).arguments)
            del given["self"]
            return function(self, given)

        return call

    return liked


def connect(url: str, *, token: str = "", namespace: str = "default") -> RemoteMemory:
    """A memory on a server: `fourfold serve` on http://HOST:PORT."""
    return RemoteMemory(url, token=token, namespace=namespace)


@checks_arguments
class RemoteMemory:
    """The methods of Memory over HTTP, with the same values and errors. Threads may share one."""

    def __init__(self, url: str, *, token: str = "", namespace: str = "default") -> None:
        self.owner = Owner()
        self.namespace = rules.name(namespace, "namespace")
        self.settings = Settings(namespace=self.namespace, embedder="none")
        self._transport = Transport(url, token)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def within(self, namespace: str) -> Self:
        """The same server, acting on another namespace. It shares the connections of this object."""
        from copy import copy

        view = copy(self)
        view.namespace = rules.name(namespace, "namespace")
        return view

    def troubles(self) -> dict[str, str]:
        """Failures of background work; the server reports them in the notes of searches."""
        return {}

    if not TYPE_CHECKING:  # a checker reports what is missing, a program gets an error with the remedy

        def __getattr__(self, name: str) -> Any:
            known = name.startswith("_") or not hasattr(Memory, name)
            raise (
                AttributeError(name)
                if known
                else NotOffered(
                    f"a server does not offer `{name}`", "Run this where the store is, with its folder or its DSN"
                )
            )

    def _call(
        self,
        method: str,
        path: str,
        body: Json = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        return self._transport.call(method, self._path(path), body, query, headers)

    def _path(self, path: str) -> str:
        if "/" in self.namespace or self.namespace in (".", ".."):
            what = f"a server cannot offer the namespace {self.namespace!r}"
            raise NotOffered(what, "Use a name without a slash, or run this where the store is")
        return f"/v1/namespaces/{quoted(self.namespace)}{path}"

    # ------------------------------------------------------------ searching

    @_like(Memory.search)
    def search(self, given: dict[str, Any]) -> SearchResponse:
        if given.pop("candidates", False):
            raise NotOffered("a server gives candidates as JSON only", "Call POST /search with candidates")
        form = self._call("POST", "/search", forms.asked(given))
        return response_of(form, rules.checked_filters(given.get("filters")))

    @_like(Memory.why)
    def why(self, given: dict[str, Any]) -> Why:
        return why_of(self._call("POST", "/why", forms.asked(given)))

    # ------------------------------------------------------------ storing

    def add(self, item: NewItem | str, *, wait: bool = False) -> Item:
        new = NewItem(item) if isinstance(item, str) else item
        return decode(Item, self._call("POST", "/items", {**forms.item_form(new), "wait": wait}))

    def add_many(self, items: Sequence[NewItem], *, wait: bool = False) -> list[Item]:
        body = {"items": [forms.item_form(item) for item in items], "wait": wait}
        return [decode(Item, form) for form in self._call("POST", "/items:batch", body)["items"]]

    def update(self, item: int | str, patch: ItemPatch, *, wait: bool = False, expected: Item | None = None) -> Item:
        body = forms.patch_form(patch)
        headers = self._if_match(expected)
        if not body:
            return self.get([item])[0]
        return decode(Item, self._call("PATCH", f"/items/{quoted(item)}", {**body, "wait": wait}, headers=headers))

    def history(self, item: int | str) -> list[Item]:
        form = self._call("GET", f"/items/{quoted(item)}", query={"include": "history"})
        return [decode(Item, each) for each in form["history"]]

    def undo(self, item: int | str, *, to: int | None = None, wait: bool = False, expected: Item | None = None) -> Item:
        body = forms.without_defaults({"undo": True, "undo_to": to, "wait": wait})
        return decode(Item, self._call("PATCH", f"/items/{quoted(item)}", body, headers=self._if_match(expected)))

    def similar(self, item: int | str) -> list[Similar]:
        form = self._call("GET", f"/items/{quoted(item)}", query={"include": "similar"})
        return [decode(Similar, each) for each in form["similar"]]

    def duplicates(
        self, filters: GivenFilters | None = None, *, limit: int = 50, progress: Progress | None = None
    ) -> list[DuplicateGroup]:
        if filters is not None or progress is not None:
            raise NotOffered("a server groups all items of a namespace", "Leave filters and progress out")
        return [duplicates_of(form) for form in self._call("GET", "/duplicates", query={"limit": limit})["groups"]]

    def merge(self, kept: int | str, others: Sequence[int | str]) -> Item:
        return decode(Item, self._call("POST", "/items:merge", {"keep": kept, "ids": list(others)}))

    def _if_match(self, expected: Item | None) -> dict[str, str]:
        """The ETag of the item, if its stored state is the one that the caller expects."""
        if expected is None:
            return {}
        answer = self._transport.send("GET", self._path(f"/items/{expected.id}"))
        if decode(Item, answer.json()) != expected:
            raise Conflict(f"item {expected.id} has changed", "Read it again and repeat the change")
        return {"if-match": answer.headers["etag"]}

    def get(self, ids: Sequence[int | str]) -> list[Item]:
        wanted = list(dict.fromkeys(ids))
        found: list[Item] = []
        cursor: str | None = None
        while len(found) < len(wanted):
            page = self._call("POST", "/items:get", forms.without_defaults({"ids": wanted, "cursor": cursor}))
            found += [decode(Item, form) for form in page["items"]]
            cursor = page["next_cursor"]
        known = dict(zip(wanted, found, strict=True))
        return [known[item] for item in ids]

    def list(self, filters: GivenFilters | None = None, *, limit: int = 50, offset: int = 0) -> list[Item]:
        """Lists items. The server pages by cursors, so a large offset costs as much as reading all items before it."""
        given = {**forms.where_query(filters), "limit": limit, "offset": offset}
        return [*self._page("/items", "items", Item, given)]

    def count(self, filters: GivenFilters | None = None) -> int:
        return self._call("GET", "/items", query={**forms.where_query(filters), "limit": 1})["total"]

    def unknown_names(self, filters: GivenFilters) -> list[str]:
        return self._call("GET", "/items", query={**forms.where_query(filters), "limit": 1})["notes"]

    def forget(self, ids: Sequence[int | str], *, expected: Item | None = None, dry_run: bool = False) -> int:
        if expected is not None:
            if len(ids) != 1:
                raise NotOffered("a server compares one item at a time", "Forget the expected item alone")
            if not dry_run:
                self._call("DELETE", f"/items/{quoted(ids[0])}", headers=self._if_match(expected))
                return 1
        return self._delete({"ids": list(ids)}, dry_run=dry_run)

    def forget_matching(self, filters: GivenFilters, *, dry_run: bool = False) -> int:
        return self._delete({"filters": forms.filter_form(filters) or {}}, dry_run=dry_run)

    def _delete(self, chosen: dict[str, Json], *, dry_run: bool) -> int:
        answer = self._call("POST", "/items:delete", {**chosen, "dry_run": dry_run})
        return answer["matched" if dry_run else "deleted"]

    def add_raw(
        self,
        content: str,
        speaker: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        *,
        source: Source = "user",
    ) -> RawRecord:
        """Stores an original. Its `source` is checked here and set by the server."""
        rules.known_source(source)
        body = {"content": content, "speaker": speaker, "session_id": session_id, "metadata": dict(metadata or {})}
        return decode(RawRecord, self._call("POST", "/raw", body))

    def sources(self, item: int | str) -> list[RawRecord]:
        form = self._call("GET", f"/items/{quoted(item)}", query={"include": "sources"})
        return [decode(RawRecord, record) for record in form["sources"]]

    def tags(self) -> list[tuple[str, int]]:
        return [(each["name"], each["items"]) for each in self._listed("/tags", "counts", {}, None)[0]]

    @_like(Memory.list_raw)
    def list_raw(self, given: dict[str, Any]) -> Page[RawRecord]:
        return self._page("/raw", "raw", RawRecord, given)

    def get_raw(self, ids: Sequence[int]) -> list[RawRecord]:
        return [decode(RawRecord, self._call("GET", f"/raw/{number}")) for number in ids]

    def forget_raw(self, ids: Sequence[int], *, force: bool = False) -> int:
        """Forgets the records one by one; unlike in a store, an error does not restore those before it."""
        for number in ids:
            self._call("DELETE", f"/raw/{number}", query={"force": force})
        return len(ids)

    def namespaces(self) -> list[tuple[str, int]]:
        found = self._transport.call("GET", "/v1/namespaces")["namespaces"]
        return [(each["name"], each["items"]) for each in found]

    def status(self) -> dict[str, Json]:
        return self._transport.call("GET", "/v1/status")

    def _page(self, path: str, name: str, kind: type[V], given: Mapping[str, Any]) -> Page[V]:
        """The rows of a list from `offset` on. `limit`: 50 if it is not given; None: all."""
        query = {name: value for name, value in given.items() if name not in ("limit", "offset")}
        limit, offset = given.get("limit", 50), given.get("offset", 0)
        if limit is not None:
            rules.check_page(limit, offset)
        found, total = self._listed(path, name, query, None if limit is None else offset + limit)
        return Page([decode(kind, form) for form in found[offset:]], total, offset)

    def _listed(self, path: str, name: str, query: Mapping[str, Any], most: int | None) -> tuple[list[Any], int]:
        """The first `most` rows of a list (None: all), read page by page, and the total number of rows."""
        found: list[Any] = []
        cursor: str | None = None
        while True:
            size = _PAGE if most is None else min(_PAGE, most - len(found))
            page = self._call("GET", path, query={**query, "limit": size, "cursor": cursor})
            found += page[name]
            cursor = page["next_cursor"]
            if cursor is None or (most is not None and len(found) >= most):
                return found, page.get("total", len(found))

    # ------------------------------------------------------------ graph

    @_like(Memory.add_node)
    def add_node(self, given: dict[str, Any]) -> Node:
        body = {**given, "aliases": list(given.get("aliases", ()))}
        return decode(Node, self._call("POST", "/graph/nodes", body))

    def add_edge(self, source: str, relation: str, target: str, weight: float = 1.0) -> Edge:
        self.add_edges([(source, relation, target, weight)])
        return Edge(source, relation, target, weight)

    def add_edges(self, edges: Sequence[tuple[str, str, str, float]]) -> None:
        names = ("from", "relation", "to", "weight")
        self._call("POST", "/graph/edges", {"edges": [dict(zip(names, edge, strict=True)) for edge in edges]})

    @_like(Memory.neighbors)
    def neighbors(self, given: dict[str, Any]) -> Page[Neighbor]:
        return self._page("/graph/neighbors", "neighbors", Neighbor, {"limit": None, **given})

    @_like(Memory.nodes)
    def nodes(self, given: dict[str, Any]) -> list[NodeSummary]:
        return [*self._page("/graph/nodes", "nodes", NodeSummary, given)]

    def node(self, name: str, label: str | None = None, *, limit: int = 50) -> NodeView:
        rules.check_page(limit, 0)
        query = {"label": label, "limit": limit}
        return decode(NodeView, self._call("GET", f"/graph/nodes/{quoted(name)}", query=query))

    def path(self, start: str, goal: str, max_depth: int = PATH_DEPTH) -> list[Edge]:
        query = {"start": start, "goal": goal, "max_depth": max_depth}
        return [decode(Edge, form) for form in self._call("GET", "/graph/path", query=query)["edges"]]

    def remove_node(self, name: str, label: str | None = None) -> bool:
        return self._removed(f"/graph/nodes/{quoted(name)}", {"label": label})

    def remove_edge(self, source: str, relation: str, target: str) -> bool:
        return self._removed("/graph/edges", {"from": source, "relation": relation, "to": target})

    def _removed(self, path: str, query: Mapping[str, Any]) -> bool:
        try:
            self._call("DELETE", path, query=query)
        except NotFound:
            return False
        return True

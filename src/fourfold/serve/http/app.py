"""The server: the API, the MCP endpoint and the web page on one address, behind one guard.

Here are the routes that differ from a method of Memory: they use several, write on a condition, or take and send files.
"""

# No `from __future__ import annotations`: FastAPI reads these annotations when the module is loaded.

import mimetypes
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, cast

from fastapi import FastAPI, Header, Query, Request
from fastapi import Path as InPath
from pydantic import Field
from starlette.responses import Response
from starlette.routing import Route

from fourfold import __version__
from fourfold.config import Settings
from fourfold.engine import keyed
from fourfold.engine.present import shared_text
from fourfold.errors import InvalidItem, InvalidQuery, NoAccess
from fourfold.limits import ANSWER_TOKENS, HTTP_ANSWER_BYTES
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Edge, Item, ItemPatch, Json, Node
from fourfold.operations import JSONL, OPERATIONS
from fourfold.ranking.plan import check_text
from fourfold.retrieval import Candidates, Ranking, SearchResponse
from fourfold.serve.access import RequestRate, grant, require, require_namespace, visible_status
from fourfold.serve.budget import SMALLEST_TOKENS, Form, Page, after_item, check_budget, fitting, from_item, lists_json
from fourfold.serve.http import judgements, route, schemas
from fourfold.serve.http.derived import arguments_of, derived_routes, etag, item_id, request_model, stored_now
from fourfold.serve.inputs import Flag, Integer, refuse_folders
from fourfold.serve.listening import HEALTH, serve_app
from fourfold.serve.mcp import server as mcp
from fourfold.serve.mcp.tools import Level
from fourfold.storage.exchange import Lines, line
from fourfold.wire import FACTORS, compact, counts_json, encode, response_facts, result_json, why_json

routes: Final = route.Routes()

# ---------------------------------------------------------------- searches

_FACETS: Final = 200
"""Maximum number of listed values of a facet."""
_DROPPED: Final = ("content", "metadata")
"""Fields of a result that may be left out."""
_TITLE_CHARACTERS: Final = 1000
"""Of a result without its text, and of a candidate: a title may have a megabyte."""
_Budget = Annotated[
    Integer | None,
    Field(
        description="Tokens that the results may take; the best are in full, the others shortened.",
        json_schema_extra={"minimum": SMALLEST_TOKENS, "maximum": ANSWER_TOKENS},
    ),
]
_Content = Annotated[Flag, Field(description="Whether results hold their text and metadata.")]


@routes.add(
    "search",
    schemas.SearchAnswer,
    members=request_model("search", budget_tokens=(_Budget, None), content=(_Content, True)),
    leads_to={"get": {"path.id": "/results/0/id"}},
)
def search(request: Request, memory: route.InNamespace, members: Any) -> Response:
    budget = None if members.budget_tokens is None else check_budget(members.budget_tokens)
    for name in members.namespaces or ():
        require_namespace(name)
    response = memory.search(**arguments_of(OPERATIONS["search"], members, {}))
    route.shared(request).metrics.search(response)
    if request.headers.get("sec-fetch-site") != "same-origin":  # the page, which asks for every position of a slider
        memory.receipts.add_response(response, "http", members.namespaces or [memory.namespace])
    form = search_json(response, budget, content=members.content)
    for left_out in ("texts", "candidates"):
        try:
            return route.reply(form)
        except InvalidQuery:  # too large
            notes = [*form["notes"], f"the {left_out} were left out: they did not fit into an answer"]
            form |= {"notes": notes, "results": [_short(result) for result in form["results"]]}
            if left_out in form:
                del form[left_out]
    return route.reply(form)


@routes.add("why", schemas.WhyAnswer, members=request_model("why"))
def why(memory: route.InNamespace, members: Any) -> Response:
    answer = memory.why(**arguments_of(OPERATIONS["why"], members, {}))
    return route.reply(why_json(answer, members.query, FACTORS))


@routes.add("facets", schemas.FacetsAnswer)
def facets(memory: route.InNamespace) -> Response:
    counts = {
        "tags": memory.tags(),
        "kinds": memory.kinds(),
        "languages": memory.languages(),
        "metadata_keys": memory.metadata_keys(),
    }
    listed: dict[str, Json] = {name: counts_json(pairs[:_FACETS]) for name, pairs in counts.items()}
    return route.reply({"items": memory.count(), **listed})


def search_json(response: SearchResponse, budget: int | None, *, content: bool = True) -> dict[str, Json]:
    form: dict[str, Json] = {**response_facts(response), "plan": encode(response.plan)}
    results = [result_json(result, FACTORS) for result in response.results]
    if not content:
        results = [_short(result) for result in results]
    if budget is not None:
        kept = fitting([(_short(result), result) for result in results], budget)
        if len(kept) < len(results):
            note = f"{len(results) - len(kept)} more results did not fit into budget_tokens"
            form["notes"] = [*form["notes"], note]
        results = kept
    form["results"] = results
    if response.candidates is not None:
        form["candidates"] = candidates_json(response.candidates)
    return form


def _short(result: Form) -> Form:
    kept = {name: value for name, value in result.items() if name not in _DROPPED}
    return {**kept, "title": kept["title"][:_TITLE_CHARACTERS]}


def candidates_json(candidates: Candidates) -> dict[str, Json]:
    items = [_candidate(item, candidates) for item in candidates.items.values()]
    lists = {name: _list(name, ranking, candidates) for name, ranking in candidates.lists.items()}
    return {
        "lists": lists,
        "items": items,
        "files": {path: list(chunks) for path, chunks in candidates.files.items()},
        "order": [[hit.id, hit.score] for hit in candidates.order],
    }


def _list(name: str, ranking: Ranking, candidates: Candidates) -> dict[str, Json]:
    scaled: Mapping[int, float] = candidates.scaled.get(name, {})
    rows: list[list[float | None]] = []
    rank, previous = 0, None
    for place, hit in enumerate(ranking.hits, 1):
        rank = rank if hit.score == previous else place
        previous = hit.score
        rows.append([hit.id, hit.score, rank, scaled.get(hit.id)])
    more = candidates.unlisted[name].hits if name in candidates.unlisted else ()
    return {
        "weight": candidates.weights.get(name, 0.0),
        "mean": None if ranking.background is None else ranking.background.mean,
        "hits": rows,
        "unlisted": [[hit.id, hit.score, None, scaled.get(hit.id)] for hit in more],
    }


def _candidate(item: Item, candidates: Candidates) -> dict[str, Json]:
    text = shared_text(item)
    return {
        **encode(item, ("id", "key", "kind", "language", "tags", "location", "created_at", "updated_at")),
        "title": item.title[:_TITLE_CHARACTERS] or item.text[:80],
        "recency": candidates.recency.get(item.id, 1.0),
        "age": candidates.ages.get(item.id, 1.0),
        "window": candidates.windows.get(item.id, 1.0),
        "source": item.source,
        "file_path": item.path,
        "text_hash": None if text is None else sha256(text.encode("utf-8", "replace")).hexdigest()[:16],
    }


# ---------------------------------------------------------------- items

_CHUNKS: Final = 50
"""Chunks of a file that are shown on each side of an item."""
_NODES: Final = 100
"""Nodes that are shown with an item, most connected first."""
IfMatch = Annotated[str | None, Header(description="Only if the item still has this ETag; otherwise 412.")]
Id = Annotated[str, InPath(description="An id, or key:K.")]


@routes.add(
    "list",
    schemas.ItemsAnswer,
    members=request_model("list"),
    leads_to={"list_items": {"query.cursor": "/next_cursor"}, "get": {"path.id": "/items/0/id"}},
)
def list_items(memory: route.InNamespace, members: Any) -> Response:
    filters, cursor = schemas.given_filters(members), members.cursor

    def read(_: int, count: int) -> list[Item]:
        nonlocal cursor
        items = memory.list(from_item(filters, cursor), limit=count)
        cursor = after_item(items[-1]) if items else cursor
        return items

    shown = Page(read, members.limit, encode, HTTP_ANSWER_BYTES)
    total = memory.count(filters)
    notes = [] if shown.rows or filters == NO_FILTERS else memory.unknown_names(filters)
    following = after_item(shown.rows[-1]) if shown.is_cut or len(shown.rows) == members.limit else None
    return route.reply({"items": shown.forms, "total": total, "next_cursor": following, "notes": notes})


@routes.add("show", schemas.ItemView)
def show(memory: route.InNamespace, id: Id, query: Annotated[schemas.ItemQuery, Query()]) -> Response:
    (item,) = memory.get([item_id(id)])
    parts: dict[str, Callable[[int, int], Sequence[Any]]] = {
        "chunks": _rows_of(lambda: memory.around(item.id, _CHUNKS, _CHUNKS)),
        "sources": lambda start, count: memory.get_raw(item.source_ids[start : start + count]),
        "nodes": _rows_of(lambda: memory.nodes(item=item.id, limit=_NODES)),
        "similar": _rows_of(lambda: memory.similar(item.id)),
        "history": _rows_of(lambda: memory.history(item.id)),
    }
    form = encode(item)
    if "vector" in query.include:
        form["vector"] = "pending" if memory.pending([item.id]) else "ready"
    if lists := {name: parts[name] for name in query.include if name in parts}:
        form |= lists_json(lists, query.cursor, HTTP_ANSWER_BYTES - len(compact(form).encode()))
    return route.reply(form, headers={"etag": etag(item)})


def _rows_of(read: Callable[[], Sequence[Any]]) -> Callable[[int, int], Sequence[Any]]:
    """Rows of a list that is read once, and only if it is asked for."""
    rows = cache(read)
    return lambda start, count: rows()[start : start + count]


@routes.add("update", schemas.ItemAnswer)
def update(
    memory: route.InNamespace, id: Id, body: schemas.PatchRequest, once: route.OnlyOnce, if_match: IfMatch = None
) -> Response:
    patch = ItemPatch(body.text, body.title, tuple(body.add_tags), tuple(body.remove_tags), body.metadata)
    if (patch == ItemPatch()) != body.undo or (body.undo_to is not None and not body.undo):
        remedy = "Give text, title, add_tags, remove_tags, metadata; or undo"
        raise InvalidItem("nothing to change, or too much", remedy)
    wanted = item_id(id)

    def changed() -> Item:
        expected = _expected(memory, wanted, if_match)
        if body.undo:
            return memory.undo(wanted, to=body.undo_to, wait=body.wait, expected=expected)
        return memory.update(wanted, replace(patch, source="tool"), wait=body.wait, expected=expected)

    item = once(memory, changed, partial(stored_now, memory))
    return route.reply(encode(item), headers={"etag": etag(item)})


@routes.add("delete")
def delete(memory: route.InNamespace, id: Id, once: route.OnlyOnce, if_match: IfMatch = None) -> Response:
    wanted = item_id(id)
    once(memory, lambda: memory.forget([wanted], expected=_expected(memory, wanted, if_match)), sum)
    return Response(status_code=204)


def _expected(memory: Memory, wanted: int | str, etags: str | None) -> Item | None:
    """The stored item, if the request names its ETag; the write compares it again. *: any state of the item."""
    if etags is None:
        return None
    (item,) = memory.get([wanted])
    if etags.strip() == "*":
        return None
    if etag(item) not in [each.strip() for each in etags.split(",")]:
        raise route.HttpError(412, f"item {wanted} has changed", "Read it again and repeat the change")
    return item


@routes.add("forget", schemas.DeletedAnswer)
def delete_many(memory: route.InNamespace, body: schemas.DeleteRequest, once: route.OnlyOnce) -> Response:
    if (body.ids is None) == (body.filters is None):
        raise InvalidQuery("give ids or filters", "One of them, not both")
    if (ids := body.ids) is not None:
        count = once(memory, lambda: memory.forget(ids, dry_run=body.dry_run), sum)
    else:
        require("admin")
        filters = schemas.given_filters(body)
        if filters.condition is None:
            raise InvalidQuery("the filters are empty", "Say which items to delete")
        count = once(memory, lambda: memory.forget_matching(filters, dry_run=body.dry_run), sum)
    return route.reply({"matched": count, "deleted": 0 if body.dry_run else count, "dry_run": body.dry_run})


# ---------------------------------------------------------------- the graph

_EDGES: Final = 50
"""Edges of each node that a local graph shows, heaviest first."""


@routes.add("local_graph", schemas.LocalGraphAnswer)
def around(memory: route.InNamespace, query: Annotated[schemas.AroundQuery, Query()]) -> Response:
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
    return route.reply(
        {
            "nodes": [{**encode(node), "distance": distance} for node, distance in by_id.values()],
            "edges": [encode(edge) for edge in edges.values() if {edge.source, edge.target} <= names],
            "total": total,
        }
    )


# ---------------------------------------------------------------- judgements


@routes.add("judge", schemas.JudgementsAnswer)
def judge(memory: route.InNamespace, body: schemas.JudgementRequest, once: route.OnlyOnce) -> Response:
    check_text(body.query)
    if body.relevance is not None and not 0 <= body.relevance <= 3:
        raise InvalidQuery(f"relevance is {body.relevance}", "It is 0 to 3, or null")
    (item,) = memory.get([body.item])
    judged = once(
        memory,
        lambda: judgements.judge(memory, body.query, item, body.relevance),
        lambda _: judgements.stored(memory),
    )
    return route.reply(judgements.judgements_json(judged))


@routes.add("judgements", schemas.JudgementsAnswer)
def judgements_of(memory: route.InNamespace) -> Response:
    return route.reply(judgements.judgements_json(judgements.stored(memory)))


@routes.add("collection")
def collection(memory: route.InNamespace) -> Response:
    return route.download(judgements.packed(memory), "collection.zip", OPERATIONS["collection"].gives)


@routes.add("evaluate", schemas.EvaluationAnswer, members=schemas.EvaluationRequest)
def evaluate(memory: route.InNamespace, members: Any) -> Response:
    refuse_folders(members.rerank)
    return route.reply(judgements.evaluation(memory, {name: getattr(members, name) for name in schemas.MEASURED}))


# ---------------------------------------------------------------- the store as a whole


@routes.add("namespaces", schemas.NamespacesAnswer)
def namespaces(memory: route.Store) -> Response:
    permitted = grant().namespaces
    mine = [(name, count) for name, count in memory.namespaces() if permitted is None or name in permitted]
    return route.reply({"namespaces": counts_json(mine)})


@routes.add("status", schemas.StatusAnswer)
def status(memory: route.Store) -> Response:
    return route.reply({"version": __version__, **visible_status(memory)})


@routes.add("live", schemas.LiveAnswer)
async def live() -> Response:
    return route.reply({"status": "ok", "version": __version__})


@routes.add("ready", schemas.LiveAnswer)
def ready(memory: route.Store) -> Response:
    memory.namespaces()
    return route.reply({"status": "ok", "version": __version__})


@routes.add("metrics")
def prometheus(request: Request, memory: route.Store) -> Response:
    """Metrics of the whole store."""
    if grant().namespaces is not None:
        raise NoAccess("metrics are for tokens of all namespaces", "Use a token *:admin:SECRET")
    text = route.shared(request).metrics.text(memory.status())
    return Response(text, media_type=route.METRICS_MEDIA)


_IMPORTED: Final = {"items": "item", "raw": "raw", "nodes": "node", "edges": "edge"}
"""Counts of an import, by kind of record."""


@routes.add("export")
def export(memory: route.InNamespace) -> Response:
    """An export of one namespace, as `fourfold import` and `import` take it; it is sent when it is complete."""
    with tempfile.TemporaryDirectory(prefix="fourfold-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "export.jsonl"
        memory.export(file, namespace=memory.namespace)
        opened = file.open("rb")  # stays readable after its name is removed
    return route.download(opened, "export.jsonl", JSONL)


@routes.add("import_file", schemas.ImportedAnswer)
def import_file(memory: route.InNamespace, file: route.File, once: route.OnlyOnce) -> Response:
    """Rows are stored as by `add`, so repeating them changes nothing; an export fills an empty namespace."""
    counts = once(
        memory,
        lambda: memory.import_file(file, namespace=memory.namespace),
        lambda outcome: dict(zip(keyed.IMPORTED, outcome, strict=True)),
    )
    return route.reply({name: counts.get(kind, 0) for name, kind in _IMPORTED.items()})


@routes.add("sync_step")
def sync_step(memory: route.InNamespace, file: route.File, once: route.OnlyOnce) -> Response:
    """Requests and answers are lines of JSON; only another Fourfold of the same version writes them."""
    lines = [row for _, row in Lines(file)]
    answered = once(memory, lambda: memory.sync_step(lines), lambda _: [])
    return Response("".join(map(line, answered)), media_type=JSONL)


# ---------------------------------------------------------------- the app

ROUTES: Final[tuple[route.OperationRoute, ...]] = (*routes, *derived_routes(routes))
DESCRIPTION: Final = "/v1/openapi.json"
WEB: Final = Path(__file__).parents[1] / "web"
_STREAMED: Final = re.compile(r"/v1/namespaces/[^/]+/(import|sync)")
_OPEN: Final = frozenset({HEALTH, DESCRIPTION, *(each.path for each in ROUTES if each.operation.is_open)})
_PAGE_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


def make_app(settings: Settings, level: Level = "core") -> FastAPI:
    """Every route of the server, unguarded."""
    parts = mcp.make_parts(settings, level)
    app = FastAPI(
        title="Fourfold",
        version=__version__,
        description="Explained hybrid search over HTTP.",
        openapi_url=None,
        separate_input_output_schemas=False,
        lifespan=parts.lifespan,
    )
    app.state.shared = route.Shared(parts.sessions, route.Metrics())

    def described(_: Request) -> Response:
        return route.reply(description(app))

    pages = [Route(path, _page(file), methods=["GET"]) for path, file in page_files().items()]
    app.router.routes[:] = [*parts.routes, *ROUTES, Route(DESCRIPTION, described), *pages]
    app.add_exception_handler(404, _no_route)
    app.add_exception_handler(405, _no_method)
    return app


def description(app: FastAPI) -> dict[str, Json]:
    """The OpenAPI document."""
    if app.openapi_schema is None:
        document = app.openapi()
        parts = document["components"]
        parts["schemas"][schemas.Problem.__name__] = schemas.Problem.model_json_schema()
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}, {}]
    return cast("dict[str, Json]", app.openapi_schema)


def page_files() -> dict[str, Path]:
    """The files of the web page by path; nothing else can be asked for."""
    files = {f"/{file.relative_to(WEB).as_posix()}": file for file in sorted(WEB.rglob("*")) if file.is_file()}
    return {"/": WEB / "index.html", **files}


def _page(file: Path) -> Callable[[Request], Response]:
    media = "text/javascript" if file.suffix == ".js" else mimetypes.guess_type(file.name)[0]

    def page(_: Request) -> Response:
        return Response(file.read_bytes(), headers=_PAGE_HEADERS, media_type=media)

    return page


async def _no_route(request: Request, _: Exception) -> Response:
    return route.problem(404, f"no route {request.url.path[:200]}", f"{DESCRIPTION} lists the routes")


async def _no_method(request: Request, error: Exception) -> Response:
    allowed = getattr(error, "headers", None)
    return route.problem(
        405, f"{request.method} is not allowed here", f"{DESCRIPTION} lists the methods", headers=allowed
    )


def serve(settings: Settings, level: Level, where: str, *, open_page: bool = False) -> None:
    """Serves until it is interrupted, and prints its address on stderr."""
    serve_app(
        make_app(settings, level),
        settings,
        where,
        f"Fourfold answers at {{url}} (API: {{url}}/v1, MCP: {{url}}{mcp.PATH})",
        open_page=open_page,
        open_paths=_OPEN | page_files().keys(),
        streamed=_STREAMED,
        rate=None if (most := settings.http_requests_per_minute) is None else RequestRate(most),
    )

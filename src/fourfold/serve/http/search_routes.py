"""search, why, analyze, tags, facets."""

# No `from __future__ import annotations`: FastAPI reads these annotations when the module is loaded.

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import Query, Request
from starlette.responses import Response

from fourfold.model import Json
from fourfold.serve.budget import check_budget
from fourfold.serve.http import answers, models
from fourfold.serve.http.forms import plan_json, search_json
from fourfold.serve.http.operation import InNamespace, Operations, reply, shared
from fourfold.serve.http.paging import next_offset, offset_of
from fourfold.serve.sessions import require_namespace
from fourfold.wire import FACTORS, encode, why_json

NS: Final = "/v1/namespaces/{namespace}"
_FACETS: Final = 200
"""Maximum number of listed values of a facet."""


operations: Final = Operations()


@operations.add("POST", f"{NS}/search", "Search", answers.SearchAnswer, leads_to={"get": {"path.id": "/results/0/id"}})
def search(request: Request, memory: InNamespace, body: models.SearchRequest) -> Response:
    asked = models.search_arguments(body)
    budget = None if body.budget_tokens is None else check_budget(body.budget_tokens)
    for name in asked.get("namespaces", ()):
        require_namespace(name)
    response = memory.search(body.query, filters=models.given_filters(body.filters), **asked)
    shared(request).metrics.search(response)
    return reply(search_json(response, budget, content=body.content))


@operations.add("POST", f"{NS}/why", "Say why an item has its place", answers.WhyAnswer)
def why(memory: InNamespace, body: models.WhyRequest) -> Response:
    filters = models.given_filters(body.filters)
    found = memory.why(body.item, body.query, filters=filters, **models.search_arguments(body))
    return reply(why_json(found, body.query, FACTORS))


@operations.add("POST", f"{NS}/analyze", "Say how a query is read", answers.AnalysisAnswer)
def analyze(memory: InNamespace, body: models.AnalyzeRequest) -> Response:
    found = memory.analyze(body.query, **models.search_arguments(body))
    return reply(
        {
            **encode(found, ("query", "language", "words", "names")),
            "tags": _counts(found.tags),
            "plan": plan_json(found.plan),
            **encode(found, ("time_window", "notes", "negated")),
        }
    )


@operations.add("GET", f"{NS}/tags", "List tags", answers.CountsAnswer)
def tags(memory: InNamespace, page: Annotated[models.PageQuery, Query()]) -> Response:
    found, offset = memory.tags(), offset_of(page.cursor)
    part = found[offset : offset + page.limit]
    following = next_offset(offset, len(part), more=offset + len(part) < len(found))
    return reply({"counts": _counts(part), "total": len(found), "next_cursor": following})


@operations.add("GET", f"{NS}/facets", "Count tags, kinds, languages, metadata keys", answers.FacetsAnswer)
def facets(memory: InNamespace) -> Response:
    counts = {
        "tags": memory.tags(),
        "kinds": memory.kinds(),
        "languages": memory.languages(),
        "metadata_keys": memory.metadata_keys(),
    }
    listed: dict[str, Json] = {name: _counts(found[:_FACETS]) for name, found in counts.items()}
    return reply({"items": memory.count(), **listed})


def _counts(found: Sequence[tuple[str, int]]) -> list[dict[str, Json]]:
    return [{"name": name, "items": count} for name, count in found]

"""search, why, analyze, tags, facets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from fourfold.model import Json
from fourfold.serve.budget import check_budget
from fourfold.serve.http import answers, models
from fourfold.serve.http.endpoint import Call, Endpoint, reply
from fourfold.serve.http.forms import plan_json, search_json
from fourfold.serve.http.paging import next_offset, offset_of
from fourfold.serve.sessions import require_namespace
from fourfold.wire import FACTORS, encode, why_json

NS: Final = "/v1/namespaces/{namespace}"
_FACETS: Final = 200
"""Maximum number of listed values of a facet."""


def search(call: Call) -> Response:
    body = call.body
    asked = models.search_arguments(body)
    budget = None if body.budget_tokens is None else check_budget(body.budget_tokens)
    for name in asked.get("namespaces", ()):
        require_namespace(name)
    response = call.memory.search(body.query, filters=models.given_filters(body.filters), **asked)
    call.shared.metrics.search(response)
    return reply(search_json(response, budget, content=body.content))


def why(call: Call) -> Response:
    body = call.body
    filters = models.given_filters(body.filters)
    found = call.memory.why(body.item, body.query, filters=filters, **models.search_arguments(body))
    return reply(why_json(found, body.query, FACTORS))


def analyze(call: Call) -> Response:
    found = call.memory.analyze(call.body.query, **models.search_arguments(call.body))
    return reply(
        {
            **encode(found, ("query", "language", "words", "names")),
            "tags": _counts(found.tags),
            "plan": plan_json(found.plan),
            **encode(found, ("time_window", "notes", "negated")),
        }
    )


def tags(call: Call) -> Response:
    page: models.PageQuery = call.query
    found, offset = call.memory.tags(), offset_of(page.cursor)
    part = found[offset : offset + page.limit]
    following = next_offset(offset, len(part), more=offset + len(part) < len(found))
    return reply({"counts": _counts(part), "total": len(found), "next_cursor": following})


def facets(call: Call) -> Response:
    memory = call.memory
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


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        f"{NS}/search",
        search,
        "Search",
        answers.SearchAnswer,
        body=models.SearchRequest,
        leads_to={"get": {"path.id": "/results/0/id"}},
    ),
    Endpoint("POST", f"{NS}/why", why, "Say why an item has its place", answers.WhyAnswer, body=models.WhyRequest),
    Endpoint(
        "POST", f"{NS}/analyze", analyze, "Say how a query is read", answers.AnalysisAnswer, body=models.AnalyzeRequest
    ),
    Endpoint("GET", f"{NS}/tags", tags, "List tags", answers.CountsAnswer, query=models.PageQuery),
    Endpoint("GET", f"{NS}/facets", facets, "Count tags, kinds, languages, metadata keys", answers.FacetsAnswer),
)

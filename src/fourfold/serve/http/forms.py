"""JSON of the API beyond what the command line prints: contributions, plans, candidates, entity tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

from fourfold.engine.present import shared_text
from fourfold.model import Item, Json
from fourfold.retrieval import Candidates, Plan, Ranking, SearchResponse
from fourfold.serve.budget import Form, fitting
from fourfold.wire import FACTORS, compact, encode, response_facts, result_json, time_json

_DROPPED: Final = ("content", "metadata")
"""Fields of a result that may be left out."""


def etag(item: Item) -> str:
    """The ETag of an item, which changes with every change of the item."""
    return f'"{sha256(compact(encode(replace(item, similar=()))).encode()).hexdigest()[:32]}"'


def plan_json(plan: Plan) -> dict[str, Json]:
    rerank = plan.rerank and plan.rerank.partition(":")[0]  # the path of a folder is not for callers
    return {**encode(plan), "rerank": rerank}


def search_json(response: SearchResponse, budget: int | None, *, content: bool = True) -> dict[str, Json]:
    form: dict[str, Json] = {**response_facts(response), "plan": plan_json(response.plan)}
    results = [result_json(result, FACTORS) for result in response.results]
    if not content:
        results = [_short(result) for result in results]
    if budget is not None:
        kept = fitting([_forms(result) for result in results], budget)
        if len(kept) < len(results):
            note = f"{len(results) - len(kept)} more results did not fit into budget_tokens"
            form["notes"] = [*form["notes"], note]
        results = kept
    form["results"] = results
    if response.candidates is not None:
        form["candidates"] = candidates_json(response.candidates)
    return form


def _forms(result: Form) -> Sequence[Form]:
    """The forms of a result, smallest first."""
    return [_short(result), result]


def _short(result: Form) -> Form:
    return {name: value for name, value in result.items() if name not in _DROPPED}


def candidates_json(found: Candidates) -> dict[str, Json]:
    items = [_candidate(item, found) for item in found.items.values()]
    lists = {name: _list(name, ranking, found) for name, ranking in found.lists.items()}
    return {
        "lists": lists,
        "items": items,
        "files": {path: list(chunks) for path, chunks in found.files.items()},
        "order": [[hit.id, hit.score] for hit in found.order],
    }


def _list(name: str, ranking: Ranking, found: Candidates) -> dict[str, Json]:
    scaled: Mapping[int, float] = found.scaled.get(name, {})
    rows: list[list[float | None]] = []
    rank, previous = 0, None
    for place, hit in enumerate(ranking.hits, 1):
        rank = rank if hit.score == previous else place
        previous = hit.score
        rows.append([hit.id, hit.score, rank, scaled.get(hit.id)])
    more = found.unlisted[name].hits if name in found.unlisted else ()
    return {
        "weight": found.weights.get(name, 0.0),
        "mean": None if ranking.background is None else ranking.background.mean,
        "hits": rows,
        "unlisted": [[hit.id, hit.score, None, scaled.get(hit.id)] for hit in more],
    }


def _candidate(item: Item, found: Candidates) -> dict[str, Json]:
    text = shared_text(item)
    return {
        "id": item.id,
        "key": item.key,
        "title": item.title or item.text[:80],
        "kind": item.kind,
        "language": item.language,
        "tags": list(item.tags),
        "location": item.location,
        "created_at": time_json(item.created_at),
        "updated_at": time_json(item.updated_at),
        "recency": found.recency.get(item.id, 1.0),
        "age": found.ages.get(item.id, 1.0),
        "window": found.windows.get(item.id, 1.0),
        "source": item.source,
        "file_path": item.path,
        "text_hash": None if text is None else sha256(text.encode("utf-8", "replace")).hexdigest()[:16],
    }

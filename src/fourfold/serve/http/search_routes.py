"""search, why, analyze, tags, facets; judgements of results, and the evaluation of a ranking by them."""

# No `from __future__ import annotations`: FastAPI reads these annotations when the module is loaded.

import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

from fastapi import Query, Request
from starlette.responses import Response

from fourfold.engine import keyed
from fourfold.engine.present import shared_text
from fourfold.engine.secret_policy import SecretPolicy
from fourfold.errors import InvalidQuery
from fourfold.memory import Memory
from fourfold.model import Item, Json
from fourfold.ranking.plan import check_text
from fourfold.retrieval import Candidates, Plan, Ranking, SearchResponse
from fourfold.serve.access import require_namespace
from fourfold.serve.budget import Form, check_budget, fitting
from fourfold.serve.http import judged_files, schemas
from fourfold.serve.http.item_routes import every_item, next_offset, offset_of
from fourfold.serve.http.judged_files import Judged
from fourfold.serve.http.route import InNamespace, OnlyOnce, Routes, download, reply, shared
from fourfold.wire import FACTORS, counts_json, dumps, encode, response_facts, result_json, time_json, why_json

_FACETS: Final = 200
"""Maximum number of listed values of a facet."""


_DROPPED: Final = ("content", "metadata")
"""Fields of a result that may be left out."""

routes: Final = Routes()


@routes.add("search", schemas.SearchAnswer, leads_to={"get": {"path.id": "/results/0/id"}})
def search(request: Request, memory: InNamespace, body: schemas.SearchRequest) -> Response:
    asked = schemas.search_arguments(body)
    budget = None if body.budget_tokens is None else check_budget(body.budget_tokens)
    for name in asked.get("namespaces", ()):
        require_namespace(name)
    response = memory.search(body.query, filters=schemas.given_filters(body.filters), **asked)
    shared(request).metrics.search(response)
    form = search_json(response, budget, content=body.content)
    try:
        return reply(form)
    except InvalidQuery:  # too large
        notes = [*form["notes"], "the texts were left out: they did not fit into an answer"]
        return reply({**form, "notes": notes, "results": [_short(result) for result in form["results"]]})


@routes.add("why", schemas.WhyAnswer)
def why(memory: InNamespace, body: schemas.WhyRequest) -> Response:
    filters = schemas.given_filters(body.filters)
    answer = memory.why(body.item, body.query, filters=filters, **schemas.search_arguments(body))
    return reply(why_json(answer, body.query, FACTORS))


@routes.add("analyze", schemas.AnalysisAnswer)
def analyze(memory: InNamespace, body: schemas.AnalyzeRequest) -> Response:
    analysis = memory.analyze(body.query, **schemas.search_arguments(body))
    return reply(
        {
            **encode(analysis, ("query", "language", "words", "names", "tags")),
            "plan": plan_json(analysis.plan),
            **encode(analysis, ("time_window", "notes", "negated")),
        }
    )


@routes.add("tags", schemas.CountsAnswer)
def tags(memory: InNamespace, page: Annotated[schemas.PageQuery, Query()]) -> Response:
    counts, offset = memory.tags(), offset_of(page.cursor)
    part = counts[offset : offset + page.limit]
    following = next_offset(offset, len(part), more=offset + len(part) < len(counts))
    return reply({"counts": counts_json(part), "total": len(counts), "next_cursor": following})


@routes.add("facets", schemas.FacetsAnswer)
def facets(memory: InNamespace) -> Response:
    counts = {
        "tags": memory.tags(),
        "kinds": memory.kinds(),
        "languages": memory.languages(),
        "metadata_keys": memory.metadata_keys(),
    }
    listed: dict[str, Json] = {name: counts_json(pairs[:_FACETS]) for name, pairs in counts.items()}
    return reply({"items": memory.count(), **listed})


# ---------------------------------------------------------------- JSON beyond what the command line prints


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
        "id": item.id,
        "key": item.key,
        "title": item.title or item.text[:80],
        "kind": item.kind,
        "language": item.language,
        "tags": list(item.tags),
        "location": item.location,
        "created_at": time_json(item.created_at),
        "updated_at": time_json(item.updated_at),
        "recency": candidates.recency.get(item.id, 1.0),
        "age": candidates.ages.get(item.id, 1.0),
        "window": candidates.windows.get(item.id, 1.0),
        "source": item.source,
        "file_path": item.path,
        "text_hash": None if text is None else sha256(text.encode("utf-8", "replace")).hexdigest()[:16],
    }


# ---------------------------------------------------------------- judgements

_RANKED: Final = 10


def _folder(memory: Memory) -> Path:
    return judged_files.folder_of(memory.settings, memory.namespace)


def _without_secrets(memory: Memory, query: str) -> str:
    """As the setting `secrets` says: files of judgements are no safer than the store."""
    return SecretPolicy(memory.settings.secrets).text(" ".join(query.split()))


def _name(item: Item) -> str:
    """The key, or the id if the key has tabs or line breaks, which would break the file."""
    key = item.key
    return str(item.id) if key is None or not key.isprintable() else f"key:{key}"


@routes.add("judge", schemas.JudgementsAnswer)
def judge(memory: InNamespace, body: schemas.JudgementRequest, once: OnlyOnce) -> Response:
    check_text(body.query)
    if body.relevance is not None and not 0 <= body.relevance <= 3:
        raise InvalidQuery(f"relevance is {body.relevance}", "It is 0 to 3, or null")
    (item,) = memory.get([body.item])
    folder, query = _folder(memory), _without_secrets(memory, body.query)

    def changed() -> Judged:
        with memory.store.transaction(memory.namespace) as tx:  # other servers wait
            keyed.check(tx)
            judged = judged_files.read(folder)
            items = judged.setdefault(query, {})
            items.pop(_name(item), None)
            if body.relevance is not None:
                items[_name(item)] = body.relevance
            judged = {text: items for text, items in judged.items() if items}
            judged_files.write(folder, judged)
            keyed.done(tx)
        return judged

    return reply(_listed(once(memory, changed, lambda _: judged_files.read(folder))))


def _listed(judged: Judged) -> dict[str, Json]:
    rows = [
        {"query": text, "item": item if item.startswith("key:") else int(item), "relevance": score}
        for text, items in judged.items()
        for item, score in items.items()
    ]
    return {"judgements": rows}


@routes.add("judgements", schemas.JudgementsAnswer)
def judgements(memory: InNamespace) -> Response:
    return reply(_listed(judged_files.read(_folder(memory))))


@routes.add("collection")
def collection(memory: InNamespace) -> Response:
    files = judged_files.files(judged_files.read(_folder(memory)))
    packed = tempfile.TemporaryFile()  # noqa: SIM115  closed by `parts`
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        with archive.open("corpus.jsonl", "w") as corpus:
            for item in every_item(memory):
                row = {"_id": _name(item), "title": item.title, "text": item.text, "tags": list(item.tags)}
                corpus.write((dumps(row) + "\n").encode())
    packed.seek(0)
    return download(packed, "collection.zip", "application/zip")


# ---------------------------------------------------------------- evaluation


@routes.add("evaluate", schemas.EvaluationAnswer)
def evaluate(memory: InNamespace, body: schemas.EvaluationRequest) -> Response:
    from fourfold.evaluation.bench import Answer, answered, percentile
    from fourfold.evaluation.collection import Question
    from fourfold.evaluation.metrics import means, measured

    folder = _folder(memory)
    judged = judged_files.read(folder)
    wanted = {text: items for text, items in judged.items() if max(items.values()) > 0}
    if not wanted:
        raise InvalidQuery("no query has a relevant item", "Judge some results first: POST .../judgements")
    asked = schemas.search_arguments(body)
    answers: list[Answer] = []
    for number, text in enumerate(wanted, 1):
        response = memory.search(text, top_k=100, **asked)
        keys = [_name(result.item) for result in response.results]
        answers.append(answered(Question(str(number), text), response, keys))
    relevant: Mapping[str, Mapping[str, int]] = {
        str(number): {item: score for item, score in items.items() if score > 0}
        for number, items in enumerate(wanted.values(), 1)
    }
    scores = measured(relevant, answers)
    times = [answer.milliseconds for answer in answers]
    questions = [
        {
            "query": answer.question.text,
            "scores": dict(scores[answer.question.id]),
            "ranked": list(answer.keys[:_RANKED]),
            "confidence": answer.confidence,
        }
        for answer in answers
    ]
    return reply(
        {
            "queries": len(answers),
            "metrics": dict(means(scores.values())),
            "latency_ms": {"p50": percentile(times, 0.5), "p95": percentile(times, 0.95)},
            "questions": questions,
        }
    )

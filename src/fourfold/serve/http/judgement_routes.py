"""Judgements of results, kept as a collection in BEIR layout, and the evaluation of a ranking by them.

The folder of a namespace has queries.jsonl and qrels.tsv; the download adds corpus.jsonl, and `fourfold eval` reads it.
"""

# No `from __future__ import annotations`: FastAPI reads these annotations when the module is loaded.

import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from starlette.responses import Response

from fourfold.engine import keyed
from fourfold.engine.secret_policy import SecretPolicy
from fourfold.errors import InvalidQuery
from fourfold.memory import Memory
from fourfold.model import Item, Json
from fourfold.ranking.plan import check_text
from fourfold.serve.http import answers, judged_files, models
from fourfold.serve.http.judged_files import Judged
from fourfold.serve.http.operation import InNamespace, OnlyOnce, Routes, download, reply
from fourfold.serve.http.paging import every_item
from fourfold.wire import dumps

_RANKED: Final = 10

routes: Final = Routes()


def _folder(memory: Memory) -> Path:
    return judged_files.folder_of(memory.settings, memory.namespace)


def _without_secrets(memory: Memory, query: str) -> str:
    """As the setting `secrets` says: files of judgements are no safer than the store."""
    return SecretPolicy(memory.settings.secrets).text(" ".join(query.split()))


def _name(item: Item) -> str:
    """The key, or the id if the key has tabs or line breaks, which would break the file."""
    key = item.key
    return str(item.id) if key is None or not key.isprintable() else f"key:{key}"


@routes.add("judge", answers.JudgementsAnswer)
def judge(memory: InNamespace, body: models.JudgementRequest, once: OnlyOnce) -> Response:
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


@routes.add("judgements", answers.JudgementsAnswer)
def judgements(memory: InNamespace) -> Response:
    return reply(_listed(judged_files.read(_folder(memory))))


@routes.add("collection", media="application/zip")
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


@routes.add("evaluate", answers.EvaluationAnswer)
def evaluate(memory: InNamespace, body: models.EvaluationRequest) -> Response:
    from fourfold.evaluation.bench import Answer, answered, percentile
    from fourfold.evaluation.collection import Question
    from fourfold.evaluation.metrics import means, measured

    folder = _folder(memory)
    judged = judged_files.read(folder)
    wanted = {text: items for text, items in judged.items() if max(items.values()) > 0}
    if not wanted:
        raise InvalidQuery("no query has a relevant item", "Judge some results first: POST .../judgements")
    asked = models.search_arguments(body)
    found: list[Answer] = []
    for number, text in enumerate(wanted, 1):
        response = memory.search(text, top_k=100, **asked)
        keys = [_name(result.item) for result in response.results]
        found.append(answered(Question(str(number), text), response, keys))
    relevant: Mapping[str, Mapping[str, int]] = {
        str(number): {item: score for item, score in items.items() if score > 0}
        for number, items in enumerate(wanted.values(), 1)
    }
    scores = measured(relevant, found)
    times = [answer.milliseconds for answer in found]
    questions = [
        {
            "query": answer.question.text,
            "scores": dict(scores[answer.question.id]),
            "ranked": list(answer.keys[:_RANKED]),
            "confidence": answer.confidence,
        }
        for answer in found
    ]
    return reply(
        {
            "queries": len(found),
            "metrics": dict(means(scores.values())),
            "latency_ms": {"p50": percentile(times, 0.5), "p95": percentile(times, 0.95)},
            "questions": questions,
        }
    )

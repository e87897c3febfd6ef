"""Judgements of results, kept as a collection in BEIR layout, and the evaluation of a ranking by them.

The folder of a namespace has queries.jsonl and qrels.tsv; the download adds corpus.jsonl, and `fourfold eval` reads it.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.responses import Response

from fourfold import owner_only
from fourfold.errors import InvalidQuery
from fourfold.model import Item, Json
from fourfold.ranking.plan import check_text
from fourfold.serve.http import answers, models
from fourfold.serve.http.endpoint import Call, Endpoint, download, reply
from fourfold.serve.http.own_files import own_folder
from fourfold.serve.http.paging import every_item
from fourfold.serve.http.search_routes import NS
from fourfold.serve.schemas import dumps

if TYPE_CHECKING:
    from fourfold.memory import Memory

_HEADER: Final = "query-id\tcorpus-id\tscore\n"
_RANKED: Final = 10
_changing = Lock()

Judged = dict[str, dict[str, int]]
"""The relevance of items (id or key:K) for each query."""


def _folder(memory: Memory) -> Path:
    return own_folder(memory.settings) / "judgements" / quote(memory.namespace, safe="")


def _read(folder: Path) -> Judged:
    if not (folder / "queries.jsonl").is_file():
        return {}
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    texts: dict[str, str] = {row["_id"]: row["text"] for row in rows}
    judged: Judged = {text: {} for text in texts.values()}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, item, score = line.split("\t")
        judged[texts[query]][item] = int(score)
    return judged


def _files(judged: Judged) -> dict[str, str]:
    numbered = {text: str(number) for number, text in enumerate(judged, 1)}
    queries = "".join(dumps({"_id": number, "text": text}) + "\n" for text, number in numbered.items())
    rows = (f"{numbered[text]}\t{item}\t{score}\n" for text, items in judged.items() for item, score in items.items())
    return {"queries.jsonl": queries, "qrels.tsv": _HEADER + "".join(rows)}


def _write(folder: Path, judged: Judged) -> None:
    """Writes each file atomically, the queries last, so that both files agree."""
    owner_only.make_folder(folder)
    for name, text in reversed(_files(judged).items()):
        aside = folder / f"{name}.part"
        with owner_only.open_file(aside, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        aside.replace(folder / name)


def _name(item: Item) -> str:
    """The key, or the id if the key has tabs or line breaks, which would break the file."""
    key = item.key
    return str(item.id) if key is None or not key.isprintable() else f"key:{key}"


def judge(call: Call) -> Response:
    body: models.JudgementRequest = call.body
    check_text(body.query)
    if body.relevance is not None and not 0 <= body.relevance <= 3:
        raise InvalidQuery(f"relevance is {body.relevance}", "It is 0 to 3, or null")
    (item,) = call.memory.get([body.item])
    folder = _folder(call.memory)
    with _changing:
        judged = _read(folder)
        items = judged.setdefault(" ".join(body.query.split()), {})
        items.pop(_name(item), None)
        if body.relevance is not None:
            items[_name(item)] = body.relevance
        judged = {text: items for text, items in judged.items() if items}
        _write(folder, judged)
    return reply(_listed(judged))


def _listed(judged: Judged) -> dict[str, Json]:
    rows = [
        {"query": text, "item": item if item.startswith("key:") else int(item), "relevance": score}
        for text, items in judged.items()
        for item, score in items.items()
    ]
    return {"judgements": rows}


def judgements(call: Call) -> Response:
    folder = _folder(call.memory)
    return reply(_listed(_read(folder)))


def collection(call: Call) -> Response:
    files = _files(_read(_folder(call.memory)))
    packed = tempfile.TemporaryFile()  # noqa: SIM115  closed by `parts`
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        with archive.open("corpus.jsonl", "w") as corpus:
            for item in every_item(call.memory):
                row = {"_id": _name(item), "title": item.title, "text": item.text, "tags": list(item.tags)}
                corpus.write((dumps(row) + "\n").encode())
    packed.seek(0)
    return download(packed, "collection.zip", "application/zip")


# ---------------------------------------------------------------- evaluation


def evaluate(call: Call) -> Response:
    from fourfold.evaluation.bench import Answer, answered, percentile
    from fourfold.evaluation.collection import Question
    from fourfold.evaluation.metrics import means, measured

    folder = _folder(call.memory)
    judged = _read(folder)
    wanted = {text: items for text, items in judged.items() if max(items.values()) > 0}
    if not wanted:
        raise InvalidQuery("no query has a relevant item", "Judge some results first: POST .../judgements")
    asked = models.search_arguments(call.body)
    found: list[Answer] = []
    for number, text in enumerate(wanted, 1):
        response = call.memory.search(text, top_k=100, **asked)
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


ENDPOINTS: Final = (
    Endpoint("GET", f"{NS}/judgements", judgements, "List judgements", answers.JudgementsAnswer),
    Endpoint(
        "POST",
        f"{NS}/judgements",
        judge,
        "Judge a result",
        answers.JudgementsAnswer,
        "write",
        models.JudgementRequest,
    ),
    Endpoint(
        "GET",
        f"{NS}/judgements/collection",
        collection,
        "The judgements as a collection for `fourfold eval`",
        scope="admin",
        media="application/zip",
    ),
    Endpoint(
        "POST",
        f"{NS}/evaluation",
        evaluate,
        "Measure a ranking by the judgements",
        answers.EvaluationAnswer,
        body=models.EvaluationRequest,
    ),
)

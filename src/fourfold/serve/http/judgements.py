"""Judgements of results, in files of the server (for each namespace a folder in BEIR layout), and what they measure."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from fourfold import addresses, owner_only
from fourfold.config import Settings, default_store
from fourfold.engine import keyed
from fourfold.engine.secret_policy import SecretPolicy
from fourfold.errors import InvalidQuery
from fourfold.limits import PAGE_SIZE
from fourfold.model import NO_FILTERS, Item, Json
from fourfold.serve.budget import after_item, from_item
from fourfold.text.secrets import masked, masks_in
from fourfold.wire import dumps

if TYPE_CHECKING:
    from fourfold.memory import Memory

_HEADER: Final = "query-id\tcorpus-id\tscore\n"
_QUERIES: Final = "queries.jsonl"
_RANKED: Final = 10

Judged = dict[str, dict[str, int]]
"""The relevance of items (id or key:K) for each query."""


def own_path(settings: Settings) -> Path:
    """The folder of the server's own files: in that of the store, or in the user's data folder for a remote store."""
    store = settings.store
    if store is not None and addresses.is_address(store):
        return default_store() / f"http-{sha256(addresses.shown(store).encode()).hexdigest()[:16]}"
    return (default_store() if store is None else Path(store).expanduser()) / "http"


def folder_of(settings: Settings, namespace: str) -> Path:
    owner_only.make_folder(own_path(settings))
    return own_path(settings) / "judgements" / owner_only.file_name(namespace)


def read(folder: Path) -> Judged:
    if not (folder / _QUERIES).is_file():
        return {}
    rows = [json.loads(line) for line in (folder / _QUERIES).read_text("utf-8").splitlines()]
    texts: dict[str, str] = {row["_id"]: row["text"] for row in rows}
    judged: Judged = {text: {} for text in texts.values()}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, item, score = line.split("\t")
        judged[texts[query]][item] = int(score)
    return judged


def files(judged: Judged) -> dict[str, str]:
    numbered = {text: str(number) for number, text in enumerate(judged, 1)}
    queries = "".join(dumps({"_id": number, "text": text}) + "\n" for text, number in numbered.items())
    rows = (f"{numbered[text]}\t{item}\t{score}\n" for text, items in judged.items() for item, score in items.items())
    return {_QUERIES: queries, "qrels.tsv": _HEADER + "".join(rows)}


def write(folder: Path, judged: Judged) -> None:
    """Writes each file atomically, the queries last, so that both files agree."""
    owner_only.make_folder(folder)
    for name, text in reversed(files(judged).items()):
        aside = folder / f"{name}.part"
        with owner_only.open_file(aside, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        aside.replace(folder / name)


def scan(settings: Settings, *, mask: bool) -> list[str]:
    """One line for each secret in a judged query: its namespace and kind. `mask`: masks them; lists what was done."""
    lines: list[str] = []
    for queries in sorted((own_path(settings) / "judgements").glob(f"*/{_QUERIES}")):
        judged = read(queries.parent)
        hidden: Judged = {}
        for text, items in judged.items():
            hidden.setdefault(masked(text), {}).update(items)
            kinds = masks_in(masked(text)) if masked(text) != text else []
            secrets = [f"{owner_only.shown_name(queries.parent.name)}: judged query: {kind}" for kind in kinds]
            lines += [f"masked: {line}" for line in secrets] if mask else secrets
        if mask and hidden != judged:
            write(queries.parent, hidden)
    return lines


# ---------------------------------------------------------------- of a namespace


def stored(memory: Memory) -> Judged:
    return read(folder_of(memory.settings, memory.namespace))


def judge(memory: Memory, query: str, item: Item, relevance: int | None) -> Judged:
    """Stores a judgement, or removes it (None); returns all of the namespace.

    Secrets in the query are masked as the setting `secrets` says: the files are no safer than the store.
    """
    query = SecretPolicy(memory.settings.secrets).text(" ".join(query.split()))
    with memory.store.transaction(memory.namespace) as tx:  # other servers wait
        keyed.check(tx)
        judged = stored(memory)
        items = judged.setdefault(query, {})
        items.pop(_name(item), None)
        if relevance is not None:
            items[_name(item)] = relevance
        judged = {text: items for text, items in judged.items() if items}
        write(folder_of(memory.settings, memory.namespace), judged)
        keyed.done(tx)
    return judged


def judgements_json(judged: Judged) -> dict[str, Json]:
    rows = [
        {"query": text, "item": item if item.startswith("key:") else int(item), "relevance": score}
        for text, items in judged.items()
        for item, score in items.items()
    ]
    return {"judgements": rows}


def packed(memory: Memory) -> IO[bytes]:
    """An archive of the judgements with all items, as a collection for `fourfold eval`."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  closed by the caller
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files(stored(memory)).items():
            archive.writestr(name, text)
        with archive.open("corpus.jsonl", "w") as corpus:
            for item in _every_item(memory):
                row = {"_id": _name(item), "title": item.title, "text": item.text, "tags": list(item.tags)}
                corpus.write((dumps(row) + "\n").encode())
    file.seek(0)
    return file


def _every_item(memory: Memory) -> Iterator[Item]:
    """Items of a namespace, newest first, a page at a time."""
    cursor: str | None = None
    while page := memory.list(from_item(NO_FILTERS, cursor), limit=PAGE_SIZE):
        yield from page
        cursor = after_item(page[-1])


def _name(item: Item) -> str:
    """The key, or the id if the key has tabs or line breaks, which would break the file."""
    key = item.key
    return str(item.id) if key is None or not key.isprintable() else f"key:{key}"


def evaluation(memory: Memory, options: Mapping[str, Any]) -> dict[str, Json]:
    """How well searches with these options rank what was judged as relevant."""
    from fourfold.evaluation.bench import Answer, answered, percentile
    from fourfold.evaluation.collection import Question
    from fourfold.evaluation.metrics import means, measured

    judged = [(text, items) for text, items in stored(memory).items() if max(items.values()) > 0]
    if not judged:
        raise InvalidQuery("no query has a relevant item", "Judge some results first: POST .../judgements")
    answers: list[Answer] = []
    for number, (text, _) in enumerate(judged, 1):
        response = memory.search(text, top_k=100, **options)
        keys = [_name(result.item) for result in response.results]
        answers.append(answered(Question(str(number), text), response, keys))
    relevant: Mapping[str, Mapping[str, int]] = {
        str(number): {item: score for item, score in items.items() if score > 0}
        for number, (_, items) in enumerate(judged, 1)
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
    return {
        "queries": len(answers),
        "metrics": dict(means(scores.values())),
        "latency_ms": {"p50": percentile(times, 0.5), "p95": percentile(times, 0.95)},
        "questions": questions,
    }

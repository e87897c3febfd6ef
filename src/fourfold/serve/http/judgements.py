"""Judgements of results, in files of the server (for each namespace a folder), and what they measure."""

from __future__ import annotations

import json
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final

from fourfold import addresses, bounded, limits, owner_only
from fourfold.config import Settings, default_store
from fourfold.engine import keyed
from fourfold.engine.secret_policy import SecretPolicy
from fourfold.errors import DamagedError, InvalidQuery, StoreBusy, TimedOut
from fourfold.limits import IMPORT_BYTES, PAGE_SIZE
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Item, Json
from fourfold.serve.budget import after_item, from_item
from fourfold.text.secrets import masked, masks_in
from fourfold.wire import dumps

_HEADER: Final = "query-id\tcorpus-id\tscore\n"
_JUDGED: Final = "judgements.json"
_RANKED: Final = 10
_REMEDY: Final = "Restore its files, or remove the folder: then nothing is judged"

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
    """The judgements of a namespace; DamagedError if they cannot be read."""
    try:
        if not (folder / _JUDGED).exists():
            return {}
        queries: Mapping[str, Mapping[str, int]] = json.loads(bounded.read_text(folder / _JUDGED, IMPORT_BYTES))
        return {str(text): {str(item): int(score) for item, score in rows.items()} for text, rows in queries.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"the judgements in {folder} cannot be read ({error})", _REMEDY) from error


def write(folder: Path, judged: Judged) -> None:
    """Writes the file in one step."""
    owner_only.make_folder(folder)
    with owner_only.replacing(folder / _JUDGED) as file:
        file.write(dumps(judged))


def _folders(settings: Settings) -> list[Path]:
    return sorted(each for each in (own_path(settings) / "judgements").glob("*/") if any(each.iterdir()))


def check(settings: Settings) -> list[str]:
    """The problems of the judgements of all namespaces."""
    problems: list[str] = []
    for folder in _folders(settings):
        try:
            read(folder)
        except DamagedError as error:
            problems.append(str(error))
    return problems


def scan(settings: Settings, *, mask: bool) -> list[str]:
    """One line for each secret in a judged query: its namespace and kind. `mask`: masks them; lists what was done."""
    lines = [f"not scanned: {problem}" for problem in check(settings)]
    for folder in _folders(settings):
        with suppress(DamagedError):
            lines += _scan(folder, read(folder), mask=mask)
    return lines


def _scan(folder: Path, judged: Judged, *, mask: bool) -> Iterator[str]:
    hidden: Judged = {}
    for text, items in judged.items():
        hidden.setdefault(masked(text), {}).update(items)
        for kind in masks_in(masked(text)) if masked(text) != text else ():
            yield f"{'masked: ' if mask else ''}{owner_only.shown_name(folder.name)}: judged query: {kind}"
    if mask and hidden != judged:
        write(folder, hidden)


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


def _beir(judged: Judged) -> dict[str, str]:
    """The files of a collection beside its items."""
    numbered = {text: str(number) for number, text in enumerate(judged, 1)}
    queries = "".join(dumps({"_id": number, "text": text}) + "\n" for text, number in numbered.items())
    rows = (f"{numbered[text]}\t{item}\t{score}\n" for text, items in judged.items() for item, score in items.items())
    return {"queries.jsonl": queries, "qrels.tsv": _HEADER + "".join(rows)}


def packed(memory: Memory) -> IO[bytes]:
    """An archive of the judgements with all items, as a collection for `fourfold eval`."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  closed by the caller
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _beir(stored(memory)).items():
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


_evaluating: Final = threading.Lock()


def evaluation(memory: Memory, options: Mapping[str, Any]) -> dict[str, Json]:
    """How well searches with these options rank what was judged as relevant. One at a time: it is many searches."""
    if not _evaluating.acquire(blocking=False):
        raise StoreBusy("another evaluation is running", "Try again when it has ended")
    try:
        return _evaluation(memory, options)
    finally:
        _evaluating.release()


def _evaluation(memory: Memory, options: Mapping[str, Any]) -> dict[str, Json]:
    from fourfold.evaluation.bench import Answer, answered, percentile
    from fourfold.evaluation.collection import Question
    from fourfold.evaluation.metrics import means, measured

    judged = [(text, items) for text, items in stored(memory).items() if max(items.values()) > 0]
    if not judged:
        raise InvalidQuery("no query has a relevant item", "Judge some results first: POST .../judgements")
    answers: list[Answer] = []
    until = time.monotonic() + limits.READ_SECONDS
    for number, (text, _) in enumerate(judged, 1):
        if time.monotonic() > until:
            what = f"{number - 1} of {len(judged)} judged queries took {limits.READ_SECONDS:g} s"
            raise TimedOut(what, "Download them as a collection, and use `fourfold eval`")
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

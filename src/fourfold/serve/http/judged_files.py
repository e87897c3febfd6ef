"""Judgements of results in files of the server: for each namespace a folder in BEIR layout."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Final

from fourfold import addresses, owner_only
from fourfold.config import Settings, default_store
from fourfold.text.secrets import masked, masks_in
from fourfold.wire import dumps

_HEADER: Final = "query-id\tcorpus-id\tscore\n"
_QUERIES: Final = "queries.jsonl"

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

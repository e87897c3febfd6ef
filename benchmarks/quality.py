"""Ranking quality on test collections: keyword alone, semantic alone, RRF, and `auto`, as nDCG@10 side by side.

    python benchmarks/quality.py [--data FOLDER] [NAME ...]

FOLDER holds collections as NAME.tar.xz or NAME/ (corpus.jsonl, queries.jsonl, qrels.tsv). Vectors are cached by model
and text, so that a second run is quick.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ranx import Qrels, Run, evaluate

from fourfold import Filters, Memory, MetadataTest, NewItem, Settings
from fourfold.embed import OpenAISettings, create
from fourfold.embed.queue import embedded_text

NAMES = ("scifact-train", "xquad-mix-de-en")
WAYS: dict[str, dict[str, Any]] = {
    "keyword": {"only": ("keyword",)},
    "semantic": {"only": ("semantic",)},
    "rrf": {"fusion": "rrf", "weights": {"semantic": 0.5, "keyword": 0.5}},
    "auto, no graph": {"only": ("semantic", "keyword")},
    "auto": {},
}
CACHE = Path(tempfile.gettempdir()) / "fourfold-quality"


@dataclass(frozen=True)
class Collection:
    name: str
    documents: list[dict[str, Any]]
    queries: list[dict[str, Any]]
    qrels: dict[str, dict[str, int]]


@contextmanager
def unpacked(data: Path, name: str) -> Iterator[Path]:
    if (data / name).is_dir():
        yield data / name
        return
    with tempfile.TemporaryDirectory() as folder, tarfile.open(data / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
        yield Path(folder) / name


def read(data: Path, name: str) -> Collection:
    with unpacked(data, name) as folder:
        documents, queries = (
            [json.loads(line) for line in (folder / f"{kind}.jsonl").read_text("utf-8").splitlines()]
            for kind in ("corpus", "queries")
        )
        qrels: dict[str, dict[str, int]] = {}
        for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
            query, document, grade = line.split("\t")
            qrels.setdefault(query, {})[document] = int(grade)
    return Collection(name, documents, [query for query in queries if query["_id"] in qrels], qrels)


class CachedVectors:
    """Vectors of the built-in model, kept by the hash of the text."""

    def __init__(self) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        self._embedder = create("minilm", openai=OpenAISettings())
        self._db = sqlite3.connect(CACHE / "vectors.db")
        self._db.execute("CREATE TABLE IF NOT EXISTS vectors (hash BLOB PRIMARY KEY, vector BLOB)")

    def of(self, texts: Sequence[str]) -> np.ndarray:
        hashes = [hashlib.sha256(f"{self._embedder.fingerprint}\0{text}".encode()).digest() for text in texts]
        missing = {key: text for key, text in zip(hashes, texts, strict=True) if self._get(key) is None}
        for start in range(0, len(missing), 256):
            part = list(missing.items())[start : start + 256]
            vectors = self._embedder.embed([text for _, text in part])
            rows = ((key, vector.tobytes()) for (key, _), vector in zip(part, vectors, strict=True))
            with self._db:
                self._db.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
            print(f"  embedded {start + len(part)} of {len(missing)}", end="\r", flush=True)
        return np.stack([np.frombuffer(self._get(key), np.float32) for key in hashes])

    def _get(self, key: bytes) -> bytes | None:
        found = self._db.execute("SELECT vector FROM vectors WHERE hash = ?", (key,)).fetchone()
        return found[0] if found else None


async def fill(memory: Memory, collection: Collection, vectors: CachedVectors) -> None:
    texts = [embedded_text(document.get("title", ""), document["text"]) for document in collection.documents]
    items = [
        NewItem(
            text=document["text"],
            title=document.get("title", ""),
            key=document["_id"],
            vector=vector,
            metadata={name: value for name, value in document.get("metadata", {}).items() if name in _SCOPE},
        )
        for document, vector in zip(collection.documents, vectors.of(texts), strict=True)
        if document["text"].strip() or document.get("title", "").strip()
    ]
    for start in range(0, len(items), 1000):
        await memory.add_many(items[start : start + 1000])
    await memory.index()


_SCOPE = ("scope", "session_no")


def scope(query: dict[str, Any]) -> Filters:
    """Chat memories: one user's notes of earlier sessions."""
    metadata = query.get("metadata", {})
    tests = [MetadataTest("scope", "eq", metadata["scope"])] if "scope" in metadata else []
    tests += [MetadataTest("session_no", "lt", metadata["session_no"])] if "session_no" in metadata else []
    return Filters(metadata=tuple(tests))


async def score(memory: Memory, collection: Collection, vectors: np.ndarray, way: dict[str, Any]) -> float:
    run: dict[str, dict[str, float]] = {}
    for query, vector in zip(collection.queries, vectors, strict=True):
        response = await memory.search(query["text"], vector=vector, top_k=100, filters=scope(query), **way)
        ranked = {str(found.key): 1.0 - place / 1000 for place, found in enumerate(response.results)}
        run[query["_id"]] = ranked or {"": 0.0}
    return float(evaluate(Qrels(collection.qrels), Run(run), "ndcg@10", make_comparable=True))


async def measure(collection: Collection, vectors: CachedVectors) -> dict[str, float]:
    queries = vectors.of([query["text"] for query in collection.queries])
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(retriever_seconds=60.0)  # quality, not speed: a busy machine loses no list
        async with await Memory.open(folder, embedder="none", settings=settings) as memory:
            await fill(memory, collection, vectors)
            return {name: await score(memory, collection, queries, way) for name, way in WAYS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("names", nargs="*", default=NAMES)
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        raise SystemExit(f"no collections in {arguments.data}: name their folder with --data")
    vectors = CachedVectors()
    print(f"| collection | {' | '.join(WAYS)} |\n|---|{'--:|' * len(WAYS)}")
    for name in arguments.names:
        found = asyncio.run(measure(read(arguments.data, name), vectors))
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in found.values())} |", flush=True)


if __name__ == "__main__":
    main()

"""Ranking quality on test collections: each retriever alone, RRF, and `auto`, as nDCG@10 side by side.

    python benchmarks/quality.py [--data FOLDER] [--fixed] [NAME ...]

The gain is that of `auto` over the best single retriever, with its 95 % interval (paired bootstrap over queries).
--fixed also tries every fixed pair of weights for vectors and words in steps of 0.1, over the same true scores as
`auto`, and shows the best, chosen with the labels, and what `auto` without the graph is above it.

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
PER_QUERY = dict[str, np.ndarray]
"""By way, the nDCG@10 of every query."""
WAYS: dict[str, dict[str, Any]] = {
    "keyword": {"only": ("keyword",)},
    "semantic": {"only": ("semantic",)},
    "graph": {"only": ("graph",)},
    "tags": {"only": ("tags",)},
    "rrf": {"fusion": "rrf", "weights": {"semantic": 0.5, "keyword": 0.5}},
    "auto, no graph": {"only": ("semantic", "keyword")},
    "auto": {},
}
SINGLE = ("keyword", "semantic", "graph", "tags")
STEPS = 10
FIXED: dict[str, dict[str, Any]] = {
    f"{step / STEPS:.1f}": {"fusion": "auto", "weights": {"semantic": step / STEPS, "keyword": 1 - step / STEPS}}
    for step in range(STEPS + 1)
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


async def fill(memory: Memory, documents: list[dict[str, Any]], vectors: CachedVectors) -> None:
    texts = [embedded_text(document.get("title", ""), document["text"]) for document in documents]
    items = [
        NewItem(
            text=document["text"],
            title=document.get("title", ""),
            key=document["_id"],
            vector=vector,
            metadata={name: value for name, value in document.get("metadata", {}).items() if name == "session_no"},
        )
        for document, vector in zip(documents, vectors.of(texts), strict=True)
        if document["text"].strip() or document.get("title", "").strip()
    ]
    for start in range(0, len(items), 1000):
        await memory.add_many(items[start : start + 1000])
    await memory.index()


def scopes(collection: Collection) -> Iterator[Collection]:
    """Chat memories: a store for each user; other collections are one."""
    for name in sorted({_scope(query) for query in collection.queries}):
        documents = [document for document in collection.documents if _scope(document) == name]
        queries = [query for query in collection.queries if _scope(query) == name]
        yield Collection(collection.name, documents, queries, collection.qrels)


def _scope(row: dict[str, Any]) -> str:
    return str(row.get("metadata", {}).get("scope", ""))


def earlier(query: dict[str, Any]) -> Filters:
    """Only notes of earlier sessions may be seen."""
    metadata = query.get("metadata", {})
    tests = [MetadataTest("session_no", "lt", metadata["session_no"])] if "session_no" in metadata else []
    return Filters(metadata=tuple(tests))


async def scores(memory: Memory, collection: Collection, vectors: np.ndarray, way: dict[str, Any]) -> np.ndarray:
    """nDCG@10 of every query, in their order."""
    run: dict[str, dict[str, float]] = {}
    for query, vector in zip(collection.queries, vectors, strict=True):
        response = await memory.search(query["text"], vector=vector, top_k=10, filters=earlier(query), **way)
        ranked = {str(found.key): 1.0 - place / 1000 for place, found in enumerate(response.results)}
        run[query["_id"]] = ranked or {"": 0.0}
    qrels = Qrels({name: collection.qrels[name] for name in run})
    evaluate(qrels, made := Run(run), "ndcg@10", return_mean=False, make_comparable=True)
    return np.array([made.scores["ndcg@10"][name] for name in run])


async def measure(collection: Collection, vectors: CachedVectors, ways: dict[str, dict[str, Any]]) -> PER_QUERY:
    queries = vectors.of([query["text"] for query in collection.queries])
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(retriever_seconds=60.0)  # quality, not speed: a busy machine loses no list
        async with await Memory.open(folder, embedder="none", settings=settings) as memory:
            await fill(memory, collection.documents, vectors)
            return {name: await scores(memory, collection, queries, way) for name, way in ways.items()}


def measured(collection: Collection, vectors: CachedVectors, ways: dict[str, dict[str, Any]]) -> PER_QUERY:
    parts = [asyncio.run(measure(part, vectors, ways)) for part in scopes(collection)]
    return {way: np.concatenate([part[way] for part in parts]) for way in ways}


def interval(differences: np.ndarray, rounds: int = 2000) -> tuple[float, float]:
    """The 95 % interval of the mean, by bootstrap."""
    picks = np.random.default_rng(0).integers(0, len(differences), (rounds, len(differences)))
    low, high = np.quantile(differences[picks].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def line(name: str, found: PER_QUERY, fixed: bool) -> str:
    cells = [f"{found[way].mean():.3f}" for way in WAYS]
    best = max((found[way] for way in SINGLE), key=np.mean)
    low, high = interval(found["auto"] - best)
    cells.append(f"{(found['auto'] - best).mean():+.3f} [{low:+.3f}, {high:+.3f}]")
    if fixed:
        way = max(FIXED, key=lambda way: found[way].mean())
        cells.append(f"{found[way].mean():.3f} ({way})")
        cells.append(f"{(found['auto, no graph'] - found[way]).mean():+.3f}")
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("names", nargs="*", default=NAMES)
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        raise SystemExit(f"no collections in {arguments.data}: name their folder with --data")
    vectors = CachedVectors()
    columns = [*WAYS, "gain of auto", *(["best fixed", "auto, no graph, above it"] if arguments.fixed else [])]
    print(f"| collection | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}")
    gains: list[float] = []
    for name in arguments.names:
        found = measured(read(arguments.data, name), vectors, WAYS | FIXED if arguments.fixed else WAYS)
        gains.append(found["auto"].mean() - max(found[way].mean() for way in SINGLE))
        print(line(name, found, arguments.fixed), flush=True)
    print(f"\ngain of auto over the best single retriever: mean {np.mean(gains):+.3f}, median {np.median(gains):+.3f}")


if __name__ == "__main__":
    main()

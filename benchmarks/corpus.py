"""The data of the comparison: items, vectors, graph edges and queries, all made from one fixed seed.

Everything is cached in a folder outside the repository, so that every engine process reads the same files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from passages import collect_passages
from questions import Query, make_queries
from vectors import DIMENSIONS, VectorModel

Floats: TypeAlias = npt.NDArray[np.float32]

SEED = 20240607
FORMAT = 4
WARM_UP = 50
TAG_COUNT = 200
TAGS_PER_ITEM = (2, 4)
EDGES_PER_ITEM = 2
ROWS_AT_ONCE = 20_000
"""Rows of a matrix worked on together, so that a million items need no more memory than some."""
RELATIONS = ("mentions", "extends", "depends on", "see also", "part of")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to store: a passage with its title, key and tags."""

    key: str
    title: str
    text: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """One weighted graph edge between two items, which are named by their titles."""

    source: str
    relation: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True)
class Corpus:
    """Where the generated files are, and what is in them."""

    folder: Path
    item_count: int
    query_count: int
    recombined: int
    fingerprint: str

    def items(self) -> Iterator[Item]:
        """Read the items one by one."""
        with (self.folder / "items.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                key, title, text, tags = json.loads(line)
                yield Item(key, title, text, tuple(tags))

    def edges(self) -> Iterator[Edge]:
        """Read the graph edges one by one."""
        with (self.folder / "edges.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                yield Edge(*json.loads(line))

    def queries(self) -> list[Query]:
        """Read the queries, without their vectors; the warm-up queries come last."""
        return [Query(*row) for row in json.loads((self.folder / "queries.json").read_text(encoding="utf-8"))]

    def vectors(self) -> Floats:
        """Map the item vectors, one unit vector a row."""
        mapped: Floats = np.load(self.folder / "vectors.npy", mmap_mode="r")
        return mapped

    def query_vectors(self) -> Floats:
        """Read the query vectors, one unit vector a row; those of the warm-up queries come last."""
        loaded: Floats = np.load(self.folder / "query_vectors.npy")
        return loaded

    def neighbours(self, count: int) -> npt.NDArray[np.int64]:
        """The row numbers of each query's true nearest vectors, the best first; found once, then kept in a file."""
        path = self.folder / f"neighbours-{count}.npy"
        if not path.exists():
            np.save(path, exact_neighbours(self.vectors(), self.query_vectors()[: self.query_count], count))
        kept: npt.NDArray[np.int64] = np.load(path)
        return kept


def prepare_corpus(cache: Path, item_count: int, query_count: int) -> Corpus:
    """Return the corpus of that size, making it first if it is not in the cache."""
    folder = cache / f"corpus-{FORMAT}-{item_count}-{query_count}"
    about = folder / "corpus.json"
    if not about.exists():
        folder.mkdir(parents=True, exist_ok=True)
        corpus = make_corpus(folder, item_count, query_count)
        about.write_text(json.dumps({**asdict(corpus), "folder": ""}), encoding="utf-8")
    return Corpus(**{**json.loads(about.read_text(encoding="utf-8")), "folder": folder})


def make_corpus(folder: Path, item_count: int, query_count: int) -> Corpus:
    """Generate all files of a corpus."""
    passages, recombined = collect_passages(item_count, SEED)
    tags = draw_tags(item_count)
    items = [Item(item_key(n), passage.title, passage.text, tags[n]) for n, passage in enumerate(passages)]
    fingerprint = write_lines(folder / "items.jsonl", [[item.key, item.title, item.text, item.tags] for item in items])
    write_lines(folder / "edges.jsonl", draw_edges([item.title for item in items]))
    queries = make_queries([(item.title, item.text) for item in items], query_count + WARM_UP, SEED)
    (folder / "queries.json").write_text(json.dumps([query.row() for query in queries]), encoding="utf-8")
    write_vectors(folder, item_count, query_count + WARM_UP)
    return Corpus(folder, item_count, query_count, recombined, fingerprint)


def write_vectors(folder: Path, item_count: int, query_count: int) -> None:
    """Write the item vectors and the query vectors near some of them."""
    model = VectorModel(SEED)
    path = folder / "vectors.npy"
    vectors: Floats = np.lib.format.open_memmap(path, "w+", np.float32, (item_count, DIMENSIONS))
    start = 0
    for part in model.items(item_count):
        vectors[start : start + len(part)] = part
        start += len(part)
    np.save(folder / "query_vectors.npy", model.near(vectors, query_count))


def write_lines(path: Path, rows: Sequence[Sequence[object]]) -> str:
    """Write one JSON value a line; return a fingerprint of all of them."""
    mark = hashlib.sha256()
    with path.open("w", encoding="utf-8") as lines:
        for row in rows:
            line = json.dumps(row, ensure_ascii=False) + "\n"
            mark.update(line.encode())
            lines.write(line)
    return mark.hexdigest()[:16]


def draw_tags(item_count: int) -> list[tuple[str, ...]]:
    """Give every item two to four distinct tags; low tag numbers are far more common (Zipf)."""
    random = np.random.default_rng(SEED)
    names = [f"topic-{tag:03d}" for tag in range(TAG_COUNT)]
    popularity = -np.log(np.arange(1, TAG_COUNT + 1))
    counts = random.integers(TAGS_PER_ITEM[0], TAGS_PER_ITEM[1] + 1, item_count)
    drawn: list[tuple[str, ...]] = []
    for start in range(0, item_count, ROWS_AT_ONCE):
        part = counts[start : start + ROWS_AT_ONCE]
        order = np.argsort(-(popularity + random.gumbel(size=(len(part), TAG_COUNT))), axis=1)[:, : TAGS_PER_ITEM[1]]
        drawn += [tuple(names[tag] for tag in row[:count]) for row, count in zip(order.tolist(), part, strict=True)]
    return drawn


def draw_edges(titles: list[str]) -> list[list[object]]:
    """Draw distinct edges with a relation and a weight."""
    random = np.random.default_rng(SEED + 1)
    pairs = draw_pairs(len(titles), random)
    weights = random.uniform(0.1, 1.0, len(pairs)).round(3)
    relations = random.choice(RELATIONS, len(pairs))
    return [
        [titles[source], str(relation), titles[target], float(weight)]
        for (source, target), relation, weight in zip(pairs, relations, weights, strict=True)
    ]


def draw_pairs(count: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Draw distinct pairs of items: sources evenly, targets unevenly, so that some items are hubs."""
    popular = random.permutation(count)
    pairs: dict[tuple[int, int], None] = {}
    while len(pairs) < EDGES_PER_ITEM * count:
        source = int(random.integers(count))
        target = int(popular[int(count * random.random() ** 2)])
        if source != target:
            pairs[source, target] = None
    return list(pairs)


def exact_neighbours(vectors: Floats, queries: Floats, count: int) -> npt.NDArray[np.int64]:
    """Return the row numbers of each query's true nearest vectors (cosine), the best first."""
    rows = np.empty((len(queries), 0), np.int64)
    scores = np.empty((len(queries), 0), np.float32)
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        block = np.asarray(vectors[start : start + ROWS_AT_ONCE])
        numbers = np.broadcast_to(np.arange(start, start + len(block)), (len(queries), len(block)))
        rows, scores = np.hstack([rows, numbers]), np.hstack([scores, queries @ block.T])
        best = np.argpartition(-scores, min(count, scores.shape[1] - 1), axis=1)[:, :count]
        rows, scores = np.take_along_axis(rows, best, axis=1), np.take_along_axis(scores, best, axis=1)
    return np.take_along_axis(rows, np.argsort(-scores, axis=1, kind="stable"), axis=1)


def recall_of(found: list[list[str]], truth: npt.NDArray[np.int64]) -> float:
    """Return the mean share of the true neighbours among the found keys."""
    wanted = [{item_key(number) for number in row} for row in truth.tolist()]
    return sum(len(row.intersection(keys)) / len(row) for keys, row in zip(found, wanted, strict=True)) / len(wanted)


def item_key(number: int) -> str:
    """Return the key of the item in that row."""
    return f"item-{number}"

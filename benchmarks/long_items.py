"""Measure what several vectors per item gain on long texts, and what they cost.

    python benchmarks/long_items.py quality [--data FOLDER] [--questions N] [--cache FOLDER] [NAME ...]
    python benchmarks/long_items.py cost [--items N]

`quality`: collections as for quality.py; NAME+articles joins the paragraphs of one article (xquad) into one long item.
Every question is asked twice: of a store whose vectors know the beginning of each item, as before windows, and of one
with windows. `cost`: items with 1, 4 and 16 vectors each; times are CPU times of this process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
from quality import ROOT, collection, cut
from vectors import DIMENSIONS, VectorModel

from fourfold import Memory, NewItem, Settings
from fourfold.embed.builtin import built_in_model
from fourfold.embed.windows import Windows, read_as
from fourfold.engine.retrievers import SemanticRetriever
from fourfold.evaluation.bench import Bench, CachedEmbedder, Variant, cache_folder
from fourfold.evaluation.collection import Collection
from fourfold.evaluation.metrics import Run, compared, measure
from fourfold.model import Space
from fourfold.retrieval import Query

NAMES = ("lihua-world", "scifact-train", "xquad-en+articles", "xquad-de+articles", "covid-faq-de")
ARTICLES = "+articles"
VARIANTS = (Variant("vectors", {"only": ["semantic"]}), Variant("auto"))
PATIENT = Settings(retriever_seconds=120.0)
COUNTS = (1, 4, 16)
SENTENCE = "On day {} the crew of the lighthouse noted wind, waves and the names of {} passing ships. "
QUERIES = 200
EMBEDDED = 12


class BeginningOnly(CachedEmbedder):
    """The model as it was used before windows."""

    def truncates(self, text: str) -> bool:
        """Say that every text is read whole, so that the model gets it and cuts it."""
        return False


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("quality", "cost"))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="where the collections are")
    parser.add_argument("--questions", type=int, help="the maximum number of questions per collection")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="where vectors are kept")
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_intermixed_args()
    if options.what == "cost":
        print_costs(options.items)
        return
    print("| collection | items | vectors per item | vectors alone | auto |\n|---|--:|--:|--:|--:|", flush=True)
    for name in options.names or NAMES:
        with collection(options.data, name.removesuffix(ARTICLES)) as found:
            asked = cut(found, options.questions)
        print(quality_row(name, by_article(asked) if name.endswith(ARTICLES) else asked, options.cache), flush=True)


# ---------------------------------------------------------------- quality


def by_article(found: Collection) -> Collection:
    """Join paragraphs p1-0, p1-1, ... into one item p1; their judgements become those of the item."""
    texts: dict[str, list[str]] = {}
    for item in found.items:
        texts.setdefault(article(item.key or ""), []).append(item.text)
    items = tuple(NewItem("\n\n".join(parts), key=key) for key, parts in texts.items())
    judged = {
        question: {article(key): grade for key, grade in grades.items()}
        for question, grades in found.judgements.items()
    }
    return replace(found, items=items, judgements=judged, links=(), edges=())


def article(key: str) -> str:
    """The article of a paragraph."""
    return key.rpartition("-")[0]


def quality_row(name: str, found: Collection, cache: Path) -> str:
    """Ask every question of both stores; a cell has nDCG@10 before and after, and the interval of the difference."""
    before, _ = measured(found, BeginningOnly(built_in_model(), cache))
    after, share = measured(found, CachedEmbedder(built_in_model(), cache))
    cells = [gain(old, new) for old, new in zip(before, after, strict=True)]
    return f"| {name} | {len(found.items):,} | {share:.2f} | {' | '.join(cells)} |"


def measured(found: Collection, embedder: CachedEmbedder) -> tuple[list[Run], float]:
    """Every variant, and the number of vectors per item."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(folder, embedder=embedder, settings=PATIENT, background=False) as memory,
    ):
        bench = Bench(memory, found, embedder)
        bench.fill()
        runs = [measure(bench, variant) for variant in VARIANTS]
        sizes = [snapshot_size(memory, namespace) for namespace, _ in memory.namespaces()]
    return runs, 1 + sum(windows for _, windows in sizes) / max(1, sum(items for items, _ in sizes))


def snapshot_size(memory: Memory, namespace: str) -> tuple[int, int]:
    """The number of items with a vector, and of vectors beyond the first of each."""
    with memory.store.snapshot(namespace) as snapshot:
        return snapshot.size.vectors, snapshot.size.windows


def gain(old: Run, new: Run) -> str:
    """Both means, and how sure the difference is."""
    change = compared(old.column(), new.column())
    sure = f"{change.difference:+.3f}, {change.low:+.3f} to {change.high:+.3f}"
    return f"{old.mean():.3f} -> {new.mean():.3f} ({sure})"


# ---------------------------------------------------------------- cost


def print_costs(items: int) -> None:
    """One row per number of vectors."""
    print(f"{items:,} items, {QUERIES} queries; CPU ms and bytes\n")
    print("| vectors per item | embedding an item | vector search, 200 hits | a whole search | database | index |")
    print("|--:|--:|--:|--:|--:|--:|", flush=True)
    for count in COUNTS:
        embedding = mean(embedding_costs(count))
        with filled(items, count) as memory:
            near, whole = search_costs(memory, count)
            facts = memory.status()
        sizes = (int(facts[name]) // items for name in ("database_bytes", "index_bytes"))  # type: ignore[call-overload]
        cells = (f"{count}", f"{embedding:.0f}", f"{near:.2f}", f"{whole:.2f}", *(f"{size:,}" for size in sizes))
        print(f"| {' | '.join(cells)} |", flush=True)


def text_of(windows: int, number: int) -> str:
    """A text that the built-in model reads in this many windows."""
    return "".join(SENTENCE.format(number * 1000 + day, day) for day in range(9 * windows))


def embedding_costs(windows: int) -> Iterator[float]:
    """CPU milliseconds for each of some items; the first one loads the model and is left out."""
    model = built_in_model()
    for number in range(max(2, EMBEDDED // windows) + 1):
        started = time.process_time()
        texts, _ = read_as("", text_of(windows, number), model.truncates)
        model.embed(texts)
        if abs(len(texts) - windows) > windows // 4:
            raise SystemExit(f"{len(texts)} windows instead of {windows}")
        if number:
            yield (time.process_time() - started) * 1000


@contextmanager
def filled(items: int, count: int) -> Iterator[Memory]:
    """A store of short texts whose vectors are drawn, `count` for each."""
    drawn = np.concatenate(list(VectorModel(1).items(items * count)))
    spans = (*((place, place + 1) for place in range(count - 1)), (count - 1, 40))
    space = Space("drawn", DIMENSIONS)
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(folder, embedder="none", settings=PATIENT, background=False) as memory,
    ):
        texts = [f"{number:05} lighthouse log, wind and waves today"[:40].ljust(40, ".") for number in range(items)]
        stored = memory.add_many([NewItem(text) for text in texts])
        for start in range(0, items, 500):
            made = [
                (item.id, item.title, item.text, part[0] if count == 1 else Windows(part, spans))
                for place, item in enumerate(stored[start : start + 500], start)
                for part in [drawn[place * count : (place + 1) * count]]
            ]
            with memory.store.transaction("default") as transaction:
                transaction.vectors.put(space, made)
        memory.index()
        yield memory


def search_costs(memory: Memory, count: int) -> tuple[float, float]:
    """Mean CPU milliseconds of a vector search and of a search by `auto`, after some that warm up."""
    queries = np.concatenate(list(VectorModel(2).items(QUERIES + 20)))
    near: list[float] = []
    whole: list[float] = []
    for query in queries:
        started = time.process_time()
        with memory.store.snapshot("default") as snapshot:
            SemanticRetriever(snapshot.vectors).search(Query("default", "", query), 200)
        between = time.process_time()
        memory.search("lighthouse wind", vector=query)
        near.append((between - started) * 1000)
        whole.append((time.process_time() - between) * 1000)
    return mean(near[20:]), mean(whole[20:])


if __name__ == "__main__":
    main()

"""Print what each stage of one warm hybrid search costs, and the floor below which no search can be.

    python benchmarks/budget.py --items 10000

Figures are processor time, not time by the clock. Every query is asked in several rounds; its cheapest round counts,
and the mean over all queries is printed, so other work on the machine changes the figures little. The time of a stage
excludes that of the stages inside it. The floor is what the same queries cost with the bare libraries: tantivy for
200 rows, FAISS (one exact matrix product up to 20,000 vectors) for 200 rows, SQLite for ten rows with their tags.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import apsw
import numpy as np
from corpus import WARM_UP, Corpus
from engine import TOP
from setting import Setting, options_parser, setting_of

import fourfold
from fourfold import Memory
from fourfold.engine import pipeline, present, retrievers, search
from fourfold.index import text_index, vector_index
from fourfold.storage.sql.reading import ItemReader
from fourfold.storage.sqlite import database
from fourfold.storage.sqlite.store import SqliteSnapshot

ROUNDS = 5
LISTED = 200
WHOLE = "arguments, plan, orchestration"
OTHERS = "other threads"


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a search: the functions that do it, as (where the name is looked up, the name)."""

    name: str
    functions: tuple[tuple[Any, str], ...]


STAGES = (
    Stage("open and close the snapshot", ((SqliteSnapshot, "__init__"), (database, "_roll_back"))),
    Stage("words: analyse the query", ((text_index.TextState, "query"),)),
    Stage("words: postings", ((text_index, "best_words"),)),
    Stage("words: the rest", ((retrievers.KeywordRetriever, "search"), (retrievers.KeywordRetriever, "score"))),
    Stage("vectors", ((retrievers.SemanticRetriever, "begin"), (retrievers.SemanticRetriever, "score"))),
    Stage("vectors: search", ((vector_index, "begin"), (vector_index, "_found"))),
    Stage("graph: what the query names", ((retrievers.GraphRetriever, "search"),)),
    Stage("tags: named", ((retrievers.TagRetriever, "search"),)),
    Stage("expansion: walk and shared tags", ((pipeline.Pipeline, "_expand"),)),
    Stage("fusion", ((pipeline, "fuse_auto"),)),
    Stage("scores of unlisted items", ((pipeline.Pipeline, "_true_scores"),)),
    Stage("files that the query names", ((search, "name_files"),)),
    Stage("read ten rows", ((ItemReader, "get"),)),
    Stage("results and confidence", ((present, "results"), (present, "response"))),
)


class Meter:
    """Adds up the processor time of the stages in the thread that searches."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._running: list[str] = []
        self._since = 0
        self.spent: dict[str, int] = {}

    def begin(self) -> None:
        self.spent = dict.fromkeys((WHOLE, *(stage.name for stage in STAGES)), 0)
        self._running, self._since = [WHOLE], time.thread_time_ns()

    def end(self) -> dict[str, int]:
        self._lap()
        return self.spent

    def _lap(self) -> None:
        now = time.thread_time_ns()
        self.spent[self._running[-1]] += now - self._since
        self._since = now

    def metered(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def calling(*args: Any, **kwargs: Any) -> Any:
            if not self._running or threading.get_ident() != self._thread:
                return function(*args, **kwargs)
            self._lap()
            self._running.append(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self._lap()
                self._running.pop()

        return calling

    def install(self) -> None:
        for stage in STAGES:
            for place, name in stage.functions:
                setattr(place, name, self.metered(stage.name, getattr(place, name)))
        search.STAGES[:] = [search.name_files]


@dataclass
class Counts:
    """SQL statements, and calls of Python functions of the package, during one search."""

    statements: int = 0
    calls: int = 0
    texts: list[str] = field(default_factory=list[str])

    def watch(self, db: apsw.Connection) -> None:
        db.trace_v2(apsw.SQLITE_TRACE_STMT, self._executed)

    def _executed(self, event: dict[str, Any]) -> None:
        if not event["trigger"]:
            self.statements += 1
            self.texts.append(event["sql"])

    def hook(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self.calls += 1


PACKAGE = str(Path(fourfold.__file__).parent)


class Queries:
    """An open store and the queries of the corpus."""

    def __init__(self, folder: Path, corpus: Corpus) -> None:
        self.texts = [query.text for query in corpus.queries()]
        self.vectors = corpus.query_vectors()
        self.count = corpus.query_count
        self._memory = Memory.open(folder, embedder="none")
        for number in range(self.count + WARM_UP):  # a whole round: columns are read into memory meanwhile
            self.ask(number)

    def ask(self, number: int) -> Any:
        return self._memory.search(self.texts[number], vector=self.vectors[number], top_k=TOP)

    def close(self) -> None:
        self._memory.close()


def stage_costs(queries: Queries) -> dict[str, float]:
    """Microseconds of each stage and of the other threads."""
    meter = Meter()
    meter.install()
    best: dict[int, dict[str, int]] = {}
    for _ in range(ROUNDS):
        for number in range(queries.count):
            whole = time.process_time_ns()
            meter.begin()
            queries.ask(number)
            spent = meter.end()
            whole = time.process_time_ns() - whole
            spent[OTHERS] = max(0, whole - sum(spent.values()))
            if number not in best or sum(spent.values()) < sum(best[number].values()):
                best[number] = spent
    return {name: sum(spent[name] for spent in best.values()) / len(best) / 1000 for name in best[0]}


def mean_of_cheapest(work: Callable[[int], object], count: int) -> float:
    """Microseconds of processor time for each number, in its cheapest round.

    A round asks all numbers, because asking the same one again at once would find everything in the caches.
    """
    best = [sys.maxsize] * count
    for _ in range(ROUNDS):
        for number in range(count):
            begin = time.process_time_ns()
            work(number)
            best[number] = min(best[number], time.process_time_ns() - begin)
    return sum(best) / count / 1000


def counted(queries: Queries, counts: Counts) -> tuple[float, float]:
    """SQL statements and Python calls of a warm search, on average."""
    counts.statements = counts.calls = 0
    for number in range(queries.count):
        queries.ask(number)
    statements = counts.statements / queries.count
    sys.setprofile(counts.hook)
    for number in range(queries.count):
        queries.ask(number)
    sys.setprofile(None)
    return statements, counts.calls / queries.count


# ---------------------------------------------------------------- the floor


def floor_costs(setting: Setting, folder: Path, queries: Queries) -> dict[str, float]:
    """Microseconds of the bare libraries for the same queries."""
    count = queries.count
    with TemporaryDirectory() as scratch:
        terms = bare_terms(setting.corpus, queries, Path(scratch))  # tantivy keeps its files mapped
    nearest = bare_vectors(setting.corpus)
    fetch = bare_rows(folder)
    found = np.random.default_rng(0).integers(0, setting.corpus.item_count, (count, TOP))
    kinds: dict[str, Callable[[int], object]] = {
        "bare tantivy": lambda number: terms(number),
        "bare vectors": lambda number: nearest(queries.vectors[number]),
        "bare rows": lambda number: fetch([f"item-{row}" for row in found[number].tolist()]),
    }
    return {name: mean_of_cheapest(work, count) for name, work in kinds.items()}


def bare_terms(corpus: Corpus, queries: Queries, folder: Path) -> Callable[[int], object]:
    """Tantivy over the terms of the items in one segment, asked for the terms that the analysis of each query gives."""
    import tantivy

    from fourfold.text.analysis import query_words
    from fourfold.text.batch import analyse_items

    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", fast=True, indexed=False)
    builder.add_text_field("body", tokenizer_name="whitespace", index_option="freq")
    schema = builder.build()
    index = tantivy.Index(schema, path=str(folder))
    writer = index.writer(1 << 30, 1)
    for row, terms in enumerate(analyse_items([(item.title, item.text) for item in corpus.items()], "en")):
        writer.add_document(tantivy.Document(row=row, body=terms.letters))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def asked(text: str) -> Any:
        found = dict.fromkeys(term for word in query_words(text, ("en",)) for term, _ in word.variants)
        either = [(tantivy.Occur.Should, tantivy.Query.term_query(schema, "body", term, "freq")) for term in found]
        return tantivy.Query.boolean_query(either)

    prepared = [asked(text) for text in queries.texts]

    def best(number: int) -> object:
        hits = searcher.search(prepared[number], limit=LISTED, count=False).hits
        return searcher.fast_field_values("row", [address for _, address in hits])

    return best


def bare_vectors(corpus: Corpus) -> Callable[[Any], object]:
    """One exact product, or FAISS with the lists and probes that the store uses."""
    matrix = np.array(corpus.vectors())
    if len(matrix) <= vector_index.DEFAULT.exact_rows:

        def product(query: Any) -> object:
            near = np.vecdot(matrix, query)
            return np.argpartition(-near, LISTED)[:LISTED]

        return product
    faiss = vector_index.import_faiss()
    lists = vector_index.lists(len(matrix))
    index = faiss.index_factory(matrix.shape[1], f"IVF{lists},RaBitQ2", faiss.METRIC_INNER_PRODUCT)
    index.train(matrix[: lists * 64])
    index.add(matrix)
    faiss.omp_set_num_threads(1)
    reach = faiss.IVFRaBitQSearchParameters(nprobe=vector_index.probes(lists), qb=4)
    return lambda query: index.search(query[None, :], LISTED, params=reach)


def bare_rows(folder: Path) -> Callable[[Sequence[str]], object]:
    """Ten whole rows and their tags, by id."""
    db = apsw.Connection(str(folder / "fourfold.db"), flags=apsw.SQLITE_OPEN_READONLY)
    marks = ", ".join("?" * TOP)
    ids = dict(db.execute("SELECT key, id FROM items"))
    items = f"SELECT id, key, title, text, metadata, created_at, updated_at FROM items WHERE id IN ({marks})"
    tags = f"SELECT item, name FROM item_tags WHERE item IN ({marks})"

    def fetch(keys: Sequence[str]) -> object:
        wanted = tuple(ids[key] for key in keys)
        return [list(db.execute(sql, wanted)) for sql in (items, tags)]

    return fetch


# ---------------------------------------------------------------- the table


def main() -> None:
    """Print the budget of one size."""
    parser = options_parser(__doc__)
    parser.add_argument("--sql", action="store_true", help="also print the SQL statements of the last query")
    options = parser.parse_args()
    setting = setting_of(options)
    folder = setting.store()
    counts = Counts()
    apsw.connection_hooks.append(counts.watch)
    queries = Queries(folder, setting.corpus)
    statements, calls = counted(queries, counts)
    apsw.connection_hooks.remove(counts.watch)
    floor = floor_costs(setting, folder, queries)
    whole = mean_of_cheapest(queries.ask, queries.count)
    costs = stage_costs(queries)
    counts.texts.clear()
    queries.ask(0)
    print("| stage | CPU, µs |\n|---|--:|")
    for name, spent in costs.items():
        print(f"| {name} | {spent:.0f} |")
    print(f"| **whole search, unmetered** | **{whole:.0f}** |")
    print("\n| floor | CPU, µs |\n|---|--:|")
    for name, spent in floor.items():
        print(f"| {name} | {spent:.0f} |")
    print(f"| **together** | **{sum(floor.values()):.0f}** |")
    times = whole / sum(floor.values())
    print(f"\n{statements:.1f} SQL statements, {calls:.0f} Python calls, {times:.1f} times the floor")
    if options.sql:
        print("\n".join(counts.texts))
    queries.close()


if __name__ == "__main__":
    main()

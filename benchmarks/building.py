"""What building costs beside the bare parts that it is made of: SQLite, tantivy and FAISS without any of our own.

python benchmarks/building.py --items 100000
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from corpus import Corpus
from engine import BATCH, batches
from report import Bar
from setting import Setting, in_process, run_alone

P = ParamSpec("P")
T = TypeVar("T")

ROWS_BAR = 2.0
FAISS_BAR = 1.3
POLL_SECONDS = 0.1
BARE_SCHEMA = """
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE items (id INTEGER PRIMARY KEY, key TEXT UNIQUE, title TEXT, text TEXT, tags TEXT);
    CREATE TABLE vectors (item INTEGER PRIMARY KEY, vector BLOB);
"""
SAMPLE_A_LIST = 64
"""Vectors for each list of the bare FAISS index to be trained on, as many as Fourfold takes."""


def building_bars(setting: Setting) -> list[Bar]:
    """Rows, keywords and exact vectors searchable, and the approximate index, each beside its bare parts."""
    corpus = setting.corpus
    with setting.scratch() as folder:
        tokens = in_process(write_tokens, corpus, folder)
        bare_rows, rows_processor = in_process(spent, bare_sqlite, corpus, folder)
        bare_words, words_processor = in_process(spent, bare_tantivy, tokens, folder)
        plain, processor = in_process(spent, until_searchable, corpus, folder / "plain", False)
        linked = in_process(until_searchable, corpus, folder / "linked", True)
        faiss = in_process(bare_faiss, corpus, folder, linked["lists"]) if linked["approximate"] else 0.0
    bare, bare_processor = bare_rows + bare_words, rows_processor + words_processor
    parts = f"SQLite {bare_rows:.1f} s + tantivy {bare_words:.1f} s"
    work = f"{processor:.1f} s until all is published; SQLite {rows_processor:.1f} s + tantivy {words_processor:.1f} s"
    found = [
        Bar("rows + keyword + exact vectors / bare", plain["searchable"] / bare, ROWS_BAR, note=said(plain, parts)),
        Bar("the same in seconds of the processor", processor / bare_processor, ROWS_BAR, note=work),
        Bar("the same with the graph of titles", linked["searchable"] / bare, ROWS_BAR, note=said(linked, parts)),
    ]
    if not faiss:
        print("the approximate index: so few items have none")
        return found
    note = f"{linked['approximate']:.1f} s; bare IVF{linked['lists']},RaBitQ2 {faiss:.1f} s"
    return [*found, Bar("approximate index / bare FAISS", linked["approximate"] / faiss, FAISS_BAR, note=note)]


def said(ours: dict[str, Any], parts: str) -> str:
    """The seconds behind a ratio."""
    steps = ", ".join(f"{name} {ours[name]:.1f} s" for name in ("stored", "searchable", "published"))
    return f"{steps}; {parts}"


def spent(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, float]:
    """What comes of it, and the processor seconds that it took, those of its own processes included."""
    before = processor_seconds()
    return work(*args, **kwargs), processor_seconds() - before


def processor_seconds() -> float:
    """Of this process, and of those that it has started and that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


# ---------------------------------------------------------------- Fourfold


def until_searchable(corpus: Corpus, folder: Path, links: bool) -> dict[str, Any]:
    """Seconds until all is stored, until a search of words and vectors sees it all, and until all is published.

    FAISS is made with links only, so that the work without them is that of rows, words and exact vectors.
    """
    if not links:
        leave_out_faiss()
    from fourfold import Memory, NewItem, Settings
    from fourfold.index.vector_index import lists

    seen = noted_publications()
    rows = zip(corpus.items(), corpus.vectors(), strict=True)
    begin = time.perf_counter()
    with Memory.open(folder, embedder="none", settings=Settings(links=links)) as memory:
        for batch in batches(rows, BATCH):
            new = [NewItem(item.text, title=item.title, key=item.key, tags=item.tags, vector=v) for item, v in batch]
            memory.add_many(new)
        stored = time.perf_counter() - begin
        whole_answer(lambda: memory.search("how to", vector=batch[-1][1], only=("keyword", "semantic")))
        searchable = time.perf_counter() - begin
        memory.index()
        published = time.perf_counter() - begin
    return {
        "stored": stored,
        "searchable": searchable,
        "published": published,
        "approximate": training_seconds(seen),
        "lists": lists(corpus.item_count),
    }


def whole_answer(search: Callable[[], Any]) -> None:
    """Ask until nothing is missing from the answer."""
    from fourfold.errors import SearchFailed

    while True:
        try:
            if not search().degraded:
                return
        except SearchFailed:
            pass
        time.sleep(POLL_SECONDS)


def noted_publications() -> list[tuple[str, float]]:
    """From now on, a list of the indexes that have become readable, and when.

    They are written by a process of their own, one after the other: the approximate index last, over vectors that are
    there already.
    """
    from fourfold.storage.sqlite.indexes import Indexes

    seen: list[tuple[str, float]] = []
    reopen = Indexes.reopen

    def noting(self: Indexes, ns: int, kind: str) -> None:
        seen.append((kind, time.perf_counter()))
        reopen(self, ns, kind)

    Indexes.reopen = noting
    return seen


def leave_out_faiss() -> None:
    """From now on, whatever is published in this process is so without an approximate index."""
    from fourfold.storage.sqlite.publishing import Publisher

    publish = Publisher.publish

    def publishing(self: Publisher, ns: int, **options: Any) -> bool:
        return publish(self, ns, **{**options, "faiss": False})

    Publisher.publish = publishing
    Publisher._lacks_faiss = lambda *_, **__: False


def training_seconds(seen: list[tuple[str, float]]) -> float:
    """What the last approximate index took: it follows the vectors that it is over; 0 if there was none."""
    (first, begin), (second, end) = ([("", 0.0), ("", 0.0), *seen])[-2:]
    return end - begin if first == second == "vectors" else 0.0


# ---------------------------------------------------------------- the bare parts


def write_tokens(corpus: Corpus, folder: Path) -> Path:
    """The terms of every item, made in advance: what tantivy is given costs nothing here."""
    from fourfold.text.analysis import analyse
    from fourfold.validation import language_of

    path = folder / "tokens.jsonl"
    with path.open("w", encoding="utf-8") as lines:
        for item in corpus.items():
            terms = analyse(f"{item.title}\n{item.text}", language_of(item.title, item.text))
            lines.write(json.dumps(" ".join(terms)) + "\n")
    return path


def bare_sqlite(corpus: Corpus, folder: Path) -> float:
    """Seconds for the rows and vectors, durably, as many in a transaction as Fourfold is given at once."""
    import apsw

    begin = time.perf_counter()
    db = apsw.Connection(str(folder / "bare.db"))
    db.execute(BARE_SCHEMA).fetchall()
    for batch in batches(zip(range(corpus.item_count), corpus.items(), corpus.vectors(), strict=True), BATCH):
        with db:
            items = [(number, item.key, item.title, item.text, json.dumps(item.tags)) for number, item, _ in batch]
            db.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?)", items)
            db.executemany("INSERT INTO vectors VALUES (?, ?)", [(number, v.tobytes()) for number, _, v in batch])
    db.close()
    return time.perf_counter() - begin


def bare_tantivy(tokens: Path, folder: Path) -> float:
    """Seconds for an index of the same terms with one thread and Fourfold's heap."""
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_integer_field("row", fast=True, indexed=False)
    schema.add_text_field("body", tokenizer_name="whitespace", index_option="freq")
    (folder / "tantivy").mkdir()
    begin = time.perf_counter()
    writer = tantivy.Index(schema.build(), path=str(folder / "tantivy")).writer(64 * 1024 * 1024, 1)
    with tokens.open(encoding="utf-8") as lines:
        for row, line in enumerate(lines):
            writer.add_document(tantivy.Document(row=row, body=json.loads(line)))
    writer.commit()
    writer.wait_merging_threads()
    return time.perf_counter() - begin


def bare_faiss(corpus: Corpus, folder: Path, lists: int) -> float:
    """Seconds for the same kind of index with all cores: a sample for training, all rows added, written to a file."""
    import faiss

    vectors = corpus.vectors()
    begin = time.perf_counter()
    index = faiss.index_factory(vectors.shape[1], f"IVF{lists},RaBitQ2", faiss.METRIC_INNER_PRODUCT)
    sample = np.sort(np.random.default_rng(1).permutation(len(vectors))[: lists * SAMPLE_A_LIST])
    index.train(np.asarray(vectors[sample]))
    index.add(np.asarray(vectors))
    faiss.write_index(index, str(folder / "bare.faiss"))
    return time.perf_counter() - begin


if __name__ == "__main__":
    run_alone(__doc__, building_bars)

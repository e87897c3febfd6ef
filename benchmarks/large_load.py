"""A load of very many items with edges and links of titles: time, length of the write-ahead log, memory, files.

python benchmarks/large_load.py --items 1000000 --store FOLDER

A thread looks at the log and at the memory of this process twice a second. Processor time includes ended children.
The store stays in FOLDER, which must not exist; without --store it is made in the cache and removed.
"""

from __future__ import annotations

import os
import resource
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from building import processor_seconds
from corpus import Corpus
from engine import MEGABYTE, resident_memory
from fourfold_engine import FourfoldEngine
from setting import options_parser, setting_of

LOOK_EVERY_SECONDS = 0.5
QUERIES = 20


def main() -> None:
    parser = options_parser(__doc__)
    parser.set_defaults(items=1_000_000)
    parser.add_argument("--store", type=Path, help="where the store is made and stays")
    options = parser.parse_args()
    corpus = setting_of(options).corpus
    folder = options.store or options.cache / f"large-load-{os.getpid()}"
    if folder.exists():
        parser.error(f"{folder} exists")
    try:
        load(corpus, folder)
    finally:
        if options.store is None:
            shutil.rmtree(folder, ignore_errors=True)


def load(corpus: Corpus, folder: Path) -> None:
    engine = FourfoldEngine(folder)
    watch = Watch(folder / "fourfold.db-wal")
    with watch.watching():
        engine.open()
        with watch.phase("items stored"):
            engine.add_items(corpus)
        with watch.phase("edges stored"):
            engine.add_edges(corpus)
        with watch.phase(f"{QUERIES} answers at once"):
            vectors = corpus.query_vectors()
            for query, vector in zip(corpus.queries()[:QUERIES], vectors, strict=False):
                try:
                    engine.hybrid(query.text, vector)
                except RuntimeError as error:  # before FAISS is built, the first search may miss its deadline
                    print(error)
        with watch.phase("names linked, indexes and FAISS built"):
            engine.index()
        with watch.phase("closed"):
            engine.close()
    sizes = {path.name: path.stat().st_size / MEGABYTE for path in folder.iterdir() if path.is_file()}
    index = sum(path.stat().st_size for path in (folder / "index").rglob("*") if path.is_file()) / MEGABYTE
    files = ", ".join(f"{name} {size:.0f} MB" for name, size in sizes.items() if size >= 1)
    print(f"files: {files}, index {index:.0f} MB")


class Watch:
    """Notes the longest write-ahead log and the most memory of each phase."""

    def __init__(self, wal: Path) -> None:
        self._wal = wal
        self._ended = threading.Event()
        self._log_bytes = 0
        self._own_megabytes = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._look, daemon=True)
        thread.start()
        yield
        self._ended.set()
        thread.join()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._log_bytes, self._own_megabytes = 0, 0.0
        begin, worked = time.perf_counter(), processor_seconds()
        yield
        wall, worked = time.perf_counter() - begin, processor_seconds() - worked
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        log = f"log at most {self._log_bytes / MEGABYTE:.0f} MB"
        memory = f"memory of its own at most {self._own_megabytes:.0f} MB (resident until now {peak:.0f} MB)"
        print(f"{name:40s} {wall:8.1f} s, {worked:8.1f} s of the processor; {log}; {memory}", flush=True)

    def _look(self) -> None:
        while not self._ended.wait(LOOK_EVERY_SECONDS):
            with suppress(OSError):  # the log is not made yet, or was removed by the close
                self._log_bytes = max(self._log_bytes, self._wal.stat().st_size)
            self._own_megabytes = max(self._own_megabytes, resident_memory([os.getpid()]).anonymous)


if __name__ == "__main__":
    main()

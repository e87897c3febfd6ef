"""Compare hybrid search on PostgreSQL with the embedded store, on the same data in one run.

    python benchmarks/postgres.py --items 100000 --queries 200

The embedded store is filled once and moved to the server, so that both hold the same. Then they take turns in blocks
of queries, so that noise of the machine hits both alike. Ranking the whole OR set with ts_rank_cd takes turns with our
keyword and hybrid search. The server comes from a wheel.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psycopg
from corpus import Corpus, prepare_corpus
from fourfold_engine import FourfoldEngine, keys

from fourfold import Filters, Memory
from fourfold.model import NO_FILTERS
from fourfold.storage.postgres.database import parse_address
from fourfold.text.analysis import analyse

ROOT = Path(__file__).parent.parent
CACHE = Path(tempfile.gettempdir()) / "fourfold-bench"
BLOCK = 10
SETTINGS = {"shared_buffers": "'512MB'", "maintenance_work_mem": "'512MB'", "max_wal_size": "'4GB'"}


def main() -> None:
    """Fill what is not there yet, measure, and print one table."""
    options = read_options()
    corpus = prepare_corpus(options.cache, options.items, 500)
    folder = options.cache / f"embedded-{corpus.fingerprint}"
    measure(options, corpus, folder)


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--cache", type=Path, default=CACHE, help="data folder")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    return parser.parse_args()


def measure(options: argparse.Namespace, corpus: Corpus, folder: Path) -> None:
    """Open both and ask them the same."""
    if not (folder / "fourfold.db").exists():
        shutil.rmtree(folder, ignore_errors=True)
        FourfoldEngine(folder).build(corpus)
    embedded = Memory.open(folder, embedder="none", background=False)
    dsn = f"{start(options.cache / f'server-{corpus.fingerprint}')}&schema=bench"
    stores = {"embedded": embedded, "postgres": filled(embedded, dsn, corpus)}
    figures = ask(stores, corpus, options.queries)
    figures["ts_rank_cd"] = rank_the_or_set(stores["postgres"], dsn, corpus, options.queries)
    figures["filters"] = ask_filtered(stores, corpus, options.queries)
    report(figures, options)
    for memory in stores.values():
        memory.close()


def start(data: Path) -> str:
    """A server from its wheel."""
    command = [sys.executable, str(ROOT / "tests" / "support" / "postgres_start.py"), str(data)]
    configured = data / "configured"
    dsn = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()[-1]
    if not configured.exists():
        with psycopg.connect(dsn, autocommit=True) as db:
            for name, value in SETTINGS.items():
                db.execute(f"ALTER SYSTEM SET {name} = {value}")
        stop(data)
        subprocess.run(command, capture_output=True, check=True)
        configured.touch()
    return dsn


def stop(data: Path) -> None:
    """Ends the server of that folder and waits for it."""
    import os
    import signal

    pid = data / "postmaster.pid"
    os.kill(int(pid.read_text().splitlines()[0]), signal.SIGINT)
    while pid.exists():
        time.sleep(0.1)


def filled(source: Memory, dsn: str, corpus: Corpus) -> Memory:
    """The same store on a server, moved there if it is not there yet."""
    memory = Memory.open(dsn, embedder="none", background=False)
    if memory.count() < corpus.item_count or interrupted(dsn):
        started = time.perf_counter()
        source.move(memory.store)
        print(f"moved to {parse_address(dsn).shown} in {time.perf_counter() - started:.0f} s", flush=True)
    started = time.perf_counter()
    memory.index()
    print(f"indexed in {time.perf_counter() - started:.0f} s", flush=True)
    return memory


def connected(dsn: str) -> psycopg.Connection[Any]:
    """A connection of our own to the schema of a store."""
    address = parse_address(dsn)
    return psycopg.connect(address.dsn, autocommit=True, options=f"-c search_path={address.schema},public")


def interrupted(dsn: str) -> bool:
    """Whether a move was interrupted."""
    with connected(dsn) as db:
        return db.execute("SELECT 1 FROM settings WHERE name = 'loading'").fetchone() is not None


Ask = Callable[[Memory, str, Any], list[str]]


def hybrid(memory: Memory, text: str, vector: Any) -> list[str]:
    return keys(memory.search(text, vector=vector, top_k=10))


def keyword(memory: Memory, text: str, vector: Any) -> list[str]:
    with memory.store.snapshot("default") as snapshot:
        return [str(hit.id) for hit in snapshot.words.match(text, 200, NO_FILTERS).hits]


def semantic(memory: Memory, text: str, vector: Any) -> list[str]:
    with memory.store.snapshot("default") as snapshot:
        return [str(hit.id) for hit in snapshot.vectors.begin_nearest(vector, 200, NO_FILTERS)().hits]


MODES: dict[str, Ask] = {"hybrid": hybrid, "keyword": keyword, "semantic": semantic}


def ask(stores: dict[str, Memory], corpus: Corpus, count: int) -> dict[str, Any]:
    """Every store in turns; milliseconds, and how many of the ten best agree with the embedded store."""
    queries, vectors = corpus.queries(), corpus.query_vectors()
    for memory in stores.values():
        for number in range(1, 11):
            hybrid(memory, queries[-number].text, vectors[-number])
    figures: dict[str, Any] = {}
    for mode, asking in MODES.items():
        took: dict[str, list[float]] = {name: [] for name in stores}
        found: dict[str, list[list[str]]] = {name: [] for name in stores}
        for first in range(0, count, BLOCK):
            for name, memory in stores.items():
                for number in range(first, min(first + BLOCK, count)):
                    started = time.perf_counter()
                    answer = asking(memory, queries[number].text, vectors[number])
                    took[name].append((time.perf_counter() - started) * 1000)
                    found[name].append(answer[:10])
        for name in stores:
            figures[f"{mode} {name}"] = {**spread(took[name]), "overlap@10": overlap(found[name], found["embedded"])}
    return figures


def rank_the_or_set(memory: Memory, dsn: str, corpus: Corpus, count: int) -> dict[str, Any]:
    """What a tsvector with ts_rank_cd takes for the same queries (every row that has one of the words is ranked), in
    turns with ours."""
    server = connected(dsn)
    fill_tsvectors(server)
    queries, vectors = corpus.queries()[:count], corpus.query_vectors()
    asked: dict[str, Ask] = {"ts_rank_cd": ranked_by(server), "keyword": keyword, "hybrid": hybrid}
    took: dict[str, list[float]] = {name: [] for name in asked}
    for first in range(0, count, BLOCK):
        for name, asking in asked.items():
            for number, query in enumerate(queries[first : first + BLOCK], first):
                started = time.perf_counter()
                asking(memory, query.text, vectors[number])
                took[name].append((time.perf_counter() - started) * 1000)
    server.close()
    return {name: spread(times) for name, times in took.items()}


def fill_tsvectors(server: psycopg.Connection[Any]) -> None:
    server.execute("CREATE TABLE IF NOT EXISTS bench_ts (id bigint PRIMARY KEY, words tsvector)")
    if not server.execute("SELECT 1 FROM bench_ts LIMIT 1").fetchone():
        server.execute("INSERT INTO bench_ts SELECT id, to_tsvector('simple', title || ' ' || text) FROM items")
        server.execute("CREATE INDEX bench_ts_gin ON bench_ts USING gin (words)")
        server.execute("VACUUM ANALYZE bench_ts")


def ranked_by(server: psycopg.Connection[Any]) -> Ask:
    sql = (
        "SELECT id FROM bench_ts, to_tsquery('simple', %s) q WHERE words @@ q "
        "ORDER BY ts_rank_cd(words, q) DESC, id LIMIT 200"
    )

    def ranked(memory: Memory, text: str, vector: Any) -> list[str]:
        words = [word for word in dict.fromkeys(analyse(text, "")) if word.isalnum()]
        return [str(id) for (id,) in server.execute(sql, (" | ".join(words),)).fetchall()]

    return ranked


def ask_filtered(stores: dict[str, Memory], corpus: Corpus, count: int) -> dict[str, Any]:
    """A tag that one item in a hundred has: are there ten, also of a whole search, and are they the nearest ten?"""
    vectors, figures = corpus.query_vectors(), {}
    tag = next(
        tag for tag, _ in sorted(stores["embedded"].tags(), key=lambda tag: abs(tag[1] - corpus.item_count / 100))
    )
    for name, memory in stores.items():
        took, short, hits = [], 0, 0
        for number in range(min(count, 50)):
            started = time.perf_counter()
            with memory.store.snapshot("default") as snapshot:
                found = snapshot.vectors.begin_nearest(vectors[number], 10, Filters(tags=(tag,)))()
            took.append((time.perf_counter() - started) * 1000)
            with stores["embedded"].store.snapshot("default") as snapshot:
                exact = snapshot.vectors.cosines(vectors[number], snapshot.rows.ids(Filters(tags=(tag,))))
            best = {hit.id for hit in sorted(exact.hits, key=lambda hit: (-hit.score, hit.id))[:10]}
            answer = memory.search(
                corpus.queries()[number].text, vector=vectors[number], top_k=10, filters=Filters(tags=(tag,))
            )
            short += len(found.hits) < 10 or len(answer.results) < 10
            hits += len(best & {hit.id for hit in found.hits})
        figures[name] = {**spread(took), "short": short, "recall@10": round(hits / (10 * min(count, 50)), 3)}
    return figures


def spread(took: list[float]) -> dict[str, float]:
    return {"p50": round(median(took), 2), "p95": round(float(np.quantile(took, 0.95)), 2)}


def overlap(found: list[list[str]], wanted: list[list[str]]) -> float:
    shares = [len(set(a) & set(b)) / max(len(b), 1) for a, b in zip(found, wanted, strict=True) if b]
    return round(sum(shares) / max(len(shares), 1), 4)


def report(figures: dict[str, Any], options: argparse.Namespace) -> None:
    """Ratios of medians, then everything."""
    for mode in MODES:
        ratio = figures[f"{mode} postgres"]["p50"] / figures[f"{mode} embedded"]["p50"]
        print(f"{mode}: p50 {ratio:.1f} times the embedded store's")
    ranked = figures["ts_rank_cd"]
    for mode in ("keyword", "hybrid"):
        gain = ranked["ts_rank_cd"]["p50"] / ranked[mode]["p50"]
        print(f"{mode}: {gain:.0f} times as fast as ranking the OR set with ts_rank_cd")
    print(json.dumps(figures, indent=1))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

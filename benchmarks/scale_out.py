"""Compare PostgreSQL with a distributed index, PostgreSQL alone and the embedded store, on the same data in one run.

    python benchmarks/scale_out.py --items 200000 --queries 200

The embedded store is filled once and moved to the server. Then a cluster of three Weaviate nodes on this machine gets
an index with one shard, and after that one with three; each time all stores take turns in blocks of queries. All nodes
share the processors of one machine, so times show the cost of the method, not what three machines do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from corpus import Corpus, prepare_corpus
from fourfold_engine import FourfoldEngine
from postgres import ask, filled, start, stop

from fourfold import Memory
from fourfold.storage.engines import open_engine
from fourfold.storage.postgres.database import Tuning
from fourfold.storage.postgres.store import PostgresStore

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests" / "support"))

from weaviate_nodes import NODES, Cluster  # noqa: E402  (the path above makes this import possible)

CACHE = Path(tempfile.gettempdir()) / "fourfold-bench"
NS = "default"


def main() -> None:
    """Fill what is not there yet, measure, and print everything as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--cache", type=Path, default=CACHE, help="data folder")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    options = parser.parse_args()
    corpus = prepare_corpus(options.cache, options.items, 500)
    figures = measure(options, corpus)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


def measure(options: argparse.Namespace, corpus: Corpus) -> dict[str, Any]:
    """Open all of them and ask them the same, once for each number of shards."""
    folder = options.cache / f"embedded-{corpus.fingerprint}"
    if not (folder / "fourfold.db").exists():
        shutil.rmtree(folder, ignore_errors=True)
        FourfoldEngine(folder).build(corpus)
    data = options.cache / f"server-plain-{corpus.fingerprint}"
    dsn = f"{start(Path(sys.executable), data)}&schema=scale"
    stores = {"embedded": Memory.open(folder, embedder="none", background=False)}
    stores["postgresql"] = filled(stores["embedded"], dsn, corpus)
    figures: dict[str, Any] = {"items": corpus.item_count, "processors": os.cpu_count()}
    for shards in options.shards:
        figures[f"{shards} shards"] = with_cluster(options, corpus, dsn, stores, shards)
        print(json.dumps(figures[f"{shards} shards"], indent=1), flush=True)  # the next takes long
    for memory in stores.values():
        memory.close()
    stop(data)
    return figures


def with_cluster(
    options: argparse.Namespace, corpus: Corpus, dsn: str, stores: dict[str, Memory], shards: int
) -> dict[str, Any]:
    """Feed a new cluster, let all stores take turns, and weigh what the nodes hold."""
    with tempfile.TemporaryDirectory(dir=options.cache) as name:
        cluster = Cluster(Path(name) / "nodes", shards=shards)
        cluster.start()
        store = PostgresStore(dsn, Tuning(), open_engine(cluster.address))
        try:
            assert store.feeder is not None
            store.feeder.drop(NS)
            before = [weight(cluster, node) for node in range(NODES)]
            store.feeder.create(NS)
            started = time.perf_counter()
            store.maintenance.publish(NS, everything=True)
            spent = time.perf_counter() - started
            print(f"{shards} shards: {corpus.item_count / spent:.0f} items per second", flush=True)
            memory = Memory(store, None, NS, background=False)
            asked = ask({**stores, "weaviate": memory}, corpus, options.queries)
            after = [weight(cluster, node) for node in range(NODES)]
            held = [
                {kind: round((there[kind] - here[kind]) / corpus.item_count) for kind in there}
                for here, there in zip(before, after, strict=True)
            ]
            database = {"postgresql_bytes_per_item": round(store.status()["database_bytes"] / corpus.item_count)}
            store.feeder.drop(NS)
            held_by = {"bytes_per_item": held, **database}
            return {"items_per_second": round(corpus.item_count / spent), **held_by, **asked}
        finally:
            store.close()
            cluster.stop()


def weight(cluster: Cluster, node: int) -> dict[str, int]:
    """Bytes of memory and of disk of a node."""
    status = Path(f"/proc/{cluster.pid(node)}/status").read_text(encoding="utf-8")
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    disk = sum(file.stat().st_blocks * 512 for file in cluster.data(node).rglob("*") if file.is_file())
    return {"memory": int(resident.split()[1]) * 1024, "disk": disk}


if __name__ == "__main__":
    main()

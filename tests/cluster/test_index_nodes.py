"""Three Weaviate nodes of which one at a time is killed, hangs or is cut off, while clients read and write."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import index_processes
import index_servers
import numpy as np
import partitions
import postgres_servers
import pytest
from cluster_support import entries, generations
from conformance_subjects import NOW, item
from index_processes import NS, opened, processes
from partitions import Network
from store_calls import StoreCalls
from test_index_upkeep import collection, feed
from weaviate_nodes import NODES, Cluster

from fourfold.index.rows import term_hash
from fourfold.limits import RETRIEVER_SECONDS
from fourfold.model import NO_FILTERS
from fourfold.storage.postgres.sql import rows

pytestmark = pytest.mark.spec("C11")

_SECONDS = float(os.environ.get("FOURFOLD_SOAK_SECONDS", "600"))
_CLIENTS = 8


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    if not index_servers.has("weaviate"):
        pytest.skip("no Weaviate here: `make cluster-test` builds it")
    if not partitions.is_possible():
        pytest.skip("a partition needs network namespaces: run as root")
    with tempfile.TemporaryDirectory(prefix="fourfold-cluster-") as folder, Network(NODES) as network:
        nodes = Cluster(Path(folder) / "nodes", network=network)
        try:
            nodes.start()
            yield nodes
        finally:
            nodes.stop()


@pytest.mark.soak
def test_searches_answer_and_nothing_is_lost_while_one_node_is_down(cluster: Cluster):
    dsn = postgres_servers.fresh("postgres")
    store = opened(dsn, cluster.address)
    StoreCalls(store).put(NS, [item(f"heron {n}", key=f"old{n}") for n in range(500)], NOW, links=False)
    feed(store)
    pipes = [processes.Pipe() for _ in range(_CLIENTS)]
    clients = [
        processes.Process(target=index_processes.client, args=(number, dsn, cluster.address, _SECONDS, theirs))
        for number, (_, theirs) in enumerate(pipes)
    ]
    for each, (_, theirs) in zip(clients, pipes, strict=True):
        each.start()
        theirs.close()
    phases = _disturb(cluster, time.monotonic())
    reports: list[dict[str, Any]] = [ours.recv() for ours, _ in pipes]
    for each in clients:
        each.join()
    _tell(reports, phases)
    assert [wrong for report in reports for wrong in report["wrong"]] == []
    _until_fed(store)
    calls = StoreCalls(store)
    stored = {each.key: each.text for each in calls.get(NS, calls.ids(NS, NO_FILTERS)).values()}
    for report in reports:
        for key, word in report["mine"].items():
            assert stored[key] == f"heron {word}"
    kept = {key for report in reports for key in (*report["mine"], *report["doubtful"])}
    assert {key for key in stored if key.startswith("c")} <= kept
    assert store.maintenance.check() == []
    held = entries(store.feeder.engine, collection(store))
    assert [sorted(entry.item for entry in each) for each in held] == [calls.ids(NS, NO_FILTERS)] * 3
    assert [each.state for each in generations(store, NS)] == ["active"]
    _every_node_finds(store, calls)
    store.close()


def _every_node_finds(store: Any, calls: StoreCalls) -> None:
    """What a node holds is searchable there, by words and by vectors, also after it was killed."""
    name, random = collection(store), Random(5)
    with store.snapshot(NS) as at:
        known = rows(at.db, "SELECT item, v::text FROM vectors WHERE ns = %s", at.ns.id)
    asked = random.sample(known, min(200, len(known)))
    for node in store.feeder.engine.nodes:
        lacking = [
            one
            for one, spelled in asked
            if one not in node.nearest(name, np.array(json.loads(spelled), np.float32), 10, [], 5.0)
        ]
        assert len(lacking) <= len(asked) // 50, f"{node.name} lacks {lacking}"  # the index is approximate
        texts = calls.get(NS, [one for one, _ in asked])
        for one, _ in asked:
            word = term_hash(texts[one].text.split()[-1])
            assert node.match(name, {word: 1.0}, 10, [], 5.0) == [one]


def _disturb(cluster: Cluster, began: float) -> list[tuple[str, float, float]]:
    """Kills one node and brings it back, then another one; then the third hangs, and then one is cut off."""
    phases: list[tuple[str, float, float]] = []

    def until(share: float) -> None:
        time.sleep(max(0.0, began + share * _SECONDS - time.monotonic()))

    def back(node: int) -> None:
        cluster.start_node(node)
        cluster.wait(node)

    for start, end, node, event, trouble, cure in (
        (0.08, 0.24, 1, "killed", cluster.kill, back),
        (0.32, 0.48, 2, "killed", cluster.kill, back),
        (0.56, 0.68, 0, "hangs", cluster.freeze, cluster.thaw),
        (0.74, 0.90, 1, "is cut off", cluster.cut, cluster.join),
    ):
        until(start)
        since = time.monotonic()
        trouble(node)
        until(end)
        phases.append((f"node {node} {event}", since, time.monotonic()))
        cure(node)
    return phases


def _until_fed(store: Any) -> None:
    """A node that has just come back may need a while before it accepts writes."""
    until = time.monotonic() + 120
    while True:
        try:
            store.maintenance.publish(NS, everything=True)
            if store.status()["namespaces"][NS]["index"]["lag_changes"] == 0:
                return
        except Exception:
            if time.monotonic() > until:
                raise
        time.sleep(1)


def _tell(reports: list[dict[str, Any]], phases: list[tuple[str, float, float]]) -> None:
    every = [pair for report in reports for pair in report["spent"]]
    print(f"{_SECONDS:g} s, {_CLIENTS} clients: {len(every)} searches")
    failures: dict[str, int] = {}
    for report in reports:
        for name, count in report["failures"].items():
            failures[name] = failures.get(name, 0) + count
    print("failures:", failures, "answered by PostgreSQL:", sum(report["noted"] for report in reports))
    for name, since, end in [("all nodes up", 0.0, phases[0][1]), *phases, ("whole", 0.0, 1e18)]:
        spent = sorted(seconds for at, seconds in every if since <= at < end)
        if spent:
            p50, p95 = (spent[int(len(spent) * share)] * 1000 for share in (0.5, 0.95))
            print(f"{name}: {len(spent)} searches, p50 {p50:.0f} ms, p95 {p95:.0f} ms, longest {spent[-1]:.2f} s")
    late = [seconds for _, seconds in every if seconds > 4 * RETRIEVER_SECONDS]  # two stages, on a busy machine
    assert late == []
    assert len(every) > _SECONDS

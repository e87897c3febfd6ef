"""Three Weaviate nodes of which one at a time is killed, hangs or is cut off, while clients read and write."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import index_processes
import index_servers
import numpy as np
import partitions
import postgres_servers
import pytest
from cluster_support import document, entries, generations
from conformance_subjects import LATER, NOW, item
from index_processes import NS, TUNING, opened, processes, unit, word_of
from partitions import Network
from store_calls import StoreCalls
from test_index_upkeep import collection, feed
from weaviate_nodes import NODES, Cluster

from fourfold.errors import IndexUnavailable
from fourfold.index.rows import term_hash
from fourfold.limits import RETRIEVER_SECONDS
from fourfold.model import NO_FILTERS, NewItem
from fourfold.storage.engines import open_engine

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
    dsn = postgres_servers.fresh()
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
    until_fed(store)
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


@pytest.mark.soak
@pytest.mark.parametrize("is_emptied", [False, True], ids=["late", "emptied"])
def test_a_majority_is_fed_and_a_restarted_node_catches_up(cluster: Cluster, is_emptied: bool):
    """Makes more changes than a search reads as a tail. The node may have lost its files while it was down."""
    store = opened(postgres_servers.fresh(), cluster.address, replace(TUNING, tail_items=20))
    calls, engine = StoreCalls(store), store.feeder.engine
    random = Random(7)

    def herons(turn: int, keys: list[str]) -> list[NewItem]:
        return [item(f"heron {word_of(turn, n)}", key=key, vector=unit(random)) for n, key in enumerate(keys)]

    old = calls.put(NS, herons(9, [f"old{n}" for n in range(60)]), NOW, links=False)
    feed(store)
    cluster.kill(2)
    for turn in range(3):
        calls.put(NS, herons(turn, [f"new{turn} {n % 25}" for n in range(40)] + ["old59"]), LATER, links=False)
        calls.forget(NS, [each.id for each in old[turn * 10 : turn * 10 + 10]])
        until_fed(store, behind=1)
        ranking = calls.match(NS, "heron", 500, NO_FILTERS)
        assert (ranking.notes, {hit.id for hit in ranking.hits}) == ((), set(calls.ids(NS, NO_FILTERS)))
    known = store.status()["namespaces"][NS]["index"]
    assert (known["lag_changes"], known["nodes_behind"]) == (0, [engine.nodes[2].name])
    if is_emptied:
        shutil.rmtree(cluster.data(2) / collection(store).lower())
    cluster.start_node(2)
    cluster.wait(2)
    until_fed(store)
    assert all(list(each) == entries(engine, collection(store))[0] for each in entries(engine, collection(store)))
    assert store.maintenance.check() == []
    _every_node_finds(store, calls)
    store.close()


@pytest.mark.soak
def test_large_texts_are_fed_in_messages_that_the_server_accepts(cluster: Cluster):
    """Together the texts exceed the maximum size of a message, 100 MB."""
    engine, name = open_engine(cluster.address), f"Fourfold_{secrets.token_hex(8)}"
    engine.create(name, None)
    engine.put(name, [document(number, 1, [number] * 400_000) for number in range(1, 41)])
    assert [len(each) for each in entries(engine, name)] == [40] * NODES
    engine.close()


def _every_node_finds(store: Any, calls: StoreCalls) -> None:
    """Asserts that every node finds its entries by words and by vectors, also after it was killed."""
    name, random = collection(store), Random(5)
    with store.snapshot(NS) as at:
        known = at.db.rows("SELECT item, v::text FROM vectors WHERE ns = ?", at.ns.id)
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
    """Kills and restarts two nodes in turn, lets the third hang, cuts one off, and isolates one from the others."""
    phases: list[tuple[str, float, float]] = []

    def until(share: float) -> None:
        time.sleep(max(0.0, began + share * _SECONDS - time.monotonic()))

    def back(node: int) -> None:
        cluster.start_node(node)
        cluster.wait(node)

    network = cluster.network
    for start, end, node, event, trouble, cure in (
        (0.06, 0.20, 1, "killed", cluster.kill, back),
        (0.26, 0.40, 2, "killed", cluster.kill, back),
        (0.46, 0.58, 0, "hangs", cluster.freeze, cluster.thaw),
        (0.64, 0.76, 1, "is cut off", network.cut, network.join),
        (0.80, 0.92, 2, "is cut off from the other nodes", network.isolate, network.reunite),
    ):
        until(start)
        since = time.monotonic()
        trouble(node)
        until(end)
        phases.append((f"node {node} {event}", since, time.monotonic()))
        cure(node)
    return phases


def until_fed(store: Any, behind: int = 0) -> None:
    """Feeds until everything is fed; a restarted node may need a while before it accepts writes."""
    until, known = time.monotonic() + 120, None
    while True:
        try:
            store.maintenance.publish(NS, everything=True)
            known = store.status()["namespaces"][NS]["index"]
            if known["lag_changes"] == 0 and len(known["nodes_behind"]) <= behind:
                return
        except IndexUnavailable:
            if time.monotonic() > until:
                raise
        assert time.monotonic() < until, known
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
    late = [seconds for _, seconds in every if seconds > 4 * RETRIEVER_SECONDS]  # two stages, on a machine under load
    assert late == []
    assert len(every) > _SECONDS

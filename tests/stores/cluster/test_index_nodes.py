"""Nodes that are killed, hang or are cut off, and what operators get wrong: typed errors, never a wrong answer."""

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
from cluster_support import QUICK, collection, document, entries, feed, found, generations
from conformance_subjects import LATER, NOW, NS, item
from index_processes import TUNING, opened, processes, unit, word_of
from partitions import Network
from store_calls import StoreCalls
from weaviate_nodes import NODES, Cluster

from fourfold import NewItem, Ranking
from fourfold.errors import IndexUnavailable, InvalidSetting
from fourfold.index.rows import term_hash
from fourfold.limits import RETRIEVER_SECONDS
from fourfold.model import NO_FILTERS
from fourfold.storage.engines import open_engine
from fourfold.storage.engines.protocol import names_same_nodes
from fourfold.storage.postgres.store import PostgresStore

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


# ---------------------------------------------------------------- operators


SECRET = "correct-horse"


@pytest.mark.parametrize(("address", "said"), [
    ("weaviate://one:8080,one", "names a node twice"), ("weaviate://one:8080?shard=3", "has no parameter shard"),
    ("weaviate://one:8080?shards=three", "`shards` of weaviate:// is not a number"),
    ("weaviate://one:8080?replicas=0", "`replicas` of weaviate:// is not a number"),
    ("weaviate://one:8080,two?grpc=1,2,3", "gRPC ports"), ("weaviate://one?grpc=70000", "gRPC ports"),
    ("weaviate://one?tls=yes", "neither true nor false"), ("weaviate://one:99999", "not between 1 and 65535"),
    ("milvus://one:0", "not between 1 and 65535"), ("milvus://one,two", "takes one address"),
    ("milvus://one?db=x", "has no parameter db"), ("opensearch://one", "is not an index engine"),
])  # fmt: skip
def test_an_address_that_cannot_be_meant_is_refused(address: str, said: str):
    with pytest.raises(InvalidSetting, match=said) as raised:
        open_engine(address)
    assert raised.value.remedy


def test_the_order_of_nodes_and_default_ports_do_not_matter():
    assert names_same_nodes("weaviate://one,two:8081", "weaviate://two:8081,one:8080")
    assert not names_same_nodes("weaviate://one,two", "weaviate://one")
    assert not names_same_nodes("weaviate://one:19530", "milvus://one:19530")


def words(store: PostgresStore) -> Ranking:
    return StoreCalls(store).match(NS, "heron", 50, NO_FILTERS)


def herons(store: PostgresStore, count: int = 5) -> list[int]:
    return [each.id for each in StoreCalls(store).put(NS, [item(f"heron {n}", key=f"k{n}") for n in range(count)], NOW)]


@pytest.mark.parametrize("wrong", ["weaviate://127.0.0.1:1", "weaviate://no-such-host.invalid", "milvus://127.0.0.1:1"])
def test_an_index_that_cannot_be_reached_is_a_typed_error_and_a_note(dsn: str, kind: str, wrong: str):
    """Creating, checking and feeding say so; searches are answered by PostgreSQL."""
    store = opened(dsn, wrong, QUICK)
    ids = herons(store)
    with pytest.raises(IndexUnavailable, match="does not answer") as raised:
        feed(store)
    assert raised.value.remedy
    assert sorted(hit.id for hit in words(store).hits) == ids
    store.close()
    store = opened(dsn, index_servers.address(kind), QUICK)
    with pytest.raises(IndexUnavailable, match="the index was made with") as raised:
        store.maintenance.publish(NS, everything=True)
    assert "fourfold db index rebuild" in raised.value.remedy
    store.feeder.rebuild(NS)
    feed(store)
    assert found(store, "heron") != []
    assert store.maintenance.check() == []
    store.close()


def test_processes_that_name_different_indexes_do_not_rebuild_in_turns(dsn: str, kind: str):
    address = index_servers.address(kind)
    others = {"weaviate": f"{address.partition(',')[0]}?grpc={address.partition('grpc=')[2].partition(',')[0]}"}
    store, other = opened(dsn, address, QUICK), opened(dsn, others.get(kind, "milvus://127.0.0.1:1"), QUICK)
    ids = herons(store)
    feed(store)
    before = collection(store)
    ids += [each.id for each in StoreCalls(other).put(NS, [item("heron there", key="there")], NOW)]
    assert sorted(hit.id for hit in words(other).hits) == ids
    assert "the index was made with" in words(other).notes[0]
    for _ in range(2):
        with pytest.raises(IndexUnavailable, match="the index was made with"):
            other.maintenance.publish(NS, everything=True)
        feed(store)
        assert sorted(found(store, "heron")) == ids
    assert collection(store) == before
    assert [each.state for each in generations(store, NS)] == ["active"]
    assert any("the index" in line for line in other.maintenance.check())
    assert store.maintenance.check() == []
    for each in (store, other):
        each.close()


@pytest.mark.parametrize("kind", ["weaviate"], indirect=True)
def test_nodes_that_changed_are_taken_over_by_a_repair(dsn: str, kind: str):
    """Another list of nodes of the same cluster. Milvus has one address."""
    address = index_servers.address(kind)
    store = opened(dsn, address, QUICK)
    ids = herons(store)
    feed(store)
    store.close()
    hosts, _, ports = address.removeprefix("weaviate://").partition("?grpc=")
    two = f"weaviate://{','.join(hosts.split(',')[:2])}?grpc={','.join(ports.partition('&')[0].split(',')[:2])}"
    store = opened(dsn, two, QUICK)
    assert any("check --repair" in line for line in store.maintenance.check())
    assert any("belongs to" in line for line in store.maintenance.mend_index(NS))
    assert store.maintenance.check() == []
    feed(store)
    assert sorted(found(store, "heron")) == ids
    store.close()


def test_a_part_of_a_collection_that_was_dropped_makes_a_new_generation(dsn: str, kind: str):
    """On Milvus, words and vectors are collections of their own."""
    store = opened(dsn, index_servers.address(kind), QUICK)
    new = [item(f"heron {n}", key=f"k{n}", vector=[1.0, float(n)]) for n in range(5)]
    ids = [each.id for each in StoreCalls(store).put(NS, new, NOW)]
    feed(store)
    before = collection(store)
    engine: Any = store.feeder.engine
    if kind == "milvus":
        engine._called(lambda client: client.drop_collection(f"{before}_vectors"), 5.0)
    else:
        engine.drop(before)
    feed(store)
    assert collection(store) != before
    assert sorted(found(store, "heron")) == ids
    assert store.maintenance.check() == []
    store.close()


# ---------------------------------------------------------------- clusters with settings of their own


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    if not index_servers.has("weaviate"):
        pytest.skip("no Weaviate here: `make cluster-test` builds it")
    with tempfile.TemporaryDirectory(prefix="fourfold-cluster-") as folder:
        cluster = Cluster(Path(folder) / "nodes")
        try:
            yield cluster
        finally:
            cluster.stop()


@pytest.mark.soak
def test_a_wrong_password_says_where_to_write_the_right_one(nodes: Cluster, dsn: str):
    for settings in nodes.settings.values():
        settings |= {
            "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "false",
            "AUTHENTICATION_APIKEY_ENABLED": "true",
            "AUTHENTICATION_APIKEY_ALLOWED_KEYS": SECRET,
            "AUTHENTICATION_APIKEY_USERS": "fourfold",
            "AUTHORIZATION_ADMINLIST_ENABLED": "true",
            "AUTHORIZATION_ADMINLIST_USERS": "fourfold",
        }
    nodes.start()
    for user in ("", "key:wrong@"):
        store = opened(dsn, nodes.address.replace("://", f"://{user}"), QUICK)
        ids = herons(store)
        with pytest.raises(IndexUnavailable) as raised:
            feed(store)
        assert "weaviate://key:SECRET@HOST" in raised.value.remedy
        assert "wrong" not in str(raised.value)
        assert sorted(hit.id for hit in words(store).hits) == ids
        store.close()
    store = opened(dsn, nodes.address.replace("://", f"://key:{SECRET}@"), QUICK)
    feed(store)
    assert sorted(found(store, "heron")) == ids
    store.close()
    store = opened(dsn, nodes.address.replace("://", "://key:wrong@"), QUICK)
    assert sorted(hit.id for hit in words(store).hits) == ids
    assert "the index did not answer" in words(store).notes[0]
    store.close()


@pytest.mark.soak
@pytest.mark.parametrize("full", [1, NODES], ids=["one node", "all nodes"])
def test_a_full_disk_is_named_and_nothing_is_lost(nodes: Cluster, dsn: str, full: int):
    """Weaviate makes the shards of a node read-only when its disk is nearly full."""
    nodes.start()
    store = opened(dsn, nodes.address, QUICK)
    ids = herons(store)
    feed(store)
    for node in range(full):
        _restart(nodes, node, {"DISK_USE_READONLY_PERCENTAGE": "1", "DISK_USE_WARNING_PERCENTAGE": "1"})
    ids += [each.id for each in StoreCalls(store).put(NS, [item("heron later", key="later")], NOW)]
    if full == NODES:
        with pytest.raises(IndexUnavailable) as raised:
            feed(store)
        assert "Free disk space" in raised.value.remedy
    else:
        feed(store)
        assert len(store.status()["namespaces"][NS]["index"]["nodes_behind"]) == 1
    assert sorted(found(store, "heron")) == ids, "the tail has what the nodes refuse"
    for node in range(full):
        _restart(nodes, node, {})
    _until_clean(store)
    assert sorted(found(store, "heron")) == ids
    assert all([entry.item for entry in each] == ids for each in entries(store.feeder.engine, collection(store)))
    store.close()


def _restart(nodes: Cluster, node: int, settings: dict[str, str]) -> None:
    nodes.kill(node)
    nodes.settings[node] = settings
    nodes.start_node(node)
    nodes.wait(node)


def _until_clean(store: Any) -> None:
    until_fed(store)
    assert store.maintenance.check() == []

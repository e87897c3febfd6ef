"""What operators get wrong: each gives a typed error or a note that says what to do, and never a wrong answer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import index_servers
import pytest
from cluster_support import entries, generations
from conformance_subjects import NOW, NS, item
from index_processes import opened
from store_calls import StoreCalls
from test_index_upkeep import QUICK, collection, feed, found
from weaviate_nodes import NODES, Cluster

from fourfold.errors import IndexUnavailable, InvalidSetting
from fourfold.model import NO_FILTERS
from fourfold.retrieval import Ranking
from fourfold.storage.engines import open_engine
from fourfold.storage.engines.protocol import names_same_nodes
from fourfold.storage.postgres.store import PostgresStore

pytestmark = pytest.mark.spec("C11")

SECRET = "correct-horse"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("weaviate://one:8080,one", "names a node twice"),
        ("weaviate://one:8080?shard=3", "has no parameter shard"),
        ("weaviate://one:8080?shards=three", "`shards` of weaviate:// is not a number"),
        ("weaviate://one:8080?replicas=0", "`replicas` of weaviate:// is not a number"),
        ("weaviate://one:8080,two?grpc=1,2,3", "gRPC ports"),
        ("weaviate://one?grpc=70000", "gRPC ports"),
        ("weaviate://one?tls=yes", "neither true nor false"),
        ("weaviate://one:99999", "not between 1 and 65535"),
        ("milvus://one:0", "not between 1 and 65535"),
        ("milvus://one,two", "takes one address"),
        ("milvus://one?db=x", "has no parameter db"),
        ("opensearch://one", "is not an index engine"),
    ],
)
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
    from test_index_nodes import until_fed

    until_fed(store)
    assert store.maintenance.check() == []

"""Every test of an index runs over each engine."""

from collections.abc import Iterator
from pathlib import Path

import index_servers
import postgres_servers
import pytest
from cluster_support import QUICK, opened
from store_calls import StoreCalls

from fourfold.storage.engines import open_engine
from fourfold.storage.engines.protocol import Engine
from fourfold.storage.postgres.store import PostgresStore


@pytest.fixture(params=index_servers.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    index_servers.address(request.param)
    return request.param


@pytest.fixture
def engine(kind: str) -> Iterator[Engine]:
    found = open_engine(index_servers.address(kind))
    yield found
    found.close()


@pytest.fixture
def dsn() -> str:
    return postgres_servers.fresh()


@pytest.fixture
def store(dsn: str, kind: str) -> Iterator[PostgresStore]:
    found = opened(dsn, kind)
    yield found
    found.close()


@pytest.fixture
def quick(dsn: str, kind: str) -> Iterator[PostgresStore]:
    store = opened(dsn, kind, QUICK)
    yield store
    store.close()


@pytest.fixture
def calls(store: PostgresStore) -> StoreCalls:
    return StoreCalls(store)


_SHORT = ("test_engine_contract", "gives_the_answers_of_the_oracle")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` runs the contract and the agreement over Weaviate, everything else over Milvus only."""
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        on_weaviate = item.path.parent == Path(__file__).parent and parameters.get("kind") == "weaviate"
        if on_weaviate and not any(part in item.nodeid for part in _SHORT):
            item.add_marker(pytest.mark.soak)

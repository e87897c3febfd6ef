"""Stores on real servers."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import postgres_servers
import pytest
from store_calls import StoreCalls

from fourfold.storage.postgres.store import PostgresStore


@pytest.fixture
def dsn() -> str:
    """The address of an empty store."""
    return postgres_servers.fresh()


@pytest.fixture
def store(dsn: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(dsn)
    yield opened
    opened.close()


@pytest.fixture
def other(dsn: str) -> Iterator[PostgresStore]:
    """Another client of the same store."""
    opened = PostgresStore(dsn)
    yield opened
    opened.close()


@pytest.fixture
def calls(store: PostgresStore) -> StoreCalls:
    return StoreCalls(store)


@pytest.fixture(scope="module")
def private_server() -> Iterator[postgres_servers.Own]:
    with tempfile.TemporaryDirectory(prefix="fourfold-server-") as name:
        Path(name).chmod(0o755)
        server = postgres_servers.Own(Path(name) / "data")
        yield server
        server.kill()


@pytest.fixture
def own_server(private_server: postgres_servers.Own) -> Iterator[postgres_servers.Own]:
    """A server that the test may stop, restart, or run out of connections."""
    private_server.revive()
    yield private_server
    private_server.revive()

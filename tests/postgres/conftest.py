"""Stores on real servers."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import postgres_servers
import pytest

from fourfold.stores.postgres.store import PostgresStore


@pytest.fixture(params=postgres_servers.KINDS)
def dsn(request: pytest.FixtureRequest) -> str:
    """An empty store on each kind of server."""
    return postgres_servers.fresh(request.param)


@pytest.fixture
def plain_dsn() -> str:
    return postgres_servers.fresh("postgres")


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[Any]:
    opened = PostgresStore(dsn)
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def private_server(request: pytest.FixtureRequest) -> Iterator[postgres_servers.Own]:
    with tempfile.TemporaryDirectory(prefix="fourfold-server-") as name:
        Path(name).chmod(0o755)
        server = postgres_servers.Own(Path(name) / "data", getattr(request, "param", "postgres"))
        yield server
        server.kill()


@pytest.fixture
def own_server(private_server: postgres_servers.Own) -> Iterator[postgres_servers.Own]:
    """A server to be stopped, starved and started again."""
    private_server.revive()
    yield private_server
    private_server.revive()

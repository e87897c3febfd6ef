"""A server that reranks."""

from collections.abc import Iterator

import pytest
from fault_server import Server


@pytest.fixture
def reranker() -> Iterator[Server]:
    with Server() as server:
        yield server

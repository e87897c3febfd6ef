"""A server that reranks."""

from collections.abc import Iterator

import pytest
from rerank_server import Server, reranking


@pytest.fixture
def reranker() -> Iterator[Server]:
    with reranking() as server:
        yield server

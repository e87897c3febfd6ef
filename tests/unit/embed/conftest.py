from collections.abc import Iterator

import pytest
from fault_server import Server

from fourfold.embed.base import EmbeddingModel
from fourfold.embed.builtin import built_in_model


@pytest.fixture(scope="session")
def built_in() -> EmbeddingModel:
    return built_in_model()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "*")
    with Server() as running:
        yield running

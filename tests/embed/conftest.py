from __future__ import annotations

from collections.abc import Iterator

import pytest
from embed_fault_server import FaultServer

from fourfold.embed.base import EmbeddingModel
from fourfold.embed.builtin import built_in_model


@pytest.fixture(scope="session")
def built_in() -> EmbeddingModel:
    return built_in_model()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    monkeypatch.setenv("NO_PROXY", "*")
    with FaultServer() as running:
        yield running

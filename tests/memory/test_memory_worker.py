"""The embedding worker: one per store, for every namespace of its vector space, until nothing is pending."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from engine_support import Opener, WordEmbedder, notes
from store_calls import StoreCalls

from fourfold.cli.embedding_worker import embed_all, work
from fourfold.errors import EmbedderUnavailable, StoreNotFound
from fourfold.memory import Memory
from fourfold.model import ItemPatch

pytestmark = pytest.mark.spec("C4")


def pending(memory: Memory) -> dict[str, int]:
    return {name: facts["pending_vectors"] for name, facts in memory.status()["namespaces"].items()}


def test_every_namespace_of_the_space_is_embedded_and_no_other(opened: Opener) -> None:
    foreign = opened(embedder=WordEmbedder("foreign"), namespace="foreign", background=False)
    foreign.add_many(notes(2), wait=True)
    foreign.add_many(notes(5))
    memory = opened(background=False)
    memory.within("mine").add_many(notes(2), wait=True)
    memory.within("mine").add_many(notes(40))
    memory.within("unclaimed").add_many(notes(3))
    memory.add_many(notes(70))
    embed_all(memory)
    assert pending(memory) == {"default": 0, "foreign": 3, "mine": 0, "unclaimed": 3}


def test_a_second_worker_leaves_the_work_to_the_first(opened: Opener) -> None:
    one, other = opened(background=False), opened(background=False)
    one.add_many(notes(5))
    with StoreCalls(one.store).lease(None) as mine:
        assert mine
        assert other.status()["embedding_worker"] is True
        embed_all(other)
        assert pending(other) == {"default": 5}
    assert other.status()["embedding_worker"] is False
    embed_all(other)
    assert pending(other) == {"default": 0}


class Flaky(WordEmbedder):
    """An embedder whose first calls fail."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def embed(self, texts: Sequence[str]) -> Any:
        if self.failures:
            self.failures -= 1
            raise EmbedderUnavailable("the endpoint is down", "Wait")
        return super().embed(texts)


def test_an_embedder_that_recovers_is_retried(opened: Opener) -> None:
    memory = opened(embedder=Flaky(4), background=False)
    memory.add_many(notes(5))
    embed_all(memory, pauses=(0, 0, 0, 0))
    assert pending(memory) == {"default": 0}


def test_the_first_batch_of_a_namespace_is_retried(opened: Opener) -> None:
    """A worker whose endpoint is down used to end at once if the namespace had no vector space yet."""
    memory = opened(embedder=Flaky(3), background=False)
    memory.add_many(notes(5))
    work(memory, pauses=(0, 0, 0))
    assert pending(memory) == {"default": 0}


def test_the_worker_ends_if_the_embedder_stays_unavailable(opened: Opener) -> None:
    memory = opened(embedder=Flaky(1000), background=False)
    memory.add_many(notes(5))
    embed_all(memory, pauses=(0, 0))
    assert pending(memory) == {"default": 5}
    assert memory.status()["embedding_worker"] is False


def test_a_deleted_store_is_not_created_again(tmp_path: Any) -> None:
    with pytest.raises(StoreNotFound, match="no store in"):
        Memory.open(tmp_path / "gone", embedder="none", create=False)
    assert not (tmp_path / "gone").exists()


def test_an_updated_item_has_its_vector_when_the_caller_waits(opened: Opener) -> None:
    memory = opened(background=False)
    item = memory.add("the heron stands in the reeds", wait=True)
    memory.update(item.id, ItemPatch(text="the badger digs at night"), wait=True)
    assert pending(memory) == {"default": 0}
    response = memory.search("the badger digs at night", only=["semantic"])
    assert response.results[0].contributions[0].raw == pytest.approx(1)

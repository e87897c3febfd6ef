"""The embedding worker: one per store, for every namespace of its vector space, until nothing is pending."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from engine_support import Opener, WordEmbedder, notes

from fourfold.engine.embedding_worker import embed_all, work
from fourfold.errors import EmbedderUnavailable, StoreNotFound
from fourfold.memory import Memory
from fourfold.model import ItemPatch

pytestmark = pytest.mark.spec("C4")


async def pending(memory: Memory) -> dict[str, int]:
    return {name: facts["pending_vectors"] for name, facts in (await memory.status())["namespaces"].items()}


async def test_every_namespace_of_the_space_is_embedded_and_no_other(opened: Opener) -> None:
    foreign = await opened(embedder=WordEmbedder("foreign"), namespace="foreign", background=False)
    await foreign.add_many(notes(2), wait=True)
    await foreign.add_many(notes(5))
    memory = await opened(background=False)
    await memory.within("mine").add_many(notes(2), wait=True)
    await memory.within("mine").add_many(notes(40))
    await memory.within("unclaimed").add_many(notes(3))
    await memory.add_many(notes(70))
    await embed_all(memory)
    assert await pending(memory) == {"default": 0, "foreign": 3, "mine": 0, "unclaimed": 3}


async def test_a_second_worker_leaves_the_work_to_the_first(opened: Opener) -> None:
    one, other = await opened(background=False), await opened(background=False)
    await one.add_many(notes(5))
    async with one.store.lease(None) as mine:
        assert mine
        assert (await other.status())["embedding_worker"] is True
        await embed_all(other)
        assert await pending(other) == {"default": 5}
    assert (await other.status())["embedding_worker"] is False
    await embed_all(other)
    assert await pending(other) == {"default": 0}


class Flaky(WordEmbedder):
    """Fails as often as it is told to."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def embed(self, texts: Sequence[str]) -> Any:
        if self.failures:
            self.failures -= 1
            raise EmbedderUnavailable("the endpoint is down", "Wait")
        return super().embed(texts)


async def test_an_embedder_that_recovers_is_asked_again(opened: Opener) -> None:
    memory = await opened(embedder=Flaky(4), background=False)
    await memory.add_many(notes(5))
    await embed_all(memory, pauses=(0, 0, 0, 0))
    assert await pending(memory) == {"default": 0}


async def test_the_first_batch_of_a_namespace_is_tried_again_too(opened: Opener) -> None:
    """While the namespace had no vector space yet, a worker whose endpoint was down ended at once."""
    memory = await opened(embedder=Flaky(3), background=False)
    await memory.add_many(notes(5))
    await work(memory, pauses=(0, 0, 0))
    assert await pending(memory) == {"default": 0}


async def test_an_embedder_that_stays_away_ends_the_worker(opened: Opener) -> None:
    memory = await opened(embedder=Flaky(1000), background=False)
    await memory.add_many(notes(5))
    await embed_all(memory, pauses=(0, 0))
    assert await pending(memory) == {"default": 5}
    assert (await memory.status())["embedding_worker"] is False


async def test_a_store_that_is_gone_is_not_created_again(tmp_path: Any) -> None:
    with pytest.raises(StoreNotFound, match="no store in"):
        await Memory.open(tmp_path / "gone", embedder="none", create=False)
    assert not (tmp_path / "gone").exists()


async def test_an_updated_item_has_its_vector_when_the_caller_waits(opened: Opener) -> None:
    memory = await opened(background=False)
    item = await memory.add("the heron stands in the reeds", wait=True)
    await memory.update(item.id, ItemPatch(text="the badger digs at night"), wait=True)
    assert await pending(memory) == {"default": 0}
    response = await memory.search("the badger digs at night", only=["semantic"])
    assert response.results[0].contributions[0].raw == pytest.approx(1)

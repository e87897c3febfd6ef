"""A few tests with the real model: the promises that only meaning can keep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from engine_support import Opener, texts

from fourfold import wire
from fourfold.embed.minilm import built_in_model
from fourfold.embed.session import LocalEmbedder
from fourfold.memory import Memory
from fourfold.model import NewItem

NOTES = (
    "The router's password is in the blue folder",
    "Our cat Minka is afraid of thunderstorms",
    "The quarterly invoice goes to Mrs Keller in accounting",
    "Bread is baked on Tuesday and Friday mornings",
    "Der Drucker im zweiten Stock braucht neuen Toner",
    "Error E4021 means that the pressure valve is stuck",
)


class Shared(LocalEmbedder):
    """Stays loaded when a memory closes."""

    def close(self) -> None: ...


@pytest.fixture(scope="session")
def model() -> Iterator[Shared]:
    loaded = built_in_model()
    shared = Shared(loaded._make_fingerprint, loaded._make_recipe, loaded.dimension)
    yield shared
    LocalEmbedder.close(shared)


@pytest.fixture
async def notes(model: Shared, tmp_path: Path) -> AsyncIterator[Memory]:
    async with await Memory.open(tmp_path / "store", embedder=model) as memory:
        await memory.add_many([NewItem(text) for text in NOTES], wait=True)
        yield memory


@pytest.mark.spec("S1.1", "S1.6", "B1")
@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("how do I get into the network?", NOTES[0]),
        ("which pet dislikes storms", NOTES[1]),
        ("who handles our bills", NOTES[2]),
        ("E4021", NOTES[5]),
        ("Toner für den Drucker", NOTES[4]),
    ],
)
async def test_the_answer_comes_first(notes: Memory, query: str, answer: str) -> None:
    response = await notes.search(query)
    assert texts(response)[0] == answer
    assert response.degraded == ()
    assert response.timings_ms["embed"] > 0


@pytest.mark.spec("B14")
async def test_confidence_tells_what_the_store_knows_from_what_it_does_not(notes: Memory) -> None:
    known = await notes.search("where is the password of the router")
    unknown = await notes.search("what did Napoleon eat at Austerlitz")
    assert known.confidence > 0.8
    assert unknown.confidence < 0.3
    assert (await notes.search("what did Napoleon eat at Austerlitz", min_confidence=0.5)).results == ()


@pytest.mark.spec("B4")
async def test_the_model_says_when_it_read_only_the_beginning(notes: Memory) -> None:
    response = await notes.search("where is the bread " * 200)
    assert any("beginning of the query" in note for note in response.notes)
    assert (await notes.search("where is the bread")).notes == ()
    surrogates = await notes.search("bread \ud83d \x00 ?")
    assert texts(surrogates)[0] == NOTES[3]
    wire.dumps(wire.response_json(surrogates))


@pytest.mark.spec("B8")
async def test_the_namespace_knows_its_model(notes: Memory, model: Shared) -> None:
    space = await notes.store.space("default")
    assert space is not None
    assert (space.fingerprint, space.dimension) == (model.fingerprint, 384)
    status = await notes.status()
    assert status["namespaces"]["default"]["pending_vectors"] == 0
    assert status["embedder"] == model.fingerprint


@pytest.mark.spec("B3")
async def test_by_default_memory_uses_the_built_in_model_and_loads_it_only_when_needed(opened: Opener) -> None:
    memory = await opened(embedder=None, background=False)
    await memory.add("heron")
    assert texts(await memory.search("heron", only=["keyword"])) == ["heron"]
    response = await memory.search("heron")
    assert response.degraded[0].pending == 1


@pytest.mark.spec("C2")
async def test_confidence_counts_relations_and_tags(opened: Opener, model: Shared) -> None:
    """The store of the README."""
    memory = await opened(embedder=model)
    await memory.add_many(
        [
            NewItem("The spare key is with Mrs Okafor on the second floor", tags=("home",)),
            NewItem("Der Mietvertrag läuft bis zum 30. Juni 2029", tags=("home",)),
            NewItem("Takes orders and sends invoices", title="Checkout", tags=("shop",)),
            NewItem("Postgres 16 with two replicas, backups at 02:40", title="Kestrel", tags=("shop",)),
        ],
        wait=True,
    )
    await memory.add_edges([("Checkout", "depends on", "Kestrel", 1.0)])
    relation = await memory.search("What breaks if Kestrel is down?")
    sure = {result.item.title: result.confidence for result in relation.results}
    assert min(sure["Kestrel"], sure["Checkout"], relation.confidence) >= 0.5
    assert sure[""] < 0.3
    for options in ({}, {"only": ["tags"]}, {"preset": "memories"}, {"preset": "memories", "alpha": 0.5}):
        tag = await memory.search("shop", **options)
        assert {result.item.title for result in tag.results if result.confidence >= 0.5} == {"Checkout", "Kestrel"}
    assert (await memory.search("only the graph: Kestrel", only=["graph"])).confidence >= 0.5
    assert (await memory.search("How high is Mount Fuji?")).confidence < 0.3

"""Tests with the built-in model, for behaviour that depends on meaning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_support import Opener, texts
from store_calls import StoreCalls

from fourfold import wire
from fourfold.embed.builtin import built_in_model
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
    """An embedder that stays loaded when a memory closes."""

    def close(self) -> None: ...


@pytest.fixture(scope="session")
def model() -> Iterator[Shared]:
    loaded = built_in_model()
    shared = Shared(loaded._make_fingerprint, loaded._make_recipe, loaded.dimension)
    yield shared
    LocalEmbedder.close(shared)


@pytest.fixture
def notes(model: Shared, tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "store", embedder=model) as memory:
        memory.add_many([NewItem(text) for text in NOTES], wait=True)
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
def test_the_answer_comes_first(notes: Memory, query: str, answer: str) -> None:
    response = notes.search(query)
    assert texts(response)[0] == answer
    assert response.degraded == ()
    assert response.timings_ms["embed"] > 0


@pytest.mark.spec("B14")
def test_confidence_separates_answerable_from_unanswerable_questions(notes: Memory) -> None:
    known = notes.search("where is the password of the router")
    unknown = notes.search("what did Napoleon eat at Austerlitz")
    assert known.confidence > 0.8
    assert unknown.confidence < 0.3
    assert notes.search("what did Napoleon eat at Austerlitz", min_confidence=0.5).results == ()


@pytest.mark.spec("B4")
def test_the_model_reports_texts_that_it_truncates(notes: Memory) -> None:
    response = notes.search("where is the bread " * 200)
    assert any("beginning of the query" in note for note in response.notes)
    assert notes.search("where is the bread").notes == ()
    surrogates = notes.search("bread \ud83d \x00 ?")
    assert texts(surrogates)[0] == NOTES[3]
    wire.dumps(wire.response_json(surrogates))


@pytest.mark.spec("B8")
def test_the_namespace_records_its_model(notes: Memory, model: Shared) -> None:
    space = StoreCalls(notes.store).space("default")
    assert space is not None
    assert (space.fingerprint, space.dimension) == (model.fingerprint, 384)
    status = notes.status()
    assert status["namespaces"]["default"]["pending_vectors"] == 0
    assert status["embedder"] == model.fingerprint


@pytest.mark.spec("B3")
def test_by_default_memory_uses_the_built_in_model_and_loads_it_only_when_needed(opened: Opener) -> None:
    memory = opened(embedder=None, background=False)
    memory.add("heron")
    assert texts(memory.search("heron", only=["keyword"])) == ["heron"]
    response = memory.search("heron")
    assert response.degraded[0].pending == 1


@pytest.mark.spec("B14")
@pytest.mark.parametrize(
    ("answered", "unanswered"),
    [
        ("What does Mira Hoffmann lead?", "When is Mira Hoffmann's birthday?"),
        ("In what does Heron keep its data?", "Who is the designer of Heron?"),
        ("Wofür nutzen wir Redis?", "Welche Version hat Redis?"),
    ],
)
def test_naming_a_thing_is_not_answering_a_question_about_it(
    opened: Opener, model: Shared, answered: str, unanswered: str
) -> None:
    memory = opened(embedder=model)
    things = {
        "Mira Hoffmann": "Mira leads the backend work and sits on the second floor",
        "Heron": "Heron takes orders and keeps its data in Postgres 16",
        "Redis": "Redis nutzen wir als Cache und für Sitzungen",
        "Jonas Brandt": "Jonas was born on 4 May and leads the workshop",
        "Gulls": "Gulls sends invoices; its screens were drawn by the designer Ines",
        "Postgres": "Version 17 mit zwei Replikaten",
    }
    memory.add_many([NewItem(text, title=title) for title, text in things.items()], wait=True)
    known, unknown = memory.search(answered), memory.search(unanswered)
    assert unknown.confidence < 0.4 < 0.7 < known.confidence


@pytest.mark.spec("C2")
def test_confidence_counts_relations_and_tags(opened: Opener, model: Shared) -> None:
    """Uses the store of the README."""
    memory = opened(embedder=model)
    memory.add_many(
        [
            NewItem("The spare key is with Mrs Okafor on the second floor", tags=("home",)),
            NewItem("Der Mietvertrag läuft bis zum 30. Juni 2029", tags=("home",)),
            NewItem("Takes orders and sends invoices", title="Checkout", tags=("shop",)),
            NewItem("Postgres 16 with two replicas, backups at 02:40", title="Kestrel", tags=("shop",)),
        ],
        wait=True,
    )
    memory.add_edges([("Checkout", "depends on", "Kestrel", 1.0)])
    relation = {result.item.title: result.confidence for result in memory.search("What depends on Kestrel?").results}
    assert relation["Kestrel"] < 0.3 < 0.7 < relation["Checkout"]
    for options in ({}, {"only": ["tags"]}, {"preset": "memories"}, {"preset": "memories", "alpha": 0.5}):
        tag = memory.search("shop", **options)
        shop = [result.confidence for result in tag.results if "shop" in result.item.tags]
        home = [result.confidence for result in tag.results if "home" in result.item.tags]
        assert len(shop) == 2
        assert min(shop) > max(home, default=0.0)
    assert memory.search("Kestrel", only=["graph"]).confidence > 0.1
    assert memory.search("How high is Mount Fuji?").confidence < 0.3

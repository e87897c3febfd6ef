"""Vectors: the queue, failing embedders, spaces, re-embedding, the worker, and the built-in model."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from concurrently import begin
from engine_support import DIMENSION, Opener, StubbornEmbedder, WordEmbedder, eventually, notes, row_counts, texts
from store_calls import StoreCalls

from fourfold import ItemPatch, Memory, NewItem, wire
from fourfold.cli.vectors import embed_all, work
from fourfold.embed.builtin import built_in_model
from fourfold.embed.session import LocalEmbedder
from fourfold.errors import EmbedderUnavailable, SpaceMismatch


def unavailable() -> Exception:
    return EmbedderUnavailable("the endpoint does not answer", "Check the network")


def bug() -> Exception:
    return RuntimeError("index out of range")


def stored_vectors(folder: Path) -> dict[int, Any]:
    db = apsw.Connection(str(folder / "fourfold.db"))
    try:
        return {item: np.frombuffer(blob, np.float32) for item, blob in db.execute("SELECT item, vector FROM vectors")}
    finally:
        db.close()


# ---------------------------------------------------------------- the queue


@pytest.mark.spec("B3")
def test_the_response_says_how_many_items_wait_for_their_vectors(opened: Opener) -> None:
    writer = opened(embedder="none")
    writer.add_many(notes(12))
    reader = opened(background=False)
    response = reader.search("heron", top_k=100)
    ((name, pending, reason),) = [(each.retriever, each.pending, each.reason) for each in response.degraded]
    assert (name, pending) == ("semantic", 12)
    assert "12 items wait" in reason
    assert response.results  # found by keyword
    assert reader.embed_pending() == 12
    assert reader.search("heron").degraded == ()


@pytest.mark.spec("B3", "S2.6")
@pytest.mark.parametrize("error", [unavailable, bug])
def test_search_works_without_vectors_when_the_embedder_fails(opened: Opener, error: Any) -> None:
    memory = opened(embedder=StubbornEmbedder(0, error))
    memory.add_many(notes(3))
    response = memory.search("heron")
    assert "heron" in texts(response)[0]
    assert "semantic" in [each.retriever for each in response.degraded]
    assert any(str(error()) in each.reason for each in response.degraded)
    memory.add("a last one", wait=True)  # stored, and pending
    response = memory.search("last one")
    assert texts(response)[0] == "a last one"
    assert any("vectors are not being made" in note for note in response.notes)
    memory._embedding.embedder.left = 100  # type: ignore[union-attr]
    memory.embed_pending()
    assert memory.search("last one").notes == ()


class Broken(WordEmbedder):
    """An embedder whose model cannot be read."""

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        raise unavailable()

    @fingerprint.setter
    def fingerprint(self, value: str) -> None: ...

    def load(self) -> None:
        raise unavailable()


@pytest.mark.spec("B3", "S2.6")
def test_search_works_without_vectors_when_the_model_cannot_be_read(opened: Opener) -> None:
    opened().add_many(notes(3), wait=True)
    memory = opened(embedder=Broken())
    response = memory.search("heron")
    assert "heron" in texts(response)[0]
    assert [each.retriever for each in response.degraded] == ["semantic"]


class Odd(WordEmbedder):
    """Returns what the test gives it for items, and valid vectors for queries."""

    def __init__(self, rows: Any) -> None:
        super().__init__()
        self._rows = rows

    def embed(self, texts: Sequence[str]) -> Any:
        return super().embed(texts) if texts == ["heron"] else self._rows(super().embed(texts))


NONSENSE: dict[str, Any] = {
    "NaN": lambda rows: rows * np.nan,
    "infinite": lambda rows: np.full_like(rows, np.inf),
    "too few": lambda rows: rows[:-1],
    "too many": lambda rows: np.concatenate([rows, rows]),
    "narrow": lambda rows: rows[:, :-1],
    "flat": lambda rows: rows.ravel(),
    "words": lambda rows: [["a"] * DIMENSION] * len(rows),
    "nothing": lambda rows: None,
    "ragged": lambda rows: [[1.0], [1.0, 2.0]],
}


@pytest.mark.spec("B3", "B8")
@pytest.mark.parametrize("name", NONSENSE)
def test_invalid_vectors_of_an_embedder_are_never_stored(opened: Opener, tmp_path: Path, name: str) -> None:
    memory = opened(embedder=Odd(NONSENSE[name]))
    memory.add_many(notes(2), wait=True)
    with pytest.raises(EmbedderUnavailable, match="the embedder returned"):
        memory.embed_pending()
    assert stored_vectors(tmp_path / "store") == {}
    assert texts(memory.search("heron"))


@pytest.mark.spec("S1.1")
@pytest.mark.parametrize(
    "change", [lambda rows: rows.astype(np.float64), lambda rows: rows * 7, lambda rows: rows.tolist()]
)
def test_vectors_are_normalized_before_they_are_stored(opened: Opener, tmp_path: Path, change: Any) -> None:
    memory = opened(embedder=Odd(change))
    memory.add_many(notes(4), wait=True)
    for vector in stored_vectors(tmp_path / "store").values():
        assert vector.shape == (DIMENSION,)
        assert float(vector @ vector) == pytest.approx(1.0, abs=1e-5)


def test_closing_while_the_queue_is_processed_loses_nothing(opened: Opener, tmp_path: Path) -> None:
    blocked, release = threading.Event(), threading.Event()

    class Slow(WordEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            blocked.set()
            release.wait(60)
            return super().embed(texts)

    memory = opened(embedder=Slow())
    memory.add_many(notes(3))
    assert blocked.wait(60)
    closing = begin(memory.close)
    release.set()
    closing.result(60)
    again = opened()
    assert again.count() == 3
    again.embed_pending()
    assert len(stored_vectors(tmp_path / "store")) == 3


def test_a_memory_closes_after_an_error_in_the_background(opened: Opener) -> None:
    memory = opened(embedder=StubbornEmbedder(0, bug))
    memory.add("heron")
    eventually(memory.troubles)
    memory.close()
    assert opened().count() == 1


class Picky(WordEmbedder):
    """Refuses batches that contain a certain word, as endpoints refuse texts that are too long."""

    def embed(self, texts: Sequence[str]) -> Any:
        if any("poison" in text for text in texts):
            raise unavailable()
        return super().embed(texts)


@pytest.mark.spec("B3")
def test_a_text_that_the_embedder_refuses_does_not_block_others(opened: Opener) -> None:
    memory = opened(embedder=Picky(), background=False)
    poison = [NewItem("a poison pill"), NewItem("more poison", key="p")]
    memory.add_many([*notes(20), poison[0], *notes(40, "later"), poison[1]])
    assert memory.embed_pending() == 60
    response = memory.search("heron")
    assert [(each.retriever, each.pending) for each in response.degraded] == [("semantic", 2)]
    status = memory.status()
    assert status["namespaces"]["default"]["refused_by_embedder"] == 2  # type: ignore[index,call-overload]
    assert memory.troubles() == {}
    memory.update("key:p", ItemPatch(text="more medicine"))
    assert memory.embed_pending() == 1
    kinder = opened(background=False)
    assert kinder.embed_pending() == 1
    assert kinder.check() == []


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


def test_a_transient_failure_marks_no_item_as_refused(opened: Opener) -> None:
    memory = opened(embedder=Flaky(1), background=False)
    memory.add("a heron")
    assert memory.embed_pending() == 1


def test_an_embedder_that_refuses_every_text_marks_no_item(opened: Opener) -> None:
    memory = opened(embedder=StubbornEmbedder(0, unavailable), background=False)
    memory.add_many(notes(40))
    with pytest.raises(EmbedderUnavailable):
        memory.embed_pending()
    assert len(StoreCalls(memory.store).pending("default", 99)) == 40


# ---------------------------------------------------------------- vector spaces


@pytest.mark.spec("B8")
def test_another_model_is_refused_with_the_command_that_re_embeds(opened: Opener, tmp_path: Path) -> None:
    opened().add_many(notes(3), wait=True)
    before = row_counts(tmp_path / "store")
    other = opened(embedder=WordEmbedder("other"))
    for call in (
        lambda: other.search("heron"),
        lambda: other.add("heron", wait=True),
        lambda: other.add(NewItem("heron", vector=[1.0] * DIMENSION)),
        lambda: other.why(1, "heron"),
    ):
        with pytest.raises(SpaceMismatch) as raised:
            call()
        assert "words/32" in raised.value.message
        assert "other/32" in raised.value.message
        assert "fourfold reembed" in raised.value.remedy
    assert row_counts(tmp_path / "store") == before
    assert other.search("heron", only=["keyword"]).results  # search without vectors works


@pytest.mark.spec("B8")
@pytest.mark.parametrize("error", [unavailable, bug])
def test_re_embedding_resumes_where_it_stopped_and_searches_work_meanwhile(opened, tmp_path, error):
    opened().add_many(notes(200), wait=True)
    dying = opened(embedder=StubbornEmbedder(3, error, "other"), background=False)
    with pytest.raises(EmbedderUnavailable):
        dying.reembed()
    made = set(stored_vectors(tmp_path / "store"))
    assert 0 < len(made) < 200
    response = opened(embedder="none").search("the otter met the lynx")
    assert response.results
    finisher = WordEmbedder("other")
    memory = opened(embedder=finisher, background=False)
    response = memory.search("the otter met the lynx")
    assert response.degraded[0].pending == 200 - len(made)
    assert response.results
    finisher.texts.clear()
    seen: list[tuple[int, int]] = []
    assert memory.reembed(lambda done, total: seen.append((done, total))) == 200 - len(made)
    assert len(finisher.texts) == 200 - len(made)  # only the missing vectors
    assert seen[-1] == (200 - len(made), 200 - len(made))
    assert memory.search("the otter met the lynx").degraded == ()


@pytest.mark.spec("B8")
def test_no_vector_of_the_old_model_survives(opened: Opener, tmp_path: Path) -> None:
    """Vectors of two models are not comparable, and those of another dimension would break every product."""
    old = opened()
    old.add_many(notes(60), wait=True)
    old.index()
    wider = WordEmbedder("wide", 48)
    memory = opened(embedder=wider)
    memory.reembed()
    for item, vector in stored_vectors(tmp_path / "store").items():
        (stored,) = memory.get([item])
        assert vector.tolist() == wider.vector(stored.text).tolist()
    response = memory.search("note 17: the otter met the badger at gate 4", only=["semantic"])
    assert texts(response)[0] == "note 17: the otter met the badger at gate 4"
    assert response.degraded == ()
    with pytest.raises(SpaceMismatch):
        old.search("heron")  # this memory was open throughout


# ---------------------------------------------------------------- the worker


def pending_vectors(memory: Memory) -> dict[str, int]:
    return {name: facts["pending_vectors"] for name, facts in memory.status()["namespaces"].items()}


@pytest.mark.spec("C4")
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
    assert pending_vectors(memory) == {"default": 0, "foreign": 3, "mine": 0, "unclaimed": 3}


@pytest.mark.spec("C4")
def test_a_second_worker_leaves_the_work_to_the_first(opened: Opener) -> None:
    one, other = opened(background=False), opened(background=False)
    one.add_many(notes(5))
    with StoreCalls(one.store).lease(None) as mine:
        assert mine
        assert other.status()["embedding_worker"] is True
        embed_all(other)
        assert pending_vectors(other) == {"default": 5}
    assert other.status()["embedding_worker"] is False
    embed_all(other)
    assert pending_vectors(other) == {"default": 0}


@pytest.mark.spec("C4")
@pytest.mark.parametrize(
    ("run", "failures", "pauses", "left"), [(embed_all, 4, 4, 0), (work, 3, 3, 0), (embed_all, 1000, 2, 5)]
)
def test_an_embedder_that_recovers_is_retried_and_one_that_does_not_ends_the_worker(
    opened: Opener, run: Any, failures: int, pauses: int, left: int
):
    memory = opened(embedder=Flaky(failures), background=False)
    memory.add_many(notes(5))
    run(memory, pauses=(0,) * pauses)
    assert pending_vectors(memory) == {"default": left}
    assert memory.status()["embedding_worker"] is False


@pytest.mark.spec("C4")
def test_an_updated_item_has_its_vector_when_the_caller_waits(opened: Opener) -> None:
    memory = opened(background=False)
    item = memory.add("the heron stands in the reeds", wait=True)
    memory.update(item.id, ItemPatch(text="the badger digs at night"), wait=True)
    assert pending_vectors(memory) == {"default": 0}
    response = memory.search("the badger digs at night", only=["semantic"])
    assert response.results[0].contributions[0].raw == pytest.approx(1)


# ---------------------------------------------------------------- the built-in model


OFFICE = (
    "The router's password is in the blue folder", "Our cat Minka is afraid of thunderstorms",
    "The quarterly invoice goes to Mrs Keller in accounting", "Bread is baked on Tuesday and Friday mornings",
    "Der Drucker im zweiten Stock braucht neuen Toner", "Error E4021 means that the pressure valve is stuck",
)  # fmt: skip


class Shared(LocalEmbedder):
    """An embedder that stays loaded when a memory closes."""

    def close(self) -> None: ...


@pytest.fixture(scope="session")
def model() -> Iterator[Shared]:
    loaded = built_in_model()
    shared = Shared(loaded._make_fingerprint, loaded._load, loaded.dimension)
    yield shared
    LocalEmbedder.close(shared)


@pytest.fixture
def office_notes(model: Shared, tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "store", embedder=model) as memory:
        memory.add_many([NewItem(text) for text in OFFICE], wait=True)
        yield memory


@pytest.mark.spec("B4")
def test_the_model_reports_texts_that_it_truncates(office_notes: Memory) -> None:
    response = office_notes.search("where is the bread " * 200)
    assert any("beginning of the query" in note for note in response.notes)
    assert office_notes.search("where is the bread").notes == ()
    surrogates = office_notes.search("bread \ud83d \x00 ?")
    assert texts(surrogates)[0] == OFFICE[3]
    wire.dumps(wire.response_json(surrogates))


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
def test_naming_a_thing_is_not_answering_a_question_about_it(opened, model, answered, unanswered):
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
    assert unknown.confidence < 0.45 < 0.7 < known.confidence


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

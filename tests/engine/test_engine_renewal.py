"""Stores whose vectors an earlier version of the embedder made: they answer at once, and are renewed unasked."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from engine_support import WordEmbedder, eventually, texts

from fourfold.errors import EmbedderUnavailable, SearchFailed, SpaceMismatch
from fourfold.memory import Memory
from fourfold.model import NewItem

COUNT = 100
NOTES = [f"Note {number}: the key to the office is with the neighbour" for number in range(COUNT)]

pytestmark = pytest.mark.spec("B8")


class Later(WordEmbedder):
    """The next version of the model; a call can be made to fail or to wait."""

    replaces = ("words/",)

    def __init__(self, calls: int = 1_000) -> None:
        super().__init__("later")
        self.left = calls
        self.may_run = threading.Event()
        self.may_run.set()

    def embed(self, texts: Sequence[str]) -> Any:
        if len(texts) > 1:
            self.may_run.wait()
        if not self.left:
            raise EmbedderUnavailable("interrupted", "try again")
        self.left -= 1
        return super().embed(texts)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    with Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False) as memory:
        memory.add_many([NewItem(text) for text in NOTES], wait=True)
    return tmp_path / "store"


def fingerprint(memory: Memory) -> str:
    with memory.store.snapshot("default") as snapshot:
        assert snapshot.space is not None
        return snapshot.space.fingerprint


def pending(memory: Memory) -> int:
    with memory.store.snapshot("default") as snapshot:
        return snapshot.size.pending


def test_a_reader_answers_by_words_says_why_and_changes_nothing(earlier: Path) -> None:
    with Memory.open(earlier, embedder=Later(), background=False) as memory:
        response = memory.search("key to the office 7")
        assert texts(response)[0] == NOTES[7]
        assert [(each.retriever, each.pending) for each in response.degraded] == [("semantic", COUNT)]
        assert "100 of 100 items" in response.degraded[0].reason
        assert "fourfold embed" in response.degraded[0].reason
        assert "semantic" not in response.counts
        assert memory.why(1, "key to the office").rank is not None
        with pytest.raises(SearchFailed, match="fourfold embed"):
            memory.search("key", only=["semantic"])
        assert (fingerprint(memory), memory.queues()) == ("words/32", ["default"])


def test_a_long_lived_process_renews_in_the_background_and_answers_meanwhile(earlier: Path) -> None:
    model = Later()
    model.may_run.clear()
    with ExitStack() as opened:
        opened.callback(model.may_run.set)
        memory = opened.enter_context(Memory.open(earlier, embedder=model))
        eventually(lambda: fingerprint(memory) == model.fingerprint)
        response = memory.search("key to the office 7")
        assert texts(response)[0] == NOTES[7]
        assert response.degraded[0].reason == "100 of 100 items wait for their vectors"
        model.may_run.set()
        eventually(lambda: pending(memory) == 0)
        assert memory.search("key").degraded == ()
        assert memory.queues() == []
        assert memory.check() == []


def test_an_interrupted_renewal_resumes_and_mixes_nothing(earlier: Path) -> None:
    with Memory.open(earlier, embedder=Later(calls=2), background=False) as memory:
        with pytest.raises(EmbedderUnavailable):
            memory.embed_pending()
        assert 0 < pending(memory) < COUNT
        left = pending(memory)
        assert fingerprint(memory) == "later/32"
    with Memory.open(earlier, embedder=Later(), background=False) as memory:
        assert f"{left} of {COUNT} items wait" in memory.search("key").degraded[0].reason
        seen: list[tuple[int, int]] = []
        assert memory.embed_pending(lambda done, total: seen.append((done, total))) == left
        assert seen[-1] == (left, left)
        assert memory.check() == []


def test_a_model_that_cannot_load_leaves_the_earlier_vectors(earlier: Path) -> None:
    class Missing(Later):
        def load(self) -> None:
            raise EmbedderUnavailable("the file is missing", "install it again")

    with Memory.open(earlier, embedder=Missing(), background=False) as memory:
        assert memory.add("a new note", wait=True).id
        assert texts(memory.search("new note"))[0] == "a new note"
        with pytest.raises(EmbedderUnavailable):
            memory.embed_pending()
        assert fingerprint(memory) == "words/32"


def test_an_item_that_is_stored_at_once_has_a_vector_of_the_new_version(earlier: Path) -> None:
    model = Later()
    with Memory.open(earlier, embedder=model, background=False) as memory:
        memory.add("a new note", wait=True)
        assert (fingerprint(memory), pending(memory)) == (model.fingerprint, COUNT)
        memory.add(NewItem("a given vector", vector=model.vector("given").tolist()))
        assert pending(memory) == COUNT


def test_a_given_vector_renews_the_others(earlier: Path) -> None:
    model = Later()
    with Memory.open(earlier, embedder=model, background=False) as memory:
        memory.add(NewItem("a given vector", vector=model.vector("given").tolist()))
        assert (fingerprint(memory), pending(memory)) == (model.fingerprint, COUNT)


def test_an_earlier_version_that_has_the_store_open_neither_mixes_nor_reverts(earlier: Path) -> None:
    with Memory.open(earlier, embedder=WordEmbedder(), background=False) as old:
        old.add("stored by the earlier version")
        with Memory.open(earlier, embedder=Later(), background=False) as new:
            assert new.embed_pending() == COUNT + 1
        for use in (old.embed_pending, lambda: old.search("key")):
            with pytest.raises(SpaceMismatch):
                use()
        assert (fingerprint(old), pending(old)) == ("later/32", 0)


def test_another_model_is_still_refused(earlier: Path) -> None:
    class Other(WordEmbedder):
        replaces = ("letters/",)

    with Memory.open(earlier, embedder=Other("other"), background=False) as memory:
        for use in (lambda: memory.search("key"), memory.embed_pending, lambda: memory.add("a", wait=True)):
            with pytest.raises(SpaceMismatch, match="fourfold reembed"):
                use()
        assert memory.queues() == []

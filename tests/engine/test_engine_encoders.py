"""A model with two encoders in one space: which one reads a query, and how earlier vectors are renewed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from engine_support import WordEmbedder
from hypothesis import given
from hypothesis import strategies as st

from fourfold.engine.retrievers import better_scores
from fourfold.errors import EmbedderUnavailable
from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.ranking.fusion import columns
from fourfold.retrieval import Background, Hit, Ranking
from fourfold.text.language import german_query, is_mostly_german

ENGLISH = "The key to the office is with the neighbour on the second floor"
GERMAN = "Der Schlüssel zum Büro liegt bei der Nachbarin im zweiten Stock"


class TwoEncoders(WordEmbedder):
    """An embedder with separate dimensions for German and English words; a call can be made to fail."""

    encoders = ("english", "german")
    earlier_fingerprints = ("words/32",)
    truncating_fingerprints = ()

    def __init__(self, calls: int = 1_000) -> None:
        super().__init__("two")
        self.asked: list[tuple[str, str]] = []
        self.left = calls

    def embed(self, texts: Sequence[str]) -> Any:
        if not self.left:
            raise EmbedderUnavailable("interrupted", "try again")
        self.left -= 1
        return super().embed([f"de:{text}" if is_mostly_german(text) else text for text in texts])

    def embed_as(self, encoder: str, texts: Sequence[str]) -> Any:
        self.asked += [(encoder, text) for text in texts]
        return super().embed([f"de:{text}" if encoder == "german" else text for text in texts])

    def query_encoders(self, text: str) -> tuple[str, ...]:
        is_german = german_query(text)
        return self.encoders if is_german is None else (self.encoders[is_german],)

    def renews(self, text: str) -> bool:
        return is_mostly_german(text)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A store whose vectors all come from the first encoder, as made by an earlier version."""
    with Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False) as memory:
        memory.add_many([NewItem(f"{ENGLISH} {number}") for number in range(3)], wait=True)
        memory.add_many([NewItem(f"{GERMAN} {number}") for number in range(40)], wait=True)
    return tmp_path / "store"


def encoders(memory: Memory, query: str) -> list[str]:
    embedder: Any = memory._embedding.embedder  # type: ignore[union-attr]
    embedder.asked.clear()
    response = memory.search(query, explain=True)
    assert not response.degraded
    found = [encoder for encoder, _ in embedder.asked]
    assert any("encoder" in note for note in response.notes) == (found != ["english"])
    return found


def test_each_query_is_read_by_the_encoder_of_its_language(tmp_path: Path) -> None:
    with Memory.open(tmp_path, embedder=TwoEncoders(), background=False) as memory:
        memory.add(ENGLISH, wait=True)
        assert encoders(memory, "where is the key?") == ["english"]
        assert encoders(memory, "Wo ist der Schlüssel?") == ["german"]
        assert encoders(memory, "Lady Gaga") == ["english"], "without German items, the German encoder is not loaded"
        memory.add(GERMAN, wait=True)
        assert encoders(memory, "Lady Gaga") == ["english", "german"]
        notes = memory.search("Wo ist der Schlüssel?", explain=True).notes
        assert "the german encoder read the query" in notes
        assert not memory.search("Wo ist der Schlüssel?").notes


def test_an_english_store_keeps_vectors_and_fingerprint(tmp_path: Path) -> None:
    with Memory.open(tmp_path, embedder=WordEmbedder(), background=False) as memory:
        memory.add(ENGLISH, wait=True)
    with Memory.open(tmp_path, embedder=TwoEncoders(), background=False) as memory:
        assert "renewable" not in memory.status()
        assert memory.renew_vectors() == 0
        assert memory.search("where is the key?").results
        memory.add("Another note about the office", wait=True)
        with memory.store.snapshot("default") as snapshot:
            assert snapshot.space is not None
            assert snapshot.space.fingerprint == "words/32"
            assert snapshot.size.pending == 0


def test_german_items_of_an_earlier_version_are_found_and_renewed_alone(earlier: Path) -> None:
    embedder = TwoEncoders()
    with Memory.open(earlier, embedder=embedder, background=False) as memory:
        assert str(memory.status()["renewable"]).startswith("40 German items")
        assert encoders(memory, "Wo ist der Schlüssel?") == ["english", "german"], (
            "their vectors come from the English encoder"
        )
        embedder.texts.clear()
        assert memory.renew_vectors() == 40
        assert all(text.startswith("de:") for text in embedder.texts)
        assert "renewable" not in memory.status()
        assert memory.renew_vectors() == 0
        assert encoders(memory, "Wo ist der Schlüssel?") == ["german"]
        assert memory.check() == []


def test_an_interrupted_renewal_resumes(earlier: Path) -> None:
    with (
        Memory.open(earlier, embedder=TwoEncoders(calls=1), background=False) as memory,
        pytest.raises(EmbedderUnavailable),
    ):
        memory.renew_vectors()
    embedder = TwoEncoders()
    with Memory.open(earlier, embedder=embedder, background=False) as memory:
        with memory.store.snapshot("default") as snapshot:
            assert 0 < snapshot.size.pending < 40
            assert snapshot.space is not None
            assert snapshot.space.fingerprint == embedder.fingerprint
            left = snapshot.size.pending
        assert memory.embed_pending() == left
        assert memory.check() == []


scores = st.dictionaries(st.integers(1, 30), st.floats(-1, 1, width=32), max_size=30)


def nearest(found: dict[int, float], limit: int) -> Ranking:
    hits = sorted((Hit(id, score) for id, score in found.items()), key=lambda hit: (-hit.score, hit.id))
    return Ranking(columns(hits[:limit]), background=Background(0.1))


@given(scores, scores, st.integers(1, 12))
def test_merging_the_lists_of_two_encoders_is_exact(one: dict[int, float], other: dict[int, float], limit: int) -> None:
    other = {id: other.get(id, -0.5) for id in one}  # both vectors are compared with the same items
    expected = nearest({id: max(one[id], other[id]) for id in one}, limit)
    found = better_scores(nearest(one, limit), nearest(other, limit), limit)
    assert [hit.score for hit in found.hits] == [hit.score for hit in expected.hits]

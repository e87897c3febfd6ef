"""The cache of vectors: each text is embedded once per model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fourfold.errors import StoreUnavailable
from fourfold.evaluation.vectors import FILE, CachedEmbedder

pytestmark = pytest.mark.spec("S5.7")


class Counting:
    """An embedder that records the texts that it was given."""

    dimension = 3

    def __init__(self, fingerprint: str = "counting") -> None:
        self.fingerprint = fingerprint
        self.asked: list[str] = []

    def load(self) -> None: ...

    def truncates(self, text: str) -> bool:
        return False

    def close(self) -> None: ...

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        return np.array([[len(text), 1.0, 0.5] for text in texts], np.float32)


def test_a_text_is_embedded_once_by_each_model(tmp_path: Path) -> None:
    first, second, other = Counting(), Counting(), Counting("other")
    with_cache = CachedEmbedder(first, tmp_path)
    made = with_cache.embed(["a", "bb", "a"])
    assert first.asked == ["a", "bb"]
    with_cache.close()
    again = CachedEmbedder(second, tmp_path)
    assert np.array_equal(again.embed(["bb", "ccc", "a"])[[2, 0, 2]], made)
    assert second.asked == ["ccc"]
    again.close()
    CachedEmbedder(other, tmp_path).embed(["a"])
    assert other.asked == ["a"]


class TwoEncoders(Counting):
    """An embedder with a separate encoder for texts in capitals."""

    earlier_fingerprints = ()
    encoders = ("small", "capital")

    def __init__(self, capital: str) -> None:
        super().__init__(f"small+{capital}")
        self.revisions = {"small": "small", "capital": capital}

    def encoder_of(self, text: str) -> str:
        return "capital" if text.isupper() else "small"

    def revision(self, encoder: str) -> str:
        return self.revisions[encoder]

    def query_encoders(self, text: str) -> tuple[str, ...]:
        return (self.encoder_of(text),)

    def renews(self, text: str) -> bool:
        return text.isupper()

    def embed_as(self, encoder: str, texts: Sequence[str]) -> Any:
        return super().embed(texts)


def test_new_weights_of_one_encoder_leave_the_vectors_of_the_other(tmp_path: Path) -> None:
    old, new = TwoEncoders("1"), TwoEncoders("2")
    made = CachedEmbedder(old, tmp_path).embed(["a", "BB", "ccc"])
    assert made[:, 0].tolist() == [1.0, 2.0, 3.0]
    renewed = CachedEmbedder(new, tmp_path)
    assert np.array_equal(renewed.embed(["ccc", "BB", "a"]), made[::-1])
    assert new.asked == ["BB"]
    assert np.array_equal(renewed.embed_as("small", ["a"]), made[:1])
    assert new.asked == ["BB"]


def test_two_caches_share_a_file(tmp_path: Path) -> None:
    model = Counting()
    one, two = CachedEmbedder(model, tmp_path), CachedEmbedder(model, tmp_path)
    one.embed(["a"])
    two.embed(["a", "b"])
    one.embed(["a", "b"])
    assert model.asked == ["a", "b"]


def test_a_damaged_cache_is_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    model = Counting()
    assert CachedEmbedder(model, tmp_path).embed(["a"]).shape == (1, 3)
    assert model.asked == ["a"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="file"):
        CachedEmbedder(Counting(), tmp_path / "file" / "cache")

"""The cache of vectors: each text is embedded once per model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fourfold.errors import StoreUnavailable
from fourfold.evaluation.bench import FILE, CachedEmbedder

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

"""Renews the vectors of long items in a process that may be killed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from engine_support import WordEmbedder

from fourfold.memory import Memory

EARLIER = "words/32"


class WithoutWindows(WordEmbedder):
    """An embedder from before windows: it reads a text as a whole."""

    def truncates(self, text: str) -> bool:
        return False


class Windowed(WordEmbedder):
    """An embedder with windows, in the same space."""

    encoders = ("english",)
    earlier_fingerprints = ()
    truncating_fingerprints = (EARLIER,)

    def __init__(self) -> None:
        super().__init__("windowed")

    def query_encoders(self, text: str) -> tuple[str, ...]:
        return self.encoders

    def renews(self, text: str) -> bool:
        return False

    def embed_as(self, encoder: str, texts: Sequence[str]) -> Any:
        return self.embed(texts)


class Slow(Windowed):
    """A slow embedder that reports when a batch begins."""

    def __init__(self, seed: int, said: Any) -> None:
        super().__init__()
        self._random = Random(seed)
        self._said = said

    def embed(self, texts: Sequence[str]) -> Any:
        self._said.send(len(texts))
        time.sleep(self._random.random() / 50)
        return super().embed(texts)


def renew(folder: Path, seed: int, said: Any) -> None:
    with Memory.open(folder, embedder=Slow(seed, said), background=False) as memory:
        said.send(0)
        memory.renew_vectors()
        memory.embed_pending()
        memory.index()

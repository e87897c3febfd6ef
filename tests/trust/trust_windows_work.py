"""Renews the vectors of an earlier version in a process that may be killed."""

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
    """The next version, with windows."""

    replaces = (EARLIER,)

    def __init__(self) -> None:
        super().__init__("windowed")


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
        memory.embed_pending()
        memory.index()

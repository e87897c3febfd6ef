"""`sentence-transformers:NAME_OR_FOLDER`: any model of that library (extra `st`), on a GPU if torch sees one."""

from __future__ import annotations

import copy
import importlib
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fourfold.embed.base import readable
from fourfold.embed.session import CHARACTERS_A_TOKEN, digest
from fourfold.errors import EmbedderUnavailable, FourfoldError, MissingExtra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]

BATCH_TEXTS: Final = 64
UNLIMITED_CHARACTERS: Final = 200_000
"""Read of a text if the model sets no limit."""
REMEDY: Final = "Name a folder that `SentenceTransformer.save` wrote, or a model of huggingface.co"


class SentenceTransformerEmbedder:
    """Loads on first use; several threads may use it at once. Prompts that the model has for queries and documents
    are used."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._folder = Path(name).expanduser().absolute() if is_folder(name) else None
        self._fingerprint = ""
        self._loading = threading.Lock()
        self._counting = threading.Lock()
        self._model: Any = None
        self._tokenizer: Any = None
        self._dimension: int | None = None

    @property
    def fingerprint(self) -> str:
        """A folder by its content, so that it may move; a name as it is."""
        if not self._fingerprint:
            what = self._name if self._folder is None else f"sha256:{_content(self._folder)}"
            self._fingerprint = f"sentence-transformers/{what}"
        return self._fingerprint

    @property
    def dimension(self) -> int | None:
        return self._dimension

    def load(self) -> None:
        self._loaded()

    def embed(self, texts: Sequence[str]) -> Floats:
        return self._encoded(self._loaded().encode_document, texts)

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        return self._encoded(self._loaded().encode_query, texts)

    def truncates(self, text: str) -> bool:
        most = self._loaded().max_seq_length
        if most is None or len(text) > self._characters():
            return len(text) > self._characters()
        with self._counting, _library_errors("read a text"):  # a tokenizer of this library serves one thread at a time
            return len(self._tokenizer(readable(text, len(text)), verbose=False)["input_ids"]) > most

    def close(self) -> None:
        with self._loading:
            self._model = self._tokenizer = None

    def _characters(self) -> int:
        most = self._loaded().max_seq_length
        return UNLIMITED_CHARACTERS if most is None else most * CHARACTERS_A_TOKEN

    def _encoded(self, encode: Any, texts: Sequence[str]) -> Floats:
        characters = self._characters()
        with _library_errors("run the model"):
            return encode(
                [readable(text, characters) for text in texts],
                batch_size=BATCH_TEXTS,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            ).astype("float32", copy=False)

    def _loaded(self) -> Any:
        with self._loading:
            if self._model is None:
                self._open()
            return self._model

    def _open(self) -> None:
        try:
            library: Any = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise MissingExtra(
                f"sentence-transformers cannot be imported ({error})", "Install it: pip install 'fourfold[st]'"
            ) from error
        with _library_errors(f"load {self._name}"):
            model: Any = library.SentenceTransformer(self._name if self._folder is None else str(self._folder))
            self._dimension = model.encode_document(["a"], convert_to_numpy=True, show_progress_bar=False).shape[1]
            self._tokenizer = copy.deepcopy(model.tokenizer)
            self._model = model


def is_folder(name: str) -> bool:
    """False for a model of huggingface.co, such as `OWNER/NAME`."""
    place = Path(name).expanduser()
    return place.is_dir() or place.is_absolute() or name.startswith(".") or len(place.parts) > 2


def _content(folder: Path) -> str:
    if not (folder / "modules.json").is_file():
        raise EmbedderUnavailable(f"{folder} has no modules.json", REMEDY)
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".md"]
    return digest(sorted(files, key=lambda file: file.relative_to(folder).parts), REMEDY)


@contextmanager
def _library_errors(action: str) -> Generator[None]:
    try:
        yield
    except FourfoldError:
        raise
    except Exception as error:  # OSError, ValueError, RuntimeError (GPU memory) and those of its formats
        what = " ".join(str(error).split())[:200]
        raise EmbedderUnavailable(f"sentence-transformers cannot {action} ({what})", REMEDY) from error

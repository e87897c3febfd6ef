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
from fourfold.embed.session import CHARACTERS_A_TOKEN, LocalEmbedder, digest
from fourfold.errors import EmbedderUnavailable, FourfoldError, MissingExtra

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]

BATCH_TEXTS: Final = 64
UNLIMITED_CHARACTERS: Final = 200_000
"""Read of a text if the model sets no limit."""
REMEDY: Final = "Name a folder that `SentenceTransformer.save` wrote, or a model of huggingface.co"


def named_model(name: str) -> LocalEmbedder:
    folder = Path(name).expanduser().absolute() if is_folder(name) else None

    def fingerprint() -> str:
        """A folder by its content, so that it may move; a name as it is."""
        return f"sentence-transformers/{name if folder is None else f'sha256:{_content(folder)}'}"

    return LocalEmbedder(fingerprint, lambda: SentenceTransformer(name if folder is None else str(folder)))


class SentenceTransformer:
    """A LocalModel. Prompts that it has for queries and documents are used."""

    def __init__(self, name: str) -> None:
        try:
            library: Any = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise MissingExtra(
                f"sentence-transformers cannot be imported ({error})", "Install it: pip install 'fourfold[st]'"
            ) from error
        with _library_errors(f"load {name}"):
            self._model: Any = library.SentenceTransformer(name)
            self._tokenizer: Any = copy.deepcopy(self._model.tokenizer)
        self._counting = threading.Lock()
        self.dimension: int = self.embed(["a"]).shape[1]

    def embed(self, texts: Sequence[str]) -> Floats:
        return self._encoded(self._model.encode_document, texts)

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        return self._encoded(self._model.encode_query, texts)

    def truncates(self, text: str) -> bool:
        most = self._model.max_seq_length
        if most is None or len(text) > self._characters:
            return len(text) > self._characters
        with self._counting, _library_errors("read a text"):  # a tokenizer of this library serves one thread at a time
            return len(self._tokenizer(readable(text, len(text)), verbose=False)["input_ids"]) > most

    @property
    def _characters(self) -> int:
        most = self._model.max_seq_length
        return UNLIMITED_CHARACTERS if most is None else most * CHARACTERS_A_TOKEN

    def _encoded(self, encode: Any, texts: Sequence[str]) -> Floats:
        with _library_errors("run the model"):
            return encode(
                [readable(text, self._characters) for text in texts],
                batch_size=BATCH_TEXTS,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            ).astype("float32", copy=False)


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

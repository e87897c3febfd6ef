"""A cache of vectors by model and text: a second evaluation of the same items embeds nothing."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from fourfold import owner_only
from fourfold.embed.base import EmbeddingModel, asymmetric, replaced
from fourfold.errors import StoreUnavailable

if TYPE_CHECKING:
    import apsw
    import numpy as np
    from numpy.typing import NDArray

    Embed: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]

FILE: Final = "vectors-3.db"
_SCHEMA: Final = "CREATE TABLE IF NOT EXISTS vectors (hash BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
_BUSY_MS: Final = 60_000


def cache_folder() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("fourfold", appauthor=False) / "evaluation"


class CachedEmbedder:
    """An embedder with a cache file, which processes share and which may be deleted at any time."""

    def __init__(self, embedder: EmbeddingModel, folder: Path) -> None:
        self.model = embedder
        """The embedder without the cache."""
        self.fresh = False
        """Whether to bypass the cache, for realistic times."""
        self._lock = threading.Lock()
        self._db = _opened(folder)

    @property
    def fingerprint(self) -> str:
        return self.model.fingerprint

    @property
    def dimension(self) -> int | None:
        return self.model.dimension

    def load(self) -> None:
        self.model.load()

    def truncates(self, text: str) -> bool:
        return self.model.truncates(text)

    @property
    def replaces(self) -> tuple[str, ...]:
        return replaced(self.model)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._cached(self.fingerprint, texts, self.model.embed)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        both = asymmetric(self.model)
        if both is None:
            return self.embed(texts)
        return self._cached(f"{self.fingerprint}/query", texts, both.embed_queries)

    def _cached(self, space: str, texts: Sequence[str], embed: Embed) -> NDArray[np.float32]:
        import numpy as np

        if self.fresh:
            return embed(texts)
        with self._lock:
            hashes = [_hash(space, text) for text in texts]
            known = self._known(hashes)
            missing = {key: text for key, text in zip(hashes, texts, strict=True) if key not in known}
            if missing:
                known |= self._made(missing, embed)
            return np.stack([np.frombuffer(known[key], "<f4") for key in hashes]).astype(np.float32)

    def close(self) -> None:
        self._db.close()
        self.model.close()

    def _known(self, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        marks = ",".join("?" * len(hashes))
        sql = f"SELECT hash, vector FROM vectors WHERE hash IN ({marks})"  # noqa: S608 (question marks only)
        return {key: vector for key, vector in self._db.execute(sql, tuple(hashes)) if len(vector) % 4 == 0}

    def _made(self, texts: dict[bytes, str], embed: Embed) -> dict[bytes, bytes]:
        vectors = embed(list(texts.values()))
        made = {key: vector.astype("<f4").tobytes() for key, vector in zip(texts, vectors, strict=True)}
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", made.items())
        return made


def _hash(space: str, text: str) -> bytes:
    return hashlib.sha256(f"{space}\0{text}".encode("utf-8", "surrogatepass")).digest()


def _opened(folder: Path) -> apsw.Connection:
    """Opens the cache; replaces a damaged one."""
    import apsw

    try:
        owner_only.make_folder(folder)
        try:
            return _connected(folder / FILE)
        except (apsw.NotADBError, apsw.CorruptError):
            for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
                with suppress(FileNotFoundError):
                    (folder / name).unlink()
            return _connected(folder / FILE)
    except (OSError, apsw.Error) as error:
        raise StoreUnavailable(f"the cache {folder} cannot be used ({error})", "Name another with --cache") from error


def _connected(file: Path) -> apsw.Connection:
    import apsw

    owner_only.create_file(file)
    owner_only.tighten(file)
    connection = apsw.Connection(str(file))
    try:
        connection.set_busy_timeout(_BUSY_MS)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_SCHEMA)
    except apsw.Error:
        connection.close()
        raise
    return connection

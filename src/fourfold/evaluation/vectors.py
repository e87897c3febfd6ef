"""A cache of vectors by model and text: a second evaluation of the same items embeds nothing.

Vectors of a model with several encoders are kept by encoder: new weights of one leave those of the others valid.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from fourfold import owner_only
from fourfold.embed.base import EmbeddingModel, asymmetric, embed_routed, routed
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
    def encoders(self) -> tuple[str, ...]:
        several = routed(self.model)
        return () if several is None else several.encoders

    @property
    def earlier_fingerprints(self) -> tuple[str, ...]:
        several = routed(self.model)
        return () if several is None else several.earlier_fingerprints

    @property
    def truncating_fingerprints(self) -> tuple[str, ...]:
        several = routed(self.model)
        return () if several is None else several.truncating_fingerprints

    def query_encoders(self, text: str) -> tuple[str, ...]:
        several = routed(self.model)
        return () if several is None else several.query_encoders(text)

    def renews(self, text: str) -> bool:
        several = routed(self.model)
        return several is not None and several.renews(text)

    def encoder_of(self, text: str) -> str:
        several = routed(self.model)
        return "" if several is None else several.encoder_of(text)

    def revision(self, encoder: str) -> str:
        several = routed(self.model)
        return self.fingerprint if several is None else several.revision(encoder)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if routed(self.model) is None:
            return self._cached(self.fingerprint, texts, self.model.embed)
        return embed_routed(self, texts)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        both = asymmetric(self.model)
        if both is None:
            return self.embed(texts)
        return self._cached(f"{self.fingerprint}/query", texts, both.embed_queries)

    def embed_as(self, encoder: str, texts: Sequence[str]) -> NDArray[np.float32]:
        several = routed(self.model)
        if several is None:
            return self.embed(texts)
        return self._cached(several.revision(encoder), texts, partial(several.embed_as, encoder))

    def _cached(self, weights: str, texts: Sequence[str], embed: Embed) -> NDArray[np.float32]:
        """`weights`: names the weights that make the vectors."""
        import numpy as np

        if self.fresh:
            return embed(texts)
        with self._lock:
            hashes = [_hash(weights, text) for text in texts]
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


def _hash(weights: str, text: str) -> bytes:
    return hashlib.sha256(f"{weights}\0{text}".encode("utf-8", "surrogatepass")).digest()


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

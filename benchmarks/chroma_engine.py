"""Chroma for vectors and rows, bm25s for words: the usual pair where Chroma has to know words as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from corpus import Corpus, item_key
from engine import BATCH, DEPTH, TOP, Engine, Vector, batches, fuse_ranks, tuned

EF_LADDER = (200, 300, 400, 600, 1000)
HNSW = {"space": "ip", "ef_construction": 100, "max_neighbors": 16}
"""Chroma's own defaults, which its documentation calls right for most uses; unit vectors need no cosine."""


class ChromaEngine(Engine):
    """Chroma's HNSW index and bm25s (numba, stemmed, without stop words), fused in Python."""

    label = "Chroma + bm25s"
    packages = ("chromadb", "bm25s", "numba", "PyStemmer")
    client_kinds = ("threads",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._client: Any = None
        self._items: Any = None
        self._words: Any = None
        self._tokenizer: Any = None

    def build(self, corpus: Corpus) -> None:
        """Fill the collection, then index the words of everything at once, as bm25s has to."""
        self._connect()
        at_once = max(BATCH, corpus.item_count // 10)  # the whole index is written each time: ten times, not a thousand
        hnsw = {**HNSW, "ef_search": EF_LADDER[0], "batch_size": BATCH, "sync_threshold": at_once}
        self._items = self._client.create_collection("items", configuration={"hnsw": hnsw}, embedding_function=None)
        for rows in batches(zip(corpus.items(), corpus.vectors(), strict=True), BATCH):
            self._items.add(
                ids=[item.key for item, _ in rows],
                embeddings=[vector for _, vector in rows],
                documents=[item.text for item, _ in rows],
                metadatas=[{"title": item.title, "tags": json.dumps(item.tags)} for item, _ in rows],
            )
        self._index_words(corpus)

    def _index_words(self, corpus: Corpus) -> None:
        import bm25s

        tokenizer = new_tokenizer()
        texts = [f"{item.title}\n{item.text}" for item in corpus.items()]
        tokens = tokenizer.tokenize(texts, return_as="tuple", show_progress=False)
        words = bm25s.BM25(backend="numba")
        words.index(tokens, show_progress=False)
        words.save(self._folder / "words", show_progress=False)
        tokenizer.save_vocab(self._folder / "words")

    def _connect(self) -> None:
        import chromadb

        settings = chromadb.Settings(anonymized_telemetry=False)
        self._client = chromadb.PersistentClient(self._folder / "chroma", settings)

    def tune(self, corpus: Corpus) -> str:
        """Raise ef_search until the recall is high enough. It can be changed only for the whole collection."""
        self.open()

        def search(ef: int, vector: Vector) -> list[str]:
            if self._items.configuration["hnsw"]["ef_search"] != ef:
                self._items.modify(configuration={"hnsw": {"ef_search": ef}})
                self.open()
            return self.vector("", vector)

        ef, recall = tuned(corpus, EF_LADDER, search)
        return f"HNSW ip M=16 ef_construction=100 ef_search={ef}, recall {recall:.3f} when tuned; bm25s numba, stemmed"

    def open(self) -> None:
        """Open the collection and map the index of words."""
        import bm25s

        self._connect()
        self._items = self._client.get_collection("items", embedding_function=None)
        self._words = bm25s.BM25.load(self._folder / "words", mmap=True, show_progress=False)
        self._words.backend = "numba"
        self._tokenizer = new_tokenizer()
        self._tokenizer.load_vocab(self._folder / "words")

    def hybrid(self, text: str, vector: Vector) -> list[str]:
        """Run both searches and fuse them by rank."""
        return self._fetch(fuse_ranks(self._by_words(text), self._by_vector(vector)))

    def keyword(self, text: str) -> list[str]:
        """Search with words only."""
        return self._fetch(self._by_words(text)[:TOP])

    def vector(self, text: str, vector: Vector) -> list[str]:
        """Search with the vector only."""
        return self._fetch(self._by_vector(vector)[:TOP])

    def close(self) -> None:
        """Let go of the collection."""
        self._client = self._items = self._words = None

    def _by_words(self, text: str) -> list[int]:
        tokens = self._tokenizer.tokenize([text], update_vocab=False, show_progress=False)
        if not tokens[0]:
            return []
        numbers, scores = self._words.retrieve(tokens, k=DEPTH, show_progress=False)
        return [int(number) for number, score in zip(numbers[0], scores[0], strict=True) if score > 0]

    def _by_vector(self, vector: Vector) -> list[int]:
        found = self._items.query(query_embeddings=[vector], n_results=DEPTH, include=[])
        return [int(key.removeprefix("item-")) for key in found["ids"][0]]

    def _fetch(self, numbers: list[int]) -> list[str]:
        """Read the whole rows of the results."""
        if not numbers:
            return []
        found = self._items.get(ids=[item_key(number) for number in numbers], include=["documents", "metadatas"])
        rows = dict(zip(found["ids"], zip(found["documents"], found["metadatas"], strict=True), strict=True))
        return [key for number in numbers if (key := item_key(number)) in rows]


def new_tokenizer() -> Any:
    """The tokenizer that bm25s recommends: English stop words left out, the rest stemmed."""
    import Stemmer
    from bm25s.tokenization import Tokenizer

    return Tokenizer(stopwords="english", stemmer=Stemmer.Stemmer("english"))

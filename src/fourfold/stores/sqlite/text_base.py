"""The published part of a keyword index: columns of term hashes, and tantivy over the same rows."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tantivy

from fourfold import native
from fourfold.search import bm25
from fourfold.stores.keyword_query import KeywordQuery
from fourfold.stores.sqlite import files, scoring
from fourfold.stores.sqlite.files import Damaged, Manifest
from fourfold.stores.sqlite.lease import Hold
from fourfold.stores.sqlite.rows import NONE
from fourfold.stores.sqlite.scoring import Documents, term_hash
from fourfold.text.analysis import ANALYSER_VERSION
from fourfold.text.compounds import SortedLexicon

if TYPE_CHECKING:
    from fourfold.stores.sqlite.rows import Flags, Floats, Ints


def _schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", fast=True, indexed=False)
    builder.add_text_field("body", tokenizer_name="whitespace", index_option="freq")
    return builder.build()


TANTIVY_SCHEMA = _schema()
_REMEMBERED_COUNTS = 20_000


@dataclass(frozen=True)
class TextBase:
    """Immutable; a newer publication is another object."""

    documents: Documents
    seq: int
    manifest: Manifest | None = None
    searcher: Any = None
    german: Mapping[str, int] = field(default_factory=dict[str, int])
    """Term to the number of live German rows that have it."""
    spoken: Flags = field(default_factory=lambda: np.empty(0, np.bool_))
    """Which rows are German."""
    ghosts: dict[int, int] = field(default_factory=dict[int, int])
    """Term hash to the number of dead rows that tantivy still counts."""

    mapped: files.Mapped | None = None
    """The files that tantivy reads."""

    counted: dict[str, int] = field(default_factory=dict[str, int])
    """How many rows have the terms that were asked for, live or dead."""

    hold: Hold | None = None
    damage: str = ""
    """Why what is published could not be used; nothing is here then."""

    @staticmethod
    def nothing(damage: str = "") -> TextBase:
        return TextBase(Documents.empty(), 0, damage=damage)

    @staticmethod
    def load(folder: Path, store: str) -> TextBase:
        """What is published, verified; an empty base where nothing usable is: the tail then holds everything."""
        try:
            return files.load(folder, store, ANALYSER_VERSION, _opened) or TextBase.nothing()
        except Damaged as error:
            return TextBase.nothing(str(error))

    def require_unmodified(self) -> None:
        """Raises Damaged if what tantivy has read may not be what was verified."""
        if self.mapped is not None:
            self.mapped.require_unmodified()

    # ------------------------------------------------------------ German words

    @cached_property
    def lexicon(self) -> SortedLexicon:
        return SortedLexicon(self.german)

    def german_losses(self, rows: Ints) -> dict[str, int]:
        """Term to the number of those of these rows that are German and have it."""
        lost = scoring.holders(self.documents, rows[self.spoken[rows]]) if len(rows) else {}
        return {term: lost[hashed] for hashed in lost for term in self._german_by_hash.get(hashed, ())}

    @cached_property
    def _german_by_hash(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for term in self.german:
            found.setdefault(term_hash(term), []).append(term)
        return found

    # ------------------------------------------------------------ asking tantivy

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """Live rows of this publication that have each term."""
        return [self._holders(term) - self.ghosts.get(term_hash(term), 0) for term in terms]

    def _holders(self, term: str) -> int:
        """Rows that have it, live or dead."""
        known = self.counted.get(term)
        if known is None and self.searcher is not None:
            if len(self.counted) >= _REMEMBERED_COUNTS:
                self.counted.clear()
            with _panics():
                known = self.counted[term] = self.searcher.doc_freq("body", term)
        return known or 0

    def propose(self, query: KeywordQuery, count: int) -> tuple[Ints, Floats]:
        """The rows that tantivy ranks best, with its scores: about the true ones, or more where variants add up."""
        if self.searcher is None:
            return NONE, np.empty(0)
        clauses = [
            (tantivy.Occur.Should, self._term(term, value / self._idf(term)))
            for word in query.words
            for term, value in zip(word.terms, word.values, strict=True)
        ]
        return self._rows(tantivy.Query.boolean_query(clauses), count)

    def _idf(self, term: str) -> float:
        """What tantivy multiplies by itself, counting dead rows and knowing nothing of the tail."""
        return bm25.idf(self._holders(term), len(self.documents))

    def containing(self, groups: Sequence[Collection[str]]) -> Ints:
        """All rows that have at least one term of every group."""
        if self.searcher is None or not groups:
            return NONE
        either = [[(tantivy.Occur.Should, self._term(term, 1.0)) for term in sorted(group)] for group in groups]
        clauses = [(tantivy.Occur.Must, tantivy.Query.boolean_query(terms)) for terms in either]
        return self._rows(tantivy.Query.boolean_query(clauses), max(len(self.documents), 1))[0]

    def _term(self, term: str, weight: float) -> Any:
        query = tantivy.Query.term_query(TANTIVY_SCHEMA, "body", term, "freq")
        return query if weight == 1.0 else tantivy.Query.boost_query(query, weight)

    def _rows(self, query: Any, count: int) -> tuple[Ints, Floats]:
        with _panics():
            hits = self.searcher.search(query, limit=count, count=False).hits
            found = self.searcher.fast_field_values("row", [address for _, address in hits])
        return np.array(found, np.int64), np.array([score for score, _ in hits], np.float64)


@contextmanager
def _panics() -> Generator[None]:
    """tantivy panics, with an exception that nothing expects, when files change under it after they were verified."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise Damaged(f"tantivy: {error}") from error


_IN_MEMORY = ("ids", "dead", "ends", "spoken", "german")
"""What is read into memory as a whole; terms and tantivy's files are mapped."""
_SEARCHED = (".term", ".idx", ".fieldnorm", ".fast")
"""Of tantivy's files, those that a search reads."""


def _opened(folder: Path, manifest: Manifest) -> TextBase:
    hold = Hold(folder)
    files.require(manifest, *_IN_MEMORY, "terms", "tantivy/meta.json")
    content = {name: files.read(folder / name, manifest.parts[name], whole=name == "german") for name in _IN_MEMORY}
    mapped = files.Mapped(folder / name for name in manifest.parts if Path(name).suffix in _SEARCHED)
    documents = _documents(folder, manifest, content)
    for name, part in manifest.parts.items():
        if name not in _IN_MEMORY:
            files.verify(folder / name, part, whole=name != "terms")
    index = tantivy.Index(TANTIVY_SCHEMA, path=str(folder / "tantivy"))
    index.config_reader(reload_policy="manual")
    index.reload()
    ghosts = scoring.holders(documents, np.flatnonzero(documents.dead))
    spoken = np.frombuffer(content["spoken"], np.bool_)
    german = _german(content["german"].decode())
    return TextBase(documents, manifest.seq, manifest, index.searcher(), german, spoken, ghosts, mapped, hold=hold)


def _documents(folder: Path, manifest: Manifest, content: Mapping[str, bytes]) -> Documents:
    """The columns; the sums are of what was there before the terms are verified."""
    ids, ends = (np.frombuffer(content[name], np.int64) for name in ("ids", "ends"))
    dead = np.frombuffer(content["dead"], np.bool_)
    if not len(ids) == len(ends) == len(dead) == manifest.rows:
        raise Damaged("the columns have different lengths")
    count = manifest.parts["terms"].size // np.dtype(np.uint32).itemsize
    terms = np.memmap(folder / "terms", np.uint32, "r", shape=(count,)) if count else np.empty(0, np.uint32)
    try:
        return Documents(ids, dead, ends, np.asarray(terms), native.term_sums(np.asarray(terms), ends))
    except native.OutOfRange as error:
        raise Damaged("ends lead out of the terms") from error


def _german(content: str) -> dict[str, int]:
    return {term: int(count) for term, count in (line.split(" ") for line in content.splitlines())}

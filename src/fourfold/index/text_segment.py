"""The published part of a keyword index: columns of term hashes, tantivy over the same rows, and German words."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import tantivy

from fourfold import native
from fourfold.index import segment_files
from fourfold.index.locks import ReadLock
from fourfold.index.rows import NONE, Documents, Mapped, row_counts, term_hash
from fourfold.index.segment_files import Damaged, Manifest
from fourfold.index.source import TextRow
from fourfold.scheduling import paced
from fourfold.text import bm25
from fourfold.text.analysis import ANALYSER_VERSION
from fourfold.text.batch import analyse_together, split_letters
from fourfold.text.compounds import SortedLexicon
from fourfold.text.keyword_query import KeywordQuery

if TYPE_CHECKING:
    from fourfold.index.rows import Flags, Ints
    from fourfold.index.rows import Terms as Hashes


def _schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", fast=True, indexed=False)
    builder.add_text_field("body", tokenizer_name="whitespace", index_option="freq")
    return builder.build()


TANTIVY_SCHEMA = _schema()
_CACHED_COUNTS = 20_000
_CACHED_CLAUSES = 5_000
_REMEMBERED_TERMS = 200
"""Maximum number of terms asked for at once whose counts are cached."""


@dataclass(frozen=True)
class TextSegment:
    """Immutable. A newer publication is a new object."""

    documents: Documents
    seq: int
    manifest: Manifest | None = None
    searcher: Any = None
    german: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of live German rows that contain each term."""
    is_german: Flags = field(default_factory=lambda: np.empty(0, np.bool_))
    """Flags the German rows."""
    dead_counts: dict[int, int] = field(default_factory=dict[int, int])
    """By term hash, the number of dead rows, which tantivy still counts."""
    mapped: Mapped | None = None
    """The files that tantivy reads."""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """Cache: number of rows, live or dead, that contain a term."""
    clauses: dict[tuple[str, float], Any] = field(default_factory=dict[tuple[str, float], Any])
    """Cache: part of a query for a term and its value."""
    lock: ReadLock | None = None
    damage: str = ""
    """Why the published files cannot be used; the segment is then empty."""

    @staticmethod
    def empty(damage: str = "") -> TextSegment:
        return TextSegment(Documents.empty(), 0, damage=damage)

    @staticmethod
    def load(folder: Path, store: str) -> TextSegment:
        """Opens and verifies the published files. Without usable ones the segment is empty."""
        try:
            return segment_files.load(folder, store, ANALYSER_VERSION, _opened) or TextSegment.empty()
        except Damaged as error:
            return TextSegment.empty(str(error))

    # ------------------------------------------------------------ German words

    @cached_property
    def lexicon(self) -> SortedLexicon:
        return SortedLexicon(self.german)

    def german_losses(self, rows: Ints) -> dict[str, int]:
        """By term, the number of these rows that are German and contain it."""
        lost = row_counts(self.documents, rows[self.is_german[rows]]) if len(rows) else {}
        return {term: lost[hashed] for hashed in lost for term in self._german_by_hash.get(hashed, ())}

    @cached_property
    def _german_by_hash(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for term in self.german:
            found.setdefault(term_hash(term), []).append(term)
        return found

    # ------------------------------------------------------------ asking tantivy

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """Number of live rows that contain each term."""
        counts = self._counts(terms)
        if not self.dead_counts:
            return counts
        return [count - self.dead_counts.get(term_hash(term), 0) for term, count in zip(terms, counts, strict=True)]

    def _counts(self, terms: Sequence[str]) -> list[int]:
        """Number of rows, live or dead, that contain each term."""
        known = [self.counts.get(term) for term in terms]
        if self.searcher is None or None not in known:
            return [count or 0 for count in known]
        with self._reading():
            asked = [
                self.searcher.doc_freq("body", term) if count is None else count
                for term, count in zip(terms, known, strict=True)
            ]
        if len(self.counts) + len(terms) > _CACHED_COUNTS:
            self.counts.clear()
        if len(terms) <= _REMEMBERED_TERMS:  # not the hundreds of spellings of a typing error
            self.counts.update(zip(terms, asked, strict=True))
        return asked

    def proposing(self, query: KeywordQuery) -> Any:
        """The query as tantivy takes it; None if nothing is published."""
        if self.searcher is None:
            return None
        wanted = [each for word in query.words for each in zip(word.terms, word.values, strict=True)]
        clauses: list[Any] = [self.clauses.get(each) for each in wanted]
        if None in clauses:
            clauses = self._clauses(wanted)
            if len(self.clauses) + len(wanted) > _CACHED_CLAUSES:
                self.clauses.clear()
            self.clauses.update(zip(wanted, clauses, strict=True))
        return tantivy.Query.boolean_query(clauses)

    def _clauses(self, wanted: Sequence[tuple[str, float]]) -> list[Any]:
        # tantivy multiplies by an idf that counts dead rows, and does not know the tail
        idfs = bm25.idfs(self._counts([term for term, _ in wanted]), len(self.documents.ids))
        weighed = [(term, value / idf) for (term, value), idf in zip(wanted, idfs, strict=True)]
        return [(tantivy.Occur.Should, self._term(term, weight)) for term, weight in weighed]

    def propose(self, query: Any, count: int) -> tuple[Ints, Sequence[tuple[float, Any]]]:
        """The rows that tantivy ranks best, and its hits; scores are too high where variants of a word add up."""
        return (NONE, ()) if self.searcher is None else self._rows(query, count)

    def containing(self, groups: Sequence[Collection[str]], limit: int | None = None) -> Ints:
        """The rows that contain at least one term of every group: all, or those that tantivy ranks best."""
        if self.searcher is None or not groups:
            return NONE
        either = [[(tantivy.Occur.Should, self._term(term, 1.0)) for term in sorted(group)] for group in groups]
        clauses = [(tantivy.Occur.Must, tantivy.Query.boolean_query(terms)) for terms in either]
        return self._rows(tantivy.Query.boolean_query(clauses), limit or max(len(self.documents), 1))[0]

    def _term(self, term: str, weight: float) -> Any:
        query = tantivy.Query.term_query(TANTIVY_SCHEMA, "body", term, "freq")
        return query if weight == 1.0 else tantivy.Query.boost_query(query, weight)

    def _rows(self, query: Any, count: int) -> tuple[Ints, Sequence[tuple[float, Any]]]:
        with self._reading():
            hits = self.searcher.search(query, limit=count, count=False).hits
            found = self.searcher.fast_field_values("row", [address for _, address in hits])
        return np.frombuffer(array("q", found), np.int64), hits  # four times as fast as numpy with a list

    @contextmanager
    def _reading(self) -> Generator[None]:
        """Raises Damaged if a file that tantivy reads was overwritten after it was verified.

        tantivy may raise a panic then, which is not an `Exception`, or return anything.
        """
        try:
            yield
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise Damaged(f"tantivy: {error}") from error
        finally:
            if self.mapped is not None:
                self.mapped.require_unmodified()


_IN_MEMORY = ("ids", "dead", "ends", "spoken", "german")
"""Files that are read into memory; terms and tantivy's files are mapped."""
_SEARCHED = (".term", ".idx", ".fieldnorm", ".fast")
"""Suffixes of the tantivy files that a search reads."""


def _opened(folder: Path, manifest: Manifest) -> TextSegment:
    lock = ReadLock(folder)
    segment_files.require(manifest, *_IN_MEMORY, "terms", "tantivy/meta.json")
    content = {
        name: segment_files.read(folder / name, manifest.parts[name], whole=name == "german") for name in _IN_MEMORY
    }
    mapped = Mapped(folder / name for name in manifest.parts if Path(name).suffix in _SEARCHED)
    documents = _documents(folder, manifest, content)
    for name, part in manifest.parts.items():
        if name not in _IN_MEMORY:
            segment_files.verify(folder / name, part, whole=name != "terms")
    index = tantivy.Index(TANTIVY_SCHEMA, path=str(folder / "tantivy"))
    index.config_reader(reload_policy="manual")
    index.reload()
    dead_counts = row_counts(documents, np.flatnonzero(documents.dead))
    is_german = np.frombuffer(content["spoken"], np.bool_)
    german = _german(content["german"].decode())
    return TextSegment(
        documents, manifest.seq, manifest, index.searcher(), german, is_german, dead_counts, mapped, lock=lock
    )


def _documents(folder: Path, manifest: Manifest, content: Mapping[str, bytes]) -> Documents:
    """The columns. The checksums of the rows are computed before the terms are verified."""
    ids, ends = (np.frombuffer(content[name], np.int64) for name in ("ids", "ends"))
    dead = np.frombuffer(content["dead"], np.bool_)
    if not len(ids) == len(ends) == len(dead) == manifest.rows:
        raise Damaged("the columns have different lengths")
    count = manifest.parts["terms"].size // np.dtype(np.uint32).itemsize
    terms = np.memmap(folder / "terms", np.uint32, "r", shape=(count,)) if count else np.empty(0, np.uint32)
    try:
        return Documents(ids, dead, ends, np.asarray(terms), native.term_sums(np.asarray(terms), ends))
    except native.OutOfRange as error:
        raise Damaged("a row ends behind the last term") from error


def _german(content: str) -> dict[str, int]:
    return {term: int(count) for term, count in (line.split(" ") for line in content.splitlines())}


# ---------------------------------------------------------------- the terms by which items are indexed

_BATCH_ITEMS = 100
_FILLER = "~ " * bm25.BASE_LENGTH
"""Makes tantivy's lengths equal to ours; no term is spelled like this."""


class ItemTerms(NamedTuple):
    id: int
    language: str
    hashes: Hashes
    """Hashes of the terms, in order."""
    letters: str
    """The terms, with a space after each."""

    @property
    def terms(self) -> list[str]:
        return self.letters.split()


class TermColumns(NamedTuple):
    """The terms of several items in one language."""

    ids: list[int]
    language: str
    hashes: Hashes
    ends: Ints
    """Where the hashes of each item end."""
    letters: list[str]
    """The terms of each item, with a space after each."""

    @property
    def tantivy_bodies(self) -> list[str]:
        return [letters + _FILLER for letters in self.letters]


def item_terms(texts: Sequence[TextRow]) -> Iterator[ItemTerms]:
    """Analyses texts, in their order."""
    found: dict[int, ItemTerms] = {}
    for columns in term_columns(texts):
        bounds = zip(columns.ids, pairwise([0, *columns.ends.tolist()]), columns.letters, strict=True)
        found.update({id: ItemTerms(id, columns.language, columns.hashes[a:b], own) for id, (a, b), own in bounds})
    return (found[id] for id, *_ in texts)


def term_columns(texts: Sequence[TextRow]) -> Iterator[TermColumns]:
    """Analyses texts, grouped by language and in their order within each; bulk work yields after every 100."""
    for language in dict.fromkeys(language for *_, language in texts):
        own = [row for row in texts if row[3] == language]
        for start in paced(range(0, len(own), _BATCH_ITEMS)):
            ids = iter(own[start : start + _BATCH_ITEMS])
            for found in analyse_together([row[1:3] for row in own[start : start + _BATCH_ITEMS]], language):
                letters = split_letters(found)
                some = [id for id, *_ in islice(ids, len(letters))]
                yield TermColumns(some, language, found.hashes, found.hash_ends, letters)


# ---------------------------------------------------------------- German words, in which compounds are looked up


class LayeredLexicon:
    """The words of the published rows, without those that only dead rows had, and the words of the tail.

    Equals one sorted lexicon of all live rows, without sorting the published words at every change.
    """

    def __init__(self, published: SortedLexicon, extinct: frozenset[str], tail: SortedLexicon) -> None:
        self._published: Final = published
        self._extinct: Final = extinct
        self._tail: Final = tail

    def __contains__(self, term: object, /) -> bool:
        return term in self._tail or (term in self._published and term not in self._extinct)

    def starting(self, prefix: str, limit: int) -> Sequence[str]:
        found = self._published.starting(prefix, limit + len(self._extinct)), self._tail.starting(prefix, limit)
        return self._first(*found, limit, str)

    def ending(self, suffix: str, limit: int) -> Sequence[str]:
        found = self._published.ending(suffix, limit + len(self._extinct)), self._tail.ending(suffix, limit)
        return self._first(*found, limit, _reversed)

    def containing(self, part: str, limit: int) -> Sequence[str]:
        found = self._published.containing(part, limit + len(self._extinct)), self._tail.containing(part, limit)
        return self._first(*found, limit, str)

    def _first(
        self, published: Sequence[str], tail: Sequence[str], limit: int, order: Callable[[str], str]
    ) -> Sequence[str]:
        return sorted({*published} - self._extinct | {*tail}, key=order)[:limit]


def _reversed(term: str) -> str:
    return term[::-1]

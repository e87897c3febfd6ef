"""The published part of a keyword index: columns of term hashes, their postings, and German words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from fourfold.index import postings, segment_files
from fourfold.index.locks import ReadLock
from fourfold.index.rows import NONE, Documents, row_counts, term_hash, term_hashes
from fourfold.index.segment_files import Damaged, Manifest
from fourfold.index.source import TextRow
from fourfold.native import bindings
from fourfold.scheduling import paced
from fourfold.text.analysis import ANALYSER_VERSION
from fourfold.text.batch import analyse_together, split_letters
from fourfold.text.compounds import SortedLexicon

if TYPE_CHECKING:
    from fourfold.index.rows import Flags, Ints
    from fourfold.index.rows import Terms as Hashes

T = TypeVar("T")


@dataclass(frozen=True)
class TextSegment:
    """Immutable. A newer publication is a new object."""

    documents: Documents
    seq: int
    manifest: Manifest | None = None
    german: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of live German rows that contain each term."""
    is_german: Flags = field(default_factory=lambda: np.empty(0, np.bool_))
    """Flags the German rows."""
    dead_counts: dict[int, int] = field(default_factory=dict[int, int])
    """By term hash, the number of dead rows, which the postings still have."""
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

    # ------------------------------------------------------------ postings

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """Number of live rows that contain each term."""
        hashes = term_hashes(terms)
        if (published := self.documents.postings) is None:
            return [0] * len(hashes)
        try:
            counts = published.frequencies(hashes)
        except bindings.OutOfRange as error:
            raise Damaged("postings are damaged") from error
        if not self.dead_counts:
            return counts
        return [count - self.dead_counts.get(hashed, 0) for hashed, count in zip(hashes, counts, strict=True)]

    def containing(self, groups: Sequence[Collection[str]]) -> Ints:
        """The rows that contain at least one term of every group, ascending."""
        if (published := self.documents.postings) is None or not groups:
            return NONE
        rows = [np.concatenate([NONE, *map(published.rows_with, term_hashes(group))]) for group in groups]
        return reduce(np.intersect1d, rows[1:], np.unique(rows[0]))


_IN_MEMORY = ("ids", "dead", "ends", "spoken", "german")
"""Files that are read into memory; terms and postings are mapped."""


def _opened(folder: Path, manifest: Manifest) -> TextSegment:
    lock = ReadLock(folder)
    segment_files.require(manifest, *_IN_MEMORY, "terms")
    content = {
        name: segment_files.read(folder / name, manifest.parts[name], whole=name == "german") for name in _IN_MEMORY
    }
    files = postings.spans(manifest)
    for name in ("terms", *(span.name for span in files)):
        segment_files.verify(folder / name, manifest.parts[name], whole=name != "terms")
    documents = replace(_documents(folder, manifest, content), postings=postings.read(folder, files, manifest))
    dead_counts = row_counts(documents, np.flatnonzero(documents.dead))
    is_german = np.frombuffer(content["spoken"], np.bool_)
    german = _german(content["german"].decode())
    return TextSegment(documents, manifest.seq, manifest, german, is_german, dead_counts, lock)


def _documents(folder: Path, manifest: Manifest, content: Mapping[str, bytes]) -> Documents:
    ids, ends = (np.frombuffer(content[name], np.int64) for name in ("ids", "ends"))
    dead = np.frombuffer(content["dead"], np.bool_)
    if not len(ids) == len(ends) == len(dead) == manifest.rows:
        raise Damaged("the columns have different lengths")
    count = manifest.parts["terms"].size // np.dtype(np.uint32).itemsize
    if len(ends) and (ends[-1] > count or (np.diff(ends, prepend=0) < 0).any()):
        raise Damaged("a row ends behind the last term")
    return Documents(ids, dead, ends, mapped_terms(folder, count))


def mapped_terms(folder: Path, count: int) -> Hashes:
    return np.asarray(np.memmap(folder / "terms", np.uint32, "r", shape=(count,))) if count else np.empty(0, np.uint32)


def _german(content: str) -> dict[str, int]:
    return {term: int(count) for term, count in (line.split(" ") for line in content.splitlines())}


# ---------------------------------------------------------------- the terms by which items are indexed

_BATCH_ITEMS = 100


class ItemTerms(NamedTuple):
    id: int
    language: str
    hashes: Hashes
    """Hashes of the terms, in order."""
    letters: str
    """The terms of a German item, with a space after each."""

    @property
    def german_terms(self) -> list[str]:
        return self.letters.split()


class TermColumns(NamedTuple):
    """The terms of several items in one language."""

    ids: list[int]
    language: str
    hashes: Hashes
    ends: Ints
    """Where the hashes of each item end."""
    letters: list[str]
    """The terms of each German item, with a space after each; empty for others, of which only the hashes are used."""

    @property
    def lengths(self) -> list[int]:
        return np.diff(self.ends, prepend=0).tolist()

    def german_terms(self) -> dict[int, tuple[str, ...]]:
        """The terms of the German items."""
        return {id: tuple(own.split()) for id, own in zip(self.ids, self.letters, strict=True) if self.language == "de"}


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
                some = [id for id, *_ in islice(ids, len(found.hash_ends))]
                letters = split_letters(found) if language == "de" else [""] * len(some)
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

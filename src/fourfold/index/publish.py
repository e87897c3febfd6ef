"""Publishing indexes: folds the changes since the last publication into a new generation of files.

The caller holds the lease. The manifest names the new generation once everything is on disk, so readers see the old
index or the new one, whenever the process is killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fourfold.index import segment_files, text_index
from fourfold.index.log_tail import Change, IndexTuning, Segment, Source
from fourfold.index.rows import NONE, Rows
from fourfold.index.segment_files import Manifest, Part
from fourfold.index.text_index import TextIndex, TextSegment, mapped_terms, term_columns
from fourfold.index.vector_index import VectorIndex, VectorSegment, columns, import_faiss, train
from fourfold.index.vector_index import sums as row_sums
from fourfold.model import Space
from fourfold.text.analysis import ANALYSER_VERSION

if TYPE_CHECKING:
    from fourfold.index.rows import Flags, Ints


@dataclass(frozen=True, slots=True)
class Publication:
    """The indexes of one namespace, to be brought to its last change."""

    folder: Path
    source: Source
    owner: str
    """The store and namespace that the files belong to."""
    tuning: IndexTuning
    rebuild: bool = False
    """Ignores the published files, and reads all items."""

    def can_continue(self, kind: str, segment: Segment) -> bool:
        manifest = segment.manifest
        if self.rebuild or manifest is None:
            return False
        with self.source.read() as source:
            return manifest.mark in source.publication_marks(kind)

    def last_change(self) -> int:
        with self.source.read() as source:
            return source.last_change


def publish_text(publication: Publication) -> bool:
    """Publishes the keyword index. False if it was up to date."""
    folder, source, last = publication.folder / TextIndex.KIND, publication.source, publication.last_change()
    segment = TextSegment.load(folder, publication.owner)
    if not publication.can_continue(TextIndex.KIND, segment):
        segment = TextSegment.empty()
    elif segment.seq >= last:
        return False
    changed, dead = _changed(publication, segment.documents, segment.seq, last, Change.TEXT)
    if dead is None:
        segment = TextSegment.empty()
    target = segment_files.begin_generation(folder, segment.manifest, ("dead", "german"))
    position, row = len(segment.documents.terms), len(segment.documents)
    german = Counter(segment.german) - Counter(segment.german_losses(_newly_dead(segment.documents, dead)))
    with segment_files.opened_columns(target, segment.manifest, ("ids", "ends", "terms", "spoken")) as appended:
        ids, ends, terms, is_german = appended
        for batch in _batches(publication, changed):
            with source.read() as snapshot:
                texts = list(snapshot.texts(batch))
            for fresh in term_columns(texts):
                ids.append(np.array(fresh.ids, np.int64))
                ends.append(fresh.ends + position)
                terms.append(fresh.hashes)
                is_german.append(np.full(len(fresh.ids), fresh.language == "de"))
                german.update(term for terms in fresh.german_terms().values() for term in set(terms))
                row += len(fresh.ids)
                position += len(fresh.hashes)
    parts = {column.name: column.part for column in appended}
    parts["dead"] = segment_files.replace_file(target / "dead", _extended(dead, row).tobytes())
    words = "\n".join(f"{term} {count}" for term, count in sorted(german.items()))
    parts["german"] = segment_files.replace_file(target / "german", words.encode())
    parts |= _postings(target, segment.manifest, row, position)
    manifest = Manifest(
        segment_files.generation_number(target), last, row, ANALYSER_VERSION, publication.owner, parts=parts
    )
    _finish(publication, TextIndex.KIND, target, manifest)
    return True


def _postings(target: Path, manifest: Manifest | None, rows: int, terms: int) -> dict[str, Part]:
    """The files of postings of all rows: those that the manifest names, and a new one that may replace some of them."""
    published = text_index.posting_spans(manifest)
    parts = manifest.parts if manifest is not None else dict[str, Part]()
    if rows == (published[-1].end_row if published else 0):
        return {span.name: parts[span.name] for span in published}
    kept, fresh = text_index.continued_spans(published, rows)
    ends = np.fromfile(target / "ends", np.int64, rows)
    files = {span.name: parts[span.name] for span in kept}
    files[fresh.name] = text_index.write_postings(target, fresh, mapped_terms(target, terms), ends)
    for span in published[len(kept) :]:
        (target / span.name).unlink()
    return files


def publish_vectors(publication: Publication, space: Space) -> bool:
    """Publishes the vector index; the rows in FAISS stay the same. False if it was up to date."""
    folder, source, last = publication.folder / VectorIndex.KIND, publication.source, publication.last_change()
    segment = VectorSegment.load(folder, publication.owner, space, publication.tuning)
    if not publication.can_continue(VectorIndex.KIND, segment):
        segment = VectorSegment.empty(space.dimension)
    elif segment.seq >= last:
        return False
    changed, dead = _changed(publication, segment.vectors, segment.seq, last, Change.VECTOR)
    if dead is None:
        segment = VectorSegment.empty(space.dimension)
    target = segment_files.begin_generation(folder, segment.manifest, ("dead",))
    row = len(segment.vectors)
    with segment_files.opened_columns(target, segment.manifest, ("ids", "vectors", "sums")) as appended:
        ids, vectors, sums = appended
        for batch in _batches(publication, changed):
            with source.read() as snapshot:
                fresh, matrix = snapshot.vectors(batch, space.dimension)
            ids.append(fresh)
            vectors.append(matrix)
            sums.append(row_sums(matrix))
            row += len(fresh)
    parts = {column.name: column.part for column in appended}
    parts["dead"] = segment_files.replace_file(target / "dead", _extended(dead, row).tobytes())
    covered = 0
    if segment.manifest is not None and "faiss" in segment.manifest.parts:
        parts["faiss"], covered = segment.manifest.parts["faiss"], segment.covered
    number, owner = segment_files.generation_number(target), publication.owner
    manifest = Manifest(number, last, row, space.fingerprint, owner, covered=covered, parts=parts)
    _finish(publication, VectorIndex.KIND, target, manifest)
    return True


def publish_faiss(publication: Publication, space: Space) -> bool:
    """Trains FAISS on the published vectors. False if it holds enough of them."""
    folder, tuning = publication.folder / VectorIndex.KIND, publication.tuning
    manifest = segment_files.matching_manifest(folder, publication.owner, space.fingerprint)
    if manifest is None or not lacks_faiss(manifest, tuning):
        return False
    target = segment_files.begin_generation(folder, manifest, ("faiss",))
    segment_files.verify(target / "vectors", manifest.parts["vectors"])  # FAISS would hide a damaged row
    vectors = columns(target, manifest, space.dimension)
    built = train(vectors.matrix, vectors.live, tuning)
    part = segment_files.replace_file(target / "faiss", import_faiss().serialize_index(built).tobytes())
    manifest = replace(manifest, generation=segment_files.generation_number(target), covered=manifest.rows)
    _finish(publication, VectorIndex.KIND, target, segment_files.with_part(manifest, "faiss", part))
    return True


def lacks_faiss(manifest: Manifest, tuning: IndexTuning, expected_rows: int = 0) -> bool:
    """Whether there are, or will be, enough vectors for FAISS, and FAISS lacks a large share of them."""
    rows = max(manifest.rows, expected_rows)
    return rows > tuning.exact_rows and rows - manifest.covered > tuning.unknown_to_faiss_share * rows


def published_seq(folder: Path, owner: str, space: Space | None) -> int:
    """The last change that all indexes of a namespace hold; 0 if one of them is missing or cannot be used."""
    text = _seq(folder / TextIndex.KIND, owner, ANALYSER_VERSION)
    return text if space is None else min(text, _seq(folder / VectorIndex.KIND, owner, space.fingerprint))


def _seq(folder: Path, owner: str, space: str) -> int:
    try:
        manifest = segment_files.matching_manifest(folder, owner, space)
    except segment_files.Damaged:
        return 0
    return manifest.seq if manifest is not None else 0


def _changed(
    publication: Publication, rows: Rows, seq: int, last: int, kinds: Change
) -> tuple[list[int], Flags | None]:
    """The items to write, and which existing rows are dead then; None for a rebuild from all items.

    Snapshots are short, so an item may be written as it is after `last`. The log then names it again, and its row dies
    with the next publication or in the tail.
    """
    with publication.source.read() as source:
        if not seq or seq < source.pruned:
            return source.all_ids(), None
        changed = source.changed_ids(seq, last, kinds | Change.REMOVED)
    dead = rows.without(rows.find(np.array(changed, np.int64))).dead
    if dead.sum() <= publication.tuning.dead_share * (len(rows) + len(changed)):
        return changed, dead
    with publication.source.read() as source:
        return source.all_ids(), None


def _batches(publication: Publication, ids: list[int]) -> Generator[list[int]]:
    size = publication.tuning.publish_batch_items
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def _newly_dead(rows: Rows, dead: Flags | None) -> Ints:
    return NONE if dead is None else np.flatnonzero(dead & ~rows.dead)


def _extended(dead: Flags | None, rows: int) -> Flags:
    flags = np.zeros(rows, np.bool_)
    if dead is not None:
        flags[: len(dead)] = dead
    return flags


def _finish(publication: Publication, kind: str, target: Path, manifest: Manifest) -> None:
    mark = publication.source.add_publication_mark(kind)
    segment_files.finish_generation(publication.folder / kind, target, replace(manifest, mark=mark))

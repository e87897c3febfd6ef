"""Publishing indexes: what the log brought since the last time goes into the files, under the lease.

A publication is a new generation: a folder whose unchanged files are links to the previous one's. The manifest names
it once everything is on disk, so readers have the old index or the new one, and an interrupted publication leaves
nothing but a folder that the next one clears.
"""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import apsw
import numpy as np
import tantivy

from fourfold import owner_only
from fourfold.stores.base import Space
from fourfold.stores.sqlite import files, items
from fourfold.stores.sqlite.analysed import analysed_texts
from fourfold.stores.sqlite.files import Manifest, Part
from fourfold.stores.sqlite.items import Change
from fourfold.stores.sqlite.lease import unheld
from fourfold.stores.sqlite.rows import NONE, Rows
from fourfold.stores.sqlite.text_base import TANTIVY_SCHEMA, TextBase
from fourfold.stores.sqlite.vector_base import EXACT_ROWS, VectorBase, columns, import_faiss, train
from fourfold.stores.sqlite.vector_base import sums as row_sums
from fourfold.text.analysis import ANALYSER_VERSION

if TYPE_CHECKING:
    from fourfold.stores.sqlite.rows import Flags, Ints

_WRITTEN_ANEW = ("*.lock", "*.new", "dead", "german")
"""What a generation does not share with the one before."""
_FAISS_ANEW = ("*.lock", "*.new", "faiss")
_HEAP_BYTES = 64 * 1024 * 1024
_CHUNK = 2000
_NO_TERMS = np.empty(0, np.uint32)
_DEAD_SHARE = 0.1
"""More dead rows than this, and the index is written anew from the rows."""
_UNCOVERED_SHARE = 0.25
"""FAISS is trained anew when it does not know this share of the rows."""


class Base(Protocol):
    @property
    def manifest(self) -> Manifest | None: ...


@dataclass(frozen=True, slots=True)
class Work:
    """What an index is to become."""

    reading: Callable[[], AbstractContextManager[apsw.Connection]]
    """A snapshot, to be let go of soon: as long as there is one, SQLite's write-ahead log cannot begin anew. So an item
    may be read as it is after `last`; the log then names it, and its row dies with what follows."""
    ns: int
    store: str
    last: int
    """The change to bring it to."""
    marks: Callable[[str], Sequence[str]]
    """Of the publications of an index that the database has heard of."""
    announce: Callable[[str], str]
    """Tells the database of another one, and gives its mark."""
    anew: bool = False
    """From the rows alone, whatever the files say."""

    def begun(self, kind: str, base: Base) -> bool:
        """Whether there is something that can be continued."""
        manifest = base.manifest
        return not self.anew and manifest is not None and manifest.mark in self.marks(kind)


def publish_text(work: Work, folder: Path) -> bool:
    """Brings the keyword index to its change. False if it was there."""
    base = TextBase.load(folder, work.store)
    if not work.begun("text", base):
        base = TextBase.nothing()
    elif base.seq >= work.last:
        return False
    changed, dead = _changed(work, base.documents, base.seq, Change.TEXT)
    if dead is None:
        base = TextBase.nothing()
    target = _generation(folder, base.manifest)
    position, row = len(base.documents.terms), len(base.documents)
    german = Counter(base.german) - Counter(base.german_losses(_died(base.documents, dead)))
    names = ("ids", "ends", "terms", "spoken")
    with _columns(target, base.manifest, names) as added, _TantivyWriter(target / "tantivy") as writer:
        ids, ends, terms, spoken = added
        for part in items.chunks(changed, _CHUNK):
            with work.reading() as db:
                texts = list(items.texts(db, part))
            fresh = list(analysed_texts(texts))
            lengths = np.cumsum([len(item.hashes) for item in fresh], dtype=np.int64)
            ids.append(np.array([item.id for item in fresh], np.int64))
            ends.append(lengths + position)
            terms.append(np.concatenate([_NO_TERMS, *(item.hashes for item in fresh)]))
            for item in fresh:
                writer.add(row, item.tantivy_body)
                row += 1
            position += int(lengths[-1]) if fresh else 0
            spoken.append(np.array([item.language == "de" for item in fresh], np.bool_))
            german.update(term for item in fresh if item.language == "de" for term in set(item.terms))
    parts = {column.name: column.part for column in added}
    parts["dead"] = files.replace_file(target / "dead", _extended(dead, row).tobytes())
    words = "\n".join(f"{term} {count}" for term, count in sorted(german.items()))
    parts["german"] = files.replace_file(target / "german", words.encode())
    parts |= _tantivy_parts(target, base.manifest)
    mark = work.announce("text")
    _publish(folder, target, Manifest(_number(target), work.last, row, ANALYSER_VERSION, work.store, mark, parts=parts))
    return True


def publish_vectors(work: Work, folder: Path, space: Space) -> bool:
    """Brings the vector index to its change. False if it was there. FAISS knows what it knew before."""
    dimension = space.dimension
    base = VectorBase.load(folder, work.store, space)
    if not work.begun("vectors", base):
        base = VectorBase.nothing(dimension)
    elif base.seq >= work.last:
        return False
    changed, dead = _changed(work, base.vectors, base.seq, Change.VECTOR)
    if dead is None:
        base = VectorBase.nothing(dimension)
    target = _generation(folder, base.manifest)
    row = len(base.vectors)
    with _columns(target, base.manifest, ("ids", "vectors", "sums")) as added:
        ids, vectors, sums = added
        for part in items.chunks(changed, _CHUNK):
            with work.reading() as db:
                fresh, matrix = items.vectors(db, part, dimension)
            ids.append(fresh)
            vectors.append(matrix)
            sums.append(row_sums(matrix))
            row += len(fresh)
    parts = {column.name: column.part for column in added}
    parts["dead"] = files.replace_file(target / "dead", _extended(dead, row).tobytes())
    mark = work.announce("vectors")
    manifest = Manifest(_number(target), work.last, row, space.fingerprint, work.store, mark, parts=parts)
    if base.manifest is not None and "faiss" in base.manifest.parts:
        manifest = files.with_part(replace(manifest, covered=base.covered), "faiss", base.manifest.parts["faiss"])
    _publish(folder, target, manifest)
    return True


def publish_faiss(folder: Path, store: str, space: Space, announce: Callable[[str], str]) -> bool:
    """Puts FAISS over the rows that are published. False if it knows enough of them."""
    manifest = files.fitting(folder, store, space.fingerprint)
    if manifest is None or not lacks_faiss(manifest):
        return False
    target = _generation(folder, manifest, anew=_FAISS_ANEW)
    files.verify(target / "vectors", manifest.parts["vectors"])  # a damaged row must not get a code that hides it
    built = train(columns(target, manifest, space.dimension))
    part = files.replace_file(target / "faiss", import_faiss().serialize_index(built).tobytes())
    manifest = replace(manifest, generation=_number(target), mark=announce("vectors"), covered=manifest.rows)
    _publish(folder, target, files.with_part(manifest, "faiss", part))
    return True


def lacks_faiss(manifest: Manifest, coming: int = 0) -> bool:
    """Whether the vectors, published or coming, are many, and a good share of them nothing that FAISS knows."""
    rows = max(manifest.rows, coming)
    return rows > EXACT_ROWS and rows - manifest.covered > _UNCOVERED_SHARE * rows


def published_seq(folder: Path, owner: str, space: Space | None) -> int:
    """The last change that the indexes of a namespace hold, as far as they can be used; 0 where one cannot."""
    stamps = {"text": ANALYSER_VERSION} if space is None else {"text": ANALYSER_VERSION, "vectors": space.fingerprint}
    return min(_seq(folder / name, owner, stamp) for name, stamp in stamps.items())


def _seq(folder: Path, owner: str, stamp: str) -> int:
    try:
        manifest = files.fitting(folder, owner, stamp)
    except files.Damaged:
        manifest = None
    return manifest.seq if manifest is not None else 0


# ---------------------------------------------------------------- what is to be done


def _changed(work: Work, rows: Rows, seq: int, what: Change) -> tuple[list[int], Flags | None]:
    """The items to write, and the flags of the rows that are there already; None: begin anew, with all items."""
    ns = work.ns
    with work.reading() as db:
        if not seq or seq < items.pruned(db, ns):
            return items.all_ids(db, ns), None
        changed = items.changed(db, ns, seq, work.last, what | Change.GONE)
        dead = rows.without(rows.find(np.array(changed, np.int64))).dead
        if dead.sum() > _DEAD_SHARE * (len(rows) + len(changed)):
            return items.all_ids(db, ns), None
        return changed, dead


def _died(rows: Rows, dead: Flags | None) -> Ints:
    """The rows that this publication finds dead."""
    return NONE if dead is None else np.flatnonzero(dead & ~rows.dead)


def _extended(dead: Flags | None, rows: int) -> Flags:
    flags = np.zeros(rows, np.bool_)
    if dead is not None:
        flags[: len(dead)] = dead
    return flags


# ---------------------------------------------------------------- generations


def _generation(folder: Path, manifest: Manifest | None, *, anew: Sequence[str] = _WRITTEN_ANEW) -> Path:
    """A new generation's folder with links to all files of the one that it continues, but for those written anew."""
    if folder.exists() and not folder.is_dir():
        folder.unlink()
    newest = max(map(_number, _generations(folder)), default=0)
    target = folder / f"g{newest + 1}"
    owner_only.make_folder(target)
    if manifest is not None:
        _link_all(folder / f"g{manifest.generation}", target, anew)
    return target


def _link_all(source: Path, target: Path, anew: Sequence[str]) -> None:
    for path in source.iterdir():
        if path.is_dir():
            owner_only.make_folder(target / path.name)
            _link_all(path, target / path.name, anew)
        elif not any(path.match(pattern) for pattern in anew):
            _link(path, target / path.name)


def _generations(folder: Path) -> list[Path]:
    return [path for path in folder.glob("g*") if path.name[1:].isdecimal()]


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


def _number(generation: Path) -> int:
    return int(generation.name[1:])


def _publish(folder: Path, target: Path, manifest: Manifest) -> None:
    """Swaps the new generation in."""
    owner_only.tighten_all(target)  # tantivy creates its files with the umask of the process
    files.sync_folder(target)
    files.write_manifest(folder, manifest)


def has_older(folder: Path) -> bool:
    """Whether there is more than the current generation."""
    return len(_generations(folder)) > 1


def collect(folder: Path, *, held: bool = False) -> None:
    """Removes older generations and what an interrupted publication left, unless a process reads it; `held`: even so.

    What is mapped stays readable until its reader lets go (on Windows, the folder stays).
    """
    try:
        manifest = files.read_manifest(folder)
    except files.Damaged:
        return
    current = manifest.generation if manifest is not None else 0
    for path in _generations(folder):
        if _number(path) != current:
            with unheld(path) as free:
                if free or held:
                    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _columns(target: Path, manifest: Manifest | None, names: Sequence[str]) -> Generator[list[files.Column]]:
    """The append-only files of a generation; all that was added is on disk when the block ends well."""
    known = manifest.parts if manifest is not None else dict[str, Part]()
    opened = [files.Column(target / name, known.get(name, Part())) for name in names]
    try:
        yield opened
        for column in opened:
            column.sync()
    finally:
        for column in opened:
            column.close()


class _TantivyWriter:
    """A tantivy index that is committed and merged when the block ends well."""

    def __init__(self, folder: Path) -> None:
        owner_only.make_folder(folder)
        with _tantivy_errors():
            self._writer: Any = tantivy.Index(TANTIVY_SCHEMA, path=str(folder)).writer(_HEAP_BYTES, 1)

    def add(self, row: int, body: str) -> None:
        with _tantivy_errors():
            self._writer.add_document(tantivy.Document(row=row, body=body))

    def __enter__(self) -> _TantivyWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with _tantivy_errors():
            if kind is None:
                self._writer.commit()
                self._writer.garbage_collect_files()
            self._writer.wait_merging_threads()


@contextmanager
def _tantivy_errors() -> Generator[None]:
    """It raises ValueError whatever goes wrong, and all that can go wrong here is the disk."""
    try:
        yield
    except ValueError as error:
        raise OSError(errno.EIO, f"tantivy cannot write ({error})") from error


def _tantivy_parts(target: Path, manifest: Manifest | None) -> dict[str, Part]:
    """Checksums of what tantivy wrote, so that a damaged file is seen before tantivy sees it."""
    known = manifest.parts if manifest is not None else dict[str, Part]()
    parts: dict[str, Part] = {}
    for path in sorted(path for path in (target / "tantivy").iterdir() if path.suffix != ".lock"):
        name, lasting = f"tantivy/{path.name}", path.suffix != ".json"
        parts[name] = known[name] if lasting and name in known else files.checksum(path, path.stat().st_size)
    return parts

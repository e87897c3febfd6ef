"""JSON Lines files: exports of a whole store, copies of it into another one, and rows of items from elsewhere."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias, cast

from fourfold import errors, owner_only
from fourfold import validation as rules
from fourfold.embed.base import check_vector
from fourfold.fields import DETAILS
from fourfold.model import Json, NewItem
from fourfold.storage.protocols import Store
from fourfold.storage.sql.dialect import light_pages
from fourfold.storage.sql.records import RecordReader
from fourfold.storage.values import Record

Progress: TypeAlias = Callable[[int, int], None]
"""(done, in all)"""
HEADER: Mapping[str, Json] = {"type": "fourfold-export", "format": 1}
_BATCH_ROWS = 1000


class Importer(Protocol):
    """The part of Memory that an import needs."""

    @property
    def store(self) -> Store: ...

    def add_many(self, items: Sequence[NewItem]) -> Sized: ...


@dataclass(frozen=True, slots=True)
class RowRules:
    """What an import does with rows, beside storing them."""

    check: Callable[[NewItem], None]
    """Raises RequestError for a row that the store would refuse."""
    skip: Callable[[str], None] | None
    """Is told of each invalid row, which is then left out; None: one invalid row refuses all of them."""


def export_file(store: Store, target: Path, namespace: str | None = None) -> dict[str, int]:
    """Writes all namespaces or one, sorted: equal stores give equal bytes. The file is written atomically."""
    counts: Counter[str] = Counter()
    try:
        with owner_only.replacing(target) as file:
            file.write(line(HEADER))

            def write(record: Record) -> None:
                counts[record["type"]] += 1
                file.write(line(record))

            store.portable.export(write, namespace=namespace)
    except OSError as error:
        remedy = "Choose another file"
        raise errors.StoreUnavailable(f"{target} cannot be written ({error.strerror})", remedy) from error
    return dict(counts)


def line(record: Mapping[str, Json]) -> str:
    """A record as a line of an export; equal records give equal lines."""
    return json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n"


def import_file(
    memory: Importer,
    source: Path,
    progress: Progress | None,
    namespace: str | None,
    protect: Callable[[Record], Record],
    rows: RowRules,
) -> dict[str, int]:
    """Loads an export into an empty store, or of one namespace into `namespace`; adds rows, batch by batch.

    `protect` converts each record of an export before it is stored.
    """
    lines = Lines(source)
    try:
        first = next(iter(lines), None)
    except errors.InvalidItem:
        first = None  # the first row is invalid; so is an export without its header
    if first is None or first[1].get("type") != HEADER["type"]:
        return _import_rows(memory, lines, progress, rows)
    if first[1].get("format") != HEADER["format"]:
        found, known = first[1].get("format"), HEADER["format"]
        remedy = "Upgrade Fourfold"
        raise errors.NewerSchema(f"{source.name} has the format {found}, this Fourfold knows {known}", remedy)
    return _import_export(memory.store, lines, progress, namespace, protect)


def _import_export(
    store: Store,
    lines: Lines,
    progress: Progress | None,
    namespace: str | None,
    protect: Callable[[Record], Record],
) -> dict[str, int]:
    counts: Counter[str] = Counter()

    def counted() -> Iterator[Record]:
        for _, record in islice(lines, 1, None):
            counts[str(record.get("type"))] += 1
            if progress is not None and counts.total() % _BATCH_ROWS == 0:
                progress(lines.read, lines.size)
            yield protect(record)

    lines.number = 0
    with lines.located():
        if namespace is None:
            store.portable.load(counted())
        else:
            store.portable.load_namespace(counted(), namespace)
    if progress is not None:
        progress(lines.size, lines.size)
    return dict(counts)


def _import_rows(memory: Importer, lines: Lines, progress: Progress | None, rows: RowRules) -> dict[str, int]:
    """Reads the file twice: what is invalid is known before anything is stored."""
    invalid = dict(_invalid_rows(lines, rows.check))
    if invalid and rows.skip is None:
        first = next(iter(invalid.values()))
        more = f" ({len(invalid)} rows are invalid)" if len(invalid) > 1 else ""
        remedy = f"{first.remedy}; nothing is stored{more}. --skip-invalid lists invalid rows and stores the others"
        raise type(first)(first.message, remedy)
    for error in invalid.values():
        if rows.skip is not None:
            rows.skip(error.message)
    count = 0
    valid = ((number, new_item(row)) for number, row in lines.objects(without=invalid))
    for batch in light_pages(valid, _BATCH_ROWS, lambda row: len(row[1].text)):
        with lines.located(f"{batch[0][0]}-{batch[-1][0]}"):
            count += len(memory.add_many([item for _, item in batch]))
        if progress is not None:
            progress(lines.read, lines.size)
    return {"item": count}


def _invalid_rows(lines: Lines, check: Callable[[NewItem], None]) -> Iterator[tuple[int, errors.RequestError]]:
    """Line numbers with errors that name them."""
    for number, line in lines.filled():
        try:
            with lines.located():
                check(new_item(_parsed(line)))
        except errors.RequestError as error:
            yield number, error


class Lines:
    """The objects of a JSON Lines file with their line numbers. Can be iterated repeatedly."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self.read = 0
        """Bytes."""
        self.number = 0
        """The last line that was read."""
        try:
            self.size = source.stat().st_size
        except OSError as error:
            raise self._unreadable(error) from error

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        return self.objects()

    def objects(self, without: Collection[int] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
        """`without`: lines to leave out."""
        return ((number, _parsed(line)) for number, line in self.filled() if number not in without)

    def filled(self) -> Iterator[tuple[int, bytes]]:
        """The lines that are not empty, with their numbers."""
        self.read = 0
        try:
            with self._source.open("rb") as file:
                for self.number, line in enumerate(file, 1):
                    self.read += len(line)
                    if line.strip():
                        yield self.number, line
        except OSError as error:
            raise self._unreadable(error) from error

    @contextmanager
    def located(self, place: str = "") -> Generator[None]:
        """Adds the place to errors: the last line that was read, unless `place` is given."""
        try:
            yield
        except errors.RequestError as error:
            where = place or self.number
            message = f"{self._source.name}:{where}: {error.message}" if where else error.message
            raise type(error)(message, error.remedy) from error

    def _unreadable(self, error: OSError) -> errors.InvalidItem:
        return errors.InvalidItem(f"{self._source} cannot be read ({error.strerror})", "Check the path")


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidItem(f"not JSON ({error})", "Write one JSON object per line") from error
    if not isinstance(row, dict):
        raise errors.InvalidItem("not an object", "Write one JSON object per line")
    return cast("dict[str, Any]", row)


def new_item(row: Mapping[str, Any]) -> NewItem:
    """Checks a row of a file that is not an export, and makes it an item."""
    if row.get("type") == "item" and "namespace" in row:
        remedy = "Import the export as a whole"
        raise errors.InvalidItem("this is a record of an export, whose header is missing", remedy)
    key = next((row[name] for name in ("key", "_id", "id") if row.get(name) is not None), None)
    tags: Any = row.get("tags") or []
    vector = row.get("embedding")
    if not isinstance(tags, list):
        raise errors.InvalidItem("tags is not a list", "Write a list of strings")
    details: dict[str, Any] = {
        name: _time(row, name) if column.holds == "time" else row.get(name)
        for name, column in DETAILS.items()
        if column.given
    }
    new = NewItem(
        text=row.get("text") or "",
        title=row.get("title") or "",
        key=None if key is None else str(key),
        tags=tuple(cast("list[str]", tags)),
        kind=row.get("kind") or row.get("type"),
        metadata=row.get("metadata") or {},
        language=row.get("language"),
        created_at=_time(row, "created_at"),
        vector=None if vector is None else check_vector(vector),
        source="import",
        **details,
    )
    return rules.checked(new)


def _time(row: Mapping[str, Any], name: str) -> datetime | None:
    text = row.get(name)
    try:
        return None if text is None else datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise errors.InvalidItem(f"{name} is {text!r}", "Write it as 2026-11-15T10:00:00Z") from error


# ---------------------------------------------------------------- copying a store

_STEP = 1000
"""Records between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Moved:
    counts: dict[str, int]
    """Records by kind."""
    checksum: str
    """SHA-256 of the export, the same on both sides."""


def move(source: Store, target: Store, progress: Progress | None = None) -> Moved:
    """Copies everything; the source stays unchanged. Writes to the source during the copy are not part of it.

    After an interruption the same call continues if the source is still the same; after a complete copy it changes
    nothing. The records are spooled to a file without a name, so a killed process leaves nothing behind.
    """
    with tempfile.TemporaryFile(prefix="fourfold-move-") as spool:
        moved = _summed(source, spool)
        try:
            target.portable.load(_records(spool, progress), mark=moved.checksum)
        except errors.StoreNotEmpty:
            if _summed(target) != moved:
                raise
            return moved
        copied = _summed(target)
    if copied != moved:
        what = f"the copy has {copied.counts}, the original {moved.counts}, or their contents differ"
        raise errors.DamagedStore(what, "Stop other writers of the target, empty it, and move again")
    return moved


def checksum(records: Iterable[Record]) -> str:
    """SHA-256 of the export that consists of these records."""
    digest = hashlib.sha256(line(HEADER).encode())
    for record in records:
        digest.update(line(record).encode())
    return digest.hexdigest()


def _summed(store: Store, spool: IO[bytes] | None = None) -> Moved:
    """Counts and checksum of a store's export. With a `spool`, checks its records and writes them there."""
    counts: Counter[str] = Counter()
    digest = hashlib.sha256(line(HEADER).encode())
    reader = RecordReader()

    def write(record: Record) -> None:
        content = line(record).encode()
        counts[record["type"]] += 1
        digest.update(content)
        if spool is not None:
            reader.read(record)
            spool.write(content)

    try:
        store.portable.export(write)
        if spool is not None:
            reader.end()
            spool.flush()
    except errors.InvalidItem as error:
        remedy = "Run fourfold repair, then move again"
        raise errors.InvalidItem(f"the store breaks a rule: {error.message}", remedy) from error
    except OSError as error:
        remedy = "Free space there, or set TMPDIR to another"
        raise errors.StorageFull(f"the temporary folder cannot be written ({error.strerror})", remedy) from error
    return Moved(dict(counts), digest.hexdigest())


def _records(spool: IO[bytes], progress: Progress | None) -> Iterator[Record]:
    size, read = spool.tell(), 0
    spool.seek(0)
    for number, content in enumerate(spool):
        if progress is not None and number % _STEP == 0:
            progress(read, size)
        read += len(content)
        yield json.loads(content)
    if progress is not None:
        progress(size, size)
